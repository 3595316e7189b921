// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What differs between the kernels that LoGA is built for. `kernels.mk` finds out what the
//! kernel at hand has.
//!
//! What the others need for all of them is done without a test where it is used: the counters add minus
//! one, since `fetch_sub` came with Linux 7.1.

use kernel::time::Delta;

/// A span of time in nanoseconds. Any context.
#[cfg(loga_has_delta_from_nanos)]
pub(crate) fn delta_from_nanos(nanos: i64) -> Delta {
    Delta::from_nanos(nanos)
}

/// A span of time in nanoseconds. Any context.
#[cfg(not(loga_has_delta_from_nanos))]
pub(crate) fn delta_from_nanos(nanos: i64) -> Delta {
    // Of 1000 ns, the remainder of a division by 999 ns.
    let one = Delta::from_micros(1).rem_nanos(999);
    one * nanos
}
