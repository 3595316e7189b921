// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Dispatcher `prio`: of the ready clients, the one with the highest priority.
//!
//! `order = 39 - prio`; equal ones in the order of their arrival. As with every dispatcher, reserves up
//! to their part come before clients without one ([`Rank`](crate::candidate::Rank)).
//!
//! Good for: an important client, which waits for one command of another at most (PRT), or for
//! [`HT_DEPTH`](crate::engaged::HT_DEPTH) (HT). Bad for: the least important, which gets nothing
//! while others want everything; give it a reserve.
//! Bound: a client of the highest priority of its rank waits for `B + delta` at most, and for what
//! reserves have left if it has none, with `B` the longest
//! submission of another client (times `HT_DEPTH` if that is under HT) and `delta` the time from the
//! end of a command until the next is submitted. *Proof*: at its arrival one client's submissions
//! are in flight; none is added to them, since an HT client adds none while a higher one is ready;
//! at their end it is the first of the ready ones.
//! Source: TimeGraph, 4.1.

use super::{Candidate, Dispatcher};
use crate::candidate::Prio;

/// The highest priority first.
pub(super) struct Highest;

impl Dispatcher for Highest {
    const NAME: &'static str = "prio";

    fn order(candidate: &Candidate) -> (u64, u64) {
        (below_highest(candidate.prio), 0)
    }
}

/// How far a priority is below the highest.
pub(super) fn below_highest(prio: Prio) -> u64 {
    u64::from(Prio::HIGHEST.get().saturating_sub(prio.get()))
}
