// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Disabling preemption: for a moment, and for a poll loop that yields now and then.

use super::ffi;
use crate::units::Ns;
use core::marker::PhantomData;

/// The poller has priority over ordinary threads. One that waits for the processor gets it after
/// the poller has run for this long: a client that shares the processor with the poller submits
/// its next commands before those that it has queued are done.
const STRETCH: Ns = Ns::from_us(100);
/// Mean time for which ordinary threads get it: long enough to store a command, short against most
/// commands, since a client on the engine before and after it is charged for it. Each time is
/// random.
const REST: Ns = Ns::from_us(20);

/// While it lives, preemption is disabled and the calling thread must not sleep. On PREEMPT_RT it does
/// nothing: spinlocks sleep there, and mutexes give their holder the priority of those that wait.
pub(crate) struct PreemptGuard(PhantomData<*mut ()>);

impl PreemptGuard {
    /// Process context.
    pub(crate) fn new() -> Self {
        // SAFETY: Process context; `drop` ends it, in the same thread: the type is not `Send`.
        unsafe { ffi::loga_stay() };
        Self(PhantomData)
    }
}

impl Drop for PreemptGuard {
    fn drop(&mut self) {
        // SAFETY: `new` called its counterpart.
        unsafe { ffi::loga_stay_no_more() };
    }
}

/// Disables preemption for the poll loop, except in [`yield_cpu`](Self::yield_cpu): a preempted
/// poller would go on charging the occupant that it saw last.
pub(crate) struct PollGuard {
    /// When ordinary threads last could run.
    since: Ns,
}

impl PollGuard {
    /// Process context; the caller must not sleep until the value is dropped.
    pub(crate) fn new() -> Self {
        // SAFETY: Process context; `drop` ends it.
        unsafe { ffi::loga_preempt_disable() };
        Self { since: ffi::now() }
    }

    /// Whether another thread wants the processor.
    pub(crate) fn should_yield(&self) -> bool {
        // SAFETY: Reads a flag of the calling thread and the run queue of its processor.
        unsafe { ffi::loga_need_resched() || ffi::loga_others_runnable() }
    }

    /// Lets waiting threads run: those of higher priority at once, ordinary ones after
    /// [`STRETCH`].
    pub(crate) fn yield_cpu(&mut self, now: Ns) {
        // SAFETY: Reads the run queue of the processor; preemption is disabled.
        let wait = unsafe { ffi::loga_others_runnable() };
        let rests = wait && now.saturating_sub(self.since) >= STRETCH;
        // SAFETY: `new` disabled preemption; the caller holds only a mutex.
        unsafe { ffi::loga_preempt_enable() };
        if rests {
            // SAFETY: A kernel thread that holds a mutex only; preemption is enabled here.
            unsafe { ffi::loga_thread_sleep_ns(rest().get()) };
        }
        // SAFETY: Process context.
        unsafe { ffi::loga_preempt_disable() };
        if rests || !wait {
            self.since = ffi::now();
        }
    }
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        // SAFETY: `new` disabled preemption; the caller holds only a mutex.
        unsafe { ffi::loga_preempt_enable() };
    }
}

/// A random time from 0.5 to 1.5 times [`REST`].
fn rest() -> Ns {
    let mean = REST.get();
    let beyond = ffi::random().checked_rem(mean).unwrap_or(0);
    Ns::new(beyond.saturating_add(mean / 2))
}
