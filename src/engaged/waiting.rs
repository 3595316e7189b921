// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Books for what clients wait, see `waits`.

use super::client::Waiting;
use super::submissions::Submissions;
use super::waits::Cause;
use super::Record;
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Books for what clients have waited until now, and notes for what they do from now on.
    pub(super) fn note_waits(&mut self, now: Ns) {
        let mut firm = self.holder().is_some_and(|at| self.is_firm(at));
        for at in self.positions() {
            let Some((candidate, _)) = self.candidate(now, at) else {
                continue;
            };
            let from = candidate.offer.from;
            firm |= from <= now && self.is_firm(at);
            let Some(waiting) = self.clients.get(at).and_then(|client| client.waiting) else {
                continue;
            };
            let cause = self.cause(now, at, &waiting);
            self.book_wait(now, at, &waiting);
            let client = self.clients.get_mut(at);
            if let Some(waiting) = client.and_then(|client| client.waiting.as_mut()) {
                waiting.held.hold(now, from, cause);
            }
        }
        self.note_backlog(now, firm);
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
        match self.in_flight {
            Some(in_flight) if in_flight.client != at && waiting.overtaken => Cause::Order,
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
    pub(super) fn note_overtaken(&mut self, now: Ns, passes: usize) {
        let begins = self.in_flight.is_none();
        for at in self.positions().filter(|at| *at != passes) {
            let Some((candidate, _)) = self.candidate(now, at) else {
                continue;
            };
            let ready = candidate.offer.from <= now;
            let client = self.clients.get_mut(at);
            if let Some(waiting) = client.and_then(|client| client.waiting.as_mut()) {
                waiting.overtaken = ready || waiting.overtaken && !begins;
            }
        }
    }
}
