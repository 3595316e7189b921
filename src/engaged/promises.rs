// SPDX-License-Identifier: GPL-2.0

//! [pure] Reserves that come, change and go while clients use them, and the background beside them.

use super::client::Flight;
use super::client::BACKGROUND;
use super::submissions::Submissions;
use super::terms::charge;
use super::{Kind, Record, Reserve, Terms};
use crate::fair::mul_div;
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
        // Submissions in flight are no longer charged to it.
        self.in_flight_of(at)
            .for_each(|flight| flight.reserve = usize::MAX);
        let from = self.paid;
        if let Some(reserve) = self.reserves.get_mut(at) {
            *reserve = terms.map(|terms| Reserve::after(terms, now, from));
        }
        self.wait_again(now, at);
    }

    /// Notes until when what a reserve has used ahead is paid for, a period of it at most.
    fn note_paid(&mut self, now: Ns, at: usize) {
        let Some(before) = self.reserve(at) else {
            return;
        };
        let most = now.saturating_add(before.terms().period);
        let paid = before.paid_until().map_or(now, |paid| paid.min(most));
        self.paid = self.paid.max(paid);
    }

    /// Submissions in flight of a reserve.
    fn in_flight_of(&mut self, at: usize) -> impl Iterator<Item = &mut Flight> {
        let clients = self.clients.iter_mut();
        let flights = clients.flat_map(|client| client.flights_mut());
        flights.filter(move |flight| flight.reserve == at)
    }

    /// Tells a new reserve of the clients that wait.
    fn wait_again(&mut self, now: Ns, at: usize) {
        let Some(Some(reserve)) = self.reserves.get_mut(at) else {
            return;
        };
        let own = self.clients.iter();
        let own = own.filter(|client| client.present && client.setting.reserve == at);
        for waiting in own.filter_map(|client| client.waiting) {
            // The most that it may be asked for.
            let cost = charge(reserve.terms(), &waiting.forecast, true);
            reserve.wait(now, cost);
        }
    }
}
