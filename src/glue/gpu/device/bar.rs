// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The GPUs of this machine and their registers, read only.
//!
//! The proprietary driver owns the PCI devices: LoGA neither binds to them nor
//! claims a resource. It maps BAR0 a second time with the same attribute (UC) and
//! only reads.

use super::absence;
use crate::glue::kernel::ffi::{self, MAX_GPUS};
use crate::glue::kernel::refusals::refuse;
use crate::regs::{self, Chip, Mmio, USERD_SLOT};
use core::ops::Range;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::fmt;
use kernel::prelude::*;

/// PCI vendor id of NVIDIA.
const VENDOR_NVIDIA: c_uint = 0x10de;
/// Base class of display controllers, in bits 23:16 of the class code.
const CLASS_DISPLAY: u32 = 0x03;
/// `PCI_ANY_ID` as the lookup functions take it.
const ANY_ID: c_uint = c_uint::MAX;
/// Bytes of BAR0 that LoGA maps: registers of every family it knows.
const BAR0_LEN: u64 = 16 << 20;

/// A physical range of a GPU, mapped.
///
/// # Invariants
///
/// `base` is an `ioremap`ped range of `len` bytes.
pub(crate) struct MappedRange {
    base: NonNull<c_void>,
    len: u32,
    start: u64,
}

// SAFETY: Register reads may come from any CPU.
unsafe impl Send for MappedRange {}
// SAFETY: Reading has no state on the host's side.
unsafe impl Sync for MappedRange {}

impl MappedRange {
    /// Maps a range, which lies in a memory BAR of a device. May sleep.
    ///
    /// # Errors
    ///
    /// `ENXIO` if the range is empty or cannot be mapped.
    fn map(start: u64, len: u32) -> Result<Self> {
        if start == 0 || len == 0 {
            return Err(ENXIO);
        }
        // SAFETY: The caller names a range of a device's memory.
        let base = unsafe { bindings::ioremap(start, len as usize) };
        // INVARIANT: Just mapped.
        let base = NonNull::new(base).ok_or(ENXIO)?;
        Ok(Self { base, len, start })
    }

    /// Maps the submission slots of `channels` channels, which begin at `offset` of BAR1. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// `ENXIO` if they do not lie in BAR1, or cannot be mapped.
    pub(crate) fn map_slots(bar1: &Range<u64>, offset: u64, channels: u16) -> Result<Self> {
        let start = bar1.start.saturating_add(offset);
        let len = USERD_SLOT.saturating_mul(channels.into());
        if start.saturating_add(len.into()) > bar1.end {
            return Err(ENXIO);
        }
        Self::map(start, len)
    }

    /// Whether it begins at `offset` of BAR1.
    pub(crate) fn begins_at(&self, bar1: &Range<u64>, offset: u64) -> bool {
        self.start == bar1.start.saturating_add(offset)
    }
}

impl Mmio for MappedRange {
    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        if offset > self.len.saturating_sub(4) {
            return u32::MAX;
        }
        // SAFETY: By the invariant and the check above the word lies in the mapping.
        unsafe { bindings::readl(self.base.as_ptr().byte_add(offset as usize)) }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // SAFETY: By the invariant; `&mut self` excludes readers.
        unsafe { bindings::iounmap(self.base.as_ptr()) };
    }
}

/// The registers of one GPU, mapped.
///
/// # Invariants
///
/// `device` is a PCI device with a reference.
pub(crate) struct Bar0 {
    window: MappedRange,
    device: NonNull<bindings::pci_dev>,
}

// SAFETY: Only properties of the device that never change are read.
unsafe impl Send for Bar0 {}
// SAFETY: As above.
unsafe impl Sync for Bar0 {}

/// Where a GPU sits on the bus.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) domain: u32,
    pub(crate) bus: u8,
    pub(crate) devfn: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04x}:{:02x}:{:02x}.{:x}",
            self.domain,
            self.bus,
            self.devfn >> 3,
            self.devfn & 7
        )
    }
}

/// A GPU that was found on the bus.
pub(crate) struct Found {
    pub(crate) bar0: Bar0,
    /// Physical range of BAR1, through which submission registers are mapped (Fermi to Pascal).
    pub(in crate::glue::gpu) bar1: Range<u64>,
    pub(crate) address: Address,
    /// N of its `/dev/nvidiaN`, if the driver reported it.
    pub(crate) minor: Option<u32>,
    /// The chip by its own registers; they are not read while the machine sleeps.
    pub(crate) chip: Result<Chip, regs::Error>,
}

impl Bar0 {
    /// Physical address.
    pub(crate) fn start(&self) -> u64 {
        self.window.start
    }

    /// Whether these are the registers of this device.
    pub(crate) fn is_of(&self, device: *const bindings::pci_dev) -> bool {
        core::ptr::eq(self.device.as_ptr(), device)
    }

    /// Whether the device is bound to a driver of this module and BAR0 is at the address where it
    /// was found: LoGA may read its registers then. May sleep. Checked with the device locked, as
    /// for binding; the notifiers report later changes.
    pub(crate) fn is_bound_to(&self, owner: *const bindings::module) -> bool {
        let device = Locked::new(self.device);
        // SAFETY: The device is there, and locked.
        let start = unsafe { bindings::pci_resource_start(self.device.as_ptr(), 0) };
        start == self.window.start && device.is_driven_by(owner)
    }

    /// Maps the registers of a device. Takes over a reference on it.
    fn map(device: NonNull<bindings::pci_dev>) -> Result<Self> {
        // SAFETY: The device is there: a reference is held.
        let (start, len) = unsafe {
            (
                bindings::pci_resource_start(device.as_ptr(), 0),
                bindings::pci_resource_len(device.as_ptr(), 0),
            )
        };
        // CAST: cut to 16 MiB.
        match MappedRange::map(start, len.min(BAR0_LEN) as u32) {
            // INVARIANT: The caller passed on its reference.
            Ok(window) => Ok(Self { window, device }),
            Err(error) => {
                // SAFETY: The reference that the caller passed on.
                unsafe { bindings::pci_dev_put(device.as_ptr()) };
                Err(error)
            }
        }
    }
}

/// A locked device: no driver is bound to it or unbound from it while this lives.
struct Locked(NonNull<bindings::pci_dev>);

impl Locked {
    /// Locks a device; the caller holds a reference on it. May sleep.
    fn new(device: NonNull<bindings::pci_dev>) -> Self {
        // SAFETY: The device is there.
        unsafe { ffi::loga_device_lock(device.as_ptr()) };
        Self(device)
    }

    fn is_driven_by(&self, owner: *const bindings::module) -> bool {
        // SAFETY: The device is there, and locked.
        !owner.is_null() && core::ptr::eq(unsafe { ffi::loga_driver_of(self.0.as_ptr()) }, owner)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: Locked by `new`.
        unsafe { ffi::loga_device_unlock(self.0.as_ptr()) };
    }
}

impl Mmio for Bar0 {
    #[inline]
    fn read32(&self, offset: u32) -> u32 {
        self.window.read32(offset)
    }
}

impl Drop for Bar0 {
    fn drop(&mut self) {
        // SAFETY: By the invariant. The mapping needs no device.
        unsafe { bindings::pci_dev_put(self.device.as_ptr()) };
    }
}

/// All GPUs that are bound to a driver of this module, in bus order, but those that are known. LoGA
/// does not touch others: their registers may belong to a guest, or not answer. May sleep.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn find_gpus(
    owner: *const bindings::module,
    is_known: impl Fn(*const bindings::pci_dev) -> bool,
) -> Result<KVec<Found>> {
    let mut found = KVec::new();
    let mut previous = core::ptr::null_mut();
    // TIMEOUT: bounded by the devices on the bus.
    loop {
        // SAFETY: `previous` is null or a device with a reference, which the call takes over.
        let device = unsafe { bindings::pci_get_device(VENDOR_NVIDIA, ANY_ID, previous) };
        previous = device;
        let Some(device) = NonNull::new(device) else {
            return Ok(found);
        };
        // SAFETY: The call returned a device with a reference.
        let class = unsafe { (*device.as_ptr()).class };
        let is_gpu = class >> 16 == CLASS_DISPLAY;
        if !is_gpu || is_known(device.as_ptr()) || found.len() >= MAX_GPUS {
            continue;
        }
        let locked = Locked::new(device);
        if !locked.is_driven_by(owner) {
            continue;
        }
        // SAFETY: The device has a reference; a second one is for `Bar0`.
        unsafe { bindings::pci_dev_get(device.as_ptr()) };
        let Ok(bar0) = Bar0::map(device) else {
            refuse(fmt!(
                "{}: not followed: its registers cannot be mapped",
                address_of(device)
            ));
            continue;
        };
        let gpu = describe(bar0);
        drop(locked);
        if let Err(error) = found.push(gpu, GFP_KERNEL) {
            // SAFETY: The reference that the next lookup would have taken over.
            unsafe { bindings::pci_dev_put(device.as_ptr()) };
            return Err(error.into());
        }
    }
}

/// Bus address of a device; the caller holds a reference on it.
fn address_of(device: NonNull<bindings::pci_dev>) -> Address {
    let device = device.as_ptr();
    // SAFETY: The device is there; a device on a bus has a bus.
    let (bus, devfn) = unsafe { ((*device).bus, (*device).devfn) };
    // SAFETY: As above.
    let (domain, number) = unsafe { (ffi::loga_pci_domain(device), (*bus).number) };
    Address {
        domain,
        bus: number,
        // CAST: device and function are 8 bits.
        devfn: devfn as u8,
    }
}

/// Describes a device, which the caller has locked and found bound to its driver.
///
/// BAR1 is resource 1: BAR0 is a 32-bit one on every board (facts of the driver's own code).
fn describe(bar0: Bar0) -> Found {
    let device = bar0.device.as_ptr();
    // SAFETY: By the invariant of `Bar0` the device is there.
    let (start, len) = unsafe {
        (
            bindings::pci_resource_start(device, 1),
            bindings::pci_resource_len(device, 1),
        )
    };
    let address = address_of(bar0.device);
    let chip = match absence::machine_sleeps() {
        true => Err(regs::Error::DeviceGone),
        false => regs::detect(&bar0).and_then(Chip::followed),
    };
    Found {
        bar0,
        bar1: start..start.saturating_add(len),
        address,
        minor: None,
        chip,
    }
}
