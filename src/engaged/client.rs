// SPDX-License-Identifier: GPL-2.0

//! `[pure]` One client of an engaged GPU, and what is set for it.

use super::history::{Predictor, Record};
use super::leftovers::Overlap;
use super::missed::Bond;
use super::waits::{Held, Waits};
use super::{Forecast, HT_DEPTH, MOST_UNUSED};
use crate::candidate::Prio;
use crate::share::Rate;
use crate::units::Ns;
use core::ops::DerefMut;

/// When a client may submit beside its own commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Predictable response time: never, each submission waits for the last to complete.
    #[default]
    Prt,
    /// High throughput: up to [`HT_DEPTH`] are in flight while no client before it is ready, and
    /// for [`HT_SLICE`](super::HT_SLICE) while an equal one is.
    Ht,
    /// Protected: it is never stopped, see `shield`. If it arrives all the same, as under PRT.
    Protected,
}

impl Mode {
    /// Most submissions in flight.
    pub const fn depth(self) -> u64 {
        match self {
            // CAST: a small number.
            Self::Ht => HT_DEPTH as u64,
            Self::Prt | Self::Protected => 1,
        }
    }
}

/// Position of clients for which no reserve is set: there is none at it.
pub const BACKGROUND: usize = 0;

/// What is set for a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// How important it is.
    pub prio: Prio,
    /// When it may submit.
    pub mode: Mode,
    /// Position of its reserve.
    pub reserve: usize,
}

/// A pending arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Smaller than that of all later arrivals.
    pub(super) ticket: u64,
    /// When it arrived.
    pub(super) since: Ns,
    /// What it will cost.
    pub(super) forecast: Forecast,
    /// For what it waits just now.
    pub(super) held: Held,
    /// The present turn was given to another client while it was ready.
    pub(super) overtaken: bool,
    /// Its reserve counts it: not while its client gets no grant for what it owes.
    pub(super) counted: bool,
}

/// Who pays for a submission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Payer {
    /// Nothing was promised to its client.
    #[default]
    Unpromised,
    /// The reserve at this position.
    Reserve(usize),
    /// Its reserve is gone, which had this rate: the one that its client has at its end, or what is set
    /// afterwards, which begins when it is paid for.
    Gone(Rate),
}

/// A submission in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flight {
    /// Cost that its reserve was told, with the fee.
    pub(super) charged: Ns,
    /// What it pays beside what it uses.
    pub(super) fee: Ns,
    /// What it is charged at most if it is not known what it used.
    pub(super) most: Ns,
    /// Its reserve was changed since: what was charged is not given back.
    pub(super) stale: bool,
    /// Whether another client was on the engine before.
    pub(super) switched: bool,
    /// Who pays for it.
    pub(super) payer: Payer,
    /// Whether it passed since it had waited for too long.
    pub(super) floor: bool,
    /// What is promised of it.
    pub(super) bond: Bond,
}

impl Flight {
    /// The position of its reserve, if that is still there.
    pub(super) const fn reserve(&self) -> Option<usize> {
        match self.payer {
            Payer::Reserve(at) => Some(at),
            Payer::Unpromised | Payer::Gone(_) => None,
        }
    }

    /// What its reserve pays for it.
    pub(super) fn pays(&self, used: Ns) -> Ns {
        let used = used.saturating_add(self.fee);
        match self.stale {
            true => used.max(self.charged),
            false => used,
        }
    }
}

/// A client, or a vacant position for one.
#[derive(Clone, Debug)]
pub struct Client<R> {
    pub(super) present: bool,
    pub(super) setting: Setting,
    pub(super) waiting: Option<Waiting>,
    flights: [Flight; HT_DEPTH],
    in_flight: usize,
    pub(super) history: Predictor<R>,
    /// Grows with commands that took more than twice what was expected.
    pub(super) strikes: u32,
    /// That was so too often: the longest command so far is expected.
    pub(super) doubted: bool,
    /// Time from its arrivals to their grants, as far as it is booked.
    pub(super) waits: Waits,
    /// Grants in a row that it did not use; [`MOST_UNUSED`] before it has used its first.
    pub(super) unused: u32,
    /// Kept when it leaves, for those of its user that come later.
    pub(super) owed: Owed,
}

/// For what a client gets no grant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owed {
    /// What it may run beside the turns of clients that come before it.
    pub(super) overlap: Overlap,
    /// It used more than was promised to others: no grant before this.
    pub(super) barred: Ns,
}

impl Owed {
    /// From when on it lets the client pass.
    pub(super) fn until(&self, now: Ns) -> Ns {
        let overlap = self.overlap.owes(now).then(|| self.overlap.from(now));
        overlap.unwrap_or(Ns::ZERO).max(self.barred)
    }
}

impl<R: DerefMut<Target = [Record]>> Client<R> {
    /// A vacant position, with memory for [`RECORDS`](super::RECORDS). It is not on the stack: that
    /// of a kernel is too small for several of them.
    pub fn vacant(records: R) -> Self {
        Self {
            present: false,
            setting: Setting::default(),
            waiting: None,
            flights: [Flight::default(); HT_DEPTH],
            in_flight: 0,
            history: Predictor::new(records),
            strikes: 0,
            doubted: false,
            waits: Waits::default(),
            unused: MOST_UNUSED,
            owed: Owed::default(),
        }
    }

    /// Takes the position of a client that has just come, if there is something set for it; else
    /// leaves it vacant.
    pub(super) fn reset(&mut self, setting: Option<Setting>) {
        self.present = setting.is_some();
        self.setting = setting.unwrap_or_default();
        self.waiting = None;
        self.in_flight = 0;
        self.history.clear();
        self.strikes = 0;
        self.doubted = false;
        self.waits = Waits::default();
        self.unused = MOST_UNUSED;
    }

    /// What is set for it.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Submissions in flight.
    pub const fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Whether it has a pending arrival.
    pub const fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether a policy is to take it for one that wants the GPU while it waits for its turn. One that
    /// stores and submits nothing does not; and what a reserve promises is no part of what a policy
    /// divides: such a client may wait for its own budget.
    pub const fn competes(&self) -> bool {
        self.unused < MOST_UNUSED && self.setting.reserve == BACKGROUND
    }

    /// What its commands cost so far.
    pub const fn history(&self) -> &Predictor<R> {
        &self.history
    }

    /// What its next command will cost.
    pub(super) fn forecast(&self) -> Forecast {
        let forecast = self.history.forecast();
        match self.doubted {
            false => forecast,
            true => Forecast {
                mean: self.history.longest(),
                margin: Ns::ZERO,
                ..forecast
            },
        }
    }

    /// For how long its arrivals have waited for their grants until now.
    pub fn waits_until(&self, now: Ns) -> Waits {
        let mut waits = self.waits;
        if let Some(waiting) = &self.waiting {
            waits.add_all(&waiting.held.waited(now));
        }
        waits
    }

    /// Notes a submission; false if there are as many as there may be.
    pub(super) fn begin(&mut self, flight: Flight) -> bool {
        let Some(free) = self.flights.get_mut(self.in_flight) else {
            return false;
        };
        *free = flight;
        self.in_flight = self.in_flight.saturating_add(1);
        true
    }

    /// Submissions in flight.
    pub(super) fn flights_mut(&mut self) -> &mut [Flight] {
        self.flights.get_mut(..self.in_flight).unwrap_or_default()
    }

    /// Takes the oldest submission out.
    pub(super) fn end(&mut self) -> Option<Flight> {
        self.in_flight = self.in_flight.checked_sub(1)?;
        let oldest = self.flights.first().copied();
        self.flights.rotate_left(1);
        oldest
    }

    /// Takes the newest submission out.
    pub(super) fn take_back(&mut self) -> Option<Flight> {
        self.in_flight = self.in_flight.checked_sub(1)?;
        self.flights.get(self.in_flight).copied()
    }
}
