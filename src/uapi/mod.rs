// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The interface of the kernel module and the tools over `/dev/loga`.
//!
//! Every structure is `repr(C)`, made of fixed-width integers, without implicit
//! padding, and its size is asserted at compile time. Each argument of a call begins
//! with the version and the size that its caller was built with. A kernel that knows
//! others writes its own there, answers `EINVAL`, and changes nothing. Fields that
//! are reserved, and flags without a meaning, must be zero.
//!
//! A refused call returns the reason in a [`Refusal`]. This folder has structures and numbers only:
//! `request`, one floor above, checks what callers ask.
//!
//! All times are nanoseconds of the monotonic clock of the host.
//!
//! | file | contents |
//! |---|---|
//! | `snapshot` | one GPU, its clients, groups and channels |
//! | `control` | weights, limits and classes; totals; policy and knobs |
//! | `spec` | priorities, modes and reserves |
//! | `claim` | the load of programs that are about to start |
//! | `event` | what happened, for `read` and `poll` |
//! | `refusal` | why a call was refused |

mod claim;
mod control;
mod event;
mod refusal;
mod snapshot;
mod spec;

pub use claim::*;
pub use control::*;
pub use event::*;
pub use refusal::*;
pub use snapshot::*;
pub use spec::*;

use core::mem::size_of;

/// Version of every structure in this folder. Raised when a layout changes.
pub const VERSION: u32 = 15;

/// Path of the control device.
pub const DEVICE_PATH: &str = "/dev/loga";

/// As the index of a GPU: all of them.
pub const ALL_GPUS: u32 = u32::MAX;

/// Magic letter of the ioctl numbers.
const IOC_MAGIC: u32 = b'L' as u32;

/// Builds the number of a read-write ioctl as `include/uapi/asm-generic/ioctl.h` does.
const fn iowr(nr: u32, size: usize) -> u32 {
    const READ_WRITE: u32 = 3;
    // CAST: the structures of this folder are smaller than the 14 bits of the field.
    (READ_WRITE << 30) | ((size as u32) << 16) | (IOC_MAGIC << 8) | nr
}

// "To read everything" is `CAP_PERFMON`, "to change" is `CAP_SYS_ADMIN`, both in the initial user
// namespace. All other users read and lower what is their own.

/// Takes a [`Snapshot`]. For every user; to read everything.
pub const IOC_SNAPSHOT: u32 = iowr(1, size_of::<Snapshot>());
/// Takes a [`SetShare`]. To change; for every user, to lower its own processes.
pub const IOC_SET_SHARE: u32 = iowr(2, size_of::<SetShare>());
/// Takes a [`ReadTotals`]. To read everything, and to change for [`TOTALS_RESET`]; for every
/// user, its own.
pub const IOC_READ_TOTALS: u32 = iowr(3, size_of::<ReadTotals>());
/// Takes a [`Configure`]. To change.
pub const IOC_CONFIGURE: u32 = iowr(4, size_of::<Configure>());
/// Takes a [`Subscribe`]. For every user, to events of its own clients; to read everything.
pub const IOC_SUBSCRIBE: u32 = iowr(5, size_of::<Subscribe>());
/// Takes a [`ListShares`]. To read everything; for every user, what is set for its processes.
pub const IOC_LIST_SHARES: u32 = iowr(6, size_of::<ListShares>());
/// Takes a [`SetSpec`]. To change.
pub const IOC_SET_SPEC: u32 = iowr(7, size_of::<SetSpec>());
/// Takes a [`ListSpecs`]. To read everything.
pub const IOC_LIST_SPECS: u32 = iowr(8, size_of::<ListSpecs>());
/// Takes a [`Claim`]. For every user, for the calling process.
pub const IOC_CLAIM: u32 = iowr(9, size_of::<Claim>());

/// What a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`IOC_SNAPSHOT`].
    Snapshot,
    /// [`IOC_SET_SHARE`].
    SetShare,
    /// [`IOC_READ_TOTALS`].
    ReadTotals,
    /// [`IOC_CONFIGURE`].
    Configure,
    /// [`IOC_SUBSCRIBE`].
    Subscribe,
    /// [`IOC_LIST_SHARES`].
    ListShares,
    /// [`IOC_SET_SPEC`].
    SetSpec,
    /// [`IOC_LIST_SPECS`].
    ListSpecs,
    /// [`IOC_CLAIM`].
    Claim,
}

/// The beginning of every argument.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// Size of the structure.
    pub size: u32,
}

impl Call {
    /// All calls, with their numbers.
    pub const ALL: &'static [(Call, u32)] = &[
        (Call::Snapshot, IOC_SNAPSHOT),
        (Call::SetShare, IOC_SET_SHARE),
        (Call::ReadTotals, IOC_READ_TOTALS),
        (Call::Configure, IOC_CONFIGURE),
        (Call::Subscribe, IOC_SUBSCRIBE),
        (Call::ListShares, IOC_LIST_SHARES),
        (Call::SetSpec, IOC_SET_SPEC),
        (Call::ListSpecs, IOC_LIST_SPECS),
        (Call::Claim, IOC_CLAIM),
    ];

    /// The call that an ioctl number means, whatever size of argument it was built
    /// with; nothing for no call (`ENOTTY`).
    pub fn of(cmd: u32) -> Option<Self> {
        const SIZE: u32 = 0x3fff << 16;
        let same = |(_, number): &&(Call, u32)| (*number ^ cmd) & !SIZE == 0;
        Self::ALL.iter().find(same).map(|(call, _)| *call)
    }

    /// Size of its argument.
    pub const fn size(self) -> usize {
        match self {
            Call::Snapshot => size_of::<Snapshot>(),
            Call::SetShare => size_of::<SetShare>(),
            Call::ReadTotals => size_of::<ReadTotals>(),
            Call::Configure => size_of::<Configure>(),
            Call::Subscribe => size_of::<Subscribe>(),
            Call::ListShares => size_of::<ListShares>(),
            Call::SetSpec => size_of::<SetSpec>(),
            Call::ListSpecs => size_of::<ListSpecs>(),
            Call::Claim => size_of::<Claim>(),
        }
    }

    /// The header of its argument.
    pub const fn header(self) -> Header {
        Header {
            version: VERSION,
            // CAST: as in `iowr`.
            size: self.size() as u32,
        }
    }

    /// Checks the header of an argument and the size that is part of the number.
    ///
    /// # Errors
    ///
    /// The header that would be right: it is to be written back, if the number says
    /// that the argument is as long as a header, and the call fails with `EINVAL`.
    pub fn check(self, cmd: u32, header: Header) -> Result<(), Header> {
        let right = self.header();
        if header == right && arg_size(cmd) == self.size() {
            Ok(())
        } else {
            Err(right)
        }
    }
}

/// Size of the argument in an ioctl number.
pub const fn arg_size(cmd: u32) -> usize {
    // CAST: 14 bits.
    ((cmd >> 16) & 0x3fff) as usize
}

/// Whether a caller may see something that belongs to user `owner`.
pub const fn may_see(owner: u32, caller: u32, privileged: bool) -> bool {
    privileged || owner == caller
}

const _: () = assert!(size_of::<Header>() == 8);
