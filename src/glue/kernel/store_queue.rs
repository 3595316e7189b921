// SPDX-License-Identifier: GPL-2.0

//! [glue] Where threads sleep in a store, until they may try again.

use super::ffi;
use crate::units::Ns;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::Atomic;
use kernel::types::Opaque;

/// Threads that are woken in one go, with interrupts off.
const AT_A_TIME: c_int = 32;
/// As often at most: as many threads as a machine can have.
const MOST_TIMES: u32 = 1 << 17;

/// Threads with timers that end at one moment; those of the next ones end [`APART`] later, up to
/// [`SPREAD`] times. Timers that end together keep a processor busy, and there may be thousands.
const AT_ONCE: u32 = 64;
/// Timers between 0.5 and 4 s are as coarse as this (`kernel/time/timer.c`, with 1000 ticks a second).
const APART: Ns = Ns::from_ms(64);
const SPREAD: u32 = 32;

/// How much longer than its bound a thread waits before which so many wait: 2 s at most.
pub(crate) fn apart(before: u32) -> Ns {
    let steps = before / AT_ONCE % SPREAD;
    APART.saturating_mul(steps.into())
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
        })
    }

    /// Wakes threads; the flag has been cleared. Any context.
    pub(crate) fn wake(&self, whom: Whom) {
        let (count, times) = match whom {
            Whom::One => (1, 1),
            Whom::All => (AT_A_TIME, MOST_TIMES),
        };
        for _ in 0..times {
            // SAFETY: The queue was initialised in `new`.
            let woken = unsafe { ffi::loga_wake_some(self.queue.get(), count) };
            // Those that are left, if any, are awake already.
            if woken < count {
                break;
            }
        }
    }

    /// Sleeps while `flag` is not 0, until [`wake`](Self::wake) chooses this thread, at most `ms`: 0,
    /// `-ETIME`, or else a signal is pending. No lock may be held.
    pub(crate) fn wait(&self, flag: &Atomic<u32>, ms: u32) -> c_int {
        // SAFETY: Queue and flag live as long as the borrows; `Atomic<u32>` has the layout of `u32`.
        unsafe { ffi::loga_store_wait(self.queue.get(), core::ptr::from_ref(flag).cast(), ms) }
    }
}
