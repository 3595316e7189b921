// SPDX-License-Identifier: GPL-2.0

//! A spinlock that spins under PREEMPT_RT too, taken with interrupts off.
//!
//! The card's timer expires in hard interrupt context, where PREEMPT_RT turns the kernel crate's
//! [`SpinLockIrq`](kernel::sync::SpinLockIrq) into a lock that sleeps. While it is held nothing may
//! be woken, allocated or freed: those take locks that may sleep there.

use kernel::bindings;
use kernel::ffi::{c_char, c_ulong};
use kernel::sync::lock::{Backend, Lock};

#[allow(improper_ctypes)]
extern "C" {
    fn loga_model_raw_lock_init(
        lock: *mut bindings::raw_spinlock_t,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    );
    fn loga_model_raw_lock(lock: *mut bindings::raw_spinlock_t) -> c_ulong;
    fn loga_model_raw_trylock(lock: *mut bindings::raw_spinlock_t, flags: *mut c_ulong) -> bool;
    fn loga_model_raw_unlock(lock: *mut bindings::raw_spinlock_t, flags: c_ulong);
    fn loga_model_raw_assert_held(lock: *mut bindings::raw_spinlock_t);
}

/// A `raw_spinlock_t` taken by `raw_spin_lock_irqsave`.
pub struct RawIrqBackend;

/// Data behind a raw spinlock; create one with `new_raw_spinlock!`.
pub type RawSpinLock<T> = Lock<T, RawIrqBackend>;

// SAFETY: A raw spinlock admits one owner at a time, and `relock` is the default one.
unsafe impl Backend for RawIrqBackend {
    type State = bindings::raw_spinlock_t;
    type GuardState = c_ulong;

    unsafe fn init(ptr: *mut Self::State, name: *const c_char, key: *mut bindings::lock_class_key) {
        // SAFETY: The caller passes memory of a lock, and a name and key that live for ever.
        unsafe { loga_model_raw_lock_init(ptr, name, key) }
    }

    unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
        // SAFETY: The caller passes an initialised lock.
        unsafe { loga_model_raw_lock(ptr) }
    }

    unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
        let mut flags = 0;
        // SAFETY: The caller passes an initialised lock; `flags` is a local variable.
        unsafe { loga_model_raw_trylock(ptr, &raw mut flags) }.then_some(flags)
    }

    unsafe fn unlock(ptr: *mut Self::State, guard_state: &Self::GuardState) {
        // SAFETY: The caller holds the lock, and took it with these flags.
        unsafe { loga_model_raw_unlock(ptr, *guard_state) }
    }

    unsafe fn assert_is_held(ptr: *mut Self::State) {
        // SAFETY: The caller passes an initialised lock.
        unsafe { loga_model_raw_assert_held(ptr) }
    }
}

/// Creates a [`RawSpinLock`] with a name and a lock class of its own.
macro_rules! new_raw_spinlock {
    ($inner:expr, $name:literal) => {
        $crate::glue::raw_lock::RawSpinLock::new(
            $inner,
            ::kernel::optional_name!($name),
            ::kernel::static_lock_class!(),
        )
    };
}
pub(super) use new_raw_spinlock;
