// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Dispatcher `edf`: of the ready clients, the one whose reserve has the earliest deadline.
//!
//! `order = (deadline, 39 - prio)`. Deadlines that are promised come before those of other reserves.
//!
//! Good for: firm reserves, whose deadlines are then met if they were admitted together
//! ([`deadlines`](crate::engaged::deadlines)). Bad for: clients without a reserve, whatever their
//! priority.
//! Bound: each server meets its deadline, as far as commands are not longer than was said, up to
//! the time that a completion takes to be seen. The proof is in `src/engaged/reserve/bandwidth.rs`.
//! Source: Abeni and Buttazzo, RTSS 1998; Jeffay, Stanat and Martel, RTSS 1991, for commands that
//! cannot be stopped.

use super::prio::below_highest;
use super::{Candidate, Dispatcher};

/// Deadlines that are promised are below this number.
const PROMISED: u64 = 1 << 63;

/// The earliest deadline first.
pub(super) struct Earliest;

impl Dispatcher for Earliest {
    const NAME: &'static str = "edf";

    fn order(candidate: &Candidate) -> (u64, u64) {
        let offer = &candidate.offer;
        let deadline = offer.deadline.map(|deadline| match offer.promised {
            Some(_) => deadline.get().min(PROMISED),
            None => deadline.get().saturating_add(PROMISED),
        });
        (deadline.unwrap_or(u64::MAX), below_highest(candidate.prio))
    }
}
