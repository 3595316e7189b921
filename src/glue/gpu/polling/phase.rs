// SPDX-License-Identifier: GPL-2.0

//! `[glue]` State of the poller, and results of a polling phase.

use super::sampler::{ArmedTimer, SampleCosts, SampleTimer, Samples};
use crate::account::residue::Residue;
use crate::account::sparse::MIN_INTERVAL;
use crate::account::waits::{Waited, Waits};
use crate::account::{
    Accountant, Accounting, Copied, Copies, PhaseTotals, Slot, UsedSlots, MAX_SLOTS,
};
use crate::glue::gpu::device::Device;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::{storage, Vectors};
use crate::glue::kernel::thread::Waker;
use crate::glue::trace;
use crate::ids::ClientId;
use crate::regs::{Occupant, OccupantReader};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Engine 0 computes.
pub(super) const COMPUTE: u8 = 0;

/// State of the poller, and results of the phase that ended last.
pub(crate) struct PollingPhase {
    /// A phase is requested; cleared by the poller when the phase has ended, or by the main
    /// thread if it never began.
    pub(crate) wanted: bool,
    /// The phase requested last has begun and ended.
    pub(in crate::glue::gpu) finished: bool,
    /// Accounting of the phase requested last, and the length of its strata if sparse.
    pub(crate) accounting: Accounting,
    pub(in crate::glue::gpu) interval: Ns,
    pub(in crate::glue::gpu) accountant: Accountant,
    pub(crate) slots: KVVec<Slot>,
    /// Of the phase that ended last.
    pub(crate) totals: PhaseTotals,
    pub(in crate::glue::gpu) reader: Option<OccupantReader>,
    /// Accounts the copy engine. `None` while the timer is started: its callback owns it then.
    pub(in crate::glue::gpu) copies: Option<KBox<Copies<Vectors>>>,
    /// Iterations since attaching; samples count too.
    pub(crate) polls: u64,
    /// For sparse accounting and for the residue. `None` while the timer is started: its callback
    /// owns them then.
    samples: Option<KBox<Samples>>,
    /// The timer, and its handle while it is started.
    timer: Arc<SampleTimer>,
    armed: Option<ArmedTimer>,
    /// Cost of the samples.
    pub(crate) sample_costs: SampleCosts,
    /// The clients that are checked for waiting.
    pub(crate) waits: Waits<Vectors>,
    /// Reads of the channel table for that, since attaching.
    pub(in crate::glue::gpu) state_reads: u64,
}

impl PollingPhase {
    /// Nothing polled yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    #[inline(never)]
    pub(crate) fn new(device: Arc<Device>) -> Result<KBox<Self>> {
        let made = try_init!(Self {
            wanted: false,
            finished: false,
            accounting: Accounting::Burst,
            interval: MIN_INTERVAL,
            accountant: Accountant::new(),
            slots: storage(MAX_SLOTS)?,
            totals: PhaseTotals::default(),
            reader: None,
            copies: Some(KBox::new(Copies::new(storage(MAX_SLOTS)?), GFP_KERNEL)?),
            polls: 0,
            samples: Some(Samples::new()?),
            timer: SampleTimer::new(device)?,
            armed: None,
            sample_costs: SampleCosts::default(),
            waits: Waits::new(KVVec::new(), KVVec::new(), ffi::random()),
            state_reads: 0,
        }? Error);
        KBox::try_init(made, GFP_KERNEL)
    }

    /// A phase that is not requested is empty.
    pub(in crate::glue::gpu) fn forget(&mut self) {
        self.finished = false;
    }

    /// Requests a phase with this accounting.
    pub(in crate::glue::gpu) fn want(&mut self, accounting: Accounting, interval: Ns) {
        if accounting != self.accounting {
            // Left over from the other kind of accounting, which would clear them itself.
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
        match (self.accounting, &self.samples) {
            (Accounting::Sparse, Some(samples)) if self.finished => samples.sparse.used_slots(),
            _ => self.accountant.used_slots(),
        }
    }

    /// Length of the strata of the phase that ended last, if its accounting was sparse.
    pub(in crate::glue::gpu) fn strata(&self) -> Option<Ns> {
        match (self.accounting, &self.samples) {
            (Accounting::Sparse, Some(samples)) => Some(samples.sparse.interval()),
            _ => None,
        }
    }

    /// Ends the requested phase. One that never began is empty.
    pub(in crate::glue::gpu) fn conclude(&mut self) {
        self.wanted = false;
        self.end_sampling();
        if !self.finished {
            let now = ffi::now();
            self.accountant.begin(&mut self.slots, now, Occupant::Idle);
            self.totals = self.accountant.end(&mut self.slots, now);
            if let Some(copies) = self.copies.as_mut() {
                copies.forget();
            }
        }
    }

    /// How long clients waited in the phase that ended last.
    pub(super) fn waits_found(&self) -> impl Iterator<Item = (ClientId, Waited)> + '_ {
        let length = self.totals.length;
        let found = self.waits.found().iter();
        found
            .filter(|watched| !watched.waits_for_none())
            .map(move |watched| (watched.id(), watched.waited(length)))
    }

    /// What the copy engine did in the phase that ended last, if that is known.
    pub(in crate::glue::gpu) fn copied(&self) -> Option<Copied<'_>> {
        self.copies.as_ref()?.found()
    }

    /// Register reads since attaching.
    pub(in crate::glue::gpu) fn reads(&self) -> u64 {
        let compute = self.reader.as_ref().map_or(0, OccupantReader::reads);
        let copies = self.copies.as_ref().map_or(0, |copies| copies.reads());
        let reads = compute.saturating_add(copies);
        reads.saturating_add(self.state_reads)
    }

    /// Begins sampling in a polling phase of sparse accounting.
    pub(in crate::glue::gpu) fn begin_sampling(&mut self, main: Option<Waker>) {
        let now = ffi::now();
        let Some(samples) = self.samples.as_mut() else {
            return;
        };
        samples.residues = false;
        let next = samples.sparse.begin(&mut self.slots, now, self.interval);
        if let Some(copies) = self.copies.as_mut() {
            copies.begin_samples();
        }
        trace::phase_begin(self.timer.device().number(), now, samples.sparse.current());
        self.arm(main, next.saturating_sub(now));
    }

    /// Begins sampling the residue in a non-polling phase of `length`; `throttled`: a client is
    /// throttled in it.
    pub(in crate::glue::gpu) fn begin_residue(
        &mut self,
        main: Option<Waker>,
        length: Ns,
        throttled: bool,
    ) {
        let now = ffi::now();
        let Some(samples) = self.samples.as_mut() else {
            return;
        };
        samples.residues = true;
        if let Some(next) = samples.residue.begin(now, length, throttled) {
            self.arm(main, next.saturating_sub(now));
        }
    }

    /// Whether the timer is started.
    pub(in crate::glue::gpu) fn is_sampling(&self) -> bool {
        self.armed.is_some()
    }

    /// Passes the samples to the timer and starts it, on the processor of the caller. The callback
    /// wakes `main` if the device is lost.
    fn arm(&mut self, main: Option<Waker>, step: Ns) {
        if self.timer.device().is_away() {
            return;
        }
        let Some(mut samples) = self.samples.take() else {
            return;
        };
        self.exchange(&mut samples);
        samples.main = main;
        // SAFETY: The timer is not started, since `samples` was here.
        self.armed = Some(unsafe { self.timer.arm(samples, step) });
    }

    /// Stops the timer, if it was started, and takes the samples back. May sleep. Returns the
    /// residue, if that was sampled.
    pub(in crate::glue::gpu) fn end_sampling(&mut self) -> Option<&Residue> {
        let mut samples = self.armed.take()?.end()?;
        self.exchange(&mut samples);
        samples.main = None;
        let before = core::mem::replace(&mut self.sample_costs, samples.costs);
        let made = samples.costs.samples.saturating_sub(before.samples);
        self.polls = self.polls.saturating_add(made);
        let reads = samples.costs.state_reads;
        let reads = reads.saturating_sub(before.state_reads);
        self.state_reads = self.state_reads.saturating_add(reads);
        let samples = self.samples.insert(samples);
        if samples.residues {
            return Some(&samples.residue);
        }
        self.totals = samples.sparse.end();
        if let Some(copies) = self.copies.as_mut() {
            copies.end_samples();
        }
        self.finished = true;
        None
    }

    /// Moves the slots, reader, copies and waits into `samples`, or back.
    fn exchange(&mut self, samples: &mut Samples) {
        core::mem::swap(&mut self.slots, &mut samples.slots);
        core::mem::swap(&mut self.reader, &mut samples.reader);
        core::mem::swap(&mut self.copies, &mut samples.copies);
        core::mem::swap(&mut self.waits, &mut samples.waits);
    }
}
