// SPDX-License-Identifier: GPL-2.0

//! `[pure]` One client of an engaged GPU, and what is set for it.

use super::causes::{Held, Waits};
use super::history::{Forecast, Predictor, Record};
use crate::candidate::Prio;
use crate::engaged::allowance::Overlap;
use crate::engaged::limits::{BACKGROUND, HT_DEPTH, MOST_UNUSED, SHARED_QUEUE};
use crate::units::Ns;
use core::ops::DerefMut;

/// What a command of more than twice its expectation adds to the strikes of its client; others take
/// one off.
const STRIKE: u32 = 8;
/// Strikes at which expectations of its commands are no longer believed in.
const STRIKES_MAX: u32 = 3 * STRIKE;

/// When a client may submit beside its own commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Predictable response time: never, each submission waits for the last to complete.
    #[default]
    Prt,
    /// High throughput: up to [`HT_DEPTH`] are in flight while no client before it is ready, and
    /// for [`HT_SLICE`](crate::engaged::HT_SLICE) while an equal one is.
    Ht,
    /// Protected: it is never stopped, see `protected`. If it arrives all the same, as under PRT.
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
pub(crate) struct Waiting {
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

impl Waiting {
    /// What it will cost.
    pub(crate) const fn forecast(&self) -> &Forecast {
        &self.forecast
    }
}

/// For what a client gets no grant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Owed {
    /// What it may run beside the turns of clients that come before it.
    overlap: Overlap,
    /// It used more than was promised to others: no grant before this.
    barred: Ns,
}

impl Owed {
    /// From when on it lets the client pass.
    pub(in crate::engaged) fn until(&self, now: Ns) -> Ns {
        let overlap = self.overlap.owes(now).then(|| self.overlap.from(now));
        overlap.unwrap_or(Ns::ZERO).max(self.barred)
    }

    /// No grant before this.
    pub(in crate::engaged) fn bar(&mut self, until: Ns) {
        self.barred = self.barred.max(until);
    }
}

/// What follows from the length of a command for what is expected of the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surprise {
    /// It was not much longer than expected.
    No,
    /// It was.
    Longer,
    /// It was, too often: the longest is expected from now on.
    Doubted,
}

/// A client, or a vacant position for one.
#[derive(Clone, Debug)]
pub struct Client<R> {
    present: bool,
    setting: Setting,
    waiting: Option<Waiting>,
    history: Predictor<R>,
    /// Grows with commands that took more than twice what was expected.
    strikes: u32,
    /// That was so too often: the longest command so far is expected.
    doubted: bool,
    /// Time from its arrivals to their grants, as far as it is booked.
    waits: Waits,
    /// Grants in a row that it did not use; [`MOST_UNUSED`] before it has used its first.
    unused: u32,
    /// Kept when it leaves, for those of its user that come later.
    owed: Owed,
}

impl<R: DerefMut<Target = [Record]>> Client<R> {
    /// A vacant position, with memory for [`RECORDS`](crate::engaged::RECORDS). It is not on the stack:
    /// that of a kernel is too small for several of them.
    pub fn vacant(records: R) -> Self {
        Self {
            present: false,
            setting: Setting::default(),
            waiting: None,
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
        self.history.clear();
        self.strikes = 0;
        self.doubted = false;
        self.waits = Waits::default();
        self.unused = MOST_UNUSED;
    }

    /// Whether there is one.
    pub(super) const fn is_present(&self) -> bool {
        self.present
    }

    /// What is set for it.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Sets something else for it.
    pub(super) fn set(&mut self, setting: Setting) {
        self.setting = setting;
    }

    /// Whether it has a pending arrival.
    pub const fn waits(&self) -> bool {
        self.waiting.is_some()
    }

    /// Its pending arrival.
    pub(super) const fn waiting(&self) -> Option<&Waiting> {
        self.waiting.as_ref()
    }

    /// Its pending arrival, to note something, to begin or to end it.
    pub(super) fn waiting_mut(&mut self) -> &mut Option<Waiting> {
        &mut self.waiting
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
    pub(crate) fn forecast(&self) -> Forecast {
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

    /// It has used its grant for a command of this length; `None`: that is not known. `switched`:
    /// another client was on the engine before.
    pub(crate) fn used(&mut self, length: Option<Ns>, switched: bool) {
        self.unused = 0;
        match length {
            Some(length) => self.history.learn(length, switched),
            None => self.history.count(),
        }
    }

    /// It has not used its grant.
    pub(crate) fn did_not_use(&mut self) {
        self.unused = self.unused.saturating_add(1);
    }

    /// Compares a command with what was charged for it.
    pub(crate) fn compare(&mut self, charged: Ns, used: Ns) -> Surprise {
        if used <= charged.saturating_mul(2) {
            self.strikes = self.strikes.saturating_sub(1);
            return Surprise::No;
        }
        self.strikes = self.strikes.saturating_add(STRIKE);
        if self.strikes >= STRIKES_MAX && !self.doubted {
            self.doubted = true;
            return Surprise::Doubted;
        }
        Surprise::Longer
    }

    /// For how long its arrivals have waited for their grants until now.
    pub fn waits_until(&self, now: Ns) -> Waits {
        let mut waits = self.waits;
        if let Some(waiting) = &self.waiting {
            waits.add_all(&waiting.held.waited(now));
        }
        waits
    }

    /// Adds what it has waited.
    pub(super) fn book(&mut self, waited: &Waits) {
        self.waits.add_all(waited);
    }

    /// For what it gets no grant, or did not when it left.
    pub(in crate::engaged) const fn owed(&self) -> &Owed {
        &self.owed
    }

    /// It owes something else.
    pub(in crate::engaged) fn owed_mut(&mut self) -> &mut Owed {
        &mut self.owed
    }

    /// It was on the engine beside clients that come before it. Users that share the wait queue of all
    /// do not stop each other for long.
    pub(super) fn pay_overlap(&mut self, now: Ns, at: usize, ran: Ns) {
        let overlap = &mut self.owed.overlap;
        if at == SHARED_QUEUE {
            overlap.pay_in_full(now, ran);
        } else {
            overlap.pay(now, ran);
        }
    }
}
