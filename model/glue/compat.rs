// SPDX-License-Identifier: GPL-2.0

//! What differs between the kernels that the model is built for. `Kbuild` finds out which it is from
//! the names in the metadata of the kernel crate: `src/glue/kernel/kernels.mk`.

#[cfg(loga_has_spinlock_irq)]
pub(super) use kernel::{
    new_spinlock_irq as new_listeners_lock, sync::SpinLockIrq as ListenersLock,
};
// Where the kernel crate has no lock that turns interrupts off, the raw one is as good without
// PREEMPT_RT, whose locks sleep.
#[cfg(not(loga_has_spinlock_irq))]
pub(super) use super::raw_lock::{
    new_raw_spinlock as new_listeners_lock, RawSpinLock as ListenersLock,
};
