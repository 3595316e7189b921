// SPDX-License-Identifier: GPL-2.0

//! [pure] Reserves that come, change and go while clients use them, and the background beside them.

use super::terms::charge;
use super::turns::{Turns, BACKGROUND};
use super::{Kind, Record, Reserve, Terms};
use crate::storage::Storage;
use crate::units::Ns;

/// Period of [`BACKGROUND`] beside other reserves.
const BACKGROUND_PERIOD: Ns = Ns::from_ms(100);
/// Least part of the GPU that [`BACKGROUND`] is given, in percent.
const BACKGROUND_LEAST: u64 = 5;

impl<S: Storage<Of<Record>: 'static>> Turns<S> {
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
        let same = match (self.reserve(at), &terms) {
            (Some(reserve), Some(terms)) => reserve.promises(terms),
            (reserve, terms) => reserve.is_none() && terms.is_none(),
        };
        if same || at == BACKGROUND {
            return;
        }
        self.replace(now, at, terms);
        let hundred = |terms: &Terms| {
            let capacity = terms.capacity_in(Ns::from_ms(100_000)).get();
            capacity / Ns::from_ms(1_000).get()
        };
        let promised = self.reserves.iter().skip(1).flatten();
        let any = promised.clone().next().is_some();
        let promised: u64 = promised.map(|reserve| hundred(reserve.terms())).sum();
        let percent = 100_u64.saturating_sub(promised).max(BACKGROUND_LEAST);
        let background = Terms {
            kind: Kind::Pe,
            capacity: Ns::new(BACKGROUND_PERIOD.get() / 100 * percent),
            period: BACKGROUND_PERIOD,
            hard: false,
            longest: None,
        };
        self.replace(now, BACKGROUND, any.then_some(background));
    }

    /// Changes, adds or removes a reserve.
    fn replace(&mut self, now: Ns, at: usize, terms: Option<Terms>) {
        if let (Some(Some(reserve)), Some(terms)) = (self.reserves.get_mut(at), terms) {
            if reserve.terms().kind == terms.kind {
                reserve.resize(now, terms);
                return;
            }
        }
        self.let_go(at);
        if let Some(reserve) = self.reserves.get_mut(at) {
            *reserve = terms.map(|terms| Reserve::new(terms, now));
        }
        self.wait_again(now, at);
    }

    /// Submissions in flight of a reserve are no longer charged to it.
    fn let_go(&mut self, at: usize) {
        let flights = self
            .clients
            .iter_mut()
            .flat_map(|client| client.flights_mut());
        for flight in flights.filter(|flight| flight.reserve == at) {
            flight.reserve = usize::MAX;
        }
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
