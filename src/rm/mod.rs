// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The binary interface between NVIDIA's driver and the programs that use it: numbers and
//! structures, without behaviour.
//!
//! They are those of the resource manager (RM) of branch 470 as the driver's open headers publish
//! them. The meaning of a command, which is in the closed part of the real driver, is defined for
//! the stand-in and marked "model only". LoGA, which reads the calls, the stand-in, which answers
//! them, and the load generator and the tests, which make them, use the same declarations.
//!
//! | file | contents |
//! |---|---|
//! | `call` | structures passed through `ioctl` |
//! | `params` | what they point at: parameters of classes and control commands |
//! | [`class`] | object classes, engine types, control commands, RM status codes |
//! | [`submit`] | USERD, GPFIFO entries, pushbuffer methods |
//!
//! Sources are abbreviated: *470* is the driver's kernel interface 470.256.02, *OGKM 515* the open
//! kernel modules 515.43.04. The layouts of 470 are assumed equal to those of 515.

mod call;
pub mod class;
mod params;
pub mod submit;

pub use call::*;
pub use params::*;

/// Major number of every NVIDIA node. Source: 470 `common/inc/nv.h`, `NV_MAJOR_DEVICE_NUMBER`.
pub const MAJOR: u32 = 195;

/// Minor number of `/dev/nvidiactl`. Source: 470 `common/inc/nv.h`.
pub const CTL_MINOR: u32 = 255;

/// Type byte of the ioctl numbers; the driver ignores it. Source: 470 `nv-ioctl-numbers.h`.
pub const IOCTL_MAGIC: u8 = b'F';

/// Largest payload of one call. Source: 470 `common/inc/nv.h`, `NV_ABSOLUTE_MAX_IOCTL_SIZE`.
pub const IOCTL_SIZE_MAX: u32 = 16384;

/// Page size of the mappings.
pub const PAGE_SIZE: u64 = 4096;

/// Numbers of the calls (`_IOC_NR`).
///
/// Source: 470 `common/inc/nv-ioctl-numbers.h` for 200 and above, OGKM 515 `nv_escape.h` below.
pub mod nr {
    /// RM_ALLOC_MEMORY: [`super::AllocMemory`] or [`super::AllocMemoryFd`].
    pub const ALLOC_MEMORY: u32 = 0x27;
    /// RM_FREE: [`super::Free`].
    pub const FREE: u32 = 0x29;
    /// RM_CONTROL: [`super::Control`].
    pub const CONTROL: u32 = 0x2a;
    /// RM_ALLOC: [`super::Alloc`] or [`super::AllocLong`], told apart by size.
    pub const ALLOC: u32 = 0x2b;
    /// MAP_MEMORY: [`super::MapMemoryFd`] (branch 340: [`super::MapMemory`]).
    pub const MAP_MEMORY: u32 = 0x4e;
    /// UNMAP_MEMORY: [`super::UnmapMemory`].
    pub const UNMAP_MEMORY: u32 = 0x4f;
    /// GET_EVENT_DATA: [`super::GetEventData`].
    pub const GET_EVENT_DATA: u32 = 0x52;
    /// MAP_MEMORY_DMA: [`super::MapMemoryDma`].
    pub const MAP_MEMORY_DMA: u32 = 0x57;
    /// UNMAP_MEMORY_DMA: [`super::UnmapMemoryDma`].
    pub const UNMAP_MEMORY_DMA: u32 = 0x58;
    /// CARD_INFO: an array of [`super::CardInfo`].
    pub const CARD_INFO: u32 = 200;
    /// REGISTER_FD: [`super::RegisterFd`].
    pub const REGISTER_FD: u32 = 201;
    /// ALLOC_OS_EVENT: [`super::OsEvent`].
    pub const ALLOC_OS_EVENT: u32 = 206;
    /// FREE_OS_EVENT: [`super::OsEvent`].
    pub const FREE_OS_EVENT: u32 = 207;
    /// CHECK_VERSION_STR: [`super::ApiVersion`].
    pub const CHECK_VERSION_STR: u32 = 210;
    /// IOCTL_XFER_CMD: [`super::Xfer`], which names the real call.
    pub const XFER_CMD: u32 = 211;
}

/// The `request` argument of `ioctl(2)` for call `nr` with a structure of `size` bytes.
///
/// Read and write direction, as every RM call is declared (`_IOWR`).
pub const fn request(nr: u32, size: usize) -> u32 {
    // CAST: the field holds 14 bits; larger calls go through XFER_CMD.
    (3 << 30) | (((size as u32) & 0x3fff) << 16) | ((IOCTL_MAGIC as u32) << 8) | (nr & 0xff)
}

/// The call number inside a `request`.
pub const fn request_nr(request: u32) -> u32 {
    request & 0xff
}

/// The payload size inside a `request`, in bytes.
pub const fn request_size(request: u32) -> usize {
    // CAST: 14 bits fit.
    ((request >> 16) & 0x3fff) as usize
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_rm))]
mod tests {
    use super::*;

    #[test]
    fn request_number_and_size_round_trip() {
        let request = request(nr::MAP_MEMORY, 56);
        assert_eq!(request_nr(request), nr::MAP_MEMORY);
        assert_eq!(request_size(request), 56);
        assert_eq!(request, 0xc038_464e);
    }
}
