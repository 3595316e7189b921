// SPDX-License-Identifier: GPL-2.0

//! `[pure]` For what a client waits from its arrival to its grant, and for how long.
//!
//! Each moment of a wait has one [`Cause`], so that their sums are the whole. While its reserve does
//! not let it start, that is the cause, whatever else is the case; see [`Cause`] for the others.

use crate::units::Ns;

/// For what a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// For submissions that were on the engine when it became ready, its own too, and for work of
    /// protected clients.
    Running,
    /// Its reserve does not let it start yet.
    Budget,
    /// It was ready, and another client passed before it.
    Order,
    /// The engine is kept idle after work of protected clients.
    Linger,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Running, Self::Budget, Self::Order, Self::Linger];
}

/// How long a client waited, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits([Ns; Cause::ALL.len()]);

impl Waits {
    /// For this cause.
    pub fn of(&self, cause: Cause) -> Ns {
        // CAST: a small number.
        self.0.get(cause as usize).copied().unwrap_or(Ns::ZERO)
    }

    /// For all of them.
    pub fn total(&self) -> Ns {
        self.0.iter().copied().fold(Ns::ZERO, Ns::saturating_add)
    }

    /// Adds what others waited.
    pub fn add_all(&mut self, others: &Self) {
        Cause::ALL
            .iter()
            .for_each(|cause| self.add(*cause, others.of(*cause)));
    }

    fn add(&mut self, cause: Cause, time: Ns) {
        // CAST: a small number.
        if let Some(sum) = self.0.get_mut(cause as usize) {
            *sum = sum.saturating_add(time);
        }
    }
}

/// For what a pending arrival waits just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Up to when it is booked.
    since: Ns,
    /// From when on its reserve lets it start.
    pub(super) ready: Ns,
    /// What holds it up from then on.
    cause: Cause,
}

impl Held {
    /// As of an arrival now.
    pub(super) fn new(now: Ns) -> Self {
        Self {
            since: now,
            ready: now,
            cause: Cause::Running,
        }
    }

    /// What it waited for since it was booked.
    pub(super) fn waited(&self, now: Ns) -> Waits {
        let whole = now.saturating_sub(self.since);
        let budget = self.ready.min(now).saturating_sub(self.since);
        let mut waits = Waits::default();
        waits.add(Cause::Budget, budget);
        waits.add(self.cause, whole.saturating_sub(budget));
        waits
    }

    /// It is booked up to now, and waits for something from now on: `from` its reserve lets it start.
    pub(super) fn hold(&mut self, now: Ns, from: Ns, cause: Cause) {
        let ready = if from > now {
            from
        } else {
            self.ready.min(now)
        };
        *self = Self {
            since: now,
            ready,
            cause,
        };
    }
}
