// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Where the threads of one client sleep until it may store.

use crate::glue::kernel::store_queue::{StoreQueue, Whom};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Release};
use kernel::sync::Arc;

/// Where the threads of one client sleep.
#[pin_data]
pub(super) struct WaitQueue {
    /// 1: a store has to wait.
    blocked: Atomic<u32>,
    #[pin]
    queue: StoreQueue,
}

impl WaitQueue {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                blocked: Atomic::new(0),
                queue <- StoreQueue::new(),
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

    /// How many threads sleep. Any context.
    pub(super) fn sleepers(&self) -> u32 {
        self.queue.sleepers()
    }

    /// Lets one of its threads try again, or all of them. Any context, without the lock of the
    /// submissions.
    pub(super) fn unblock(&self, whom: Whom) {
        self.blocked.store(0, Release);
        self.queue.wake(whom);
    }

    /// Sleeps until [`unblock`](Self::unblock) chooses this thread, at most so long: 0, `-ETIME`, or
    /// else a signal is pending. No lock may be held.
    pub(super) fn wait(&self, most: Ns) -> c_int {
        self.queue.wait(&self.blocked, most)
    }
}
