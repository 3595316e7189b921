// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The two modules loaded for one test, and both sides' figures.

use crate::load::Load;
use crate::modules;
use crate::modules::{LOGA, MODEL};
use loga_cli::device::Device;
use loga_cli::stat::{Client, Stat};
use std::time::{Duration, Instant};

/// Pause between two checks while waiting for something.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// TIMEOUT: for a process to start, and to be found on the GPU.
const MEASURED_LIMIT: Duration = Duration::from_secs(20);

/// Parameters of LoGA with phases long enough for a test to act inside one: per channel 20 ms of
/// polling, then 100 ms without.
pub const LONG_PHASES: &str =
    "policy=event poll_ms=20 ratio=5 enforce=1 randomize=0 accounting=burst";

/// Parameters of LoGA for the rule and the phases of the paper: steady, polled in bursts, growing
/// with channels.
pub const PAPER: &str = "policy=event enforce=1 randomize=0 accounting=burst";

/// As [`PAPER`], without a policy: the parameters of figures unless a bench gives its own. Of a
/// parameter that is given twice, the second counts.
const MEASURED: &str = "randomize=0 accounting=burst";

/// Parameters of the model where exact times do not matter: an idle GPU sees submissions 50 us
/// late, a busy one 100 us, and both cost the machine several times less.
pub const LAZY: &str = "doorbell_us=50 snoop_us=100";

/// Parameter of LoGA where its figures are compared with the model's: the model's timers run on
/// CPU 0, and a poller that they interrupt sees changes of the engine late.
pub const EXACT: &str = "poller_cpu=1";

/// Parameter of the model for the same tests: a poller that stands still while the emulator runs
/// the other processor is at most 20 us late. Without it, one of three clients with short kernels
/// was measured up to 3 points off; which one depended on the kernel's build.
pub const FINE: &str = "turn_us=20";

/// The model, and LoGA on it if wanted. Removed again when dropped.
#[derive(Debug)]
#[must_use]
pub struct Stage(());

impl Stage {
    /// Loads the model with its parameters, then LoGA with its own.
    ///
    /// # Errors
    ///
    /// A module cannot be removed or loaded; the message has the errno.
    pub fn set(model: &str, loga: &str) -> Result<Self, String> {
        let stage = Stage::without_loga(model)?;
        stage.add_loga(loga)?;
        Ok(stage)
    }

    /// As [`Stage::set`], with the poller on a processor of its own and the phases of the paper.
    pub fn measured(model: &str, loga: &str) -> Result<Self, String> {
        Stage::set(model, &format!("{EXACT} {MEASURED} {loga}"))
    }

    /// Loads only the model.
    pub fn without_loga(model: &str) -> Result<Self, String> {
        modules::remove_patiently(LOGA)?;
        modules::remove_patiently(MODEL)?;
        modules::load(MODEL, model).map_err(|errno| format!("insmod {MODEL} {model}: {errno}"))?;
        Ok(Stage(()))
    }

    /// Loads LoGA.
    pub fn add_loga(&self, parameters: &str) -> Result<(), String> {
        modules::load(LOGA, parameters)
            .map_err(|errno| format!("insmod {LOGA} {parameters}: {errno}"))
    }

    /// Removes LoGA.
    pub fn remove_loga(&self) -> Result<(), String> {
        modules::remove_patiently(LOGA)
    }

    /// Lets the first card fall off the bus, or come back.
    pub fn set_lost(&self, lost: bool) -> Result<(), String> {
        let value = if lost { "1" } else { "0" };
        modules::set(MODEL, "lost", value).map_err(|errno| format!("lost={value}: {errno}"))
    }

    /// Removes both modules; dropping the stage does the same without reporting errors.
    pub fn teardown(self) -> Result<(), String> {
        modules::remove_patiently(LOGA)?;
        modules::remove_patiently(MODEL)
    }

    /// LoGA's figures of the first GPU since it was loaded.
    pub fn stat(&self) -> Result<Stat, String> {
        self.stat_of(0)
    }

    /// LoGA's figures of a GPU since it was loaded.
    pub fn stat_of(&self, gpu: u32) -> Result<Stat, String> {
        let snapshot = Device::open()
            .and_then(|device| device.snapshot(gpu))
            .map_err(|error| error.to_string())?;
        Ok(Stat::new(&snapshot, None))
    }

    /// LoGA's figures of the first GPU over `time`.
    pub fn stat_during(&self, time: Duration) -> Result<Stat, String> {
        let device = Device::open().map_err(|error| error.to_string())?;
        let take = || device.snapshot(0).map_err(|error| error.to_string());
        let before = take()?;
        std::thread::sleep(time);
        Ok(Stat::new(&take()?, Some(&before)))
    }

    /// LoGA's client for a process.
    pub fn client(&self, pid: u32) -> Result<Option<Client>, String> {
        let stat = self.stat()?;
        Ok(client_of(&stat, pid).cloned())
    }

    /// Waits at most `limit` until a client fulfils a condition.
    pub fn wait_for_client(
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
            std::thread::sleep(CHECK_EVERY);
        }
        Err(format!(
            "process {pid} was not {what} within {limit:?}; last: {last:?}"
        ))
    }

    /// Waits until LoGA has measured a process.
    pub fn wait_until_measured(&self, pid: u32) -> Result<Client, String> {
        self.wait_for_client(pid, MEASURED_LIMIT, "measured", |client| {
            client.measured_ns > 0
        })
    }

    /// Waits until LoGA has measured each of these.
    pub fn wait_until_all_measured<'a>(
        &self,
        loads: impl IntoIterator<Item = &'a Load>,
    ) -> Result<(), String> {
        let mut loads = loads.into_iter();
        loads.try_for_each(|load| self.wait_until_measured(load.pid()).map(drop))
    }

    /// Waits until LoGA throttles a process.
    pub fn wait_until_throttled(&self, pid: u32) -> Result<Client, String> {
        self.wait_for_client(pid, Duration::from_secs(15), "throttled", |client| {
            client.state == "throttled"
        })
    }

    /// Waits until LoGA has no client for a process.
    ///
    /// # Errors
    ///
    /// It still does after 5 s.
    pub fn wait_until_gone(&self, pid: u32) -> Result<(), String> {
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(5) {
            if self.client(pid)?.is_none() {
                return Ok(());
            }
            std::thread::sleep(CHECK_EVERY);
        }
        Err(format!("process {pid} is still a client after 5 s"))
    }

    /// Checks that there was no fallback.
    ///
    /// # Errors
    ///
    /// There was one.
    pub fn check_no_fallback(&self) -> Result<(), String> {
        match self.stat()?.fallbacks {
            0 => Ok(()),
            count => Err(format!("{count} fallbacks")),
        }
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
pub fn client_of(stat: &Stat, pid: u32) -> Option<&Client> {
    stat.clients
        .iter()
        .find(|client| u32::try_from(client.pid) == Ok(pid))
}
