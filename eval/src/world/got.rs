// SPDX-License-Identifier: GPL-2.0

//! `[double]` What a client got done.

use super::actor::Actor;
use super::{Latency, Times};

/// What one client got done.
#[derive(Clone, Debug)]
pub struct Got {
    /// Rounds of its phases.
    pub rounds: Times,
    /// The same times, by how long they were.
    pub latency: Latency,
    /// Rounds that ended after their deadline, or had not ended by then.
    pub missed: u64,
    /// When it had done all it was to do, if it had.
    pub finished: Option<u64>,
    /// When it was there.
    pub from: u64,
    /// Up to when it was there.
    pub to: u64,
    /// Time for which its thread slept because it was throttled.
    pub blocked: u64,
    /// The longest time for which a command of it was held back.
    pub held: u64,
}

impl Got {
    /// Up to `now`.
    pub(super) fn of(actor: &Actor, now: u64) -> Self {
        Self {
            rounds: actor.rounds,
            latency: actor.latency.clone(),
            missed: actor.missed(now),
            finished: actor.finished,
            from: actor.definition().arrive.get().min(now),
            to: actor.gone.unwrap_or(now),
            blocked: actor.blocked_up_to(now),
            held: actor.longest_held(actor.gone.unwrap_or(now)),
        }
    }
}
