// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Deadlines that are missed: those that were promised, and those whose conditions were
//! broken.
//!
//! A submission of a client with a firm reserve is *due* at the deadline of its server. It is a
//! *miss* if its end is seen later. What was promised holds under conditions (`docs/engaged.md`): a
//! miss is *void* if one of them was broken while it waited or ran, see [`Void`], and *promised*
//! otherwise: LoGA, or its admission, is at fault.
//!
//! A reserve that is not firm promises no deadline ([`Terms::is_firm`](super::Terms::is_firm)). One
//! that a foreign command disturbs stays so while any client of a firm one runs, or is ready and
//! waits: what has queued up meanwhile delays others after it.
//!
//! A client with a command that was longer than a deadline of another one bears, and that was not
//! declared, gets no grant until the time that is not promised would have paid for what was too
//! much: so long commands of it cannot follow each other.

use super::client::Flight;
use super::submissions::Submissions;
use super::{Record, Void, BACKGROUND, MAX_DEBT, SHARED_QUEUE, STARVED};
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// The longest command of others that the deadline of a reserve bears, see
    /// [`bears`](super::bears); `None`: commands of any length.
    pub fn set_bound(&mut self, at: usize, bound: Option<Ns>) {
        if let Some(Some(reserve)) = self.reserves.get_mut(at) {
            reserve.bound = bound;
        }
    }

    /// Whether deadlines are promised to a client.
    pub(super) fn is_firm(&self, at: usize) -> bool {
        let reserve = self.client(at).map(|client| client.setting.reserve);
        let reserve = reserve.and_then(|reserve| self.reserve(reserve));
        reserve.is_some_and(|reserve| reserve.terms().is_firm())
    }

    /// Whether a client has a reserve of its own.
    pub(super) fn is_promised(&self, at: usize) -> bool {
        let client = self.client(at);
        client.is_some_and(|client| client.setting.reserve != BACKGROUND)
    }

    /// Notes a submission of a client that has ended: it may have been longer than other reserves
    /// count with. Returns what the deadline of one bears, if it was longer than that.
    pub(super) fn disturb(
        &mut self,
        now: Ns,
        at: usize,
        of: Option<usize>,
        used: Ns,
    ) -> Option<Ns> {
        let terms = of.and_then(|of| self.reserve(of));
        let terms = terms.map(|reserve| *reserve.terms());
        let declared = terms.and_then(|terms| terms.longest);
        // Its mode may have been another one when they passed.
        let (may, depth) = self.client(at).map_or((1, 1), |client| {
            // CAST: a small number.
            let left = client.in_flight() as u64;
            let may = client.setting.mode.depth();
            (may, may.max(left.saturating_add(1)))
        });
        let keeps_word = declared.is_some_and(|longest| used <= longest);
        if keeps_word && depth <= may {
            // Admission counted with it.
            return None;
        }
        // What a firm one used beyond that comes before the deadlines of others.
        let breach = terms.is_some_and(|terms| terms.is_firm()) && !keeps_word;
        let together = used.saturating_mul(depth);
        let mut most: Option<Ns> = None;
        let others = self.reserves.iter_mut().enumerate();
        for reserve in
            others.filter_map(|(at, reserve)| reserve.as_mut().filter(|_| Some(at) != of))
        {
            let bound = reserve.bound.filter(|bound| together > *bound);
            if bound.is_some() || breach && reserve.bound.is_some() {
                reserve.disturbed = reserve.disturbed.or(Some(Void::Foreign));
            }
            most = [most, bound].into_iter().flatten().min();
        }
        let bears = most?;
        self.counters.exceeded = self.counters.exceeded.saturating_add(1);
        let debt = self.time_unpromised(together.saturating_sub(bears));
        // Users that share the wait queue of all do not stop each other for long.
        let most = if at == SHARED_QUEUE {
            STARVED
        } else {
            MAX_DEBT
        };
        let until = now.saturating_add(debt.min(most));
        // A firm reserve owes it; and whoever keeps its word does not owe that its mode was changed.
        if let Some(client) = self.clients.get_mut(at).filter(|_| !breach && !keeps_word) {
            client.owed.barred = client.owed.barred.max(until);
        }
        Some(bears)
    }

    /// Notes for all reserves that a condition of theirs is broken.
    pub(super) fn disturb_all(&mut self, why: Void) {
        let reserves = self.reserves.iter_mut().flatten();
        reserves.for_each(|reserve| reserve.disturbed = Some(why));
    }

    /// `firm`: a client with a promised deadline has the turn, or is ready and waits. If none is,
    /// nothing is left of what has disturbed reserves before.
    pub(super) fn note_backlog(&mut self, now: Ns, firm: bool) {
        if !firm {
            let reserves = self.reserves.iter_mut().flatten();
            reserves.for_each(|reserve| reserve.disturbed = None);
        } else if self.shield.is_shut(now) {
            self.disturb_all(Void::Foreign);
        }
    }

    /// A submission has ended that has used so much more than it was charged: those of its reserve that
    /// are in flight beside it are late by their own fault if nothing is left, or nothing of what there was
    /// when they started.
    pub(super) fn overdraw(&mut self, now: Ns, at: usize, over: i64) {
        let owes = self
            .reserve(at)
            .is_some_and(|reserve| reserve.left(now) < 0);
        for other in self.in_flight_of(at) {
            other.bond.room = other.bond.room.saturating_sub(over);
            if owes || other.bond.room < 0 {
                other.bond.void = other.bond.void.or(Some(Void::Own));
            }
        }
    }

    /// Counts a submission that has ended after it was due. `alone`: nothing was on the engine that
    /// had passed without a decision. `breach`: it was longer than declared.
    pub(super) fn judge(
        &mut self,
        now: Ns,
        flight: &Flight,
        alone: bool,
        breach: bool,
    ) -> Option<(Ns, Option<Void>)> {
        let due = flight.bond.due.filter(|due| *due < now)?;
        let reserve = self.reserves.get_mut(flight.reserve()?)?.as_mut()?;
        let own = breach || reserve.left(now) < 0 || flight.bond.room < 0;
        let void = match flight.bond.void {
            _ if !alone => Some(Void::Fallback),
            Some(Void::Fallback) => Some(Void::Fallback),
            _ if own => Some(Void::Own),
            void => void,
        };
        reserve.miss(void);
        self.counters.misses.add(void);
        Some((now.saturating_sub(due), void))
    }

    /// Counts clients that wait for what is overdue, when all have to pass.
    pub(super) fn void_all(&mut self, now: Ns) {
        for at in self.positions() {
            let Some((candidate, _)) = self.candidate(now, at) else {
                continue;
            };
            let Some(client) = self.clients.get(at) else {
                continue;
            };
            let Some(Some(reserve)) = self.reserves.get_mut(client.setting.reserve) else {
                continue;
            };
            let due = candidate.offer.promised;
            if due.is_some_and(|due| due < now) {
                reserve.miss(Some(Void::Fallback));
                self.counters.misses.add(Some(Void::Fallback));
            }
        }
    }
}
