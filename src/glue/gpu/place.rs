// SPDX-License-Identifier: GPL-2.0

//! [glue] Where the threads of one client sleep until it may store.

use crate::glue::kernel::ffi;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Release};
use kernel::sync::Arc;
use kernel::types::Opaque;

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

    /// Lets its threads try again. Any context.
    pub(super) fn unblock(&self) {
        if self.blocked.xchg(0, Full) != 0 {
            // SAFETY: The queue was initialised in `new`.
            unsafe { ffi::loga_wake_all(self.queue.get()) };
        }
    }

    /// Sleeps until [`unblock`](Self::unblock), at most `ms`: 0, `-ETIME`, or else a signal is
    /// pending. No lock may be held.
    pub(super) fn wait(&self, ms: u32) -> c_int {
        // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of `u32`.
        unsafe {
            ffi::loga_gate_wait(
                self.queue.get(),
                core::ptr::from_ref(&self.blocked).cast(),
                ms,
            )
        }
    }
}
