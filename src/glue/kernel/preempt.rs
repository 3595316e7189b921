// SPDX-License-Identifier: GPL-2.0

//! [glue] Holding the processor: for a moment, and for as long as a poll loop takes.

use super::ffi;
use crate::units::Ns;
use core::marker::PhantomData;

/// The poller goes before ordinary threads. If one of them waits for the processor, it gets it
/// after the poller has had it for so long: a client that shares the processor with the poller
/// submits its next commands before the ones that it has queued are done.
const STRETCH: Ns = Ns::from_us(100);
/// Mean of the times for which others get it: long enough to store a command, short against most
/// commands, since what runs across it is charged. How long one of them is nobody can foresee.
const REST: Ns = Ns::from_us(20);

/// While it lives, the calling thread is not preempted, and nothing that sleeps may be called.
pub(crate) struct PreemptGuard(PhantomData<*mut ()>);

impl PreemptGuard {
    /// Process context.
    pub(crate) fn new() -> Self {
        // SAFETY: Process context; `drop` ends it, in the same thread: the type is not `Send`.
        unsafe { ffi::loga_poll_hold() };
        Self(PhantomData)
    }
}

impl Drop for PreemptGuard {
    fn drop(&mut self) {
        // SAFETY: As `new` has begun it.
        unsafe { ffi::loga_poll_release() };
    }
}

/// The processor, which nobody takes away while this value exists: a poller that stands still
/// would go on charging whom it saw last.
pub(crate) struct Processor {
    /// Since when others have not had it.
    since: Ns,
}

impl Processor {
    /// Process context; nothing that sleeps may be called until the value is dropped.
    pub(crate) fn hold() -> Self {
        // SAFETY: Process context; `drop` ends it.
        unsafe { ffi::loga_poll_hold() };
        Self { since: ffi::now() }
    }

    /// Does another thread want it?
    pub(crate) fn is_wanted(&self) -> bool {
        // SAFETY: Reads a flag of the calling thread, and looks at the queue of its processor.
        unsafe { ffi::loga_poll_is_wanted_away() || ffi::loga_others_wait() }
    }

    /// Lets others run, if they want to: more urgent ones at once, ordinary ones when it is time.
    pub(crate) fn lend(&mut self, now: Ns) {
        // SAFETY: Looks at the queue of the processor that the caller holds.
        let wait = unsafe { ffi::loga_others_wait() };
        let rests = wait && now.saturating_sub(self.since) >= STRETCH;
        // SAFETY: As `hold` has begun it; only a mutex is held.
        unsafe { ffi::loga_poll_release() };
        if rests {
            // SAFETY: A kernel thread that holds a mutex only, between `release` and `hold`.
            unsafe { ffi::loga_thread_rest(rest().get()) };
        }
        // SAFETY: Process context.
        unsafe { ffi::loga_poll_hold() };
        if rests || !wait {
            self.since = ffi::now();
        }
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        // SAFETY: As `hold` has begun it; only a mutex is held.
        unsafe { ffi::loga_poll_release() };
    }
}

/// From half of [`REST`] to one and a half.
fn rest() -> Ns {
    let mean = REST.get();
    let beyond = ffi::random().checked_rem(mean).unwrap_or(0);
    Ns::new(beyond.saturating_add(mean / 2))
}
