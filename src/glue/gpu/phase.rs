// SPDX-License-Identifier: GPL-2.0

//! [glue] What the poller works with, and what a polling phase leaves behind.

use super::device::Device;
use super::sampler::{LookTimer, Looking, Looks, Sums};
use crate::account::residue::Residue;
use crate::account::sparse::MIN_INTERVAL;
use crate::account::waits::Waits;
use crate::account::{Accountant, Accounting, PhaseTotals, Slot, UsedSlots, MAX_SLOTS};
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::Ringer;
use crate::glue::trace;
use crate::regs::{Occupant, Sampler};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// What the poller works with, and what a phase leaves behind.
pub(crate) struct Phase {
    /// A phase is wanted; cleared by the poller when it has ended, or by the main thread
    /// when it never began.
    pub(crate) wanted: bool,
    /// The phase that was wanted last has begun and ended.
    pub(super) finished: bool,
    /// How the phase that was wanted last is accounted, and its strata if sparsely.
    pub(crate) accounting: Accounting,
    pub(super) interval: Ns,
    pub(super) accountant: Accountant,
    pub(crate) slots: KVVec<Slot>,
    /// Of the phase that ended last.
    pub(crate) totals: PhaseTotals,
    pub(super) sampler: Option<Sampler>,
    /// Iterations since attaching; looks count too.
    pub(crate) polls: u64,
    /// For sparse accounting and for what runs on after a hold. Lent to the timer while that is
    /// started.
    looks: Option<KBox<Looks>>,
    /// The timer, and what stands for it while it is started.
    timer: Arc<LookTimer>,
    looking: Option<Looking>,
    /// What looks have cost.
    pub(crate) looked: Sums,
    /// Who is asked whether it waits.
    pub(crate) waits: Waits<Vectors>,
    /// Reads of the channel table for that, since attaching.
    pub(super) state_reads: u64,
}

impl Phase {
    /// Nothing polled yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: Arc<Device>) -> Result<Self> {
        let mut slots = KVVec::new();
        slots.extend_with(MAX_SLOTS, Slot::default(), GFP_KERNEL)?;
        Ok(Self {
            wanted: false,
            finished: false,
            accounting: Accounting::Burst,
            interval: MIN_INTERVAL,
            accountant: Accountant::new(),
            slots,
            totals: PhaseTotals::default(),
            sampler: None,
            polls: 0,
            looks: Some(Looks::new()?),
            timer: LookTimer::new(device)?,
            looking: None,
            looked: Sums::default(),
            waits: Waits::new(KVVec::new(), KVVec::new(), ffi::random()),
            state_reads: 0,
        })
    }

    /// Asks for a phase that is accounted so.
    pub(super) fn want(&mut self, accounting: Accounting, interval: Ns) {
        if accounting != self.accounting {
            // What the other way left, and would clear itself.
            self.slots
                .iter_mut()
                .for_each(|slot| *slot = Slot::default());
        }
        self.accounting = accounting;
        self.interval = interval;
        self.wanted = true;
        self.finished = false;
    }

    /// Slots that were used in the phase that ended last.
    pub(crate) fn used(&self) -> &UsedSlots {
        match (self.accounting, &self.looks) {
            (Accounting::Sparse, Some(looks)) if self.finished => looks.sparse.used_slots(),
            _ => self.accountant.used_slots(),
        }
    }

    /// Length of the strata of the phase that ended last, if it was accounted sparsely.
    pub(super) fn strata(&self) -> Option<Ns> {
        match (self.accounting, &self.looks) {
            (Accounting::Sparse, Some(looks)) => Some(looks.sparse.interval()),
            _ => None,
        }
    }

    /// Takes the phase that was asked for as ended. One that never began was empty.
    pub(super) fn conclude(&mut self) {
        self.wanted = false;
        self.end_looks();
        if !self.finished {
            let now = ffi::now();
            self.accountant.begin(&mut self.slots, now, Occupant::Idle);
            self.totals = self.accountant.end(&mut self.slots, now);
        }
    }

    /// Begins to look for a polling phase of sparse accounting.
    pub(super) fn begin_looks(&mut self, main: Option<Ringer>) {
        let now = ffi::now();
        let Some(looks) = self.looks.as_mut() else {
            return;
        };
        looks.residues = false;
        let next = looks.sparse.begin(&mut self.slots, now, self.interval);
        trace::phase_begin(self.timer.device().number(), now, looks.sparse.current());
        self.lend(main, next.saturating_sub(now));
    }

    /// Begins to look what runs in a non-polling phase of `length`; `throttled` says whether somebody is
    /// throttled in it.
    pub(super) fn begin_pause(&mut self, main: Option<Ringer>, length: Ns, throttled: bool) {
        let now = ffi::now();
        let Some(looks) = self.looks.as_mut() else {
            return;
        };
        looks.residues = true;
        if let Some(next) = looks.residue.begin(now, length, throttled) {
            self.lend(main, next.saturating_sub(now));
        }
    }

    /// Lends the looks to the timer and starts it, on the processor of the caller. `main` is told if
    /// the device goes.
    fn lend(&mut self, main: Option<Ringer>, step: Ns) {
        if self.timer.device().is_away() {
            return;
        }
        let Some(mut looks) = self.looks.take() else {
            return;
        };
        self.exchange(&mut looks);
        looks.main = main;
        // SAFETY: The timer is not started, since `looks` was here.
        self.looking = Some(unsafe { self.timer.lend(looks, step) });
    }

    /// Stops the timer, if it was started, and takes what was lent to it. May sleep. Returns who
    /// was found to run on, if that was what it looked for.
    pub(super) fn end_looks(&mut self) -> Option<&Residue> {
        let mut looks = self.looking.take()?.end()?;
        self.exchange(&mut looks);
        looks.main = None;
        let before = core::mem::replace(&mut self.looked, looks.sums);
        let made = looks.sums.looks.saturating_sub(before.looks);
        self.polls = self.polls.saturating_add(made);
        let reads = looks.sums.state_reads;
        let reads = reads.saturating_sub(before.state_reads);
        self.state_reads = self.state_reads.saturating_add(reads);
        let looks = self.looks.insert(looks);
        if looks.residues {
            return Some(&looks.residue);
        }
        self.totals = looks.sparse.end();
        self.finished = true;
        None
    }

    /// Gives the looks what they work with, or takes it back.
    fn exchange(&mut self, looks: &mut Looks) {
        core::mem::swap(&mut self.slots, &mut looks.slots);
        core::mem::swap(&mut self.sampler, &mut looks.sampler);
        core::mem::swap(&mut self.waits, &mut looks.waits);
    }
}
