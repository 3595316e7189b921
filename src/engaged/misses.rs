// SPDX-License-Identifier: GPL-2.0

//! [pure] Deadlines that are missed: those that were promised, and those whose conditions were
//! broken.
//!
//! A submission of a client with a reserve is *due* at the deadline of its server under CBS, and
//! under PE and AE a deadline after its reserve first let it start. It is a *miss* if its end is
//! seen later. What was promised holds under conditions (`docs/engaged.md`): a miss is *void* if one
//! of them was broken while it waited or ran, see [`Void`], and *promised* otherwise: LoGA, or its
//! admission, is at fault.
//!
//! A soft reserve of kind PE or AE promises no deadline. One that a foreign command disturbs stays so
//! while any client with a promise is ready and waits: what has queued up meanwhile delays others
//! after it.

use super::client::Flight;
use super::turns::Turns;
use super::{Kind, Offer, Record, Reserve, Void, BACKGROUND};
use crate::storage::Storage;
use crate::units::{signed, Ns};

impl Reserve {
    /// When a submission is due that it offers to let start, and that it has let start since `ready`.
    pub(super) fn due(&self, offer: &Offer, ready: Ns) -> Option<Ns> {
        match self.terms().kind {
            Kind::Cbs => offer.deadline,
            _ if self.terms().hard => Some(ready.saturating_add(self.terms().period)),
            _ => None,
        }
    }

    /// What a command may use that has just started with this expected cost.
    pub(super) fn allowed(&self, now: Ns, cost: Ns) -> i64 {
        let left = self.left(now);
        match self.terms().kind {
            Kind::Cbs => left.saturating_add(signed(cost)),
            Kind::Pe | Kind::Ae => left,
        }
    }
}

impl<S: Storage<Of<Record>: 'static>> Turns<S> {
    /// The longest command of others that the deadline of a reserve bears, see
    /// [`bears`](super::bears); `None`: commands of any length.
    pub fn set_bound(&mut self, at: usize, bound: Option<Ns>) {
        if let Some(Some(reserve)) = self.reserves.get_mut(at) {
            reserve.bound = bound;
        }
    }

    /// Whether a client has a reserve of its own.
    pub(super) fn is_promised(&self, at: usize) -> bool {
        let client = self.client(at);
        client.is_some_and(|client| client.setting.reserve != BACKGROUND)
    }

    /// Notes a submission that has ended: it may have been longer than other reserves count with.
    pub(super) fn disturb(&mut self, of: usize, used: Ns) {
        let declared = self.reserve(of).and_then(|reserve| reserve.terms().longest);
        if declared.is_some_and(|longest| used <= longest) {
            // Admission counted with it.
            return;
        }
        let others = self.reserves.iter_mut().enumerate();
        for reserve in others.filter_map(|(at, reserve)| reserve.as_mut().filter(|_| at != of)) {
            if reserve.bound.is_some_and(|bound| used > bound) {
                reserve.disturbed = reserve.disturbed.or(Some(Void::Foreign));
            }
        }
    }

    /// Notes for all reserves that a condition of theirs is broken.
    pub(super) fn disturb_all(&mut self, why: Void) {
        let reserves = self.reserves.iter_mut().flatten();
        reserves.for_each(|reserve| reserve.disturbed = Some(why));
    }

    /// `promised`: a client with a promise is ready and waits. If none does, nothing is left of what
    /// has disturbed reserves before.
    pub(super) fn note_backlog(&mut self, now: Ns, promised: bool) {
        if !promised {
            let reserves = self.reserves.iter_mut().flatten();
            reserves.for_each(|reserve| reserve.disturbed = None);
        } else if self.shield.is_shut(now) {
            self.disturb_all(Void::Foreign);
        }
    }

    /// Counts a submission that has ended after it was due. `alone`: nothing was on the engine that
    /// had passed without a decision. `breach`: it was longer than declared.
    pub(super) fn judge(
        &mut self,
        now: Ns,
        flight: &Flight,
        used: Ns,
        alone: bool,
        breach: bool,
    ) -> Option<(Ns, Option<Void>)> {
        let due = flight.bond.due.filter(|due| *due < now)?;
        let reserve = self.reserves.get_mut(flight.reserve)?.as_mut()?;
        let own = breach || signed(used) > flight.bond.allowed || reserve.is_demoted();
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
            let (place, ready) = (
                client.setting.reserve,
                client.waiting.map_or(now, |waiting| waiting.held.ready),
            );
            let Some(Some(reserve)) = self.reserves.get_mut(place) else {
                continue;
            };
            let due = reserve.due(&candidate.offer, ready);
            if due.is_some_and(|due| due < now) {
                reserve.miss(Some(Void::Fallback));
                self.counters.misses.add(Some(Void::Fallback));
            }
        }
    }
}
