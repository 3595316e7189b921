// SPDX-License-Identifier: GPL-2.0

//! `[glue]` One GPU as the bus knows it: its registers, whether they may be read, and whether it
//! answers.
//!
//! | file | contents |
//! |---|---|
//! | `bar` | the GPUs of this machine and their registers |
//! | `absence` | a GPU that is away: its registers are not read |
//! | `presence` | a GPU that goes away and comes back, or stops answering |

pub(crate) mod absence;
pub(crate) mod bar;
pub(in crate::glue::gpu) mod presence;

use self::absence::{Absence, Away};
use self::bar::{Address, Bar0, Found};
use crate::glue::kernel::print::Line;
use crate::glue::kernel::refusals::refuse;
use crate::regs;
use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Relaxed};

/// Marks an unknown minor.
const NO_MINOR: u32 = u32::MAX;

/// One GPU; readable without a lock.
pub(crate) struct Device {
    /// Index among the GPUs that LoGA follows.
    pub(crate) index: usize,
    pub(crate) bar0: Bar0,
    pub(crate) bar1: Range<u64>,
    pub(crate) address: Address,
    /// 1: the device answered with all ones.
    pub(crate) lost: Atomic<u32>,
    /// Whether registers may be read.
    pub(in crate::glue::gpu) absence: Absence,
    /// N of its `/dev/nvidiaN`, or `NO_MINOR`.
    minor: Atomic<u32>,
    /// Offset of the submission slots in BAR1, plus one, as last read; 0 if never read.
    userd: Atomic<u64>,
}

impl Device {
    /// A GPU that was found on the bus.
    pub(in crate::glue::gpu) fn new(index: usize, found: Found) -> Self {
        Self {
            index,
            bar0: found.bar0,
            bar1: found.bar1,
            address: found.address,
            lost: Atomic::new(0),
            absence: Absence::of_new(),
            minor: Atomic::new(found.minor.unwrap_or(NO_MINOR)),
            userd: Atomic::new(0),
        }
    }

    /// Its index, as events show it.
    pub(crate) fn number(&self) -> u32 {
        // CAST: at most 16 GPUs are followed.
        self.index as u32
    }

    /// N of its `/dev/nvidiaN`, if known.
    pub(crate) fn minor(&self) -> Option<u32> {
        Some(self.minor.load(Relaxed)).filter(|minor| *minor != NO_MINOR)
    }

    /// Stores the minor that the driver reports.
    pub(crate) fn set_minor(&self, minor: Option<u32>) {
        self.minor.store(minor.unwrap_or(NO_MINOR), Relaxed);
    }

    /// Whether no register may be read. The caller holds the lock of the GPU's phase or books, see
    /// `presence`.
    pub(crate) fn is_away(&self) -> bool {
        self.absence.is_away()
    }

    /// Whether it is away for this reason.
    pub(crate) fn is_away_for(&self, why: Away) -> bool {
        self.absence.reason(why).load(Acquire) != 0
    }

    /// Whether LoGA cannot measure: lost or away.
    pub(crate) fn is_blind(&self) -> bool {
        self.is_lost() || self.is_away()
    }

    /// Whether the last answer was all ones.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Acquire) != 0
    }

    /// Offset of the submission slots in BAR1: read from the GPU, or the last value while the GPU is
    /// away or does not answer. The caller has locked the books.
    pub(in crate::glue::gpu) fn userd_base(&self) -> Option<u64> {
        let read = || regs::userd_base(&self.bar0);
        let Some(base) = (!self.is_away()).then(read).flatten() else {
            return self.userd.load(Relaxed).checked_sub(1);
        };
        self.userd.store(base.saturating_add(1), Relaxed);
        Some(base)
    }

    /// Logs in one line which GPU is followed.
    pub(in crate::glue::gpu) fn describe_chip(&self, chip: &regs::Chip) {
        let (index, chipset) = (self.index, chip.chipset.get());
        match self.minor() {
            Some(minor) => pr_info!(
                "{}: gpu {index}, /dev/nvidia{minor}, chip {chipset:#x}\n",
                self.address
            ),
            None => pr_info!("{}: gpu {index}, chip {chipset:#x}\n", self.address),
        }
    }
}

/// Logs in one line that a GPU cannot be followed, and keeps the line. May sleep.
pub(in crate::glue::gpu) fn refuse_chip(address: &Address, cause: &regs::Error) {
    refuse(fmt!("{address}: not followed: {}", Line(cause)));
}

/// Logs it only: for callers that may not sleep.
pub(in crate::glue::gpu) fn log_refused_chip(address: &Address, cause: &regs::Error) {
    pr_err!("{address}: not followed: {}\n", Line(cause));
}
