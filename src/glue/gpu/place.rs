// SPDX-License-Identifier: GPL-2.0

//! [glue] Where the threads of one client sleep until it may store.

use crate::glue::kernel::ffi;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;
use kernel::types::Opaque;

/// Threads that are woken in one go, with interrupts off.
pub(super) const AT_A_TIME: c_int = 32;
/// As often at most: as many threads as a machine can have.
const MOST_TIMES: u32 = 1 << 17;

/// Which threads of a place are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// One: the others wait for the next turn.
    One,
    /// All of them.
    All,
}

/// Where the threads of one client sleep.
#[pin_data]
pub(super) struct Place {
    /// 1: a store has to wait.
    blocked: Atomic<u32>,
    #[pin]
    queue: Opaque<bindings::wait_queue_head_t>,
}

// SAFETY: The wait queue has a lock of its own.
unsafe impl Sync for Place {}
// SAFETY: Nothing in a place belongs to a thread.
unsafe impl Send for Place {}

impl Place {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                blocked: Atomic::new(0),
                queue <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                    unsafe { ffi::loga_init_waitqueue(slot) }
                }),
            }),
            GFP_KERNEL,
        )
    }

    /// Stores have to wait from now on. Any context.
    pub(super) fn block(&self) {
        self.blocked.store(1, Release);
    }

    /// Whether a store has to wait. Any context.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Acquire) != 0
    }

    /// Lets one of its threads try again, or all of them. Any context, without the lock of the turns.
    pub(super) fn unblock(&self, whom: Whom) {
        self.blocked.store(0, Release);
        let (count, times) = match whom {
            Whom::One => (1, 1),
            Whom::All => (AT_A_TIME, MOST_TIMES),
        };
        for _ in 0..times {
            // SAFETY: The queue was initialised in `new`.
            if !unsafe { ffi::loga_wake_some(self.queue.get(), count) } {
                break;
            }
        }
    }

    /// Sleeps until [`unblock`](Self::unblock) chooses this thread, at most `ms`: 0, `-ETIME`, or else a
    /// signal is pending. No lock may be held.
    pub(super) fn wait(&self, ms: u32) -> c_int {
        // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of `u32`.
        unsafe {
            ffi::loga_place_wait(
                self.queue.get(),
                core::ptr::from_ref(&self.blocked).cast(),
                ms,
            )
        }
    }
}
