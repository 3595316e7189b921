// SPDX-License-Identifier: GPL-2.0

//! [glue] Kernel threads: one that sleeps until it is woken, a time comes, or it is
//! told to stop. The kernel crate has no abstraction for them yet.
//!
//! All of them go before ordinary threads (SCHED_FIFO, lowest priority): any user could delay
//! decisions and observation otherwise, with many threads that never sleep.

use super::ffi;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Release};
use kernel::sync::Arc;

/// What a thread runs.
pub(crate) trait Work: Send + Sync {
    /// Runs until [`should_stop`]. Called once, in the thread.
    fn run(self: Arc<Self>, bell: &Bell);
}

/// Rings a thread, from any context, for as long as this lives. The thread may have ended.
///
/// # Invariants
///
/// A reference on `task` is held.
pub(crate) struct Ringer {
    task: NonNull<bindings::task_struct>,
    bell: Arc<Bell>,
}

// SAFETY: A task may be woken, and a reference on it dropped, from any thread.
unsafe impl Send for Ringer {}

impl Ringer {
    /// As [`Thread::ring`].
    pub(crate) fn ring(&self) {
        self.bell.rung.store(1, Release);
        // SAFETY: By the invariant.
        unsafe { bindings::wake_up_process(self.task.as_ptr()) };
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        // SAFETY: The reference of the invariant.
        unsafe { bindings::put_task_struct(self.task.as_ptr()) };
    }
}

/// How a thread is woken.
pub(crate) struct Bell {
    rung: Atomic<u32>,
}

impl Bell {
    const fn new() -> Self {
        Self {
            rung: Atomic::new(0),
        }
    }

    /// Sleeps until the bell was rung, the thread shall stop, or `deadline_ns` (monotonic)
    /// has passed. True if it was rung. The thread's own context only.
    pub(crate) fn wait_until(&self, deadline_ns: u64) -> bool {
        // SAFETY: `rung` outlives the call, and `Atomic<u32>` has the layout of `u32`.
        unsafe { ffi::loga_thread_sleep(core::ptr::from_ref(&self.rung).cast(), deadline_ns) };
        self.rung.xchg(0, Full) != 0
    }
}

/// True once the owner wants the calling thread to end.
pub(crate) fn should_stop() -> bool {
    // SAFETY: Only called inside `Work::run`, hence in a kernel thread.
    unsafe { bindings::kthread_should_stop() }
}

struct Start<W> {
    work: Arc<W>,
    bell: Arc<Bell>,
}

/// A running kernel thread. Dropping it stops it and waits until it has ended; may sleep.
///
/// # Invariants
///
/// `task` is a kernel thread that runs until `kthread_stop` and on which a reference is held.
/// `start` is what it was given, which it takes when it runs first, and `drop_start` frees.
pub(crate) struct Thread {
    task: NonNull<bindings::task_struct>,
    bell: Arc<Bell>,
    cpu: Option<u32>,
    start: *mut c_void,
    drop_start: unsafe fn(*mut c_void),
}

// SAFETY: A task may be woken and stopped from any thread.
unsafe impl Send for Thread {}
// SAFETY: `ring` only calls functions that may run concurrently.
unsafe impl Sync for Thread {}

impl Thread {
    /// Starts a thread that runs `work`, bound to `cpu` if given. `%u` in `name` stands for
    /// `number`; nothing else may be in it that a format would replace.
    ///
    /// # Errors
    ///
    /// Those of `kthread_create`; `ENOMEM`.
    pub(crate) fn spawn<W: Work + 'static>(
        name: &CStr,
        number: u32,
        work: Arc<W>,
        cpu: Option<u32>,
    ) -> Result<Self> {
        let bell = Arc::new(Bell::new(), GFP_KERNEL)?;
        let start = KBox::new(
            Start {
                work,
                bell: bell.clone(),
            },
            GFP_KERNEL,
        )?;
        let data = KBox::into_raw(start);
        // SAFETY: `entry::<W>` takes what `data` points to, and the name is copied.
        let task = from_err_ptr(unsafe {
            bindings::kthread_create_on_node(
                Some(entry::<W>),
                data.cast(),
                bindings::NUMA_NO_NODE,
                name.as_char_ptr(),
                number,
            )
        })
        .inspect_err(|_| {
            // SAFETY: No thread was made, so nobody else took what `data` points to.
            drop(unsafe { KBox::from_raw(data) });
        })?;
        if let Some(cpu) = cpu {
            // SAFETY: The thread has not run yet, and `params` checked that the CPU exists.
            unsafe { bindings::kthread_bind(task, cpu) };
        }
        // SAFETY: The thread exists, and sleeps by itself: see `Processor` for the one that polls.
        unsafe { ffi::loga_thread_urge(task) };
        // SAFETY: The thread exists; the reference keeps the structure until `drop`.
        unsafe { bindings::get_task_struct(task) };
        // SAFETY: The thread exists.
        unsafe { bindings::wake_up_process(task) };
        // INVARIANT: Just created, and `entry` does not return before `kthread_stop`.
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            bell,
            cpu,
            start: data.cast(),
            drop_start: drop_start::<W>,
        })
    }

    /// A processor has come back; the thread goes back there if it is bound to it. When the
    /// processor went, the scheduler moved the thread to another. May sleep.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if self.cpu == Some(cpu) {
            // SAFETY: A reference on the task is held.
            unsafe { ffi::loga_thread_bind_again(self.task.as_ptr(), cpu) };
        }
    }

    /// Another way to ring it, which does not end it.
    pub(crate) fn ringer(&self) -> Ringer {
        // SAFETY: By the invariant a reference is held; this one is for the ringer.
        unsafe { bindings::get_task_struct(self.task.as_ptr()) };
        // INVARIANT: Just taken.
        Ringer {
            task: self.task,
            bell: self.bell.clone(),
        }
    }

    /// Wakes the thread; [`Bell::wait_until`] then returns true. Any context.
    pub(crate) fn ring(&self) {
        self.bell.rung.store(1, Release);
        // SAFETY: A reference on the task is held.
        unsafe { bindings::wake_up_process(self.task.as_ptr()) };
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: By the invariant the thread has not been stopped and a reference is held.
        let ended = unsafe { bindings::kthread_stop(self.task.as_ptr()) };
        // The kernel says so of a thread that was stopped before it ran: it does not run then.
        if ended == EINTR.to_errno() {
            // SAFETY: By the invariant the thread has not taken what it was given.
            unsafe { (self.drop_start)(self.start) };
        }
        // SAFETY: The reference taken in `spawn`.
        unsafe { bindings::put_task_struct(self.task.as_ptr()) };
    }
}

/// # Safety
///
/// `data` must be what `spawn` gave up, and nobody else may take it.
unsafe fn drop_start<W>(data: *mut c_void) {
    // SAFETY: The caller's promise.
    drop(unsafe { KBox::from_raw(data.cast::<Start<W>>()) });
}

unsafe extern "C" fn entry<W: Work>(data: *mut c_void) -> c_int {
    // SAFETY: `spawn` passed a `Start<W>` and gave it up.
    let start = unsafe { KBox::from_raw(data.cast::<Start<W>>()) };
    let Start { work, bell } = KBox::into_inner(start);
    work.run(&bell);
    // A thread that `kthread_stop` may still be called on must not end by itself.
    while !should_stop() {
        bell.wait_until(u64::MAX);
    }
    0
}
