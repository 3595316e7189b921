// SPDX-License-Identifier: GPL-2.0

//! [glue] Looks at random instants: those of `accounting=sparse`, and with `accounting=burst`
//! those that show what runs between polling phases.
//!
//! A timer is started on the processor of the caller, the poller for the former, the main thread
//! for the latter; the callback reads the status word, charges a stratum and sets the timer to
//! the next instant. It sleeps, allocates, locks and prints nothing: what it works with is lent
//! to it while the timer is started. The main thread ends the looks by cancelling the timer,
//! which waits for the callback, and then has everything back.
//!
//! If the policy wants to know who waits, one in [`LOOKS_PER_SAMPLE`] looks of sparse accounting
//! asks the next client too.

use super::poller::Phase;
use super::Gpu;
use crate::account::drain::Drain;
use crate::account::sparse::Sparse;
use crate::account::waits::Waits;
use crate::account::Slot;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::Ringer;
use crate::glue::trace;
use crate::regs::{ChannelState, Occupant, Sampler};
use crate::units::Ns;
use core::cell::UnsafeCell;
use kernel::impl_has_hr_timer;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::{Arc, ArcBorrow};
use kernel::time::hrtimer::{
    ArcHrTimerHandle, HrTimerCallback, HrTimerCallbackContext, HrTimerPointer, HrTimerRestart,
    RelativePinnedHardMode,
};
use kernel::time::{Delta, Instant, Monotonic};

/// Least time to the next look: a timer must be set to a time that has not come.
const LEAST_STEP: Ns = Ns::from_us(1);

/// Looks of sparse accounting to one question whether somebody waits. A question takes up to fifteen
/// reads, and its answers need not be as exact as the times used.
const LOOKS_PER_SAMPLE: u64 = 4;

/// What the callback works with.
pub(crate) struct Looks {
    pub(crate) sparse: Sparse,
    pub(crate) drain: Drain,
    /// Which of the two looks.
    drains: bool,
    /// Those of the phase, while the timer is started.
    slots: KVVec<Slot>,
    /// As `slots`.
    sampler: Option<Sampler>,
    /// As `slots`.
    waits: Waits<Vectors>,
    /// Whom to tell that the device has gone.
    main: Option<Ringer>,
    pub(crate) sums: Sums,
}

/// What looks cost, since attaching.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) looks: u64,
    /// Time spent in the callback.
    pub(crate) spent: Ns,
    /// Time by which the callback came late.
    pub(crate) late: Ns,
    /// Reads of the channel table, to see who waits.
    pub(crate) state_reads: u64,
}

impl Looks {
    pub(crate) fn new() -> Result<KBox<Self>> {
        let looks = Self {
            sparse: Sparse::new(ffi::random()),
            drain: Drain::new(ffi::random()),
            drains: false,
            slots: KVVec::new(),
            sampler: None,
            waits: Waits::new(KVVec::new(), KVVec::new(), ffi::random()),
            main: None,
            sums: Sums::default(),
        };
        Ok(KBox::new(looks, GFP_KERNEL)?)
    }
}

/// The looks while the timer is started, empty otherwise.
///
/// # Invariants
///
/// While the timer is started only its callback uses the contents. While it is not, only the
/// holder of [`Gpu::phase`] does.
pub(crate) struct Lent(UnsafeCell<Option<KBox<Looks>>>);

// SAFETY: By the invariant nobody uses the contents at the same time as somebody else, and
// they may be used from any thread: `Looks` is `Send`.
unsafe impl Sync for Lent {}

impl Lent {
    pub(crate) const fn new() -> Self {
        Self(UnsafeCell::new(None))
    }
}

/// The timer, which has been started.
pub(crate) struct Looking(ArcHrTimerHandle<Gpu>);

impl_has_hr_timer! {
    impl HasHrTimer<Self> for Gpu {
        mode: RelativePinnedHardMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for Gpu {
    type Pointer<'a> = Arc<Self>;

    fn run(
        this: ArcBorrow<'_, Self>,
        mut timer: HrTimerCallbackContext<'_, Self>,
    ) -> HrTimerRestart {
        // SAFETY: The timer is started, so by the invariant of `Lent` only this callback, which
        // never runs twice at once, uses the contents.
        let lent = unsafe { &mut *this.lent.0.get() };
        let Some(looks) = lent.as_mut() else {
            return HrTimerRestart::NoRestart;
        };
        let now = Instant::now();
        let late = (now - this.timer.expires()).as_nanos();
        looks.sums.late = looks.sums.late.saturating_add(nanos(late));
        let Some(next) = looks.look(&this) else {
            return HrTimerRestart::NoRestart;
        };
        // Relative to when the timer should have expired, which is what is moved on.
        let step = i64::try_from(next.get()).unwrap_or(i64::MAX);
        timer.forward(now, Delta::from_nanos(step.saturating_add(late)));
        HrTimerRestart::Restart
    }
}

impl Looks {
    /// Looks once, and says how long after now the next time is. Nothing if there is none, or the
    /// device has gone.
    fn look(&mut self, gpu: &Gpu) -> Option<Ns> {
        let now = ffi::now();
        let sampler = self.sampler.as_mut()?;
        let Ok(occupant) = sampler.sample(&gpu.bar0) else {
            return self.lose(gpu);
        };
        let asks = !self.drains && self.sums.looks % LOOKS_PER_SAMPLE == 0;
        if asks && self.waits.watches() && !self.ask(gpu, occupant) {
            return self.lose(gpu);
        }
        let next = if self.drains {
            self.drain.look(now, occupant)
        } else {
            Some(self.sparse.look(&mut self.slots, now, occupant))
        };
        let spent = ffi::now().saturating_sub(now);
        self.sums.looks = self.sums.looks.saturating_add(1);
        self.sums.spent = self.sums.spent.saturating_add(spent);
        // From now on, but not before the end of this callback.
        let least = spent.saturating_add(LEAST_STEP);
        next.map(|next| next.saturating_sub(now).max(least))
    }
}

impl Looks {
    /// Asks whether the next client waits, while `occupant` is on the engine. False if the device
    /// has gone.
    fn ask(&mut self, gpu: &Gpu, occupant: Occupant) -> bool {
        self.waits.begin();
        while let Some(chid) = self.waits.ask(occupant) {
            let Ok(state) = ChannelState::read(&gpu.bar0, chid) else {
                return false;
            };
            self.waits.note(state.compute_work());
            self.sums.state_reads = self.sums.state_reads.saturating_add(1);
        }
        true
    }

    /// The device has gone.
    fn lose(&self, gpu: &Gpu) -> Option<Ns> {
        gpu.lost.store(1, Release);
        if let Some(main) = &self.main {
            main.ring();
        }
        None
    }
}

/// A time that is not negative.
fn nanos(time: i64) -> Ns {
    Ns::new(u64::try_from(time).unwrap_or(0))
}

impl Phase {
    /// Begins to look for a polling phase of sparse accounting.
    pub(crate) fn begin_looks(&mut self, gpu: &Arc<Gpu>) {
        let now = ffi::now();
        let Some(looks) = self.looks.as_mut() else {
            return;
        };
        looks.drains = false;
        let next = looks.sparse.begin(&mut self.slots, now, self.interval);
        trace::phase_begin(gpu.number(), now, looks.sparse.current());
        self.lend(gpu, next.saturating_sub(now));
    }

    /// Begins to look what runs in a non-polling phase of `length`; `held` says whether somebody is
    /// held back in it.
    pub(crate) fn begin_pause(&mut self, gpu: &Arc<Gpu>, length: Ns, held: bool) {
        let now = ffi::now();
        let Some(looks) = self.looks.as_mut() else {
            return;
        };
        looks.drains = true;
        if let Some(next) = looks.drain.begin(now, length, held) {
            self.lend(gpu, next.saturating_sub(now));
        }
    }

    /// Lends the looks to the timer and starts it, on the processor of the caller.
    fn lend(&mut self, gpu: &Arc<Gpu>, step: Ns) {
        if gpu.is_away() {
            return;
        }
        let Some(mut looks) = self.looks.take() else {
            return;
        };
        core::mem::swap(&mut self.slots, &mut looks.slots);
        core::mem::swap(&mut self.sampler, &mut looks.sampler);
        core::mem::swap(&mut self.waits, &mut looks.waits);
        looks.main = gpu.main_ringer();
        // SAFETY: The timer is not started, since `looks` was here, and the phase is locked.
        unsafe { *gpu.lent.0.get() = Some(looks) };
        let step = i64::try_from(step.max(LEAST_STEP).get()).unwrap_or(i64::MAX);
        self.looking = Some(Looking(gpu.clone().start(Delta::from_nanos(step))));
    }

    /// Stops the timer, if it was started, and takes what was lent to it. May sleep. Returns who
    /// was found to run on, if that was what it looked for.
    pub(crate) fn end_looks(&mut self, gpu: &Gpu) -> Option<&Drain> {
        let Looking(timer) = self.looking.take()?;
        // Cancels it, and waits for the callback.
        drop(timer);
        // SAFETY: The timer is not started any more, and the phase is locked.
        let lent = unsafe { &mut *gpu.lent.0.get() };
        let mut looks = lent.take()?;
        core::mem::swap(&mut self.slots, &mut looks.slots);
        core::mem::swap(&mut self.sampler, &mut looks.sampler);
        core::mem::swap(&mut self.waits, &mut looks.waits);
        looks.main = None;
        let before = core::mem::replace(&mut self.looked, looks.sums);
        let made = looks.sums.looks.saturating_sub(before.looks);
        self.polls = self.polls.saturating_add(made);
        let reads = looks.sums.state_reads;
        let reads = reads.saturating_sub(before.state_reads);
        self.state_reads = self.state_reads.saturating_add(reads);
        let looks = self.looks.insert(looks);
        if looks.drains {
            return Some(&looks.drain);
        }
        self.totals = looks.sparse.end();
        self.finished = true;
        None
    }
}
