// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Whether the registers of a GPU may be read: not while the machine sleeps, nor while the
//! GPU is not bound to its driver.

use kernel::sync::atomic::{Acquire, Atomic, Relaxed};

/// Why registers must not be read.
#[derive(Clone, Copy)]
pub(crate) enum Away {
    /// The machine sleeps, or is about to.
    Asleep,
    /// The GPU is not bound to the driver.
    Unbound,
}

/// 1: the machine sleeps. A GPU found in this state starts as asleep.
static ASLEEP: Atomic<u32> = Atomic::new(0);

/// Records that the machine goes to sleep, or has woken up.
pub(crate) fn note_sleep(sleeps: bool) {
    ASLEEP.store(sleeps.into(), Relaxed);
}

/// Whether the machine sleeps, or is about to.
pub(crate) fn machine_sleeps() -> bool {
    ASLEEP.load(Relaxed) != 0
}

/// Whether a GPU is away, and why. A field is 1 while its reason applies.
pub(in crate::glue::gpu) struct Absence {
    asleep: Atomic<u32>,
    unbound: Atomic<u32>,
}

impl Absence {
    /// The state of a GPU that was just found.
    pub(in crate::glue::gpu) fn of_new() -> Self {
        Self {
            asleep: Atomic::new(ASLEEP.load(Relaxed)),
            unbound: Atomic::new(0),
        }
    }

    /// Whether no register may be read.
    pub(crate) fn is_away(&self) -> bool {
        self.asleep.load(Acquire) != 0 || self.unbound.load(Acquire) != 0
    }

    /// The flag of this reason: 1 while it applies.
    pub(in crate::glue::gpu) fn reason(&self, why: Away) -> &Atomic<u32> {
        match why {
            Away::Asleep => &self.asleep,
            Away::Unbound => &self.unbound,
        }
    }
}
