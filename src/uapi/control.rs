// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Setting weights, limits and classes; totals; policy and knobs.

use super::refusal::Refusal;
use super::snapshot::MAX_KNOBS;
use crate::share::MAX_LEVELS;
use core::mem::size_of;

/// Argument of [`super::IOC_SET_SHARE`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SetShare {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<SetShare>()`.
    pub size: u32,
    /// In: index of the GPU, or [`super::ALL_GPUS`]: then either all of them take it or none.
    pub gpu: u32,
    /// In: one of `ACTION_*`.
    pub action: u32,
    /// In: one of `SUBJECT_*`.
    pub subject: u32,
    /// In: for [`ACTION_SET`], bits `SHARE_*`: which of the fields below to set.
    pub mask: u32,
    /// In: process id (0: the caller) or user id in the namespaces of the caller, or the inode
    /// number of the cgroup's directory in cgroup v2.
    pub id: u64,
    /// In: weight, 1 to 10000.
    pub weight: u32,
    /// In: hard limit in percent of a GPU, 1 to 100; 100 is none.
    pub limit_pct: u32,
    /// In: one of `CLASS_*`.
    pub class: u32,
    /// In: target in percent of a GPU, 1 to 90; 0 is none.
    pub target_pct: u32,
    /// In: one of `ACCESS_*`.
    pub access: u32,
    /// In: zero.
    pub reserved: u32,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// Set the fields in `mask`.
pub const ACTION_SET: u32 = 0;
/// Forget what is set for the subject; without `CAP_SYS_ADMIN`, what its user lowered.
pub const ACTION_CLEAR: u32 = 1;

/// A process.
pub const SUBJECT_PROCESS: u32 = 0;
/// All processes of a user.
pub const SUBJECT_USER: u32 = 1;
/// All processes of a cgroup and of those below it.
pub const SUBJECT_CGROUP: u32 = 2;

/// [`SetShare::weight`] is given.
pub const SHARE_WEIGHT: u32 = 1 << 0;
/// [`SetShare::limit_pct`] is given.
pub const SHARE_LIMIT: u32 = 1 << 1;
/// [`SetShare::class`] is given.
pub const SHARE_CLASS: u32 = 1 << 2;
/// [`SetShare::target_pct`] is given.
pub const SHARE_TARGET: u32 = 1 << 3;
/// [`SetShare::access`] is given, for a cgroup or user.
pub const SHARE_ACCESS: u32 = 1 << 4;
/// In a [`Share`]: the user of the process lowered the weight.
pub const SHARE_LOWERED_WEIGHT: u32 = 1 << 8;
/// In a [`Share`]: the user of the process lowered the limit.
pub const SHARE_LOWERED_LIMIT: u32 = 1 << 9;
/// In a [`Share`]: the user of the process set the class.
pub const SHARE_LOWERED_CLASS: u32 = 1 << 10;

/// Processes may open the GPU, as far as no cgroup around them and not their user has it denied.
pub const ACCESS_ALLOWED: u32 = 0;
/// Processes may not open the GPU while LoGA enforces: `open` of its node fails with `EPERM`. What
/// is open stays so.
pub const ACCESS_DENIED: u32 = 1;

/// Argument of [`super::IOC_LIST_SHARES`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListShares {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<ListShares>()`.
    pub size: u32,
    /// In: index of the GPU.
    pub gpu: u32,
    /// In: room in `shares`, in elements. Out: how many there are.
    pub count: u32,
    /// In: address of an array of [`Share`].
    pub shares: u64,
}

/// What is set for one process, user or cgroup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// One of `SUBJECT_*`.
    pub subject: u32,
    /// Bits `SHARE_*`: which of the fields below are set.
    pub mask: u32,
    /// As [`SetShare::id`]; 0 for a process or user that the caller's namespaces lack.
    pub id: u64,
    /// Weight.
    pub weight: u32,
    /// Hard limit in percent of a GPU.
    pub limit_pct: u32,
    /// One of `CLASS_*`.
    pub class: u32,
    /// 1 if the limit throttles its processes now.
    pub exhausted: u32,
    /// Target in percent of a GPU.
    pub target_pct: u32,
    /// One of `ACCESS_*`.
    pub access: u32,
}

/// Argument of [`super::IOC_READ_TOTALS`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTotals {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<ReadTotals>()`.
    pub size: u32,
    /// In: index of the GPU.
    pub gpu: u32,
    /// In: bits `TOTALS_*`.
    pub flags: u32,
    /// In: [`SUBJECT_USER`] or [`SUBJECT_CGROUP`].
    pub kind: u32,
    /// In: room in `totals`, in elements. Out: how many there are; what had no room is
    /// neither copied nor reset.
    pub count: u32,
    /// In: address of an array of [`Total`].
    pub totals: u64,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// What is read begins anew. To change.
pub const TOTALS_RESET: u32 = 1 << 0;

/// What all processes of one user or cgroup got, those that exited included.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    /// User id in the namespace of the caller, or cgroup id.
    pub id: u64,
    /// [`TOTAL_OTHERS`] or zero.
    pub flags: u64,
    /// As of a client.
    pub measured_ns: u64,
    /// As of a client.
    pub gpu_time_ns: u64,
    /// As of a client.
    pub entitled_ns: u64,
    /// As of a client.
    pub waited_ns: u64,
    /// As of a client.
    pub throttled_ns: u64,
    /// As of a client.
    pub throttled_count: u64,
    /// As of a client.
    pub runs: u64,
    /// Processes that have begun to use the GPU.
    pub processes: u64,
    /// When this total began.
    pub since_ns: u64,
    /// When something was added last.
    pub last_ns: u64,
    /// As of a client.
    pub copy_time_ns: u64,
    /// Of a cgroup: the cgroups around it, from the root on, also after it was removed; then zeroes.
    pub above: [u64; MAX_LEVELS],
}

/// This is the total of all users or cgroups without a row.
pub const TOTAL_OTHERS: u64 = 1 << 0;

/// Argument of [`super::IOC_CONFIGURE`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Configure {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<Configure>()`.
    pub size: u32,
    /// In: index of the GPU, or [`super::ALL_GPUS`].
    pub gpu: u32,
    /// In: which knobs to set, bit 0 for the first one.
    pub mask: u32,
    /// In: their numbers, in the order of [`KNOBS`](crate::knobs::KNOBS).
    pub values: [u32; MAX_KNOBS],
    /// Out: why it was refused.
    pub refusal: Refusal,
}

const _: () = assert!(size_of::<SetShare>() == 56 + 32);
const _: () = assert!(size_of::<ListShares>() == 24);
const _: () = assert!(size_of::<Share>() == 40);
const _: () = assert!(size_of::<ReadTotals>() == 32 + 32);
const _: () = assert!(size_of::<Total>() == 232);
const _: () = assert!(size_of::<Configure>() == 16 + 64 + 32);
