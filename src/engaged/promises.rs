// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Reserves that come, change and go while clients use them.

use super::client::{Flight, Payer, BACKGROUND};
use super::submissions::Submissions;
use super::terms::charge;
use super::{Kind, Record, Reserve, Terms, HT_DEPTH, MAX_DEBT};
use crate::fair::mul_div;
use crate::share::Rate;
use crate::storage::Storage;
use crate::units::Ns;

/// In which what is not promised is added up.
const SPAN: Ns = Ns::from_ms(100);
/// Least part of the GPU that counts as not promised, in percent.
const LEAST_UNPROMISED: u64 = 5;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Adds a reserve that was admitted. Nothing if there is no room.
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
    }

    /// In which time this much is left that is not promised.
    pub(super) fn time_unpromised(&self, used: Ns) -> Ns {
        let promised = self.reserves.iter().flatten();
        let promised = promised.map(|reserve| reserve.terms().capacity_in(SPAN));
        let promised = promised.fold(Ns::ZERO, Ns::saturating_add);
        let least = Ns::new(SPAN.get() / 100 * LEAST_UNPROMISED);
        let left = SPAN.saturating_sub(promised).max(least);
        Ns::new(mul_div(used.get(), SPAN.get(), left.get()))
    }

    /// Changes, adds or removes a reserve. What CBS has used ahead stays used: a changed one, and
    /// those that are changed or set afterwards, begin when that is paid for. One of another kind pays
    /// besides, at its own rate, all that the one before owes.
    fn replace(&mut self, now: Ns, at: usize, terms: Option<Terms>) {
        if let (Some(Some(reserve)), Some(terms)) = (self.reserves.get_mut(at), terms) {
            if reserve.terms().kind == terms.kind {
                let from = match terms.kind {
                    Kind::Cbs => now.max(self.paid),
                    Kind::Pe | Kind::Ae => now,
                };
                self.note_paid(now, at);
                self.resize(from, at, terms);
                return;
            }
        }
        let (payer, expected) = self.orphan(now, at);
        let owes = self.reserve(at).map_or(Ns::ZERO, |reserve| {
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
        if let Some(place) = self.reserves.get_mut(at) {
            *place = reserve;
        }
        self.wait_again(now, at);
    }

    /// Changes a reserve that stays of its kind.
    fn resize(&mut self, from: Ns, at: usize, terms: Terms) {
        if let Some(Some(reserve)) = self.reserves.get_mut(at) {
            reserve.resize(from, terms);
        }
        if terms.kind == Kind::Cbs {
            self.in_flight_of(at).for_each(|flight| flight.stale = true);
        }
    }

    /// The reserve at a position goes: its submissions in flight are no longer charged to it, but to what
    /// is set afterwards: now what is expected of them at most, and what they use beyond that at their
    /// ends. Returns that much, and by whom it is paid.
    fn orphan(&mut self, now: Ns, at: usize) -> (Payer, Ns) {
        let terms = self.reserve(at).map(Reserve::terms);
        let payer = terms.map_or(Payer::Unpromised, |terms| Payer::Gone(terms.coarse().rate));
        let is_ahead = terms.is_some_and(|terms| terms.kind == Kind::Cbs);
        let (mut charged, mut expected) = ([Ns::ZERO; HT_DEPTH], Ns::ZERO);
        let mut all = charged.iter_mut();
        for flight in self.in_flight_of(at) {
            let ahead = if is_ahead { flight.charged } else { Ns::ZERO };
            let most = flight.most.max(ahead);
            expected = expected.saturating_add(most);
            let before = core::mem::replace(&mut flight.charged, most);
            flight.payer = payer;
            if let Some(charged) = all.next() {
                *charged = before;
            }
        }
        if let Some(Some(reserve)) = self.reserves.get_mut(at) {
            let charged = charged.into_iter().filter(|charged| !charged.is_zero());
            charged.for_each(|charged| reserve.end(now, charged, Ns::ZERO));
        }
        (payer, expected)
    }

    /// Notes until when what a reserve has used ahead is paid for: as long as its longest command
    /// takes to pay, at most, or a period of it.
    fn note_paid(&mut self, now: Ns, at: usize) {
        let Some(before) = self.reserve(at) else {
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
        let from = self.paid.max(now);
        self.paid = from.saturating_add(time_at(rate, used));
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

/// How long it takes to pay for what was used at a rate.
fn time_at(rate: Rate, used: Ns) -> Ns {
    let (period, capacity) = (rate.period.get(), rate.capacity.get().max(1));
    Ns::new(mul_div(used.get(), period, capacity)).min(MAX_DEBT)
}
