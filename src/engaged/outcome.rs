// SPDX-License-Identifier: GPL-2.0

//! [pure] What follows from an event, beside the answer to it.

use super::reports::Report;
use super::wakes::Wakes;
use crate::units::Ns;

/// What the caller has to do after an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "threads sleep until they are woken"]
pub struct Outcome {
    /// Whose threads have to be woken, once the caller's lock is released.
    pub wakes: Wakes,
    /// When the completion thread has to run, if nothing else happens before.
    pub next: Option<Ns>,
    /// What has happened to the clients at a wait queue.
    pub report: Option<(usize, Report)>,
    /// All clients had to pass, since a turn was overdue.
    pub opened: bool,
    /// Clients have passed without being decided on: all entries have to go before the next decision.
    /// The completion thread does that when it runs.
    pub leaked: bool,
}
