// SPDX-License-Identifier: GPL-2.0

//! Module parameters; `shim.c` declares them.

use crate::gpu::chip::ChipIdentity;
use crate::gpu::Timing;
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;

// SAFETY: `shim.c` defines these as aligned unsigned ints that live as long as the module; the
// kernel writes them whole.
unsafe extern "C" {
    safe static loga_model_switch_us: AtomicU32;
    safe static loga_model_timeslice_us: AtomicU32;
    safe static loga_model_doorbell_us: AtomicU32;
    safe static loga_model_snoop_us: AtomicU32;
    safe static loga_model_branch: AtomicU32;
    safe static loga_model_log_entries: AtomicU32;
    safe static loga_model_nodes: AtomicU32;
    safe static loga_model_gpus: AtomicU32;
    safe static loga_model_device: AtomicU32;
    safe static loga_model_boot_0: AtomicU32;
    safe static loga_model_boot_42: AtomicU32;
    safe static loga_model_fail_open: AtomicU32;
    safe static loga_model_fail_ioctl: AtomicU32;
    safe static loga_model_fail_mmap: AtomicU32;
    safe static loga_model_fail_after: AtomicU32;
    safe static loga_model_turing: AtomicU32;
}

/// The value of a parameter.
fn value(parameter: &AtomicU32) -> u32 {
    parameter.load(Ordering::Relaxed)
}

/// Most cards.
pub const GPUS_MAX: usize = 6;
/// Longest time accepted for a parameter, in us.
const US_MAX: u32 = 10_000_000;
/// Bounds of `log_entries`.
const LOG_ENTRIES: core::ops::RangeInclusive<u32> = 1..=4_194_304;

/// The driver branch that is imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// 340: mmap by physical address, no fault handler, the inode's address space.
    B340,
    /// 470: one mapping per file, a fault handler, an address space per file.
    B470,
    /// 550: as 470; a device is only given to files with the driver's own operations.
    B550,
}

impl Branch {
    /// The version string such a driver reports.
    pub fn version(self) -> &'static [u8] {
        match self {
            Branch::B340 => b"340.108",
            Branch::B470 => b"470.256.02",
            Branch::B550 => b"550.163.01",
        }
    }
}

/// Parameters that are fixed at load.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Times of the card.
    pub timing: Timing,
    /// Imitated driver.
    pub branch: Branch,
    /// Intervals kept in the log.
    pub log_entries: u32,
    /// Number of cards.
    pub gpus: usize,
    /// Whether the driver's nodes are registered.
    pub nodes: bool,
    /// PCI device id.
    pub device: u16,
    /// The chip that the cards say they are.
    pub identity: ChipIdentity,
}

impl Params {
    /// Reads and checks the parameters.
    ///
    /// # Errors
    ///
    /// `EINVAL` with a line in the log that names the parameter and its range.
    pub fn read() -> Result<Self> {
        let (switch, slice) = (
            value(&loga_model_switch_us),
            value(&loga_model_timeslice_us),
        );
        let (doorbell, snoop) = (value(&loga_model_doorbell_us), value(&loga_model_snoop_us));
        let entries = value(&loga_model_log_entries);
        let gpus = value(&loga_model_gpus) as usize;
        if switch > US_MAX || slice > US_MAX || doorbell == 0 || doorbell > US_MAX {
            pr_err!("switch_us and timeslice_us must be 0..={US_MAX}, doorbell_us 1..={US_MAX}\n");
            return Err(EINVAL);
        }
        if snoop == 0 || snoop > US_MAX {
            pr_err!("snoop_us must be 1..={US_MAX}\n");
            return Err(EINVAL);
        }
        if !LOG_ENTRIES.contains(&entries) {
            let (least, most) = (LOG_ENTRIES.start(), LOG_ENTRIES.end());
            pr_err!("log_entries must be {least}..={most}\n");
            return Err(EINVAL);
        }
        if !(1..=GPUS_MAX).contains(&gpus) {
            pr_err!("gpus must be 1..={GPUS_MAX}\n");
            return Err(EINVAL);
        }
        let (device, identity) = identity()?;
        let branch = match value(&loga_model_branch) {
            340 => Branch::B340,
            470 => Branch::B470,
            550 => Branch::B550,
            other => {
                pr_err!("branch must be 340, 470 or 550, not {other}\n");
                return Err(EINVAL);
            }
        };
        let ns = |us: u32| u64::from(us) * 1_000;
        let timing = Timing {
            switch_ns: ns(switch),
            timeslice_ns: ns(slice),
            doorbell_ns: ns(doorbell),
            snoop_ns: ns(snoop),
        };
        Ok(Self {
            timing,
            branch,
            log_entries: entries,
            gpus,
            nodes: value(&loga_model_nodes) != 0,
            device,
            identity,
        })
    }
}

/// The PCI device id and what the identifying registers read.
fn identity() -> Result<(u16, ChipIdentity)> {
    let device = value(&loga_model_device);
    let (boot_0, boot_42) = (value(&loga_model_boot_0), value(&loga_model_boot_42));
    let Ok(id) = u16::try_from(device) else {
        pr_err!("device must be a PCI device id, 0 to 0xffff, not {device:#x}\n");
        return Err(EINVAL);
    };
    let known = ChipIdentity::of_device(id);
    if known.is_none() && (boot_0 == 0 || boot_42 == 0) {
        pr_err!("device={id:#x} is not known: give boot_0 and boot_42 too\n");
        return Err(EINVAL);
    }
    let mut identity = known.unwrap_or(ChipIdentity::GK110B);
    if boot_0 != 0 {
        identity.boot_0 = boot_0;
    }
    if boot_42 != 0 {
        identity.boot_42 = boot_42;
    }
    Ok((id, identity))
}

/// Whether a card has the identity of a Turing.
pub fn is_turing(gpu: usize) -> bool {
    let cards = value(&loga_model_turing);
    gpu < GPUS_MAX && cards & 1 << gpu != 0
}

/// How mmap shall fail: 0 not, 1 with ENXIO, 2 with a positive status.
pub fn fail_mmap() -> u32 {
    value(&loga_model_fail_mmap)
}

/// Whether open shall fail.
pub fn fail_open() -> bool {
    value(&loga_model_fail_open) != 0
}

/// The number of the call that shall fail, 0 for none.
pub fn fail_ioctl() -> u32 {
    value(&loga_model_fail_ioctl)
}

/// Whether what shall fail does its work first.
pub fn fail_after() -> bool {
    value(&loga_model_fail_after) != 0
}
