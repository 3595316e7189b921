// SPDX-License-Identifier: GPL-2.0

//! `[glue]` A mutex whose holder inherits the priority of the threads that wait for it (the kernel's
//! `rt_mutex`).
//!
//! Threads of applications hold locks that the main thread needs. One of the lowest priority that
//! was preempted with such a lock held would stop all decisions until it runs again.

use kernel::bindings;
use kernel::error::{to_result, Result};
use kernel::ffi::{c_char, c_int, c_void};
use kernel::prelude::ERESTARTSYS;
use kernel::sync::lock::{Backend, Guard, Lock};

/// See the module.
pub(crate) type PiMutex<T> = Lock<T, PiBackend>;

/// A [`PiMutex`] that the caller has locked.
pub(crate) type PiGuard<'a, T> = Guard<'a, T, PiBackend>;

/// Makes a [`PiMutex`] with a lock class of its own, as `new_mutex!` does.
macro_rules! new_pi_mutex {
    ($value:expr) => {
        $crate::glue::kernel::pi_mutex::PiMutex::new(
            $value,
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(crate) use new_pi_mutex;

/// Room for a `struct rt_mutex`; the functions in C check that it is enough.
#[repr(C, align(8))]
pub(crate) struct Room([u8; ROOM]);

/// As `LOGA_PI_MUTEX_ROOM` of shim.c: with lock debugging it is large.
const ROOM: usize = 256;

/// The kernel's `rt_mutex`.
pub(crate) struct PiBackend;

extern "C" {
    fn loga_pi_mutex_init(lock: *mut c_void, name: *const c_char, key: *mut c_void);
    fn loga_pi_mutex_lock(lock: *mut c_void);
    fn loga_pi_mutex_lock_interruptible(lock: *mut c_void) -> c_int;
    fn loga_pi_mutex_trylock(lock: *mut c_void) -> bool;
    fn loga_pi_mutex_unlock(lock: *mut c_void);
    fn loga_pi_mutex_assert_held(lock: *mut c_void);
}

// SAFETY: The kernel's `rt_mutex` ensures mutual exclusion.
unsafe impl Backend for PiBackend {
    type State = Room;
    type GuardState = ();

    #[inline]
    unsafe fn init(
        lock: *mut Self::State,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    ) {
        // SAFETY: The caller's promise: `lock` may be written, and name and key live for ever.
        unsafe { loga_pi_mutex_init(lock.cast(), name, key.cast()) };
    }

    #[inline]
    unsafe fn lock(lock: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller's promise: it is initialised.
        unsafe { loga_pi_mutex_lock(lock.cast()) };
    }

    #[inline]
    unsafe fn try_lock(lock: *mut Self::State) -> Option<Self::GuardState> {
        // SAFETY: The caller's promise: it is initialised.
        unsafe { loga_pi_mutex_trylock(lock.cast()) }.then_some(())
    }

    #[inline]
    unsafe fn unlock(lock: *mut Self::State, _: &Self::GuardState) {
        // SAFETY: The caller's promise: it holds the lock.
        unsafe { loga_pi_mutex_unlock(lock.cast()) };
    }

    #[inline]
    unsafe fn assert_is_held(lock: *mut Self::State) {
        // SAFETY: The caller's promise: it is initialised.
        unsafe { loga_pi_mutex_assert_held(lock.cast()) };
    }
}

/// Locks it, unless a signal comes first. May sleep.
///
/// # Errors
///
/// `ERESTARTSYS`: a signal has come.
pub(crate) fn lock_interruptibly<T>(lock: &PiMutex<T>) -> Result<PiGuard<'_, T>> {
    let state = core::ptr::from_ref(lock).cast_mut().cast::<c_void>();
    // SAFETY: A `Lock` is `repr(C)` and begins with its state, which has been initialised: it exists.
    to_result(unsafe { loga_pi_mutex_lock_interruptible(state) }).map_err(|_| ERESTARTSYS)?;
    // SAFETY: The lock was just acquired.
    Ok(unsafe { Guard::new(lock, ()) })
}
