// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Structures of the resource manager calls, as x86-64 programs pass them.
//!
//! Every structure is written with its padding spelled out and its size asserted. Names in
//! parentheses or capitals in the descriptions are the driver's own.
//!
//! Source: OGKM 515 `nvos.h`, `nv-ioctl.h`, `cl0005.h`, `alloc_channel.h`, with offsets computed on
//! x86-64; 470 `common/inc/nv-ioctl.h` for calls 200 and above.

use core::mem::{offset_of, size_of};

/// Elements of the array that CARD_INFO fills. Source: 470 `common/inc/nv.h`, `NV_MAX_DEVICES`.
pub const CARDS_MAX: usize = 32;

/// Reply of CHECK_VERSION_STR for a recognised version. Source: 470 `common/inc/nv-ioctl.h`.
pub const VERSION_RECOGNIZED: u32 = 1;

/// NVOS00, RM_FREE: frees an object and its children.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Free {
    /// Client.
    pub root: u32,
    /// Parent of the object.
    pub parent: u32,
    /// Object to free.
    pub object: u32,
    /// RM status.
    pub status: u32,
}

/// NVOS02, RM_ALLOC_MEMORY: allocates memory of `limit + 1` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocMemory {
    /// Client.
    pub root: u32,
    /// Device.
    pub parent: u32,
    /// Handle of the new object, chosen by the caller.
    pub handle: u32,
    /// [`super::class::MEMORY_SYSTEM`].
    pub class: u32,
    /// Ignored.
    pub flags: u32,
    /// Padding.
    pub pad0: u32,
    /// Unused for system memory.
    pub address: u64,
    /// Size in bytes minus one.
    pub limit: u64,
    /// RM status.
    pub status: u32,
    /// Padding.
    pub pad1: u32,
}

/// [`AllocMemory`] with a file descriptor, as the user library of 470 sends it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocMemoryFd {
    /// The call.
    pub memory: AllocMemory,
    /// Unused for system memory.
    pub fd: i32,
    /// Padding.
    pub pad: u32,
}

/// NVOS21, RM_ALLOC in its short form.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Alloc {
    /// Client (for a root object: ignored or equal to `handle`).
    pub root: u32,
    /// Parent object.
    pub parent: u32,
    /// Handle of the new object, chosen by the caller.
    pub handle: u32,
    /// Class, see [`super::class`].
    pub class: u32,
    /// User address of the class's parameters, or 0.
    pub params: u64,
    /// RM status.
    pub status: u32,
    /// Padding.
    pub pad: u32,
}

/// NVOS64, RM_ALLOC in its long form: same prefix as [`Alloc`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocLong {
    /// Client.
    pub root: u32,
    /// Parent object.
    pub parent: u32,
    /// Handle of the new object.
    pub handle: u32,
    /// Class.
    pub class: u32,
    /// User address of the class's parameters, or 0.
    pub params: u64,
    /// User address of requested rights; ignored.
    pub rights: u64,
    /// RM status.
    pub status: u32,
    /// Padding.
    pub pad: u32,
}

/// Size of [`AllocLong`] in branches after 515, where it has flags before the status.
pub const ALLOC_LONG_SIZE_LATER: usize = 48;

/// NVOS33, MAP_MEMORY: prepares memory or a channel's USERD for mmap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapMemory {
    /// Client.
    pub client: u32,
    /// Device or subdevice.
    pub device: u32,
    /// Memory object or channel.
    pub memory: u32,
    /// Padding.
    pub pad0: u32,
    /// Offset in the object, page aligned.
    pub offset: u64,
    /// Length in bytes, rounded up to pages.
    pub length: u64,
    /// Out: CPU physical address of the range (a channel: of its USERD slot).
    pub linear: u64,
    /// RM status.
    pub status: u32,
    /// Ignored.
    pub flags: u32,
}

/// [`MapMemory`] with the descriptor that will be passed to mmap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapMemoryFd {
    /// The call.
    pub map: MapMemory,
    /// A fresh `/dev/nvidiaN` (channel) or `/dev/nvidiactl` (memory) descriptor.
    pub fd: i32,
    /// Padding.
    pub pad: u32,
}

/// NVOS34, UNMAP_MEMORY.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmapMemory {
    /// Client.
    pub client: u32,
    /// Device.
    pub device: u32,
    /// Memory object or channel.
    pub memory: u32,
    /// Padding.
    pub pad: u32,
    /// What MAP_MEMORY returned.
    pub linear: u64,
    /// RM status.
    pub status: u32,
    /// Ignored.
    pub flags: u32,
}

/// NVOS54, RM_CONTROL.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Control {
    /// Client.
    pub client: u32,
    /// Object.
    pub object: u32,
    /// Command, see [`super::class`].
    pub cmd: u32,
    /// Ignored.
    pub flags: u32,
    /// User address of the parameters.
    pub params: u64,
    /// Size of the parameters in bytes.
    pub params_size: u32,
    /// RM status.
    pub status: u32,
}

/// NVOS46, MAP_MEMORY_DMA: maps memory into the client's GPU address space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapMemoryDma {
    /// Client.
    pub client: u32,
    /// Device.
    pub device: u32,
    /// Address space object; ignored (one per client).
    pub dma: u32,
    /// Memory object.
    pub memory: u32,
    /// Offset in the memory, page aligned.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Ignored.
    pub flags: u32,
    /// Padding.
    pub pad0: u32,
    /// Out: GPU virtual address.
    pub dma_offset: u64,
    /// RM status.
    pub status: u32,
    /// Padding.
    pub pad1: u32,
}

/// NVOS47, UNMAP_MEMORY_DMA.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UnmapMemoryDma {
    /// Client.
    pub client: u32,
    /// Device.
    pub device: u32,
    /// Ignored.
    pub dma: u32,
    /// Memory object.
    pub memory: u32,
    /// Ignored.
    pub flags: u32,
    /// Padding.
    pub pad0: u32,
    /// GPU virtual address to unmap.
    pub dma_offset: u64,
    /// RM status.
    pub status: u32,
    /// Padding.
    pub pad1: u32,
}

/// NVOS41, GET_EVENT_DATA: consumes one event of the file it is called on.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GetEventData {
    /// User address of a [`UnixEvent`].
    pub event: u64,
    /// Out: whether another event waits.
    pub more: u32,
    /// RM status.
    pub status: u32,
}

/// What GET_EVENT_DATA returns (`NvUnixEvent`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UnixEvent {
    /// Event object.
    pub object: u32,
    /// Notifier index.
    pub index: u32,
    /// Hardware channel id of the completed command (model only).
    pub info32: u32,
    /// Unused (16 bits and padding).
    pub info16: u32,
}

/// ALLOC_OS_EVENT and FREE_OS_EVENT (`nv_ioctl_alloc_os_event_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEvent {
    /// Client.
    pub client: u32,
    /// Device.
    pub device: u32,
    /// Descriptor that shall become readable.
    pub fd: u32,
    /// RM status.
    pub status: u32,
}

/// CHECK_VERSION_STR (`nv_ioctl_rm_api_version_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ApiVersion {
    /// 0: strict; '1': relaxed; '2': override or query.
    pub cmd: u32,
    /// Out: 1 if recognised.
    pub reply: u32,
    /// In: the library's version; out: the driver's. NUL terminated.
    pub version: [u8; 64],
}

impl Default for ApiVersion {
    fn default() -> Self {
        Self {
            cmd: 0,
            reply: 0,
            version: [0; 64],
        }
    }
}

/// Where a card sits (`nv_pci_info_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PciInfo {
    /// PCI domain.
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Slot.
    pub slot: u8,
    /// Function.
    pub function: u8,
    /// Padding.
    pub pad: u8,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
}

/// CARD_INFO, one element per card (`nv_ioctl_card_info_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CardInfo {
    /// 1 if the element describes a card.
    pub valid: u8,
    /// Padding.
    pub pad0: [u8; 3],
    /// Where it sits.
    pub pci: PciInfo,
    /// RM's id of the card.
    pub gpu_id: u32,
    /// Interrupt line.
    pub interrupt_line: u16,
    /// Padding.
    pub pad1: u16,
    /// Physical address of BAR0.
    pub reg_address: u64,
    /// Size of BAR0.
    pub reg_size: u64,
    /// Physical address of BAR1.
    pub fb_address: u64,
    /// Size of BAR1.
    pub fb_size: u64,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
    /// Device name.
    pub name: [u8; 10],
    /// Padding.
    pub pad2: [u8; 2],
}

/// REGISTER_FD: ties a `/dev/nvidiaN` file to the client's control file.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RegisterFd {
    /// The control file.
    pub ctl_fd: i32,
}

/// IOCTL_XFER_CMD: a call with an explicit size (`nv_ioctl_xfer_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xfer {
    /// Number of the real call.
    pub cmd: u32,
    /// Size of its structure.
    pub size: u32,
    /// User address of its structure.
    pub ptr: u64,
}

impl Xfer {
    /// The argument of a call, from exactly its bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (cmd, rest) = bytes.split_first_chunk()?;
        let (size, ptr) = rest.split_first_chunk()?;
        Some(Self {
            cmd: u32::from_le_bytes(*cmd),
            size: u32::from_le_bytes(*size),
            ptr: u64::from_le_bytes(ptr.try_into().ok()?),
        })
    }
}

impl MapMemoryFd {
    /// The descriptor in the bytes of a call; nothing if they end before it, as [`MapMemory`] does.
    pub fn parse_fd(bytes: &[u8]) -> Option<i32> {
        let field = bytes.get(offset_of!(Self, fd)..)?;
        Some(i32::from_le_bytes(*field.first_chunk()?))
    }
}

const _: () = {
    assert!(size_of::<Free>() == 16);
    assert!(size_of::<AllocMemory>() == 48);
    assert!(size_of::<AllocMemoryFd>() == 56);
    assert!(size_of::<Alloc>() == 32);
    assert!(size_of::<AllocLong>() == 40);
    assert!(size_of::<MapMemory>() == 48);
    assert!(size_of::<MapMemoryFd>() == 56);
    assert!(size_of::<UnmapMemory>() == 32);
    assert!(size_of::<Control>() == 32);
    assert!(size_of::<MapMemoryDma>() == 56);
    assert!(size_of::<UnmapMemoryDma>() == 40);
    assert!(size_of::<GetEventData>() == 16);
    assert!(size_of::<UnixEvent>() == 16);
    assert!(size_of::<OsEvent>() == 16);
    assert!(size_of::<ApiVersion>() == 72);
    assert!(size_of::<PciInfo>() == 12);
    assert!(size_of::<CardInfo>() == 72);
    assert!(size_of::<RegisterFd>() == 4);
    assert!(size_of::<Xfer>() == 16);
    assert!(offset_of!(AllocMemory, limit) == 32);
    assert!(offset_of!(Alloc, status) == 24);
    assert!(offset_of!(AllocLong, status) == 32);
    assert!(offset_of!(MapMemory, linear) == 32);
    assert!(offset_of!(MapMemoryFd, fd) == 48);
    assert!(offset_of!(MapMemoryDma, dma_offset) == 40);
    assert!(offset_of!(UnmapMemoryDma, dma_offset) == 24);
    assert!(offset_of!(Control, params_size) == 24);
    assert!(offset_of!(CardInfo, gpu_id) == 16);
    assert!(offset_of!(CardInfo, minor) == 56);
};

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_rm_call))]
mod tests {
    use super::super::nr;
    use super::*;

    #[test]
    fn xfer_names_the_real_call() {
        let mut bytes = [0; 16];
        bytes[0] = 0x4e;
        bytes[4] = 56;
        bytes[8] = 0x10;
        let (cmd, size, ptr) = (nr::MAP_MEMORY, 56, 0x10);
        assert_eq!(Xfer::parse(&bytes), Some(Xfer { cmd, size, ptr }));
        assert_eq!(Xfer::parse(&bytes[..15]), None);
        assert_eq!(Xfer::parse(&[0; 17]), None);
    }
}
