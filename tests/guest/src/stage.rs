// SPDX-License-Identifier: GPL-2.0

//! [tool] The two modules loaded for one test, and both sides' figures.

use crate::ktap::ensure;
use crate::modules;
use crate::modules::LOGA;
use crate::modules::MODEL;
use loga_cli::device::Device;
use loga_cli::stat::Client;
use loga_cli::stat::Stat;
use std::time::Duration;
use std::time::Instant;

/// Pause between two looks while waiting for something.
const LOOK: Duration = Duration::from_millis(10);

/// Parameters of LoGA with phases long enough for a test to act inside one: per channel 20 ms of
/// polling, then 100 ms without.
pub(crate) const LONG_PHASES: &str =
    "policy=event poll_ms=20 ratio=5 enforce=1 randomize=0 accounting=burst";

/// Parameters of LoGA for the rule and the phases of the paper: steady, polled in bursts, growing
/// with channels.
pub(crate) const PAPER: &str = "policy=event enforce=1 randomize=0 accounting=burst";

/// Parameters of the model where exact times do not matter: submissions are seen 50 us late by an
/// idle GPU, 100 us by a busy one, and both cost the machine several times less.
pub(crate) const LAZY: &str = "doorbell_us=50 snoop_us=100";

/// Parameter of LoGA where its figures are compared with the model's: the model's timers run on CPU 0,
/// and a poller that they interrupt sees changes of the engine late.
pub(crate) const EXACT: &str = "poller_cpu=1";

/// Parameter of the model for the same tests: a poller that stands still while the emulator runs the
/// other processor is at most 20 us late. Without it, one of three clients with short kernels was
/// measured up to 3 points off, which one depended on the kernel's build.
pub(crate) const FINE: &str = "turn_us=20";

/// The model, and LoGA on it if wanted. Removed again when dropped.
#[derive(Debug)]
pub(crate) struct Stage(());

impl Stage {
    /// Loads the model with its parameters, then LoGA with its own.
    pub(crate) fn set(model: &str, loga: &str) -> Result<Self, String> {
        let stage = Stage::without_loga(model)?;
        stage.add_loga(loga)?;
        Ok(stage)
    }

    /// Loads only the model.
    pub(crate) fn without_loga(model: &str) -> Result<Self, String> {
        modules::remove_patiently(LOGA)?;
        modules::remove_patiently(MODEL)?;
        modules::load(MODEL, model).map_err(|errno| format!("insmod {MODEL} {model}: {errno}"))?;
        Ok(Stage(()))
    }

    /// Loads LoGA.
    pub(crate) fn add_loga(&self, parameters: &str) -> Result<(), String> {
        modules::load(LOGA, parameters)
            .map_err(|errno| format!("insmod {LOGA} {parameters}: {errno}"))
    }

    /// Removes LoGA.
    pub(crate) fn remove_loga(&self) -> Result<(), String> {
        modules::remove_patiently(LOGA)
    }

    /// Removes everything, and says if that is not possible.
    pub(crate) fn strike(self) -> Result<(), String> {
        modules::remove_patiently(LOGA)?;
        modules::remove_patiently(MODEL)
    }

    /// What LoGA says about the first GPU since it was loaded.
    pub(crate) fn stat(&self) -> Result<Stat, String> {
        let snapshot = Device::open()
            .and_then(|device| device.snapshot(0))
            .map_err(|error| error.to_string())?;
        Ok(Stat::new(&snapshot, None))
    }

    /// What happened on the first GPU during `time`.
    pub(crate) fn stat_during(&self, time: Duration) -> Result<Stat, String> {
        let device = Device::open().map_err(|error| error.to_string())?;
        let take = || device.snapshot(0).map_err(|error| error.to_string());
        let before = take()?;
        std::thread::sleep(time);
        Ok(Stat::new(&take()?, Some(&before)))
    }

    /// LoGA's client for a process.
    pub(crate) fn client(&self, pid: u32) -> Result<Option<Client>, String> {
        let stat = self.stat()?;
        Ok(client_of(&stat, pid).cloned())
    }

    /// Waits until LoGA says so of a process, at most `limit`.
    pub(crate) fn wait_for_client(
        &self,
        pid: u32,
        limit: Duration,
        what: &str,
        so: impl Fn(&Client) -> bool,
    ) -> Result<Client, String> {
        let since = Instant::now();
        let mut last = None;
        while since.elapsed() < limit {
            last = self.client(pid)?;
            if let Some(client) = last.as_ref().filter(|client| so(client)) {
                return Ok(client.clone());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!(
            "process {pid} was not {what} within {limit:?}; last: {last:?}"
        ))
    }

    /// Waits until LoGA holds a process back.
    pub(crate) fn wait_until_held(&self, pid: u32) -> Result<Client, String> {
        self.wait_for_client(pid, Duration::from_secs(15), "held back", |client| {
            client.state == "held"
        })
    }

    /// Waits until LoGA knows nothing of a process any more.
    pub(crate) fn wait_until_gone(&self, pid: u32) -> Result<(), String> {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(5) {
            if self.client(pid)?.is_none() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Err(format!("process {pid} is still a client after 5 s"))
    }

    /// That the watchdog did not have to step in.
    pub(crate) fn check_no_fallback(&self) -> Result<(), String> {
        let stat = self.stat()?;
        ensure!(stat.fallbacks == 0, "{} fallbacks", stat.fallbacks);
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A failure shows when the next test loads the modules.
        let _ = modules::remove_patiently(LOGA);
        let _ = modules::remove_patiently(MODEL);
    }
}

/// A process among the clients.
pub(crate) fn client_of(stat: &Stat, pid: u32) -> Option<&Client> {
    stat.clients
        .iter()
        .find(|client| u32::try_from(client.pid) == Ok(pid))
}

/// Whether two shares differ by at most so many percentage points.
pub(crate) fn near(one: f64, other: f64, points: f64) -> bool {
    (one - other).abs() * 100.0 <= points
}
