// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Where threads sleep in a store, until they may try again.

use super::ffi;
use crate::units::Ns;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::types::Opaque;

/// Threads that are woken in one go, with interrupts off, if all are. The others are woken by these as
/// they go on, one by one. One thread that wakes thousands would keep the processors that they are put
/// on in interrupts, all that time.
const AT_A_TIME: c_int = 32;

/// The timer of each thread ends so much later than that of the one before it, up to [`SPREAD`]
/// times: timers that end together keep a processor busy, and there may be thousands.
const APART: Ns = Ns::from_us(200);
const SPREAD: u32 = 10_000;

/// How much longer than its bound a thread waits before which so many wait: 2 s at most.
pub(crate) fn apart(before: u32) -> Ns {
    APART.saturating_mul((before % SPREAD).into())
}

/// Which threads are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// One: the others wait for the next time.
    One,
    /// All of them.
    All,
}

/// A queue of threads that wait while a flag is set.
#[pin_data]
pub(crate) struct StoreQueue {
    #[pin]
    queue: Opaque<bindings::wait_queue_head_t>,
    /// Threads in [`wait`](Self::wait).
    sleepers: Atomic<u32>,
    /// Of these, those that are to be woken by others: not less than there are asleep.
    due: Atomic<u32>,
}

// SAFETY: The wait queue has a lock of its own.
unsafe impl Sync for StoreQueue {}
// SAFETY: Nothing in a queue belongs to a thread.
unsafe impl Send for StoreQueue {}

impl StoreQueue {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                unsafe { ffi::loga_init_waitqueue(slot) }
            }),
            sleepers: Atomic::new(0),
            due: Atomic::new(0),
        })
    }

    /// How many threads wait. Any context.
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers.load(Relaxed)
    }

    /// Wakes threads; the flag has been cleared. Any context.
    pub(crate) fn wake(&self, whom: Whom) {
        match whom {
            Whom::One => self.wake_some(1),
            Whom::All => {
                // Ordered: whoever is not counted here sees that the flag has been cleared.
                let sleepers = self.sleepers.fetch_add(0, Full);
                self.due.store(sleepers, Relaxed);
                self.wake_some(AT_A_TIME);
            }
        }
    }

    /// Sleeps while `flag` is not 0, until [`wake`](Self::wake) chooses this thread, at most so
    /// long: 0, `-ETIME`, or else a signal is pending. No lock may be held.
    pub(crate) fn wait(&self, flag: &Atomic<u32>, most: Ns) -> c_int {
        self.sleepers.fetch_add(1, Full);
        // SAFETY: Queue and flag live as long as the borrows; `Atomic<u32>` has the layout of `u32`.
        let result = unsafe {
            ffi::loga_store_wait(
                self.queue.get(),
                core::ptr::from_ref(flag).cast(),
                most.get(),
            )
        };
        // Minus one: the addition wraps.
        self.sleepers.fetch_add(u32::MAX, Relaxed);
        self.wake_next();
        result
    }

    /// Wakes one thread, if more are to be woken. Each that goes on does so, whatever it was woken by:
    /// a wake-up is lost with nobody.
    fn wake_next(&self) {
        let mut due = self.due.load(Relaxed);
        // TIMEOUT: each pass but the last, others have changed it.
        while let Some(left) = due.checked_sub(1) {
            match self.due.cmpxchg(due, left, Full) {
                Ok(_) => return self.wake_some(1),
                Err(other) => due = other,
            }
        }
    }

    /// Wakes so many threads at most.
    fn wake_some(&self, count: c_int) {
        // SAFETY: The queue was initialised in `new`.
        unsafe { ffi::loga_wake_some(self.queue.get(), count) };
    }
}
