// SPDX-License-Identifier: GPL-2.0

//! A PCI root bus with one device for each card, 10de:100c by default. BARs are reserved memory.
//!
//! The kernel is booted with `memmap=SIZE$0x20000000`, so that the range is no ordinary memory: 128M
//! for one card, 64M more for each further one.
//! BARs in memory have no side effects: a register is a word that the model updates.

use super::board::Apertures;
pub use super::params::GPUS_MAX;
use kernel::bindings;
use kernel::ffi::{c_int, c_uint};
use kernel::prelude::*;

extern "C" {
    fn loga_model_bind() -> c_int;
    fn loga_model_unbind();
    fn loga_model_minor_of(card: c_uint) -> c_int;
}

/// The PCI driver, bound to the cards while this lives.
pub struct Driver(());

impl Driver {
    /// Binds it to the cards. May sleep.
    pub fn new() -> Result<Self> {
        // SAFETY: Called once, when the cards are there; `drop` takes it back.
        kernel::error::to_result(unsafe { loga_model_bind() })?;
        Ok(Self(()))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`.
        unsafe { loga_model_unbind() };
    }
}

/// N of a card's `/dev/nvidiaN`, if the driver is bound to it.
pub fn minor_of(card: usize) -> Option<u32> {
    // SAFETY: Any context. CAST: at most GPUS_MAX cards.
    u32::try_from(unsafe { loga_model_minor_of(card as c_uint) }).ok()
}

/// The card with this minor.
pub fn card_with(minor: u32) -> Option<usize> {
    (0..GPUS_MAX).find(|card| minor_of(*card) == Some(minor))
}

/// First byte of the reserved range.
const WINDOW: u64 = 0x2000_0000;
/// Bytes of the reserved range that the first card takes.
const FIRST_SIZE: u64 = 128 << 20;
/// Bytes that each further card takes.
const NEXT_SIZE: u64 = 64 << 20;
/// PCI domain of the bus; domain 0 belongs to the machine.
pub const DOMAIN: u32 = 1;
/// Vendor id.
pub const VENDOR: u16 = 0x10de;

/// A base address register: its offset in the configuration space, address, size, type bits.
struct Bar {
    offset: usize,
    address: u64,
    size: u64,
    kind: u32,
}

/// 64-bit prefetchable memory. Source: `include/uapi/linux/pci_regs.h`.
const MEM64_PREFETCH: u32 = 0xc;

/// BAR0 registers, BAR1 framebuffer and USERD, BAR3 instance memory: for the first card as large
/// as on the real one, for the others with a BAR1 that holds little more than USERD.
const fn bars(gpu: usize) -> [Bar; 3] {
    // CAST: at most GPUS_MAX.
    let (base, bar1, bar1_size) = match gpu as u64 {
        0 => (WINDOW, 64 << 20, 64 << 20),
        next => (
            WINDOW + FIRST_SIZE + (next - 1) * NEXT_SIZE,
            16 << 20,
            4 << 20,
        ),
    };
    [
        Bar {
            offset: 0x10,
            address: base,
            size: 16 << 20,
            kind: 0,
        },
        Bar {
            offset: 0x14,
            address: base + bar1,
            size: bar1_size,
            kind: MEM64_PREFETCH,
        },
        Bar {
            offset: 0x1c,
            address: base + (32 << 20),
            size: 32 << 20,
            kind: MEM64_PREFETCH,
        },
    ]
}

/// Where a card's apertures lie. USERD lies where the proprietary driver puts it: below the top of
/// BAR1, downward.
pub const fn apertures(gpu: usize) -> Apertures {
    let [bar0, bar1, bar3] = bars(gpu);
    Apertures {
        bar0: bar0.address,
        bar0_size: bar0.size,
        bar1: bar1.address,
        bar1_size: bar1.size,
        userd: bar1.size - 0xa_0000 - 4096 * crate::rm::submit::USERD_SLOT,
        bar3: bar3.address,
        bar3_size: bar3.size,
    }
}

/// Bytes of the reserved range that this many cards take.
const fn window_size(gpus: usize) -> u64 {
    // CAST: at most GPUS_MAX.
    FIRST_SIZE + (gpus as u64).saturating_sub(1) * NEXT_SIZE
}

/// Bytes of the configuration space.
const CONFIG_SIZE: usize = 4096;

/// The bus and what the PCI core needs to keep.
struct Root {
    bus: *mut bindings::pci_bus,
    sysdata: bindings::pci_sysdata,
    window: bindings::resource,
    numbers: bindings::resource,
    ops: bindings::pci_ops,
    configs: KVec<[u8; CONFIG_SIZE]>,
}

/// The devices on their bus; dropping it removes all.
pub struct Cards {
    root: KBox<Root>,
}

// SAFETY: The pointers in it belong to the PCI core, which is called from any thread.
unsafe impl Send for Cards {}
// SAFETY: As above; the object has no method that takes a shared reference.
unsafe impl Sync for Cards {}

/// Whether the reserved range is reserved.
///
/// # Errors
///
/// `EBUSY` with a line in the log when it is ordinary memory.
pub fn check_window(gpus: usize) -> Result {
    // SAFETY: The function only searches for the range.
    let found = unsafe {
        bindings::region_intersects(
            WINDOW,
            window_size(gpus) as usize,
            bindings::IORESOURCE_SYSTEM_RAM as usize,
            bindings::IORES_DESC_NONE as usize,
        )
    };
    // REGION_DISJOINT is 1 in `include/linux/mm.h`; everything else shares bytes with memory.
    if found != 1 {
        let mib = window_size(gpus) >> 20;
        pr_err!("0x20000000 is ordinary memory; boot with memmap={mib}M$0x20000000\n");
        return Err(EBUSY);
    }
    Ok(())
}

impl Cards {
    /// Creates bus and devices. May sleep.
    pub fn new(gpus: usize, device: u16) -> Result<Self> {
        let mut configs = KVec::with_capacity(gpus, GFP_KERNEL)?;
        for gpu in 0..gpus {
            configs.push([0; CONFIG_SIZE], GFP_KERNEL)?;
            fill_config(&mut configs[gpu], device, &bars(gpu));
        }
        let mut root = KBox::new(
            Root {
                bus: core::ptr::null_mut(),
                sysdata: bindings::pci_sysdata {
                    domain: DOMAIN as c_int,
                    node: bindings::NUMA_NO_NODE,
                    ..Default::default()
                },
                window: bindings::resource {
                    start: WINDOW,
                    end: WINDOW + window_size(gpus) - 1,
                    name: c"LoGA model".as_char_ptr(),
                    flags: bindings::IORESOURCE_MEM as usize,
                    ..Default::default()
                },
                numbers: bindings::resource {
                    start: 0,
                    end: 0,
                    name: c"LoGA model bus".as_char_ptr(),
                    flags: bindings::IORESOURCE_BUS as usize,
                    ..Default::default()
                },
                ops: bindings::pci_ops {
                    read: Some(config_read),
                    write: Some(config_write),
                    ..Default::default()
                },
                configs,
            },
            GFP_KERNEL,
        )?;
        let mut resources = bindings::list_head::default();
        let list = &raw mut resources;
        let at: *mut Root = &mut *root;
        // SAFETY: The list is initialised first; `root` is boxed, so what the PCI core keeps of it stays
        // in place until `drop` has removed the bus. Scanning is done under its lock.
        unsafe {
            (*list).next = list;
            (*list).prev = list;
            bindings::pci_add_resource(list, &raw mut (*at).window);
            bindings::pci_add_resource(list, &raw mut (*at).numbers);
            bindings::pci_lock_rescan_remove();
            let bus = bindings::pci_create_root_bus(
                core::ptr::null_mut(),
                0,
                &raw mut (*at).ops,
                (&raw mut (*at).sysdata).cast(),
                list,
            );
            if !bus.is_null() {
                (*at).bus = bus;
                (*bus).sysdata = (&raw mut (*at).sysdata).cast();
                CONFIGS.store(at, Ordering::Release);
                bindings::pci_scan_child_bus(bus);
                bindings::pci_bus_claim_resources(bus);
                bindings::pci_bus_add_devices(bus);
            } else {
                bindings::pci_free_resource_list(list);
            }
            bindings::pci_unlock_rescan_remove();
        }
        if root.bus.is_null() {
            pr_err!("cannot create the PCI bus {DOMAIN:04x}:00\n");
            return Err(ENODEV);
        }
        Ok(Self { root })
    }
}

impl Drop for Cards {
    fn drop(&mut self) {
        // SAFETY: The bus was created in `new` and is removed once, under the PCI core's lock. The
        // bridge keeps the reference with which `pci_create_root_bus` made it: removing does not
        // give that back, so its device is there until the last line does.
        unsafe {
            let bridge = (*self.root.bus).bridge;
            bindings::pci_lock_rescan_remove();
            bindings::pci_stop_root_bus(self.root.bus);
            bindings::pci_remove_root_bus(self.root.bus);
            bindings::pci_unlock_rescan_remove();
            bindings::put_device(bridge);
        }
        CONFIGS.store(core::ptr::null_mut(), Ordering::Release);
    }
}

use core::sync::atomic::{AtomicPtr, Ordering};

/// The bus, while it exists.
static CONFIGS: AtomicPtr<Root> = AtomicPtr::new(core::ptr::null_mut());

/// Source of the offsets: `include/uapi/linux/pci_regs.h`.
fn fill_config(config: &mut [u8; CONFIG_SIZE], device: u16, bars: &[Bar]) {
    let mut put = |offset: usize, bytes: &[u8]| {
        for (index, byte) in bytes.iter().enumerate() {
            config[offset + index] = *byte;
        }
    };
    put(0x00, &VENDOR.to_le_bytes());
    put(0x02, &device.to_le_bytes());
    put(0x04, &0x0006_u16.to_le_bytes());
    put(0x08, &[0xa1, 0x00, 0x00, 0x03]);
    for bar in bars {
        // CAST: halves of the address.
        put(bar.offset, &((bar.address as u32) | bar.kind).to_le_bytes());
        if bar.kind & 0x4 != 0 {
            put(bar.offset + 4, &((bar.address >> 32) as u32).to_le_bytes());
        }
    }
    put(0x2c, &VENDOR.to_le_bytes());
    put(0x2e, &0x1066_u16.to_le_bytes());
    // Interrupt line 11, pin A.
    put(0x3c, &[11, 1]);
}

/// Index of the card with this device number; every card has one function.
fn card_of(devfn: c_uint) -> usize {
    (devfn >> 3) as usize
}

/// Position of the byte `offset` of a device's configuration space, if the access is valid.
fn config_at(devfn: c_uint, offset: c_int, size: c_int) -> Option<*mut u8> {
    // SAFETY: Null, or the box that `Cards::new` made, which lives as long as the bus.
    let root = unsafe { CONFIGS.load(Ordering::Acquire).as_ref() }?;
    let offset = usize::try_from(offset).ok()?;
    let size = usize::try_from(size).ok()?;
    if devfn & 7 != 0 || size > 4 || offset + size > CONFIG_SIZE {
        return None;
    }
    let config = root.configs.get(card_of(devfn))?;
    Some(config.as_ptr().cast_mut().wrapping_add(offset))
}

unsafe extern "C" fn config_read(
    _bus: *mut bindings::pci_bus,
    devfn: c_uint,
    offset: c_int,
    size: c_int,
    value: *mut u32,
) -> c_int {
    let at = config_at(devfn, offset, size);
    let mut word = !0u32;
    if let Some(at) = at {
        word = 0;
        for index in 0..size as usize {
            // SAFETY: `config_at` checked that `size` bytes lie inside the space; the PCI core
            // serialises accesses.
            let byte = unsafe { at.wrapping_add(index).read() };
            word |= u32::from(byte) << (8 * index);
        }
    }
    // SAFETY: The PCI core passes a valid pointer.
    unsafe { *value = word };
    if at.is_some() {
        0
    } else {
        bindings::PCIBIOS_DEVICE_NOT_FOUND as c_int
    }
}

unsafe extern "C" fn config_write(
    _bus: *mut bindings::pci_bus,
    devfn: c_uint,
    offset: c_int,
    size: c_int,
    value: u32,
) -> c_int {
    let Some(at) = config_at(devfn, offset, size) else {
        return bindings::PCIBIOS_DEVICE_NOT_FOUND as c_int;
    };
    let value = match (offset as usize, size) {
        // The command register and the interrupt line keep what is written.
        (0x04, 2) | (0x3c, 1) => value,
        (register, 4) => {
            let bars = bars(card_of(devfn));
            let bar = bars
                .iter()
                .find(|bar| bar.offset == register || bar.offset + 4 == register);
            match bar {
                Some(bar) if bar.offset == register => (value & !(bar.size as u32 - 1)) | bar.kind,
                // The upper half of a 64-bit register; BAR0 has none.
                Some(bar) if bar.kind & 0x4 != 0 => value,
                _ => return 0,
            }
        }
        _ => return 0,
    };
    for index in 0..size as usize {
        // SAFETY: As in `config_read`.
        unsafe { at.wrapping_add(index).write((value >> (8 * index)) as u8) };
    }
    0
}
