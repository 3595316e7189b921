// SPDX-License-Identifier: GPL-2.0

//! [glue] Whether the registers of a GPU may be read: not while the machine sleeps, or its driver
//! does not have it.

use kernel::sync::atomic::{Acquire, Atomic, Relaxed};

/// Why registers must not be read.
#[derive(Clone, Copy)]
pub(crate) enum Away {
    /// The machine sleeps, or is about to.
    Asleep,
    /// The driver does not have the GPU.
    Unbound,
}

/// 1: the machine sleeps. GPUs that are found meanwhile sleep too.
static ASLEEP: Atomic<u32> = Atomic::new(0);

/// Notes that the machine goes to sleep, or is awake again.
pub(crate) fn note_sleep(sleeps: bool) {
    ASLEEP.store(sleeps.into(), Relaxed);
}

/// Whether the machine sleeps, or is about to.
pub(super) fn machine_sleeps() -> bool {
    ASLEEP.load(Relaxed) != 0
}

/// Whether a GPU is away, and why: 1 for each reason.
pub(super) struct Absence {
    asleep: Atomic<u32>,
    unbound: Atomic<u32>,
}

impl Absence {
    /// That of a GPU that is found now.
    pub(super) fn of_new() -> Self {
        Self {
            asleep: Atomic::new(ASLEEP.load(Relaxed)),
            unbound: Atomic::new(0),
        }
    }

    /// Whether no register may be read.
    pub(super) fn is_away(&self) -> bool {
        self.asleep.load(Acquire) != 0 || self.unbound.load(Acquire) != 0
    }

    /// 1 if it is away for this reason.
    pub(super) fn reason(&self, why: Away) -> &Atomic<u32> {
        match why {
            Away::Asleep => &self.asleep,
            Away::Unbound => &self.unbound,
        }
    }
}
