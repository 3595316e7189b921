// SPDX-License-Identifier: GPL-2.0

//! The clock of all cards.

use kernel::bindings;

/// Time as the log shows it: CLOCK_MONOTONIC in ns.
pub fn now() -> u64 {
    // SAFETY: The function has no preconditions: it may be called in any context.
    unsafe { bindings::ktime_get_mono_fast_ns() }
}
