// SPDX-License-Identifier: GPL-2.0

//! [pure] What follows for its client from a submission that has ended: what it pays, and what is
//! expected of the next ones.

use super::client::{Flight, Payer};
use super::missed::Miss;
use super::submissions::Submissions;
use super::Record;
use crate::storage::Storage;
use crate::units::Ns;

/// What a command of more than twice its expectation adds to the strikes of its client; others take
/// one off.
const STRIKE: u32 = 8;
/// Strikes at which expectations of its commands are no longer believed in.
const STRIKES_MAX: u32 = 3 * STRIKE;

impl<S: Storage<Of<Record>: 'static>> Submissions<S> {
    /// Charges a submission that has ended.
    pub(super) fn charge(&mut self, now: Ns, flight: Flight, used: Ns) {
        if flight.floor {
            self.floor.pay(now, used);
        }
        match flight.payer {
            Payer::Unpromised => {}
            Payer::Gone(rate) => self.pay_for_gone(now, rate, used.saturating_sub(flight.charged)),
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
        flight: Flight,
        used: Ns,
        alone: bool,
    ) -> Option<Miss> {
        self.charge(now, flight, used);
        let reserve = self.reserves.get_mut(flight.reserve()?)?.as_mut()?;
        let breach = reserve.note(used);
        if reserve.left(now) < 0 {
            self.overdraw(&flight);
        }
        self.counters.breaches = self.counters.breaches.saturating_add(breach.into());
        let miss = self.judge(now, &flight, alone, breach);
        self.compare(at, &flight, used);
        miss.map(|(late, void)| Miss {
            client: at,
            late,
            void,
        })
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
