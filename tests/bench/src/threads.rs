// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Threads that run next to LoGA's: one that counts, and one as busy as the poller.

use crate::busy::Busy;
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

/// Keeps all processes that are started from now on off the poller's processor, as on a machine
/// with one set aside for it.
pub(crate) fn apart() -> Result<(), String> {
    let failed = |error: nix::Error| format!("sched_setaffinity: {error}");
    // The virtual machine has two.
    let count = available_parallelism().map_or(2, |count| count.get().max(2));
    let mut cpus = CpuSet::new();
    for cpu in (0..count).filter(|cpu| *cpu != POLLER_CPU) {
        cpus.set(cpu).map_err(failed)?;
    }
    sched_setaffinity(Pid::from_raw(0), &cpus).map_err(failed)
}

/// The processor of the poller.
const POLLER_CPU: usize = 1;
/// How long the poller of one client with 12 channels polls, and how long it does not.
const POLL: Duration = Duration::from_millis(12);
const PAUSE: Duration = Duration::from_millis(60);

/// Rounds of a loop between two pauses: about as long as the poller goes without one.
const BETWEEN_PAUSES: u32 = 4_000;

/// A thread that only counts, on the processor without the model's timers.
pub(crate) fn count() -> Busy {
    Busy::on(POLLER_CPU, || rest(100))
}

/// A thread as busy as the poller of one client, on its processor. In instruction-count mode all
/// processors share one clock, so that work on one slows the others down.
pub(crate) fn control() -> Busy {
    Busy::on(POLLER_CPU, || {
        let begin = Instant::now();
        while begin.elapsed() < POLL {
            rest(BETWEEN_PAUSES);
            std::hint::spin_loop();
        }
        sleep(PAUSE);
    })
}

/// Runs a loop that does nothing.
fn rest(rounds: u32) {
    for _ in 0..rounds {
        std::hint::black_box(());
    }
}
