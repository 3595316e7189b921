// SPDX-License-Identifier: GPL-2.0

//! [glue] Calls inside LoGA's functions: their number, and the state they use.

use super::operations::Members;
use super::tracker::Tracker;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::Arc;

/// Calls inside a wrapper.
static IN_FLIGHT: Atomic<i64> = Atomic::new(0);

/// State that the wrappers use: set before the first member is replaced, cleared after the last
/// call has returned.
static CURRENT: Atomic<usize> = Atomic::new(0);

/// Proof that the current call is counted as inside a wrapper.
pub(super) struct InWrapper(());

impl InWrapper {
    pub(super) fn enter() -> Self {
        IN_FLIGHT.fetch_add(1, Full);
        Self(())
    }

    /// The tracker and the driver's own members.
    pub(crate) fn current(&self) -> (&Tracker, &Members) {
        let attachment = CURRENT.load(Acquire) as *const Current;
        // SAFETY: A wrapper is only reached while attached, `CURRENT` was set before, and
        // `hook::detach` does not free it before the count that `self` stands for has dropped.
        let current = unsafe { &*attachment };
        (&current.tracker, &current.members)
    }
}

impl Drop for InWrapper {
    fn drop(&mut self) {
        IN_FLIGHT.fetch_sub(1, Full);
    }
}

/// State that the wrappers use.
pub(super) struct Current {
    tracker: Arc<Tracker>,
    members: Members,
}

impl Current {
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(tracker: Arc<Tracker>, members: Members) -> Result<KBox<Self>> {
        Ok(KBox::new(Self { tracker, members }, GFP_KERNEL)?)
    }
}

/// Sets the state of the wrappers. Called before the first of them can be reached.
pub(super) fn use_current(current: KBox<Current>) {
    // CAST: a pointer, kept as a number to be atomic.
    CURRENT.store(KBox::into_raw(current) as usize, Release);
}

/// Calls inside a wrapper.
pub(super) fn count() -> i64 {
    IN_FLIGHT.load(Relaxed)
}

/// Frees the state of the wrappers. None can be running or start.
pub(super) fn forget_current() {
    let current = CURRENT.xchg(0, Full) as *mut Current;
    if !current.is_null() {
        // SAFETY: From `KBox::into_raw` in `use_current`; the caller has waited for the wrappers.
        drop(unsafe { KBox::from_raw(current) });
    }
}
