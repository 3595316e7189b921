// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What follows from an event, beside the answer to it; and what those who listen are told of
//! it: how often something happened to a client since they were told last. The caller asks for that once
//! in a while, so that a client that misses each deadline fills no queue.

use super::limits::WAIT_QUEUES;
use super::reserve::Miss;
use crate::units::Ns;

/// Some of the wait queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSet(u64);

impl QueueSet {
    /// Adds a wait queue.
    pub(super) fn add(&mut self, at: usize) {
        const { assert!(WAIT_QUEUES <= 64) };
        // CAST: few wait queues.
        self.0 |= 1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// Takes a wait queue out.
    pub(super) fn remove(&mut self, at: usize) {
        // CAST: few wait queues.
        self.0 &= !1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// Whether a wait queue is among them.
    pub(super) fn has(self, at: usize) -> bool {
        // CAST: few wait queues.
        self.0.checked_shr(at as u32).unwrap_or(0) & 1 != 0
    }

    /// Whether there is none.
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        // As many steps as there are: each event comes by here.
        core::iter::from_fn(move || {
            let at = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            // CAST: widens.
            (at < u64::BITS).then_some(at as usize)
        })
    }
}

/// Whose threads have to be woken, once the caller's lock is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// One thread of each of these.
    pub one: QueueSet,
    /// All threads of these.
    pub all: QueueSet,
}

impl Wakes {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.one.is_empty() && self.all.is_empty()
    }

    /// Those of others too.
    #[cfg(test)]
    pub(super) fn add(&mut self, others: &Self) {
        self.one.0 |= others.one.0;
        self.all.0 |= others.all.0;
    }

    /// All threads at all wait queues, but for `except`.
    pub(super) fn add_all(&mut self, except: Option<usize>) {
        let wait_queues = (0..WAIT_QUEUES).filter(|at| Some(*at) != except);
        wait_queues.for_each(|at| self.all.add(at));
    }
}

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

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Deadlines were missed that were promised.
    pub missed: u32,
    /// Deadlines were missed whose conditions had been broken.
    pub void: u32,
    /// Commands were longer than a deadline of another client bears, and were not declared.
    pub exceeded: u32,
    /// Commands were longer than declared.
    pub breached: u32,
}

impl Report {
    const NONE: Self = Self {
        missed: 0,
        void: 0,
        exceeded: 0,
        breached: 0,
    };

    /// Whether anything happened.
    pub(super) fn says_something(&self) -> bool {
        *self != Self::NONE
    }

    fn add(&mut self, more: &Self) {
        for (sum, more) in [
            (&mut self.missed, more.missed),
            (&mut self.void, more.void),
            (&mut self.exceeded, more.exceeded),
            (&mut self.breached, more.breached),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// Counts a deadline that was missed.
    pub(super) fn miss(&mut self, miss: &Miss) {
        let sum = match miss.void {
            Some(_) => &mut self.void,
            None => &mut self.missed,
        };
        *sum = sum.saturating_add(1);
    }
}

/// What has not been told yet, by wait queue.
#[derive(Clone, Copy, Debug)]
pub struct Reports {
    of: [Report; WAIT_QUEUES],
    /// Whether all clients had to pass.
    opened: bool,
}

impl Reports {
    /// Nothing has happened.
    pub const NONE: Self = Self {
        of: [Report::NONE; WAIT_QUEUES],
        opened: false,
    };

    /// Adds what has followed from an event.
    pub fn note(&mut self, outcome: &Outcome) {
        self.opened |= outcome.opened;
        let Some((at, report)) = outcome.report else {
            return;
        };
        if let Some(sum) = self.of.get_mut(at) {
            sum.add(&report);
        }
    }

    /// What there is to tell of the clients at a wait queue, from this one on; it is told once.
    pub fn take(&mut self, from: usize) -> Option<(usize, Report)> {
        let mut all = self.of.iter_mut().enumerate().skip(from);
        let (at, report) = all.find(|(_, report)| **report != Report::NONE)?;
        Some((at, core::mem::take(report)))
    }

    /// Whether all clients had to pass; it is told once.
    pub fn take_opened(&mut self) -> bool {
        core::mem::take(&mut self.opened)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_outcome))]
mod tests {
    use super::super::reserve::Void;
    use super::*;
    use crate::units::Ns;

    #[test]
    fn what_happens_adds_up_until_it_is_told() {
        let mut report = Report {
            exceeded: 1,
            breached: 2,
            ..Report::NONE
        };
        for void in [None, Some(Void::Own), None] {
            report.miss(&Miss {
                client: 3,
                late: Ns::from_us(1),
                void,
            });
        }
        let mut reports = Reports::NONE;
        let note = |reports: &mut Reports, at| {
            reports.note(&Outcome {
                report: Some((at, report)),
                ..Outcome::default()
            });
        };
        let queues = [3, 3, 7, WAIT_QUEUES];
        queues.iter().for_each(|at| note(&mut reports, *at));
        let expected = Report {
            missed: 4,
            void: 2,
            exceeded: 2,
            breached: 4,
        };
        assert!(reports.take(0) == Some((3, expected)));
        assert!(reports.take(4) == Some((7, report)));
        assert!(reports.take(0).is_none());
        reports.note(&Outcome {
            opened: true,
            ..Outcome::default()
        });
        reports.note(&Outcome::default());
        assert!(reports.take_opened());
        assert!(!reports.take_opened());
    }

    #[test]
    fn wait_queues_are_those_that_were_added() {
        let mut wakes = Wakes::default();
        assert!(wakes.is_empty());
        wakes.one.add(WAIT_QUEUES - 1);
        wakes.one.add(3);
        assert!(!wakes.is_empty());
        assert!(wakes.one.iter().eq([3, WAIT_QUEUES - 1]));
        wakes.one.add(64);
        assert!(wakes.one.iter().count() == 2);
        assert!(wakes.all.iter().count() == 0);
    }

    #[test]
    fn all_wait_queues_but_one_are_woken() {
        let mut wakes = Wakes::default();
        wakes.add_all(Some(5));
        assert!(wakes.all.iter().count() == WAIT_QUEUES - 1);
        assert!(!wakes.all.iter().any(|at| at == 5));
        wakes.add_all(None);
        assert!(wakes.all.iter().count() == WAIT_QUEUES);
    }
}
