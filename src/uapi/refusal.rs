// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Why a call was refused, in a form that fits a structure.
//!
//! The numbers never change: new ones are added at the end.

/// Why a call was refused, and what would have been right.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// One of `REFUSED_*`; [`REFUSED_NOT`] if the call was not refused.
    pub code: u32,
    /// For [`REFUSED_RANGE`], [`REFUSED_FULL`], [`REFUSED_NOT_LOWER`] and promises that cannot be
    /// kept: index into [`FIELDS`], or a knob, see [`FIELD_KNOBS`].
    pub field: u32,
    /// What was given.
    pub value: u64,
    /// Smallest value that would be right.
    pub min: u64,
    /// Largest value that would be right.
    pub max: u64,
}

/// The call was not refused.
pub const REFUSED_NOT: u32 = 0;
/// A number out of its range.
pub const REFUSED_RANGE: u32 = 1;
/// A table is full; `max` is what it holds.
pub const REFUSED_FULL: u32 = 2;
/// A limit above that of the cgroup or user; `max` would be right.
pub const REFUSED_ABOVE_GROUP: u32 = 3;
/// A limit below that of a process in the group; `min` would be right.
pub const REFUSED_BELOW_MEMBER: u32 = 4;
/// Nothing was to be set.
pub const REFUSED_NOTHING: u32 = 5;
/// Nothing is set that could be cleared.
pub const REFUSED_NOT_SET: u32 = 6;
/// A reserved field or an unknown flag is not zero.
pub const REFUSED_RESERVED: u32 = 7;
/// There is no such process, user or cgroup (any more); `value` is what was given.
pub const REFUSED_UNKNOWN_SUBJECT: u32 = 8;
/// Another cause.
pub const REFUSED_OTHER: u32 = 9;
/// The policy needs inputs that are not observed with these settings.
pub const REFUSED_UNOBSERVED: u32 = 10;
/// `scale=active` without `randomize`.
pub const REFUSED_STEADY: u32 = 11;
/// A user asked for more than what holds for the process; `max` would be right.
pub const REFUSED_NOT_LOWER: u32 = 12;
/// A user asked for the normal class for a process that an administrator made idle.
pub const REFUSED_NOT_IDLE: u32 = 13;
/// The caller is not root, and the process is not its own.
pub const REFUSED_NOT_OWN: u32 = 14;
/// A cgroup too deep in the hierarchy; `max` is the deepest level.
pub const REFUSED_DEEP: u32 = 15;
/// Only for a caller with `CAP_SYS_ADMIN` in the initial user namespace.
pub const REFUSED_CHANGE: u32 = 16;
/// Only for a caller with `CAP_PERFMON` in the initial user namespace.
pub const REFUSED_READ: u32 = 17;
/// A promise that cannot be kept: all of them would be more than may be promised; `max` is that, in
/// percent. For this and the two below, `min` is a period in microseconds with which it could be
/// kept, or a deadline if `field` names that, if one was found.
pub const REFUSED_PROMISES: u32 = 18;
/// A promise that cannot be kept, since a command of another client may take up to `max`
/// microseconds; `value` is the process, 0 if the caller's namespace lacks it.
pub const REFUSED_COMMAND: u32 = 19;
/// A promise that cannot be kept, since so many submissions cost too much.
pub const REFUSED_COSTS: u32 = 20;
/// Targets that would be more together than may be set; `max` is what is left.
pub const REFUSED_TARGETS: u32 = 21;
/// A claim was made, on any GPU, since the snapshots were taken that this one is based on.
pub const REFUSED_CHANGED: u32 = 22;
/// Access for a process: it is set for a cgroup or user.
pub const REFUSED_PROCESS: u32 = 23;
/// A process that uses the GPU through pages of another one, which has ended; `value` is that one.
pub const REFUSED_INHERITED: u32 = 24;
/// A reserve for a protected client, which nothing stops.
pub const REFUSED_PROTECTED_RESERVE: u32 = 25;
/// A promised deadline beside a protected client, or a client to protect beside a promised deadline.
pub const REFUSED_PROTECTED: u32 = 26;
/// A deadline of a reserve that promises none.
pub const REFUSED_NO_DEADLINE: u32 = 27;
/// A reserve with a period of `value` microseconds while submissions are not decided on; `min` would
/// be right.
pub const REFUSED_SHORT: u32 = 28;

/// Fields from this number on are knobs, the first one is the number itself.
pub const FIELD_KNOBS: u32 = 64;

/// Names of fields and tables that can be out of range or full.
pub const FIELDS: &[&str] = &[
    "value",
    "weight",
    "limit",
    "class",
    "subject",
    "kind",
    "action",
    "settings",
    "clients",
    "groups",
    "subscribers",
    "specs",
    "prio",
    "mode",
    "reserve",
    "capacity_us",
    "period_us",
    "longest_us",
    "commands",
    "lease_ms",
    "target",
    "claims",
    "want_pct",
    "seconds",
    "access",
    "deadline_us",
];

impl Refusal {
    /// For a reserved field that is not zero.
    pub const fn reserved() -> Self {
        Self::of(REFUSED_RESERVED)
    }

    /// For a caller that may not change this.
    pub const fn for_change() -> Self {
        Self::of(REFUSED_CHANGE)
    }

    /// For a caller that may not read this.
    pub const fn for_reader() -> Self {
        Self::of(REFUSED_READ)
    }

    /// For a process, user or cgroup that does not exist.
    pub const fn unknown_subject(subject: u64) -> Self {
        Self {
            value: subject,
            ..Self::of(REFUSED_UNKNOWN_SUBJECT)
        }
    }

    /// For a reason without further values.
    pub(crate) const fn of(code: u32) -> Self {
        Self {
            code,
            field: 0,
            value: 0,
            min: 0,
            max: 0,
        }
    }
}

const _: () = assert!(core::mem::size_of::<Refusal>() == 32);
