// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Work that is on the engine beside the turn of another client.

use super::submissions::Submissions;
use super::{Owed, Record, SHARED_QUEUE};
use crate::policies::dispatch::DispatcherKind;
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Work that a client submitted in an earlier turn was on the engine for this time, until now.
    /// Its reserve pays; and if a client that comes before it has the turn, it pays for that too, see
    /// `leftovers`, but not while all may pass since the turn is overdue. True if the turn is another
    /// client's.
    pub fn ran_beside(&mut self, now: Ns, at: usize, ran: Ns) -> bool {
        let holder = self.holder();
        if holder == Some(at) {
            // Its turn pays.
            return false;
        }
        let Some(reserve) = self.client(at).map(|client| client.setting.reserve) else {
            return holder.is_some();
        };
        if let Some(Some(reserve)) = self.reserves.get_mut(reserve) {
            reserve.charge(now, ran);
        }
        let Some(holder) = holder else {
            return false;
        };
        self.disturb(now, at, Some(reserve), ran);
        if self.comes_before(holder, at) && !self.open {
            self.pay_overlap(now, at, ran);
        }
        true
    }

    /// What those at these positions owe that owe the most, whether they are still there or not.
    pub fn owed(&self, now: Ns, wait_queues: impl Iterator<Item = usize>) -> Owed {
        let all = wait_queues.filter_map(|at| self.clients.get(at));
        let owed = all.map(|client| client.owed);
        owed.max_by_key(|owed| owed.until(now)).unwrap_or_default()
    }

    /// A client was on the engine beside clients that come before it. Users that share the wait
    /// queue of all do not stop each other for long.
    pub(super) fn pay_overlap(&mut self, now: Ns, at: usize, ran: Ns) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        let overlap = &mut client.owed.overlap;
        if at == SHARED_QUEUE {
            overlap.pay_in_full(now, ran);
        } else {
            overlap.pay(now, ran);
        }
    }

    /// Whether a client passes without a decision, since that of the turn is overdue.
    pub fn is_open_for(&self, at: usize) -> bool {
        self.open && self.holder() != Some(at)
    }

    /// The turn ends if it is this client's. What it ran beside clients that come before it and had
    /// to pass, it pays.
    pub(super) fn leave_engine(&mut self, now: Ns, at: usize) {
        self.in_flight = self.in_flight.filter(|in_flight| in_flight.client != at);
        if self.in_flight.is_none() {
            self.open = false;
            if let Some(since) = self.overlaps.take() {
                self.pay_overlap(now, at, now.saturating_sub(since));
            }
        }
    }

    /// A client passes, since that of the turn is overdue.
    pub(super) fn note_overlap(&mut self, now: Ns, passes: usize) {
        let before = |holder| self.comes_before(passes, holder);
        if self.holder().is_some_and(before) {
            self.overlaps.get_or_insert(now);
        }
    }

    /// Whether a client comes before another one whenever both are ready.
    pub(super) fn comes_before(&self, first: usize, other: usize) -> bool {
        let settings = [first, other].map(|at| self.client(at).map(|client| client.setting));
        let [Some(first), Some(other)] = settings else {
            return false;
        };
        let [promised, other_promised] =
            [first, other].map(|setting| self.reserve(setting.reserve).is_some());
        match self.dispatcher {
            DispatcherKind::Prio => (promised, first.prio) > (other_promised, other.prio),
            DispatcherKind::Edf => promised && !other_promised,
        }
    }
}
