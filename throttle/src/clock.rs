// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Time as an interface: the monotonic clock, or a test's own.

use nix::time::{clock_gettime, ClockId};
use std::time::Duration;

/// Nanoseconds of a monotonic clock, and waiting on it.
pub trait Clock {
    /// Now, in ns.
    fn now_ns(&self) -> u64;
    /// Sleeps until `deadline_ns`, or shorter if a signal arrives.
    fn sleep_until(&self, deadline_ns: u64);
}

/// CLOCK_MONOTONIC, read without a system call (vDSO).
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        // PANIC: every Linux has CLOCK_MONOTONIC; without it there is nothing to measure.
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC");
        // CAST: both parts of this clock are non-negative.
        (now.tv_sec() as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(now.tv_nsec() as u64)
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let left = deadline_ns.saturating_sub(self.now_ns());
        if left > 0 {
            std::thread::sleep(Duration::from_nanos(left));
        }
    }
}
