// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Priorities, modes and reserves of clients while submissions are decided on.

use super::refusal::Refusal;
use super::snapshot::Misses;
use core::mem::size_of;

/// What is set for one process, user or cgroup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// One of `SUBJECT_*`.
    pub subject: u32,
    /// One of `MODE_*`.
    pub mode: u32,
    /// As [`SetShare::id`](super::SetShare::id), or in a list as [`Share::id`](super::Share::id).
    pub id: u64,
    /// Priority, 0 to 39, or [`PRIO_BY_NICE`].
    pub prio: u32,
    /// One of `RESERVE_*`.
    pub kind: u32,
    /// GPU time in each period, 10 us to the period. This and the fields below are zero under
    /// [`RESERVE_NONE`].
    pub capacity_ns: u64,
    /// Period, 1 ms to 10 s.
    pub period_ns: u64,
    /// The longest command, up to 10 s; 0 if it is not declared.
    pub longest_ns: u64,
    /// By when a submission is due, from the capacity to the period, of a hard [`RESERVE_CBS`] with a
    /// longest command; 0: at the end of the period, or none is promised.
    pub deadline_ns: u64,
    /// Most submissions in a period that are charged what they use only, 1 to 10000.
    pub commands: u32,
    /// Bits `SPEC_*`.
    pub flags: u32,
    /// For how long it holds, 1 ms to a day, unless it is set again; 0: until it is cleared. In a
    /// list: what is left of that.
    pub lease_ms: u32,
    /// Zero.
    pub reserved: u32,
}

/// Argument of [`super::IOC_SET_SPEC`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SetSpec {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<SetSpec>()`.
    pub size: u32,
    /// In: index of the GPU, or [`super::ALL_GPUS`]: then either all of them take it or none.
    pub gpu: u32,
    /// In: one of `ACTION_*`.
    pub action: u32,
    /// In: the subject, and, to set, all that is set for it.
    pub spec: Spec,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// The priority is 19 minus the nice value of the thread that submits.
pub const PRIO_BY_NICE: u32 = u32::MAX;

/// A submission waits until all earlier ones of the client have completed.
pub const MODE_PRT: u32 = 0;
/// Up to four submissions are in flight.
pub const MODE_HT: u32 = 1;

/// Protected: its submissions are not stopped, and the others wait for them.
pub const MODE_PROTECTED: u32 = 2;

/// Nothing is promised.
pub const RESERVE_NONE: u32 = 0;
/// A command starts while anything is left.
pub const RESERVE_PE: u32 = 1;
/// A command starts when what it should take is left.
pub const RESERVE_AE: u32 = 2;
/// A command that does not fit postpones the deadline first.
pub const RESERVE_CBS: u32 = 3;

/// Nothing is promised.
pub const PROMISE_NONE: u64 = 0;
/// Deadlines are promised, and a part of the GPU.
pub const PROMISE_DEADLINE: u64 = 1;
/// A part of the GPU is promised, and no deadline.
pub const PROMISE_SHARE: u64 = 2;

/// The reserve is no limit.
pub const SPEC_SOFT: u32 = 1 << 0;

/// Longest [`Spec::lease_ms`]: a day.
pub const MAX_LEASE_MS: u32 = 86_400_000;

/// Argument of [`super::IOC_LIST_SPECS`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListSpecs {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<ListSpecs>()`.
    pub size: u32,
    /// In: index of the GPU.
    pub gpu: u32,
    /// In: room in `specs`, in elements. Out: how many there are.
    pub count: u32,
    /// In: address of an array of [`ListedSpec`].
    pub specs: u64,
}

/// What is set for one process, user or cgroup, and what its reserve has served since then. While
/// submissions are not decided on, only what is left and what was used is known of the latter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListedSpec {
    /// What is set.
    pub spec: Spec,
    /// What is left of its reserve, negative for a debt.
    pub left_ns: i64,
    /// GPU time of its submissions.
    pub used_ns: u64,
    /// Number of them.
    pub served: u64,
    /// The longest of them.
    pub longest_seen_ns: u64,
    /// Those longer than declared: with any, its deadline and those of others are not promised.
    pub breaches: u64,
    /// One of `PROMISE_*`.
    pub promise: u64,
    /// Those that ended after they were due.
    pub misses: Misses,
}

const _: () = assert!(size_of::<Spec>() == 72);
const _: () = assert!(size_of::<SetSpec>() == 88 + 32);
const _: () = assert!(size_of::<ListSpecs>() == 24);
const _: () = assert!(size_of::<ListedSpec>() == 160);
