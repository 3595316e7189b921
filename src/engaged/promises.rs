// SPDX-License-Identifier: GPL-2.0

//! [pure] Reserves that come, change and go while clients use them, and the background beside them.

use super::client::{Flight, Payer, BACKGROUND};
use super::submissions::Submissions;
use super::terms::charge;
use super::{Kind, Record, Reserve, Terms, MAX_DEBT};
use crate::fair::mul_div;
use crate::share::Rate;
use crate::storage::Storage;
use crate::units::Ns;

/// Period of [`BACKGROUND`] beside other reserves.
const BACKGROUND_PERIOD: Ns = Ns::from_ms(100);
/// Least part of the GPU that [`BACKGROUND`] is given, in percent.
const BACKGROUND_LEAST: u64 = 5;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Adds a reserve that was admitted, and makes [`BACKGROUND`] smaller. Nothing if there is no
    /// room.
    pub fn promise(&mut self, now: Ns, terms: Terms) -> Option<usize> {
        let free = |(at, reserve): (usize, &Option<Reserve>)| {
            (at != BACKGROUND && reserve.is_none()).then_some(at)
        };
        let at = self.reserves.iter().enumerate().find_map(free)?;
        self.set_reserve(now, at, Some(terms));
        Some(at)
    }

    /// What the reserve at a position promises from now on, if anything. While it stays of one kind,
    /// what it owes stays; if it is what was promised before, nothing changes.
    pub fn set_reserve(&mut self, now: Ns, at: usize, terms: Option<Terms>) {
        if self.reserve(at).map(Reserve::terms) == terms.as_ref() || at == BACKGROUND {
            return;
        }
        self.replace(now, at, terms);
        let any = self.reserves.iter().skip(1).flatten().next().is_some();
        let background = Terms {
            kind: Kind::Pe,
            capacity: self.unpromised(),
            period: BACKGROUND_PERIOD,
            deadline: BACKGROUND_PERIOD,
            hard: false,
            longest: None,
            commands: 1,
            submission: Ns::ZERO,
        };
        self.replace(now, BACKGROUND, any.then_some(background));
    }

    /// What is not promised of a [`BACKGROUND_PERIOD`].
    fn unpromised(&self) -> Ns {
        let promised = self.reserves.iter().skip(1).flatten();
        let promised = promised.map(|reserve| reserve.terms().capacity_in(BACKGROUND_PERIOD));
        let promised = promised.fold(Ns::ZERO, Ns::saturating_add);
        let least = Ns::new(BACKGROUND_PERIOD.get() / 100 * BACKGROUND_LEAST);
        BACKGROUND_PERIOD.saturating_sub(promised).max(least)
    }

    /// In which time this much is left that is not promised.
    pub(super) fn time_unpromised(&self, used: Ns) -> Ns {
        let (period, left) = (BACKGROUND_PERIOD.get(), self.unpromised().get());
        Ns::new(mul_div(used.get(), period, left))
    }

    /// Changes, adds or removes a reserve. What CBS has used ahead stays used: a changed one, and
    /// those that are changed or set afterwards, begin when that is paid for.
    fn replace(&mut self, now: Ns, at: usize, terms: Option<Terms>) {
        let others = self.paid;
        self.note_paid(now, at);
        if let (Some(Some(reserve)), Some(terms)) = (self.reserves.get_mut(at), terms) {
            if reserve.terms().kind == terms.kind {
                let from = match terms.kind {
                    Kind::Cbs => now.max(others),
                    Kind::Pe | Kind::Ae => now,
                };
                reserve.resize(from, terms);
                if terms.kind == Kind::Cbs {
                    self.in_flight_of(at).for_each(|flight| flight.stale = true);
                }
                return;
            }
        }
        self.orphan(now, at);
        let from = self.paid;
        if let Some(reserve) = self.reserves.get_mut(at) {
            *reserve = terms.map(|terms| Reserve::after(terms, now, from));
        }
        self.wait_again(now, at);
    }

    /// The reserve at a position goes: its submissions in flight are charged to what is set afterwards,
    /// now what is expected of them at most, and what they use beyond that at their ends.
    fn orphan(&mut self, now: Ns, at: usize) {
        let rate = self
            .reserve(at)
            .map(|reserve| reserve.terms().coarse().rate);
        let payer = rate
            .filter(|_| at != BACKGROUND)
            .map_or(Payer::Unpromised, Payer::Gone);
        let is_ahead = self
            .reserve(at)
            .is_some_and(|reserve| reserve.terms().kind == Kind::Cbs);
        let mut expected = Ns::ZERO;
        for flight in self.in_flight_of(at) {
            let ahead = if is_ahead { flight.charged } else { Ns::ZERO };
            expected = expected.saturating_add(flight.most.saturating_sub(ahead));
            flight.payer = payer;
            flight.charged = flight.most.max(ahead);
        }
        if let Payer::Gone(rate) = payer {
            self.pay_for_gone(now, rate, expected);
        }
    }

    /// Notes until when what a reserve has used ahead is paid for: as long as its longest command
    /// takes to pay, at most, or a period of it.
    fn note_paid(&mut self, now: Ns, at: usize) {
        let Some(before) = self.reserve(at).filter(|_| at != BACKGROUND) else {
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
    pub(super) fn pay_for_gone(&mut self, now: Ns, rate: Rate, used: Ns) {
        let time = Ns::new(mul_div(
            used.get(),
            rate.period.get(),
            rate.capacity.get().max(1),
        ));
        let from = self.paid.max(now);
        self.paid = from.saturating_add(time.min(MAX_DEBT));
    }

    /// Submissions in flight of a reserve.
    pub(super) fn in_flight_of(&mut self, at: usize) -> impl Iterator<Item = &mut Flight> {
        let clients = self.clients.iter_mut();
        let flights = clients.flat_map(|client| client.flights_mut());
        flights.filter(move |flight| flight.reserve() == Some(at))
    }

    /// Tells a new reserve of the clients that wait.
    fn wait_again(&mut self, now: Ns, at: usize) {
        let Some(Some(reserve)) = self.reserves.get_mut(at) else {
            return;
        };
        let own = self.clients.iter();
        let own = own.filter(|client| client.present && client.setting.reserve == at);
        let waiting = own.filter_map(|client| client.waiting);
        for waiting in waiting.filter(|waiting| waiting.counted) {
            // The most that it may be asked for.
            let cost = charge(reserve.terms(), &waiting.forecast, true);
            reserve.wait(now, cost);
        }
    }
}
