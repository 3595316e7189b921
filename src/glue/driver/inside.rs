// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Calls inside LoGA's functions: their number, and the state they use.
//!
//! An ioctl may stay in the driver as long as its caller likes, by an argument whose page does not
//! arrive. It does not use the state meanwhile: detaching does not wait for it, and unloading is
//! refused at once, as the module is in use.

use super::operations::Members;
use super::tracker::Tracker;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

/// Calls inside a wrapper: they return to code of this module.
static IN_FLIGHT: Atomic<i64> = Atomic::new(0);
/// Those of them that use the state of the wrappers.
static USERS: Atomic<i64> = Atomic::new(0);

/// State that the wrappers use: set before the first member is replaced, cleared after the last
/// call that was made through a replaced member has read it.
static CURRENT: Atomic<usize> = Atomic::new(0);

/// Proof that the current call is counted as inside a wrapper.
pub(super) struct InModule(());

impl InModule {
    pub(super) fn enter() -> Self {
        IN_FLIGHT.fetch_add(1, Full);
        Self(())
    }
}

impl Drop for InModule {
    fn drop(&mut self) {
        IN_FLIGHT.fetch_add(-1, Full);
    }
}

/// A call that may stay in the driver as long as its caller likes.
pub(super) struct Pinned {
    /// The module was being unloaded already: that waits for this call.
    is_late: bool,
    /// Dropped last: the call returns to code of the module after the reference is given back.
    _module: InModule,
}

impl Pinned {
    pub(super) fn enter() -> Self {
        let module = InModule::enter();
        // SAFETY: The call was counted, so that the module's code is there.
        let pinned = unsafe { bindings::try_module_get(crate::this_module()) };
        Self {
            is_late: !pinned,
            _module: module,
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.is_late {
            // SAFETY: The reference from `enter`. Unloading that begins now waits for `_module`.
            unsafe { bindings::module_put(crate::this_module()) };
        }
    }
}

/// Proof that the current call is also counted as one that uses the state.
pub(super) struct InWrapper(InModule);

impl InWrapper {
    pub(super) fn enter() -> Self {
        let module = InModule::enter();
        USERS.fetch_add(1, Full);
        Self(module)
    }

    /// The tracker and the driver's own members, in a call through a replaced member that has used
    /// the state since it began.
    pub(crate) fn current(&self) -> (&Tracker, &Members) {
        let attachment = CURRENT.load(Acquire) as *const Current;
        // SAFETY: A wrapper is only reached while attached, `CURRENT` was set before, and
        // `leaving` does not clear it before the count that `self` stands for has dropped.
        let current = unsafe { &*attachment };
        (&current.tracker, &current.members)
    }

    /// The tracker in a call that has used the state before and has come back from the driver;
    /// none if LoGA was detached meanwhile.
    pub(crate) fn tracker(&self) -> Option<&Tracker> {
        let attachment = CURRENT.load(Acquire) as *const Current;
        // SAFETY: Null, or not freed before the count that `self` stands for has dropped: see
        // `forget_current`.
        let current = unsafe { attachment.as_ref() }?;
        Some(&current.tracker)
    }
}

impl Drop for InWrapper {
    fn drop(&mut self) {
        USERS.fetch_add(-1, Full);
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

/// Those of them that use the state.
pub(super) fn users() -> i64 {
    USERS.load(Relaxed)
}

/// Frees the state of the wrappers. None can be running or start, but for calls that come back from
/// the driver. Sleeps.
pub(super) fn forget_current() {
    let current = CURRENT.xchg(0, Full) as *mut Current;
    // TIMEOUT: none is needed: they note what they did, and wait for no user.
    while USERS.load(Acquire) != 0 {
        fsleep(Delta::from_millis(1));
    }
    if !current.is_null() {
        // SAFETY: From `KBox::into_raw` in `use_current`; the caller has waited for the wrappers.
        // Calls that come back now find null: they count themselves before they read it, and it
        // was cleared before they were counted here.
        drop(unsafe { KBox::from_raw(current) });
    }
}
