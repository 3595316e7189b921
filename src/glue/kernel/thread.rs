// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Kernel threads that sleep until a wake, a deadline, or the request to stop. The kernel
//! crate has no abstraction for them yet.
//!
//! All of them have priority over ordinary threads (SCHED_FIFO, lowest priority): otherwise any
//! user could delay decisions and polling with many threads that never sleep.

use super::ffi;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::error::from_err_ptr;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Release};
use kernel::sync::Arc;

/// The function of a thread.
pub(crate) trait Work: Send + Sync {
    /// Runs until [`should_stop`]. Called once, by the thread.
    fn run(self: Arc<Self>, flag: &WakeFlag);
}

/// Wakes a thread, from any context. The thread may have ended.
///
/// # Invariants
///
/// This value holds a reference on `task`.
pub(crate) struct Waker {
    task: NonNull<bindings::task_struct>,
    flag: Arc<WakeFlag>,
}

// SAFETY: A task may be woken, and a reference on it dropped, from any thread.
unsafe impl Send for Waker {}

// SAFETY: Several threads may wake a task at the same time.
unsafe impl Sync for Waker {}

impl Waker {
    /// See [`Thread::wake`].
    pub(crate) fn wake(&self) {
        self.flag.woken.store(1, Release);
        // SAFETY: By the invariant.
        unsafe { bindings::wake_up_process(self.task.as_ptr()) };
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // SAFETY: The reference of the invariant.
        unsafe { bindings::put_task_struct(self.task.as_ptr()) };
    }
}

/// The flag by which a thread is woken.
pub(crate) struct WakeFlag {
    woken: Atomic<u32>,
}

impl WakeFlag {
    const fn new() -> Self {
        Self {
            woken: Atomic::new(0),
        }
    }

    /// Sleeps until the thread is woken, is asked to stop, or `deadline_ns` (monotonic) has passed.
    /// True if it was woken. Called by the thread itself only.
    pub(crate) fn wait_until(&self, deadline_ns: u64) -> bool {
        // SAFETY: `woken` outlives the call, and `Atomic<u32>` has the layout of `u32`.
        unsafe { ffi::loga_thread_sleep(core::ptr::from_ref(&self.woken).cast(), deadline_ns) };
        self.woken.xchg(0, Full) != 0
    }
}

/// Whether the calling thread was asked to stop.
pub(crate) fn should_stop() -> bool {
    // SAFETY: Only called inside `Work::run`, hence in a kernel thread.
    unsafe { bindings::kthread_should_stop() }
}

struct Start<W> {
    work: Arc<W>,
    flag: Arc<WakeFlag>,
}

/// A running kernel thread. Dropping it stops it and waits until it has ended; may sleep.
///
/// # Invariants
///
/// `task` is a kernel thread that runs until `kthread_stop`, and this value holds a reference on
/// it. `start` is its argument: the thread takes it when it first runs; else `drop_start` frees it.
pub(crate) struct Thread {
    task: NonNull<bindings::task_struct>,
    flag: Arc<WakeFlag>,
    cpu: Option<u32>,
    start: *mut c_void,
    drop_start: unsafe fn(*mut c_void),
}

// SAFETY: A task may be woken and stopped from any thread.
unsafe impl Send for Thread {}
// SAFETY: `wake` only calls functions that may run concurrently.
unsafe impl Sync for Thread {}

impl Thread {
    /// Starts a thread that runs `work`, bound to `cpu` if given. `%u` in `name` stands for
    /// `number`; `name` must contain no other format specifier.
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
        let flag = Arc::new(WakeFlag::new(), GFP_KERNEL)?;
        let start = KBox::new(
            Start {
                work,
                flag: flag.clone(),
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
            // SAFETY: No thread was made, so `data` is still owned here.
            drop(unsafe { KBox::from_raw(data) });
        })?;
        if let Some(cpu) = cpu {
            // SAFETY: The thread has not run yet, and `params` checked that the CPU exists.
            unsafe { bindings::kthread_bind(task, cpu) };
        }
        // SAFETY: The thread exists and sleeps by itself; the poller yields, see `PollGuard`.
        unsafe { ffi::loga_thread_set_fifo(task) };
        // SAFETY: The thread exists; the reference keeps the structure until `drop`.
        unsafe { bindings::get_task_struct(task) };
        // SAFETY: The thread exists.
        unsafe { bindings::wake_up_process(task) };
        // INVARIANT: Just created, and `entry` does not return before `kthread_stop`.
        Ok(Self {
            task: NonNull::new(task).ok_or(ENOMEM)?,
            flag,
            cpu,
            start: data.cast(),
            drop_start: drop_start::<W>,
        })
    }

    /// Moves the thread back to a processor that is online again, if it is bound to it. When the
    /// processor went offline, the scheduler moved the thread to another. May sleep.
    pub(crate) fn bind_again(&self, cpu: u32) {
        if self.cpu == Some(cpu) {
            // SAFETY: A reference on the task is held.
            unsafe { ffi::loga_thread_bind_again(self.task.as_ptr(), cpu) };
        }
    }

    /// A waker of this thread. Dropping it does not stop the thread.
    pub(crate) fn waker(&self) -> Waker {
        // SAFETY: By the invariant the task exists; this reference is for the waker.
        unsafe { bindings::get_task_struct(self.task.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Waker {
            task: self.task,
            flag: self.flag.clone(),
        }
    }

    /// Wakes the thread; [`WakeFlag::wait_until`] then returns true. Any context.
    pub(crate) fn wake(&self) {
        self.flag.woken.store(1, Release);
        // SAFETY: A reference on the task is held.
        unsafe { bindings::wake_up_process(self.task.as_ptr()) };
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: By the invariant the thread has not been stopped and a reference is held.
        let ended = unsafe { bindings::kthread_stop(self.task.as_ptr()) };
        // The kernel returns EINTR for a thread that was stopped before it ran: it never runs then.
        if ended == EINTR.to_errno() {
            // SAFETY: By the invariant the thread has not taken its argument.
            unsafe { (self.drop_start)(self.start) };
        }
        // SAFETY: The reference taken in `spawn`.
        unsafe { bindings::put_task_struct(self.task.as_ptr()) };
    }
}

/// # Safety
///
/// `data` must be the pointer that `spawn` gave up, with no other owner.
unsafe fn drop_start<W>(data: *mut c_void) {
    // SAFETY: The caller's promise.
    drop(unsafe { KBox::from_raw(data.cast::<Start<W>>()) });
}

unsafe extern "C" fn entry<W: Work>(data: *mut c_void) -> c_int {
    // SAFETY: `spawn` passed a `Start<W>` and gave it up.
    let start = unsafe { KBox::from_raw(data.cast::<Start<W>>()) };
    let Start { work, flag } = KBox::into_inner(start);
    work.run(&flag);
    // A thread that `kthread_stop` may still be called on must not end by itself.
    while !should_stop() {
        flag.wait_until(u64::MAX);
    }
    0
}
