// SPDX-License-Identifier: GPL-2.0

//! [pure] For what a client waits from its arrival to its grant, and for how long.
//!
//! Each moment of a wait has one [`Cause`], so that their sums are the whole. While its reserve does
//! not let it start, that is the cause, whatever else is the case; see [`Cause`] for the others.

use super::client::Waiting;
use super::turns::Turns;
use super::Record;
use crate::storage::Storage;
use crate::units::Ns;

/// For what a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// For submissions that were on the engine when it became ready, its own too, and for work of
    /// protected clients.
    Running,
    /// Its reserve does not let it start yet.
    Budget,
    /// It was ready, and another client passed before it.
    Order,
    /// The engine is kept idle after work of protected clients.
    Linger,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Running, Self::Budget, Self::Order, Self::Linger];
}

/// How long a client waited, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Ns; Cause::ALL.len()]);

impl Waits {
    /// For this cause.
    pub fn of(&self, cause: Cause) -> Ns {
        // CAST: a small number.
        self.0.get(cause as usize).copied().unwrap_or(Ns::ZERO)
    }

    /// For all of them.
    pub fn total(&self) -> Ns {
        self.0.iter().copied().fold(Ns::ZERO, Ns::saturating_add)
    }

    /// Adds what others waited.
    pub fn add_all(&mut self, others: &Self) {
        Cause::ALL
            .iter()
            .for_each(|cause| self.add(*cause, others.of(*cause)));
    }

    fn add(&mut self, cause: Cause, time: Ns) {
        // CAST: a small number.
        if let Some(sum) = self.0.get_mut(cause as usize) {
            *sum = sum.saturating_add(time);
        }
    }
}

/// For what a pending arrival waits just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Up to when it is booked.
    since: Ns,
    /// From when on its reserve lets it start.
    pub(super) ready: Ns,
    /// What holds it up from then on.
    cause: Cause,
}

impl Held {
    /// As of an arrival now.
    pub(super) fn new(now: Ns) -> Self {
        Self {
            since: now,
            ready: now,
            cause: Cause::Running,
        }
    }

    /// What it waited for since it was booked.
    pub(super) fn waited(&self, now: Ns) -> Waits {
        let whole = now.saturating_sub(self.since);
        let budget = self.ready.min(now).saturating_sub(self.since);
        let mut waits = Waits::default();
        waits.add(Cause::Budget, budget);
        waits.add(self.cause, whole.saturating_sub(budget));
        waits
    }

    /// It is booked up to now, and waits for something from now on: `from` its reserve lets it start.
    fn go_on(&mut self, now: Ns, from: Ns, cause: Cause) {
        let ready = if from > now {
            from
        } else {
            self.ready.min(now)
        };
        *self = Self {
            since: now,
            ready,
            cause,
        };
    }
}

impl<S: Storage<Of<Record>: 'static>> Turns<S> {
    /// Books for what clients have waited until now, and notes for what they do from now on.
    pub(super) fn note_waits(&mut self, now: Ns) {
        let mut promised = false;
        for at in self.positions() {
            let Some((candidate, _)) = self.candidate(now, at) else {
                continue;
            };
            let from = candidate.offer.from;
            promised |= from <= now && self.is_promised(at);
            let Some(waiting) = self.clients.get(at).and_then(|client| client.waiting) else {
                continue;
            };
            let cause = self.cause(now, at, &waiting);
            self.book_wait(now, at, &waiting);
            let client = self.clients.get_mut(at);
            if let Some(waiting) = client.and_then(|client| client.waiting.as_mut()) {
                waiting.held.go_on(now, from, cause);
            }
        }
        self.note_backlog(now, promised);
    }

    /// Adds what a client has waited since it was booked to its sums and to those of all.
    pub(super) fn book_wait(&mut self, now: Ns, at: usize, waiting: &Waiting) {
        let waited = waiting.held.waited(now);
        self.counters.waited.add_all(&waited);
        if let Some(client) = self.clients.get_mut(at) {
            client.waits.add_all(&waited);
        }
    }

    /// What holds up a client that is ready.
    fn cause(&self, now: Ns, at: usize, waiting: &Waiting) -> Cause {
        match self.turn {
            Some(turn) if turn.client != at && waiting.passed => Cause::Order,
            Some(_) => Cause::Running,
            None => match self.shield.from() {
                None => Cause::Running,
                Some(from) if from > now => Cause::Linger,
                // Only its reserve, until the caller's timer runs.
                Some(_) => Cause::Budget,
            },
        }
    }

    /// Notes for the others that wait and are ready that a client passes before them.
    pub(super) fn pass_over(&mut self, now: Ns, passes: usize) {
        let begins = self.turn.is_none();
        for at in self.positions().filter(|at| *at != passes) {
            let Some((candidate, _)) = self.candidate(now, at) else {
                continue;
            };
            let ready = candidate.offer.from <= now;
            let client = self.clients.get_mut(at);
            if let Some(waiting) = client.and_then(|client| client.waiting.as_mut()) {
                waiting.passed = ready || waiting.passed && !begins;
                waiting.overtaken |= ready;
            }
        }
    }
}
