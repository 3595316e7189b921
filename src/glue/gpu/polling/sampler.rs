// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Samples at random instants: all reads of `accounting=sparse`, and with `accounting=burst`
//! those between polling phases, for the residue.
//!
//! The poller (sparse) or the main thread (residue) starts a high-resolution timer on its own
//! processor; the callback reads the status word, charges a stratum and sets the timer to the next
//! instant; the copy engine's word is read along with it. It never sleeps, allocates, locks or prints: it owns its state while the timer is
//! started. The main thread ends sampling by cancelling the timer, which waits for the callback,
//! and takes the state back.
//!
//! If the policy wants to know which clients wait, one in [`SAMPLES_PER_CHECK`] samples of sparse
//! accounting also checks the next client.

use crate::account::residue::Residue;
use crate::account::sparse::Sparse;
use crate::account::waits::Waits;
use crate::account::{Copies, Slot};
use crate::glue::gpu::device::Device;
use crate::glue::kernel::compat::delta_from_nanos;
use crate::glue::kernel::ffi;
use crate::glue::kernel::storage::Vectors;
use crate::glue::kernel::thread::Waker;
use crate::regs::{ChannelState, Occupant, OccupantReader};
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
use kernel::time::{Instant, Monotonic};

/// Least time to the next sample: a timer must be set to a time in the future.
const LEAST_STEP: Ns = Ns::from_us(1);

/// Samples of sparse accounting per check whether a client waits. A check takes up to fifteen
/// reads, and waiting need not be measured as exactly as GPU time.
const SAMPLES_PER_CHECK: u64 = 4;

/// State of the callback.
pub(in crate::glue::gpu) struct Samples {
    pub(crate) sparse: Sparse,
    pub(crate) residue: Residue,
    /// Whether `residue` is sampled, else `sparse`.
    pub(in crate::glue::gpu) residues: bool,
    /// Moved here from the phase while the timer is started.
    pub(in crate::glue::gpu) slots: KVVec<Slot>,
    /// As `slots`.
    pub(in crate::glue::gpu) reader: Option<OccupantReader>,
    /// As `slots`.
    pub(in crate::glue::gpu) copies: Option<KBox<Copies<Vectors>>>,
    /// As `slots`.
    pub(in crate::glue::gpu) waits: Waits<Vectors>,
    /// Wakes the main thread if the device has gone.
    pub(in crate::glue::gpu) main: Option<Waker>,
    pub(crate) costs: SampleCosts,
}

/// Cost of the samples since attaching.
#[derive(Clone, Copy, Default)]
pub(crate) struct SampleCosts {
    pub(crate) samples: u64,
    /// Time spent in the callback.
    pub(crate) spent: Ns,
    /// Time by which the callback came late.
    pub(crate) late: Ns,
    /// Reads of the channel table, to find clients that wait.
    pub(in crate::glue::gpu) state_reads: u64,
}

impl Samples {
    #[inline(never)]
    pub(crate) fn new() -> Result<KBox<Self>> {
        let made = init!(Self {
            sparse: Sparse::new(ffi::random()),
            residue: Residue::new(ffi::random()),
            residues: false,
            slots: KVVec::new(),
            reader: None,
            copies: None,
            waits: Waits::new(KVVec::new(), KVVec::new(), ffi::random()),
            main: None,
            costs: SampleCosts::default(),
        });
        KBox::init(made, GFP_KERNEL)
    }
}

/// The samples while the timer is started, empty otherwise.
///
/// # Invariants
///
/// While the timer is started only its callback uses the contents. While it is not, only the thread
/// that starts the timer or has cancelled it does.
struct TimerState(UnsafeCell<Option<KBox<Samples>>>);

// SAFETY: By the invariant the contents have one user at a time, and any thread may be that user:
// `Samples` is `Send`.
unsafe impl Sync for TimerState {}

/// The timer of one GPU, and the state of its callback.
#[pin_data]
pub(in crate::glue::gpu) struct SampleTimer {
    #[pin]
    timer: HrTimer<Self>,
    state: TimerState,
    device: Arc<Device>,
}

impl SampleTimer {
    /// Makes a timer that is not started.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::glue::gpu) fn new(device: Arc<Device>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                timer <- HrTimer::new(),
                state: TimerState(UnsafeCell::new(None)),
                device,
            }),
            GFP_KERNEL,
        )
    }

    /// The GPU that is sampled.
    pub(in crate::glue::gpu) fn device(&self) -> &Device {
        &self.device
    }

    /// Starts the timer with this state, on the processor of the caller. The first sample is taken
    /// after `step`.
    ///
    /// # Safety
    ///
    /// The timer returned by the last call must have been ended.
    pub(in crate::glue::gpu) unsafe fn arm(
        self: &Arc<Self>,
        samples: KBox<Samples>,
        step: Ns,
    ) -> ArmedTimer {
        // SAFETY: By the caller's promise the timer is not started, and no other thread starts it.
        unsafe { *self.state.0.get() = Some(samples) };
        let step = i64::try_from(step.max(LEAST_STEP).get()).unwrap_or(i64::MAX);
        ArmedTimer {
            handle: self.clone().start(delta_from_nanos(step)),
            timer: self.clone(),
        }
    }
}

/// The timer, which has been started.
pub(in crate::glue::gpu) struct ArmedTimer {
    handle: ArcHrTimerHandle<SampleTimer>,
    timer: Arc<SampleTimer>,
}

impl ArmedTimer {
    /// Cancels the timer, waits for the callback, and takes its state back. May sleep.
    pub(in crate::glue::gpu) fn end(self) -> Option<KBox<Samples>> {
        let Self { handle, timer } = self;
        drop(handle);
        // SAFETY: The timer is not started any more, and by the promise made to `arm` no thread
        // starts it before this returns.
        unsafe { &mut *timer.state.0.get() }.take()
    }
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for SampleTimer {
        mode: RelativePinnedHardMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for SampleTimer {
    type Pointer<'a> = Arc<Self>;

    fn run(
        this: ArcBorrow<'_, Self>,
        mut timer: HrTimerCallbackContext<'_, Self>,
    ) -> HrTimerRestart {
        // SAFETY: The timer is started, so by the invariant of `TimerState` only this callback,
        // which never runs twice at once, uses the contents.
        let state = unsafe { &mut *this.state.0.get() };
        let Some(samples) = state.as_mut() else {
            return HrTimerRestart::NoRestart;
        };
        let now = Instant::now();
        let late = (now - this.timer.expires()).as_nanos();
        samples.costs.late = samples.costs.late.saturating_add(nanos(late));
        let Some(next) = samples.sample(&this.device) else {
            return HrTimerRestart::NoRestart;
        };
        // `forward` counts from the time at which the timer should have expired.
        let step = i64::try_from(next.get()).unwrap_or(i64::MAX);
        timer.forward(now, delta_from_nanos(step.saturating_add(late)));
        HrTimerRestart::Restart
    }
}

impl Samples {
    /// Takes one sample, and returns the time until the next. `None` if the device has gone.
    fn sample(&mut self, device: &Device) -> Option<Ns> {
        let now = ffi::now();
        let reader = self.reader.as_mut()?;
        let Ok(occupant) = reader.read(&device.bar0) else {
            return self.lose(device);
        };
        let asks = !self.residues && self.costs.samples % SAMPLES_PER_CHECK == 0;
        if asks && self.waits.samples_any() && !self.ask(device, occupant) {
            return self.lose(device);
        }
        let next = if self.residues {
            let next = self.residue.sample(now, occupant);
            let copies = self.copies.as_mut();
            if let Some(copying) = copies.and_then(|copies| copies.occupant(&device.bar0)) {
                self.residue.sample_copies(copying);
            }
            next
        } else {
            let next = self.sparse.sample(&mut self.slots, now, occupant);
            if let Some(copies) = self.copies.as_mut() {
                copies.sample(&device.bar0, self.sparse.stood_for());
            }
            next
        };
        let spent = ffi::now().saturating_sub(now);
        self.costs.samples = self.costs.samples.saturating_add(1);
        self.costs.spent = self.costs.spent.saturating_add(spent);
        // Counted from `now`, but not before the end of this callback.
        let least = spent.saturating_add(LEAST_STEP);
        Some(next.saturating_sub(now).max(least))
    }
}

impl Samples {
    /// Checks whether the next client waits, while `occupant` is on the engine. False if the
    /// device has gone.
    fn ask(&mut self, device: &Device, occupant: Occupant) -> bool {
        self.waits.begin();
        while let Some(chid) = self.waits.ask(occupant) {
            let Ok(state) = ChannelState::read(&device.bar0, chid) else {
                return false;
            };
            self.waits.note_state(state);
            self.costs.state_reads = self.costs.state_reads.saturating_add(1);
        }
        true
    }

    /// Marks the device as lost and wakes the main thread.
    fn lose(&self, device: &Device) -> Option<Ns> {
        device.lost.store(1, Release);
        if let Some(main) = &self.main {
            main.wake();
        }
        None
    }
}

/// A time in nanoseconds, 0 if negative.
fn nanos(time: i64) -> Ns {
    Ns::new(u64::try_from(time).unwrap_or(0))
}
