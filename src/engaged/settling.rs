// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What follows for its client from a submission that has ended: what it pays, and what is
//! expected of the next ones.

use super::client::{Flight, Payer};
use super::missed::{Miss, Void};
use super::submissions::Submissions;
use super::{signed, Record};
use crate::storage::Storage;
use crate::units::Ns;

/// What a command of more than twice its expectation adds to the strikes of its client; others take
/// one off.
const STRIKE: u32 = 8;
/// Strikes at which expectations of its commands are no longer believed in.
const STRIKES_MAX: u32 = 3 * STRIKE;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Charges a submission of a client that has ended.
    pub(super) fn charge(&mut self, now: Ns, of: usize, flight: Flight, used: Ns) {
        if flight.floor {
            self.floor.pay(now, used);
        }
        match flight.payer {
            Payer::Unpromised => {}
            Payer::Gone(rate) => {
                let more = used.saturating_sub(flight.charged);
                let present = self.client(of).map(|client| client.setting.reserve);
                let present = present.and_then(|at| self.reserves.get_mut(at)?.as_mut());
                match present {
                    // What was set afterwards has begun.
                    Some(reserve) => reserve.charge(now, more),
                    None => self.pay_for_gone(now, rate, more),
                }
            }
            Payer::Reserve(at) => {
                if let Some(Some(reserve)) = self.reserves.get_mut(at) {
                    reserve.end(now, flight.charged, flight.pays(used));
                }
            }
        }
    }

    /// Charges a submission that has completed, and judges what was expected and promised of it.
    pub(super) fn settle(
        &mut self,
        now: Ns,
        at: usize,
        mut flight: Flight,
        used: Ns,
        alone: bool,
    ) -> Option<Miss> {
        self.charge(now, at, flight, used);
        self.blame_change(at, &flight);
        let index = flight.reserve()?;
        let over = signed(flight.pays(used)).saturating_sub(signed(flight.charged));
        flight.bond.room = flight.bond.room.saturating_sub(over);
        self.overdraw(now, index, over);
        let reserve = self.reserves.get_mut(index)?.as_mut()?;
        let breach = reserve.note(used);
        self.counters.breaches = self.counters.breaches.saturating_add(breach.into());
        let miss = self.judge(now, &flight, alone, breach);
        self.compare(at, &flight, used);
        miss.map(|(late, void)| Miss {
            client: at,
            late,
            void,
        })
    }

    /// Those in flight of a client are late by its own work if they wait for a submission that was granted
    /// under other terms.
    fn blame_change(&mut self, at: usize, ended: &Flight) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        let now = client.setting.reserve;
        if ended.stale || ended.reserve().is_none_or(|before| before != now) {
            let flights = client.flights_mut();
            flights
                .iter_mut()
                .for_each(|flight| flight.bond.void = flight.bond.void.or(Some(Void::Own)));
        }
    }

    /// Compares a submission that has completed with what was expected of it.
    fn compare(&mut self, at: usize, flight: &Flight, used: Ns) {
        let reserve = flight.reserve().and_then(|at| self.reserve(at));
        let asks = reserve.is_none_or(|reserve| reserve.terms().ask().is_some());
        let Some(client) = self.clients.get_mut(at).filter(|_| !asks) else {
            return;
        };
        if used <= flight.charged.saturating_mul(2) {
            client.strikes = client.strikes.saturating_sub(1);
            return;
        }
        self.counters.underestimates = self.counters.underestimates.saturating_add(1);
        client.strikes = client.strikes.saturating_add(STRIKE);
        if client.strikes >= STRIKES_MAX && !client.doubted {
            client.doubted = true;
            self.counters.doubted = self.counters.doubted.saturating_add(1);
        }
    }
}
