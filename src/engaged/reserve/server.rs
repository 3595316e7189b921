// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Reserves: GPU time that is promised to one client or to several, `capacity` in every
//! `period`.
//!
//! A reserve says of a command with an expected cost when it may start ([`Reserve::offer`]), is told
//! of its start and its end, and keeps what it owes. `posterior`, `apriori` and `bandwidth` are the
//! kinds. A *hard* reserve is also a limit. A *soft* one may be exceeded with time that no other
//! client is ready to use.
//!
//! What is promised is a part of the GPU; a *firm* reserve promises deadlines besides:
//! [`Terms::is_firm`].

use super::apriori::Apriori;
use super::bandwidth::Bandwidth;
use super::missed::{Misses, Void};
use super::posterior::Posterior;
use super::terms::{Keeper, Kind, Terms};
use crate::candidate::{Offer, Rank};
use crate::engaged::limits::MAX_DEBT;
use crate::units::{signed, Ns};

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
    state: State,
    served: Served,
    /// Since when commands wait or are in flight without a break.
    since: Ns,
    /// Up to when it has had the commands that cost nothing beside what they use.
    counted: Ns,
    /// Pending arrivals.
    waiting: u32,
    /// Commands that have not ended.
    in_flight: u32,
    /// The longest command of others that its deadline bears, if that is known.
    bound: Option<Ns>,
    /// Why deadlines are not promised just now, if they are not.
    disturbed: Option<Void>,
}

impl Reserve {
    /// A reserve that begins now.
    pub fn new(terms: Terms, now: Ns) -> Self {
        Self::after(terms, now, now)
    }

    /// A reserve that begins now, and has had what is promised up to another time.
    pub(super) fn after(terms: Terms, now: Ns, from: Ns) -> Self {
        let had = terms.capacity_in(from.saturating_sub(now).min(MAX_DEBT));
        let left = signed(terms.capacity).saturating_sub(signed(had));
        let state = match terms.kind {
            Kind::Pe => State::Pe(Posterior::new(&terms, now, left)),
            Kind::Ae => State::Ae(Apriori::new(&terms, now, left)),
            Kind::Cbs if from > now => State::Cbs(Bandwidth::after(from)),
            Kind::Cbs => State::Cbs(Bandwidth::new(&terms, now)),
        };
        Self {
            terms,
            state,
            served: Served::default(),
            since: now,
            counted: now,
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

    /// Commands that have not ended.
    #[cfg(test)]
    pub(crate) const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Pending arrivals.
    #[cfg(test)]
    pub(crate) const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The longest command of others that its deadline bears, if that is known.
    pub(super) const fn bound(&self) -> Option<Ns> {
        self.bound
    }

    /// Sets what its deadline bears.
    pub(super) fn set_bound(&mut self, bound: Option<Ns>) {
        self.bound = bound;
    }

    /// Deadlines are not promised just now, or are again.
    pub(super) fn set_disturbed(&mut self, why: Option<Void>) {
        self.disturbed = why;
    }

    /// Why deadlines are not promised just now, if they are not.
    pub(crate) const fn disturbed(&self) -> Option<Void> {
        self.disturbed
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
        self.state.keeper_mut().resize(&self.terms, now);
        self.terms = terms;
    }

    /// Up to when what it has used is paid for.
    pub(super) fn paid_until(&self, now: Ns) -> Ns {
        self.state.keeper().paid_until(&self.terms, now)
    }

    /// What is left, negative for a debt.
    pub fn left(&self, now: Ns) -> i64 {
        self.state.keeper().left(&self.terms, now)
    }

    /// A command of this expected cost waits from now on.
    pub fn wait(&mut self, now: Ns, cost: Ns) {
        let idle = self.waiting == 0 && self.in_flight == 0;
        if idle {
            self.since = now;
            self.counted = self.counted.max(now);
        }
        self.waiting = self.waiting.saturating_add(1);
        let cost = cost.saturating_add(self.terms.submission);
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
        let cost = cost.saturating_add(self.fee(now, cost));
        let offer = self.state.keeper().offer(&self.terms, now, cost);
        let promised = offer.promised.filter(|_| self.terms.is_firm());
        if promised.is_some() {
            return Offer {
                deadline: offer.deadline.map(|deadline| self.due(deadline)),
                promised: promised.map(|deadline| self.due(deadline)),
                ..offer
            };
        }
        if self.terms.hard {
            return Offer {
                promised: None,
                ..offer
            };
        }
        let rank = match offer.from > now {
            true => Rank::Beyond,
            false => Rank::Part,
        };
        Offer {
            from: now,
            deadline: offer.deadline.filter(|_| rank == Rank::Part),
            promised: None,
            rank,
        }
    }

    /// By when a submission is due whose server has this deadline, see [`Terms::deadline`]. One that
    /// comes while its server rests has all the time up to its own.
    fn due(&self, deadline: Ns) -> Ns {
        let whole = self.since.saturating_add(self.terms.deadline);
        deadline.saturating_sub(self.terms.lead()).max(whole)
    }

    /// What a command that starts now is charged beside what it uses.
    fn fee(&self, now: Ns, cost: Ns) -> Ns {
        if self.terms.submission.is_zero() || self.counts(now, cost).is_some() {
            return Ns::ZERO;
        }
        self.terms.submission
    }

    /// Up to when the commands are counted if one starts now that costs nothing beside what it uses;
    /// nothing if it is one too many. As CBS does with what is used: of those that are to end in a
    /// time `w`, at most `w * commands / period` are free.
    fn counts(&self, now: Ns, cost: Ns) -> Option<Ns> {
        let period = self.terms.period;
        let each = period.get().checked_div(self.terms.commands).unwrap_or(0);
        let ends = match self.terms.kind {
            Kind::Cbs => self.state.keeper().offer(&self.terms, now, cost).deadline,
            Kind::Pe | Kind::Ae => None,
        };
        let ends = ends.unwrap_or(now.saturating_add(period));
        let from = self.counted.max(ends.saturating_sub(period));
        let counted = from.saturating_add(Ns::new(each));
        (counted <= ends).then_some(counted)
    }

    /// A command starts. Returns what it is charged beside what it uses.
    pub fn start(&mut self, now: Ns, cost: Ns) -> Ns {
        let counted = self.counts(now, cost);
        let fee = match counted {
            Some(_) => Ns::ZERO,
            None => self.terms.submission,
        };
        self.counted = counted.unwrap_or(self.counted);
        self.in_flight = self.in_flight.saturating_add(1);
        let cost = cost.saturating_add(fee);
        self.state.keeper_mut().start(&self.terms, now, cost);
        fee
    }

    /// A command has ended for which `cost` was charged at its start, the fee included.
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
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_reserve))]
mod tests {
    use super::*;
    use crate::error::Error;

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
    fn submission_is_due_at_its_deadline_before_that_of_its_server() {
        let us = Ns::from_us;
        let firm = Terms {
            longest: Some(us(600)),
            ..Terms::new(Kind::Cbs, us(1000), us(10_000)).unwrap()
        };
        let mut reserve = Reserve::new(firm.due(us(4_000)).unwrap(), Ns::ZERO);
        let due = |reserve: &Reserve, now| {
            let offer = reserve.offer(us(now), us(600));
            assert_eq!(offer.deadline, offer.promised);
            (offer.from, offer.promised)
        };
        reserve.wait(us(100), us(600));
        assert_eq!(due(&reserve, 100), (us(100), Some(us(4_100))));
        reserve.stop_waiting(us(100));
        reserve.start(us(100), us(600));
        // The next one waits already: 400 us are left, and it has those from 6.1 ms on.
        reserve.wait(us(200), us(600));
        reserve.end(us(700), us(600), us(600));
        assert_eq!(due(&reserve, 700), (us(6_100), Some(us(14_100))));
        reserve.stop_waiting(us(700));
        // One that comes after a break has its own time.
        reserve.wait(us(12_000), us(600));
        assert_eq!(due(&reserve, 12_000), (us(12_000), Some(us(16_000))));
        reserve.stop_waiting(us(12_000));
        reserve.start(us(12_000), us(600));
        reserve.end(us(12_100), us(600), us(100));
        // Also if it comes while its server has been ahead.
        reserve.wait(us(12_200), us(600));
        assert_eq!(due(&reserve, 12_200), (us(12_200), Some(us(16_200))));
    }

    #[test]
    fn deadline_of_a_reserve_that_promises_none_is_refused() {
        let ms = Ns::from_ms;
        let terms = Terms::new(Kind::Cbs, ms(2), ms(10)).unwrap();
        assert_eq!(terms.due(ms(5)), Err(Error::NoDeadline));
        let longest = Some(ms(1));
        let firm = Terms { longest, ..terms };
        assert_eq!(firm.due(ms(5)).map(|terms| terms.deadline), Ok(ms(5)));
        assert!(firm.due(ms(1)).is_err());
        assert!(firm.due(ms(11)).is_err());
        let kind = Kind::Pe;
        assert_eq!(Terms { kind, ..firm }.due(ms(5)), Err(Error::NoDeadline));
        let hard = false;
        assert_eq!(Terms { hard, ..firm }.due(ms(5)), Err(Error::NoDeadline));
    }

    #[test]
    fn time_for_a_capacity_is_rounded_up() {
        let terms = Terms::new(Kind::Pe, Ns::from_us(3000), Ns::from_us(10_000)).unwrap();
        assert_eq!(terms.time_for(Ns::new(3)), Ns::new(10));
        assert_eq!(terms.time_for(Ns::new(4)), Ns::new(14));
        assert_eq!(terms.capacity_in(Ns::new(14)), Ns::new(4));
        assert_eq!(terms.time_for(Ns::ZERO), Ns::ZERO);
    }
}
