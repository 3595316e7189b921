// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A process next to a hostile program that it does not know: how long its calls take.
//!
//! Its thread has the highest priority of the machine: a call that takes long waits for a lock, or
//! for a processor that cannot be preempted.

use super::ownership::{open, ready};
use super::{dispatcher, model, Program};
use crate::ktap::{ensure, Verdict};
use crate::limits::refuse;
use crate::load::Load;
use crate::stage::{Stage, LAZY};
use nix::errno::Errno;
use nix::libc;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, fs};
use throttle::rm;
use throttle::rm::{Client, ReadyToMap};
use throttle::sys::Visibility;

crate::ktap::tests![calls_of_a_bystander_take_no_longer_beside_hostile_programs: timed];

/// Where the files of a test lie.
pub(super) const PLACE: &str = "/tmp/hostile";
/// Between two rounds of calls.
const PAUSE: Duration = Duration::from_micros(500);
/// Bound of every call.
pub(super) const LIMIT: Duration = Duration::from_millis(1);

/// The kinds of calls.
const KINDS: [&str; 3] = [
    "file made and removed",
    "node opened and closed",
    "page mapped and unmapped",
];

/// The longest of each kind of call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longest([Duration; KINDS.len()]);

impl Longest {
    /// The longer of each kind.
    pub(super) fn max(self, other: Self) -> Self {
        let mut longest = self;
        for (own, took) in longest.0.iter_mut().zip(other.0) {
            *own = (*own).max(took);
        }
        longest
    }

    /// What waits for a lock of the driver that is taken once more before the waiting thread runs, and
    /// whose holder loses its processor both times, for [`LIMIT`] at most; as beside any thread with
    /// priority over the holder. The machine has two processors, and with a dispatcher LoGA has two
    /// such threads.
    fn held_twice(self) -> Self {
        Self(self.0.map(|took| match took > LIMIT {
            true => 2 * took + LIMIT,
            false => took,
        }))
    }

    /// Whether no call took longer than [`LIMIT`].
    pub(super) fn is_short(&self) -> bool {
        self.0.iter().all(|took| *took <= LIMIT)
    }

    /// Fails if a call took longer than [`LIMIT`].
    pub(super) fn check(&self) -> Result<(), String> {
        self.check_beyond(&Longest::default())
    }

    /// Fails if a call took more than [`LIMIT`] longer than without LoGA.
    pub(super) fn check_beyond(&self, without: &Longest) -> Result<(), String> {
        for ((kind, took), own) in KINDS.iter().zip(self.0).zip(without.0) {
            if took.saturating_sub(own) > LIMIT {
                refuse(format!(
                    "{kind} in {took:?}, more than {LIMIT:?} beyond {own:?} without LoGA"
                ))?;
            }
        }
        Ok(())
    }

    /// Fails if a call took longer than [`LIMIT`] that does not without LoGA.
    pub(super) fn check_unless_without(&self, without: &Longest) -> Result<(), String> {
        for ((kind, took), own) in KINDS.iter().zip(self.0).zip(without.0) {
            if took > LIMIT && own <= LIMIT {
                refuse(format!(
                    "{kind} in {took:?}, more than {LIMIT:?}; {own:?} without LoGA"
                ))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Longest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, took) in KINDS.iter().zip(self.0) {
            write!(to, "{separator}{kind} in {} us", took.as_micros())?;
            separator = ", ";
        }
        write!(to, " at most")
    }
}

/// A process with a channel that it does not use.
pub(super) struct Bystander {
    _client: Client,
    ready: ReadyToMap,
}

impl Bystander {
    /// Opens the GPU.
    pub(super) fn open() -> Result<Self, String> {
        fs::create_dir_all(PLACE).map_err(|error| error.to_string())?;
        let (client, channels) = open(1, 4)?;
        let channel = channels.first().ok_or("no channel")?;
        let ready = ready(&client, channel)?;
        Ok(Self {
            _client: client,
            ready,
        })
    }

    /// Makes its calls for this time.
    pub(super) fn watch(&self, time: Duration) -> Result<Longest, String> {
        first_of_all(|| self.watch_of_ordinary_priority(time))
    }

    /// As [`Bystander::watch`], in this thread: beside threads that run when no other one does.
    pub(super) fn watch_of_ordinary_priority(&self, time: Duration) -> Result<Longest, String> {
        let mut longest = Longest::default();
        let since = Instant::now();
        while since.elapsed() < time {
            for (kind, longest) in longest.0.iter_mut().enumerate() {
                let begin = Instant::now();
                self.call(kind)?;
                *longest = (*longest).max(begin.elapsed());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(longest)
    }

    fn call(&self, kind: usize) -> Result<(), String> {
        match kind {
            0 => {
                let path = Path::new(PLACE).join("other");
                File::create(&path).map_err(|error| error.to_string())?;
                fs::remove_file(&path).map_err(|error| error.to_string())
            }
            1 => rm::open_node(&rm::gpu_path(0))
                .map(drop)
                .map_err(|error| error.to_string()),
            _ => self
                .ready
                .map(Visibility::Shared)
                .map(drop)
                .map_err(|error| error.to_string()),
        }
    }
}

/// Runs `act` in a thread with the highest priority of the machine.
fn first_of_all<T: Send>(act: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let first = libc::sched_param { sched_priority: 50 };
            // SAFETY: concerns the calling thread; the kernel reads the structure.
            let rc = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const first) };
            ensure!(rc == 0, "sched_setscheduler: {}", Errno::last());
            act()
        });
        thread
            .join()
            .map_err(|_| "the thread panicked".to_owned())?
    })
}

/// The programs that run next to a bystander, with their arguments.
const NEIGHBOURS: &[&str] = &[
    "plain",
    "sibling",
    "decoy",
    "scapegoat",
    "relay",
    "unmap",
    "ctl2",
    "forge",
    "orphan",
    "directory page",
    "maps 500",
    "remap",
    "hog 60000",
    "dodge flag 60000",
    "dodge counters 60000",
    "dodge thread 60000",
    "deep 3000 60000",
    "spin 1 60000",
    "bomb 200 60000",
    "churn 1 60000",
    "many 256 60000",
    "snapshots",
    "listen",
    "clone-vm",
    "vfork",
    "clone-files",
    "busy-buffers",
    "poke",
    "write-mem",
    "interrupted",
    "mover",
    "epoll",
    "wrong-indices",
    "never-released",
];

/// The longest calls of a bystander next to a program and a client of short kernels.
fn beside(program: &str, loga: Option<&str>) -> Result<Longest, String> {
    const WATCH: Duration = Duration::from_millis(1500);
    let stage = Stage::without_loga(&model(LAZY))?;
    if let Some(parameters) = loga {
        stage.add_loga(parameters)?;
    }
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let neighbour = Program::start(program)?;
    std::thread::sleep(Duration::from_millis(500));
    let longest = Bystander::open()?.watch(WATCH)?;
    let without = if loga.is_none() { ", without LoGA" } else { "" };
    println!("# {program}{without}: {longest}");
    drop((neighbour, other));
    stage.teardown()?;
    Ok(longest)
}

fn calls_of_a_bystander_take_no_longer_beside_hostile_programs() -> Verdict {
    // For comparison: the times of the model's driver alone.
    beside("plain", None)?;
    calls_beside(NEIGHBOURS)
}

/// Checks that a bystander's calls take no longer beside these programs than without LoGA, but for
/// [`LIMIT`].
pub(super) fn calls_beside(programs: &[&str]) -> Verdict {
    for program in programs {
        let longest = beside(program, Some("enforce=1"))?;
        if longest.is_short() {
            continue;
        }
        // The calls of the program may block others in the driver itself.
        let mut without = beside(program, None)?;
        if dispatcher().is_some() {
            without = without.held_twice();
        }
        longest
            .check_beyond(&without)
            .map_err(|reason| format!("next to {program}: {reason}"))?;
    }
    Ok(())
}
