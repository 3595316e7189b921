// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The reserves of one engine: what is promised, what was charged, and when a deadline was
//! missed.
//!
//! # Invariants
//!
//! - None is at [`BACKGROUND`]: clients of that position have no promise.
//! - Until [`Reserves::paid`] what reserves have used ahead that are gone is not paid for; no reserve
//!   that is set begins before. It never falls.
//! - Each submission in flight was told to the reserve that it names, once, and is taken off it once: at
//!   its end, or when that reserve goes. The flights are those of `turn`; they are given to what changes
//!   them.
//!
//! # Deadlines
//!
//! A submission of a client with a firm reserve is *due* at the deadline of its server. It is a
//! *miss* if its end is seen later. What was promised holds under conditions (`docs/engaged.md`): a
//! miss is *void* if one of them was broken while it waited or ran, see [`Void`], and *promised*
//! otherwise: LoGA, or its admission, is at fault.
//!
//! A reserve that is not firm promises no deadline ([`Terms::is_firm`]). One that a foreign command
//! disturbs stays so while any client of a firm one runs, or is ready and waits: what has queued up
//! meanwhile delays others after it.

use super::flight::{Flight, Payer};
use super::missed::Void;
use super::server::Reserve;
use super::terms::{Kind, Terms};
use crate::candidate::{Offer, Rank};
use crate::engaged::limits::{BACKGROUND, HT_DEPTH, MAX_DEBT};
use crate::fair::mul_div;
use crate::share::Rate;
use crate::units::{signed, Ns};
use core::ops::DerefMut;

/// In which what is not promised is added up.
const SPAN: Ns = Ns::from_ms(100);
/// Least part of the GPU that counts as not promised, in percent.
const LEAST_UNPROMISED: u64 = 5;

/// A submission that was longer than a deadline of another client bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// What that deadline bears.
    pub(crate) bears: Ns,
    /// In which time what was too much is paid by what is not promised; nothing if its reserve owes it,
    /// or if its client has kept its word.
    pub(crate) debt: Option<Ns>,
}

/// What has followed for a reserve from the end of a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// It was longer than declared.
    pub(crate) breach: bool,
    /// By how much it was late, and why that was not promised, if it was not.
    pub(crate) miss: Option<(Ns, Option<Void>)>,
}

/// The reserves of one engine. The memory is the caller's.
pub(crate) struct Reserves<R> {
    all: R,
    /// Until when what reserves have used ahead that are gone is paid for.
    paid: Ns,
}

impl<R: DerefMut<Target = [Option<Reserve>]>> Reserves<R> {
    /// With those in this memory: one more than the most, since none is at [`BACKGROUND`].
    pub(crate) fn new(all: R) -> Self {
        Self {
            all,
            paid: Ns::ZERO,
        }
    }

    /// Which invariant is broken, if one is, with these in flight.
    #[cfg(test)]
    pub(crate) fn broken(&self, flights: &[Flight]) -> Option<&'static str> {
        if self.get(BACKGROUND).is_some() {
            return Some("a reserve of clients without one");
        }
        let mut all = self.all.iter().enumerate();
        let is_wrong = all.any(|(at, reserve)| {
            let own = flights.iter().filter(|flight| flight.reserve() == Some(at));
            let own = u32::try_from(own.count()).unwrap();
            reserve.map_or(0, |reserve| reserve.in_flight()) != own
        });
        is_wrong.then_some("a reserve does not count its submissions in flight")
    }

    /// The reserve at a position, if there is one.
    pub(crate) fn get(&self, at: usize) -> Option<&Reserve> {
        self.all.get(at)?.as_ref()
    }

    /// All reserves with their positions.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, &Reserve)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(at, reserve)| Some((at, reserve.as_ref()?)))
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut Reserve> {
        self.all.get_mut(at)?.as_mut()
    }

    /// Whether deadlines are promised by the reserve at a position.
    pub(crate) fn is_firm(&self, at: usize) -> bool {
        self.get(at)
            .is_some_and(|reserve| reserve.terms().is_firm())
    }

    /// Whether what is charged for a command of the reserve at a position follows what is expected of
    /// it.
    pub(crate) fn expects(&self, at: Option<usize>) -> bool {
        let reserve = at.and_then(|at| self.get(at));
        reserve.is_some_and(|reserve| reserve.terms().ask().is_none())
    }

    /// A position at which there is none.
    pub(crate) fn vacant(&self) -> Option<usize> {
        let mut all = self.all.iter().enumerate();
        all.find_map(|(at, reserve)| (at != BACKGROUND && reserve.is_none()).then_some(at))
    }

    /// When a command of this expected cost may start, of a client with this reserve.
    pub(crate) fn offer(&self, now: Ns, at: usize, expected: Ns) -> Offer {
        match self.get(at) {
            Some(reserve) => reserve.offer(now, reserve.terms().charge(expected)),
            // Nothing is promised to others, or to it.
            None => Offer {
                from: now,
                deadline: None,
                promised: None,
                rank: Rank::Free,
            },
        }
    }

    /// A command of this expected cost waits from now on.
    pub(crate) fn wait(&mut self, now: Ns, at: usize, expected: Ns) {
        if let Some(reserve) = self.get_mut(at) {
            let cost = reserve.terms().charge(expected);
            reserve.wait(now, cost);
        }
    }

    /// A command waits no longer.
    pub(crate) fn stop_waiting(&mut self, now: Ns, at: usize) {
        if let Some(reserve) = self.get_mut(at) {
            reserve.stop_waiting(now);
        }
    }

    /// A submission of a client with this reserve starts; it is due then, if that is promised. `order`:
    /// the dispatcher keeps no deadlines. Returns the longest that its owner has declared.
    pub(crate) fn start(
        &mut self,
        now: Ns,
        at: usize,
        flight: &mut Flight,
        due: Option<Ns>,
        order: Option<Void>,
    ) -> Option<Ns> {
        let reserve = self.get_mut(at)?;
        let terms = *reserve.terms();
        flight.payer = Payer::Reserve(at);
        let expected = flight.charged;
        let cost = terms.charge(expected);
        flight.most = terms
            .longest
            .map_or(expected, |longest| longest.min(expected));
        flight.fee = reserve.start(now, cost);
        flight.charged = cost.saturating_add(flight.fee);
        flight.bond.due = due;
        flight.bond.room = reserve.left(now);
        flight.bond.void = reserve.disturbed().or(order);
        terms.longest
    }

    /// Charges time of a command that did not start by a grant.
    pub(crate) fn charge_ungranted(&mut self, now: Ns, at: usize, used: Ns) {
        if let Some(reserve) = self.get_mut(at) {
            reserve.charge(now, used);
        }
    }

    /// Charges a submission that has ended, of a client that has this reserve now.
    pub(crate) fn charge(&mut self, now: Ns, present: Option<usize>, flight: &Flight, used: Ns) {
        match flight.payer {
            Payer::Unpromised => {}
            Payer::Gone(rate) => {
                let more = used.saturating_sub(flight.charged);
                match present.and_then(|at| self.get_mut(at)) {
                    // What was set afterwards has begun.
                    Some(reserve) => reserve.charge(now, more),
                    None => self.pay_for_gone(now, rate, more),
                }
            }
            Payer::Reserve(at) => {
                if let Some(reserve) = self.get_mut(at) {
                    reserve.end(now, flight.charged, flight.pays(used));
                }
            }
        }
    }

    /// Judges a submission that has completed and was charged. `alone`: nothing was on the engine that
    /// had passed without a decision. `beside`: those that are in flight.
    pub(crate) fn settle(
        &mut self,
        now: Ns,
        mut flight: Flight,
        used: Ns,
        alone: bool,
        beside: &mut [Flight],
    ) -> Settled {
        let Some(at) = flight.reserve() else {
            return Settled::default();
        };
        let over = signed(flight.pays(used)).saturating_sub(signed(flight.charged));
        flight.bond.room = flight.bond.room.saturating_sub(over);
        self.overdraw(now, at, over, beside);
        let Some(reserve) = self.get_mut(at) else {
            return Settled::default();
        };
        let breach = reserve.note(used);
        let miss = Self::judge(now, reserve, &flight, alone, breach);
        Settled { breach, miss }
    }

    /// A submission has ended that has used so much more than it was charged: those of its reserve that
    /// are in flight beside it are late by their own fault if nothing is left, or nothing of what there was
    /// when they started.
    fn overdraw(&self, now: Ns, at: usize, over: i64, beside: &mut [Flight]) {
        let owes = self.get(at).is_some_and(|reserve| reserve.left(now) < 0);
        for other in of_reserve(beside, at) {
            other.bond.room = other.bond.room.saturating_sub(over);
            if owes || other.bond.room < 0 {
                other.bond.void = other.bond.void.or(Some(Void::Own));
            }
        }
    }

    /// Counts a submission that has ended after it was due. `breach`: it was longer than declared.
    fn judge(
        now: Ns,
        reserve: &mut Reserve,
        flight: &Flight,
        alone: bool,
        breach: bool,
    ) -> Option<(Ns, Option<Void>)> {
        let due = flight.bond.due.filter(|due| *due < now)?;
        let own = breach || reserve.left(now) < 0 || flight.bond.room < 0;
        let void = match flight.bond.void {
            _ if !alone => Some(Void::Fallback),
            Some(Void::Fallback) => Some(Void::Fallback),
            _ if own => Some(Void::Own),
            void => void,
        };
        reserve.miss(void);
        Some((now.saturating_sub(due), void))
    }

    /// Counts a client that waits for what was promised until then, when all have to pass. Returns
    /// whether it is overdue.
    pub(crate) fn void(&mut self, now: Ns, at: usize, promised: Option<Ns>) -> bool {
        let is_overdue = promised.is_some_and(|due| due < now);
        match self.get_mut(at).filter(|_| is_overdue) {
            Some(reserve) => {
                reserve.miss(Some(Void::Fallback));
                true
            }
            None => false,
        }
    }

    /// The longest command of others that the deadline of a reserve bears, see
    /// [`bears`](crate::engaged::bears); `None`: commands of any length.
    pub(crate) fn set_bound(&mut self, at: usize, bound: Option<Ns>) {
        if let Some(reserve) = self.get_mut(at) {
            reserve.set_bound(bound);
        }
    }

    /// Notes a submission that has ended, of a client that may have `may` in flight and still has
    /// `left`: it may have been longer than other reserves count with.
    pub(crate) fn disturb(
        &mut self,
        of: Option<usize>,
        used: Ns,
        may: u64,
        left: u64,
    ) -> Option<Excess> {
        let terms = of
            .and_then(|of| self.get(of))
            .map(|reserve| *reserve.terms());
        let declared = terms.and_then(|terms| terms.longest);
        // Its mode may have been another one when they passed.
        let depth = may.max(left.saturating_add(1));
        let keeps_word = declared.is_some_and(|longest| used <= longest);
        if keeps_word && depth <= may {
            // Admission counted with it.
            return None;
        }
        // What a firm one used beyond that comes before the deadlines of others.
        let breach = terms.is_some_and(|terms| terms.is_firm()) && !keeps_word;
        let together = used.saturating_mul(depth);
        let mut most: Option<Ns> = None;
        let others = self.all.iter_mut().enumerate();
        for reserve in
            others.filter_map(|(at, reserve)| reserve.as_mut().filter(|_| Some(at) != of))
        {
            let bound = reserve.bound().filter(|bound| together > *bound);
            if bound.is_some() || breach && reserve.bound().is_some() {
                reserve.set_disturbed(reserve.disturbed().or(Some(Void::Foreign)));
            }
            most = [most, bound].into_iter().flatten().min();
        }
        let bears = most?;
        let debt = self.time_unpromised(together.saturating_sub(bears));
        // A firm reserve owes it; and whoever keeps its word does not owe that its mode was changed.
        let owes = !breach && !keeps_word;
        Some(Excess {
            bears,
            debt: owes.then_some(debt),
        })
    }

    /// Notes for all reserves that a condition of theirs is broken.
    pub(crate) fn disturb_all(&mut self, why: Void) {
        let reserves = self.all.iter_mut().flatten();
        reserves.for_each(|reserve| reserve.set_disturbed(Some(why)));
    }

    /// No client with a promised deadline has the turn, or is ready and waits: nothing is left of what
    /// has disturbed reserves before.
    pub(crate) fn calm(&mut self) {
        let reserves = self.all.iter_mut().flatten();
        reserves.for_each(|reserve| reserve.set_disturbed(None));
    }

    /// In which time this much is left that is not promised.
    fn time_unpromised(&self, used: Ns) -> Ns {
        let promised = self.all.iter().flatten();
        let promised = promised.map(|reserve| reserve.terms().capacity_in(SPAN));
        let promised = promised.fold(Ns::ZERO, Ns::saturating_add);
        let least = Ns::new(SPAN.get() / 100 * LEAST_UNPROMISED);
        let left = SPAN.saturating_sub(promised).max(least);
        Ns::new(mul_div(used.get(), SPAN.get(), left.get()))
    }

    /// What the reserve at a position promises from now on, if anything. While it stays of one kind,
    /// what it owes stays; if it is what was promised before, nothing changes. `flights`: those in
    /// flight. `waiting`: of what expected costs its clients wait.
    pub(crate) fn set(
        &mut self,
        now: Ns,
        at: usize,
        terms: Option<Terms>,
        flights: &mut [Flight],
        waiting: impl Iterator<Item = Ns>,
    ) {
        if self.get(at).map(Reserve::terms) != terms.as_ref() && at != BACKGROUND {
            self.replace(now, at, terms, flights, waiting);
        }
    }

    /// Changes, adds or removes a reserve. What CBS has used ahead stays used: a changed one, and
    /// those that are changed or set afterwards, begin when that is paid for. One of another kind pays
    /// besides, at its own rate, all that the one before owes.
    fn replace(
        &mut self,
        now: Ns,
        at: usize,
        terms: Option<Terms>,
        flights: &mut [Flight],
        waiting: impl Iterator<Item = Ns>,
    ) {
        if let (Some(kind), Some(terms)) = (self.get(at).map(|one| one.terms().kind), terms) {
            if kind == terms.kind {
                let from = match terms.kind {
                    Kind::Cbs => now.max(self.paid),
                    Kind::Pe | Kind::Ae => now,
                };
                self.note_paid(now, at);
                self.resize(from, at, terms, flights);
                return;
            }
        }
        let (payer, expected) = self.orphan(now, at, flights);
        let owes = self.get(at).map_or(Ns::ZERO, |reserve| {
            let ahead = reserve.paid_until(now).saturating_sub(now);
            reserve.terms().capacity_in(ahead).saturating_add(expected)
        });
        self.note_paid(now, at);
        if let Payer::Gone(rate) = payer {
            self.pay_for_gone(now, rate, expected);
        }
        let begins = |terms: Terms| {
            let own = now.saturating_add(terms.time_for(owes).min(MAX_DEBT));
            Reserve::after(terms, now, own.max(self.paid))
        };
        let reserve = terms.map(begins);
        if let Some(one) = self.all.get_mut(at) {
            *one = reserve;
        }
        // It is told of the clients that wait.
        for expected in waiting {
            self.wait(now, at, expected);
        }
    }

    /// Changes a reserve that stays of its kind.
    fn resize(&mut self, from: Ns, at: usize, terms: Terms, flights: &mut [Flight]) {
        if let Some(reserve) = self.get_mut(at) {
            reserve.resize(from, terms);
        }
        if terms.kind == Kind::Cbs {
            of_reserve(flights, at).for_each(|flight| flight.stale = true);
        }
    }

    /// The reserve at a position goes: its submissions in flight are no longer charged to it, but to what
    /// is set afterwards: now what is expected of them at most, and what they use beyond that at their
    /// ends. Returns that much, and by whom it is paid.
    fn orphan(&mut self, now: Ns, at: usize, flights: &mut [Flight]) -> (Payer, Ns) {
        let terms = self.get(at).map(Reserve::terms);
        let payer = terms.map_or(Payer::Unpromised, |terms| Payer::Gone(terms.coarse().rate));
        let is_ahead = terms.is_some_and(|terms| terms.kind == Kind::Cbs);
        let (mut charged, mut expected) = ([Ns::ZERO; HT_DEPTH], Ns::ZERO);
        let mut all = charged.iter_mut();
        for flight in of_reserve(flights, at) {
            let ahead = if is_ahead { flight.charged } else { Ns::ZERO };
            let most = flight.most.max(ahead);
            expected = expected.saturating_add(most);
            let before = core::mem::replace(&mut flight.charged, most);
            flight.payer = payer;
            if let Some(charged) = all.next() {
                *charged = before;
            }
        }
        if let Some(reserve) = self.get_mut(at) {
            let charged = charged.into_iter().filter(|charged| !charged.is_zero());
            charged.for_each(|charged| reserve.end(now, charged, Ns::ZERO));
        }
        (payer, expected)
    }

    /// Notes until when what a reserve has used ahead is paid for: as long as its longest command
    /// takes to pay, at most, or a period of it.
    fn note_paid(&mut self, now: Ns, at: usize) {
        let Some(before) = self.get(at) else {
            return;
        };
        let terms = before.terms();
        let longest = terms.longest.unwrap_or(Ns::ZERO);
        let most = terms.period.max(terms.time_for(longest)).min(MAX_DEBT);
        let paid = before.paid_until(now).min(now.saturating_add(most));
        self.paid = self.paid.max(paid);
    }

    /// A submission has ended whose reserve is gone: what is set afterwards begins when it is paid
    /// for, at the rate of that reserve.
    fn pay_for_gone(&mut self, now: Ns, rate: Rate, used: Ns) {
        let from = self.paid.max(now);
        self.paid = from.saturating_add(time_at(rate, used));
    }
}

/// Those of the submissions in flight that are of a reserve.
fn of_reserve(flights: &mut [Flight], at: usize) -> impl Iterator<Item = &mut Flight> {
    let flights = flights.iter_mut();
    flights.filter(move |flight| flight.reserve() == Some(at))
}

/// How long it takes to pay for what was used at a rate.
fn time_at(rate: Rate, used: Ns) -> Ns {
    let (period, capacity) = (rate.period.get(), rate.capacity.get().max(1));
    Ns::new(mul_div(used.get(), period, capacity)).min(MAX_DEBT)
}
