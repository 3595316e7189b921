// SPDX-License-Identifier: GPL-2.0

//! [pure] Reserves: GPU time that is promised to one client or to several, `capacity` in every
//! `period`.
//!
//! A reserve says of a command with an expected cost when it may start ([`Reserve::offer`]), is told
//! of its start and its end, and keeps what it owes. `posterior`, `apriori` and `bandwidth` are the
//! kinds. A *hard* reserve is also a limit. A *soft* one of kind PE or AE has no deadline and may be
//! exceeded with time that no other client is ready to use; a soft CBS postpones its deadline.

use super::apriori::Apriori;
use super::bandwidth::Bandwidth;
use super::missed::{Misses, Void};
use super::posterior::Posterior;
use super::terms::{Keeper, Kind, Terms};
use crate::candidate::Offer;
use crate::units::Ns;

/// What a reserve has left.
#[derive(Clone, Copy, Debug)]
enum State {
    Pe(Posterior),
    Ae(Apriori),
    Cbs(Bandwidth),
}

impl State {
    fn keeper(&self) -> &dyn Keeper {
        match self {
            Self::Pe(state) => state,
            Self::Ae(state) => state,
            Self::Cbs(state) => state,
        }
    }

    fn keeper_mut(&mut self) -> &mut dyn Keeper {
        match self {
            Self::Pe(state) => state,
            Self::Ae(state) => state,
            Self::Cbs(state) => state,
        }
    }
}

/// What was served by a reserve since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Commands that have completed.
    pub commands: u64,
    /// GPU time of them.
    pub used: Ns,
    /// The longest of them.
    pub longest: Ns,
    /// Commands longer than the longest that was declared.
    pub breaches: u64,
    /// Those that ended after they were due.
    pub misses: Misses,
}

/// A reserve.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    terms: Terms,
    /// The kind that was promised, if [`demote`](Self::demote) has changed it.
    demoted: Option<Kind>,
    state: State,
    served: Served,
    /// Pending arrivals.
    waiting: u32,
    /// Commands that have not ended.
    in_flight: u32,
    /// The longest command of others that its deadline bears, if that is known.
    pub(super) bound: Option<Ns>,
    /// Why deadlines are not promised just now, if they are not.
    pub(super) disturbed: Option<Void>,
}

impl Reserve {
    /// A reserve that begins now.
    pub fn new(terms: Terms, now: Ns) -> Self {
        let state = match terms.kind {
            Kind::Pe => State::Pe(Posterior::new(&terms, now, super::signed(terms.capacity))),
            Kind::Ae => State::Ae(Apriori::new(&terms, now)),
            Kind::Cbs => State::Cbs(Bandwidth::new(&terms, now)),
        };
        Self {
            terms,
            demoted: None,
            state,
            served: Served::default(),
            waiting: 0,
            in_flight: 0,
            bound: None,
            disturbed: None,
        }
    }

    /// What is promised.
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Whether it is kept in another way than was promised.
    pub const fn is_demoted(&self) -> bool {
        self.demoted.is_some()
    }

    /// Whether this is what was promised.
    pub fn promises(&self, terms: &Terms) -> bool {
        let kind = self.demoted.unwrap_or(self.terms.kind);
        *terms == Terms { kind, ..self.terms }
    }

    /// What was served since it began.
    pub const fn served(&self) -> &Served {
        &self.served
    }

    /// Notes a command that has completed. True if it was longer than was declared.
    pub(super) fn note(&mut self, used: Ns) -> bool {
        let breach = self.terms.longest.is_some_and(|longest| used > longest);
        let served = &mut self.served;
        served.commands = served.commands.saturating_add(1);
        served.used = served.used.saturating_add(used);
        served.longest = served.longest.max(used);
        served.breaches = served.breaches.saturating_add(breach.into());
        breach
    }

    /// Counts a command that ended after it was due.
    pub(super) fn miss(&mut self, void: Option<Void>) {
        self.served.misses.add(void);
    }

    /// Promises something else from now on, kept the same way. What is owed stays.
    pub(super) fn resize(&mut self, now: Ns, terms: Terms) {
        let keeper = self.state.keeper_mut();
        keeper.settle(&self.terms, now);
        self.terms = terms;
    }

    /// What is left, negative for a debt.
    pub fn left(&self, now: Ns) -> i64 {
        self.state.keeper().left(&self.terms, now)
    }

    /// A command of this expected cost waits from now on.
    pub fn wait(&mut self, now: Ns, cost: Ns) {
        let idle = self.waiting == 0 && self.in_flight == 0;
        self.waiting = self.waiting.saturating_add(1);
        let keeper = self.state.keeper_mut();
        keeper.wanted(&self.terms, now, Some(cost), idle);
    }

    /// A command waits no longer.
    pub fn stop_waiting(&mut self, now: Ns) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            let keeper = self.state.keeper_mut();
            keeper.wanted(&self.terms, now, None, false);
        }
    }

    /// When a command of this expected cost may start.
    pub fn offer(&self, now: Ns, cost: Ns) -> Offer {
        let offer = self.state.keeper().offer(&self.terms, now, cost);
        if self.terms.hard || self.terms.kind == Kind::Cbs {
            return offer;
        }
        Offer {
            from: now,
            deadline: None,
            spare: offer.from > now,
        }
    }

    /// A command starts.
    pub fn start(&mut self, now: Ns, cost: Ns) {
        self.in_flight = self.in_flight.saturating_add(1);
        self.state.keeper_mut().start(&self.terms, now, cost);
    }

    /// A command has ended.
    pub fn end(&mut self, now: Ns, cost: Ns, used: Ns) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.state.keeper_mut().end(&self.terms, now, cost, used);
    }

    /// Charges time of a command that did not start by a grant.
    pub fn charge(&mut self, now: Ns, used: Ns) {
        let keeper = self.state.keeper_mut();
        keeper.start(&self.terms, now, Ns::ZERO);
        keeper.end(&self.terms, now, Ns::ZERO, used);
    }

    /// Goes on as [`Kind::Pe`], which does not depend on expectations; false while a command is in
    /// flight. Debts stay.
    pub fn demote(&mut self, now: Ns) -> bool {
        if self.in_flight > 0 || self.terms.kind == Kind::Pe {
            return false;
        }
        let left = self.left(now).min(super::signed(self.terms.capacity));
        self.demoted = Some(self.terms.kind);
        self.terms.kind = Kind::Pe;
        self.state = State::Pe(Posterior::new(&self.terms, now, left));
        true
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_reserve))]
mod tests {
    use super::*;

    #[test]
    fn terms_out_of_range_are_refused() {
        let ms = Ns::from_ms;
        assert!(Terms::new(Kind::Pe, ms(10), ms(10)).is_ok());
        assert!(Terms::new(Kind::Pe, ms(11), ms(10)).is_err());
        assert!(Terms::new(Kind::Pe, Ns::from_us(9), ms(10)).is_err());
        assert!(Terms::new(Kind::Pe, Ns::from_us(100), Ns::from_us(999)).is_err());
        assert!(Terms::new(Kind::Pe, ms(100), ms(10_001)).is_err());
    }

    #[test]
    fn time_for_a_capacity_is_rounded_up() {
        let terms = Terms::new(Kind::Pe, Ns::from_us(3000), Ns::from_us(10_000)).unwrap();
        assert_eq!(terms.time_for(Ns::new(3)), Ns::new(10));
        assert_eq!(terms.time_for(Ns::new(4)), Ns::new(14));
        assert_eq!(terms.capacity_in(Ns::new(14)), Ns::new(4));
        assert_eq!(terms.time_for(Ns::ZERO), Ns::ZERO);
    }

    #[test]
    fn demoted_reserve_keeps_its_debt() {
        let terms = Terms::new(Kind::Cbs, Ns::from_ms(1), Ns::from_ms(10)).unwrap();
        let mut reserve = Reserve::new(terms, Ns::ZERO);
        reserve.wait(Ns::ZERO, Ns::from_us(100));
        reserve.stop_waiting(Ns::ZERO);
        reserve.start(Ns::ZERO, Ns::from_us(100));
        assert!(!reserve.demote(Ns::ZERO));
        let now = Ns::from_ms(5);
        reserve.end(now, Ns::from_us(100), now);
        assert_eq!(reserve.left(now), -4_000_000);
        assert!(reserve.promises(&terms) && !reserve.is_demoted());
        assert!(reserve.demote(now));
        assert!(reserve.promises(&terms) && reserve.is_demoted());
        assert_eq!(reserve.left(now), -4_000_000);
        assert_eq!(reserve.terms().kind, Kind::Pe);
    }
}
