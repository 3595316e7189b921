// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Queues of callers by user: of the processes of one user, one at a time goes on to a lock in
//! whose queue others wait.
//!
//! An `rt_mutex` serves threads of ordinary priority in the order of arrival. A thousand processes
//! that want it would all be before the next one's call; so they wait here, for each other. Users are
//! spread over [`WAYS`] queues, of which user 0 has one alone, so that a crowd of one user is before few
//! others.

use super::ffi;
use super::pi_mutex::{lock_interruptibly, new_pi_mutex, PiGuard, PiMutex};
use kernel::prelude::*;

/// Queues: as many callers at most wait for the lock behind them.
const WAYS: usize = 16;

/// See the module.
#[pin_data]
pub(crate) struct UserQueues {
    #[pin]
    ways: [PiMutex<()>; WAYS],
    /// Spreads users: nobody can tell which ones share a queue.
    seed: u32,
}

impl UserQueues {
    /// Queues in which nobody waits.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ways <- pin_init::pin_init_array_from_fn(|_| new_pi_mutex!(())),
            // CAST: half of it will do.
            seed: ffi::random() as u32,
        })
    }

    fn way(&self) -> &PiMutex<()> {
        // SAFETY: Process context.
        let user = unsafe { ffi::loga_caller_user() };
        let [of_root, others @ ..] = &self.ways;
        if user == 0 {
            return of_root;
        }
        let mixed = (user ^ self.seed).wrapping_mul(0x9e37_79b9);
        // CAST: four bits.
        let way = (mixed >> 28) as usize % others.len();
        others.get(way).unwrap_or(of_root)
    }

    /// Waits until the caller is the first one of its user; the others wait as long as the guard lives.
    /// Nothing is allocated meanwhile, and no lock taken but the one behind these queues. May sleep;
    /// process context.
    pub(crate) fn enter(&self) -> PiGuard<'_, ()> {
        self.way().lock()
    }

    /// As [`UserQueues::enter`], unless a signal comes first.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS`: a signal has come.
    pub(crate) fn enter_interruptibly(&self) -> Result<PiGuard<'_, ()>> {
        lock_interruptibly(self.way())
    }
}
