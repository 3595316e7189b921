// SPDX-License-Identifier: GPL-2.0

//! [pure] Dispatcher `edf`: of the ready clients, the one whose reserve has the earliest deadline.
//!
//! `order = (deadline, 39 - prio)`; a client without a promise has no deadline and comes last.
//!
//! Good for: reserves of kind CBS, whose deadlines are then met if they were admitted together
//! ([`deadlines`](crate::engaged::deadlines)). Bad for: clients without a reserve, whatever their
//! priority.
//! Bound: each server meets its deadline, as far as commands are not longer than was said, up to
//! the time that a completion takes to be seen. The proof is in `src/engaged/bandwidth.rs`.
//! Source: Abeni and Buttazzo, RTSS 1998; Jeffay, Stanat and Martel, RTSS 1991, for commands that
//! cannot be stopped.

use super::prio::below_highest;
use super::{Candidate, Dispatcher};

/// The earliest deadline first.
pub(super) struct Earliest;

impl Dispatcher for Earliest {
    const NAME: &'static str = "edf";

    fn order(candidate: &Candidate) -> (u64, u64) {
        let deadline = candidate.offer.deadline;
        (
            deadline.map_or(u64::MAX, |deadline| deadline.get()),
            below_highest(candidate.prio),
        )
    }
}
