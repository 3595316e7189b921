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

use super::device::Device;
use crate::account::residue::Residue;
use crate::account::sparse::Sparse;
use crate::account::waits::Waits;
use crate::account::Slot;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::Ringer;
use crate::regs::{ChannelState, Occupant, Sampler};
use crate::units::Ns;
use core::cell::UnsafeCell;
use kernel::impl_has_hr_timer;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::{Arc, ArcBorrow};
use kernel::time::hrtimer::{
    ArcHrTimerHandle, HrTimer, HrTimerCallback, HrTimerCallbackContext, HrTimerPointer,
    HrTimerRestart, RelativePinnedHardMode,
};
use kernel::time::{Delta, Instant, Monotonic};

/// Least time to the next look: a timer must be set to a time that has not come.
const LEAST_STEP: Ns = Ns::from_us(1);

/// Looks of sparse accounting to one question whether somebody waits. A question takes up to fifteen
/// reads, and its answers need not be as exact as the times used.
const LOOKS_PER_SAMPLE: u64 = 4;

/// What the callback works with.
pub(super) struct Looks {
    pub(crate) sparse: Sparse,
    pub(crate) residue: Residue,
    /// Which of the two looks.
    pub(super) residues: bool,
    /// Those of the phase, while the timer is started.
    pub(super) slots: KVVec<Slot>,
    /// As `slots`.
    pub(super) sampler: Option<Sampler>,
    /// As `slots`.
    pub(super) waits: Waits<Vectors>,
    /// Whom to tell that the device has gone.
    pub(super) main: Option<Ringer>,
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
    pub(super) state_reads: u64,
}

impl Looks {
    pub(crate) fn new() -> Result<KBox<Self>> {
        let looks = Self {
            sparse: Sparse::new(ffi::random()),
            residue: Residue::new(ffi::random()),
            residues: false,
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
/// While the timer is started only its callback uses the contents. While it is not, only who starts
/// it does, and who has ended it.
struct Lent(UnsafeCell<Option<KBox<Looks>>>);

// SAFETY: By the invariant nobody uses the contents at the same time as somebody else, and
// they may be used from any thread: `Looks` is `Send`.
unsafe impl Sync for Lent {}

/// The timer of one GPU, and what its callback works with.
#[pin_data]
pub(super) struct LookTimer {
    #[pin]
    timer: HrTimer<Self>,
    lent: Lent,
    device: Arc<Device>,
}

impl LookTimer {
    /// One that is not started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(device: Arc<Device>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                timer <- HrTimer::new(),
                lent: Lent(UnsafeCell::new(None)),
                device,
            }),
            GFP_KERNEL,
        )
    }

    /// The GPU that is looked at.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Lends the looks to the callback, which looks for the first time after `step`, on the processor
    /// of the caller.
    ///
    /// # Safety
    ///
    /// What this returned before must have been ended.
    pub(super) unsafe fn lend(self: &Arc<Self>, looks: KBox<Looks>, step: Ns) -> Looking {
        // SAFETY: By the caller's promise the timer is not started, and nobody else starts it.
        unsafe { *self.lent.0.get() = Some(looks) };
        let step = i64::try_from(step.max(LEAST_STEP).get()).unwrap_or(i64::MAX);
        Looking {
            handle: self.clone().start(Delta::from_nanos(step)),
            timer: self.clone(),
        }
    }
}

/// The timer, which has been started.
pub(super) struct Looking {
    handle: ArcHrTimerHandle<LookTimer>,
    timer: Arc<LookTimer>,
}

impl Looking {
    /// Cancels the timer, waits for the callback, and takes back what was lent to it. May sleep.
    pub(super) fn end(self) -> Option<KBox<Looks>> {
        let Self { handle, timer } = self;
        drop(handle);
        // SAFETY: The timer is not started any more, and by the promise made to `lend` nobody starts
        // it before this returns.
        unsafe { &mut *timer.lent.0.get() }.take()
    }
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for LookTimer {
        mode: RelativePinnedHardMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for LookTimer {
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
        let Some(next) = looks.look(&this.device) else {
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
    fn look(&mut self, device: &Device) -> Option<Ns> {
        let now = ffi::now();
        let sampler = self.sampler.as_mut()?;
        let Ok(occupant) = sampler.sample(&device.bar0) else {
            return self.lose(device);
        };
        let asks = !self.residues && self.sums.looks % LOOKS_PER_SAMPLE == 0;
        if asks && self.waits.watches() && !self.ask(device, occupant) {
            return self.lose(device);
        }
        let next = if self.residues {
            self.residue.look(now, occupant)
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
    fn ask(&mut self, device: &Device, occupant: Occupant) -> bool {
        self.waits.begin();
        while let Some(chid) = self.waits.ask(occupant) {
            let Ok(state) = ChannelState::read(&device.bar0, chid) else {
                return false;
            };
            self.waits.note(state.compute_work());
            self.sums.state_reads = self.sums.state_reads.saturating_add(1);
        }
        true
    }

    /// The device has gone.
    fn lose(&self, device: &Device) -> Option<Ns> {
        device.lost.store(1, Release);
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
