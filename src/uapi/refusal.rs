// SPDX-License-Identifier: GPL-2.0

//! [pure] Why a call was refused, in a form that fits a structure.
//!
//! The numbers stay what they are: new ones are added at the end.

use crate::error::Error;
use crate::policies;
use core::fmt;

/// Why a call was refused, and what would have been right.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// One of `REFUSED_*`; [`REFUSED_NOT`] if the call was not refused.
    pub code: u32,
    /// For [`REFUSED_RANGE`], [`REFUSED_FULL`] and [`REFUSED_NOT_LOWER`]: index into [`FIELDS`].
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
/// No policy has this name.
pub const REFUSED_POLICY: u32 = 2;
/// A table is full; `max` is what it holds.
pub const REFUSED_FULL: u32 = 3;
/// A limit above that of the cgroup or user; `max` would be right.
pub const REFUSED_ABOVE_GROUP: u32 = 4;
/// A limit below that of a process in the group; `min` would be right.
pub const REFUSED_BELOW_MEMBER: u32 = 5;
/// Nothing was to be set.
pub const REFUSED_NOTHING: u32 = 6;
/// Nothing is set that could be cleared.
pub const REFUSED_NOT_SET: u32 = 7;
/// A reserved field or an unknown flag is not zero.
pub const REFUSED_RESERVED: u32 = 8;
/// There is no such process, user or cgroup (any more); `value` is what was given.
pub const REFUSED_UNKNOWN_SUBJECT: u32 = 9;
/// A name without a terminating zero, or not in ASCII.
pub const REFUSED_NAME: u32 = 10;
/// Another cause.
pub const REFUSED_OTHER: u32 = 11;
/// The policy needs to be told more than is observed with these settings.
pub const REFUSED_UNOBSERVED: u32 = 12;
/// `scale=active` without `randomize`.
pub const REFUSED_STEADY: u32 = 13;
/// More than what holds for the process, wanted by its user; `max` would be right.
pub const REFUSED_NOT_LOWER: u32 = 14;
/// The normal class for a process that an administrator made idle, wanted by its user.
pub const REFUSED_NOT_IDLE: u32 = 15;
/// Not a process of the caller, who is not root.
pub const REFUSED_NOT_OWN: u32 = 16;
/// A cgroup too deep in the hierarchy; `max` is the deepest level.
pub const REFUSED_DEEP: u32 = 17;
/// For a caller with `CAP_SYS_ADMIN` in the initial user namespace.
pub const REFUSED_CHANGE: u32 = 18;
/// For a caller with `CAP_PERFMON` in the initial user namespace.
pub const REFUSED_READ: u32 = 19;

/// Names of what can be out of range or full.
pub const FIELDS: &[&str] = &[
    "value",
    "weight",
    "limit",
    "class",
    "poll_ms",
    "ratio",
    "randomize",
    "enforce",
    "group_by",
    "accounting",
    "scale",
    "subject",
    "kind",
    "action",
    "settings",
    "clients",
    "groups",
    "subscribers",
    "cgroup_depth",
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

    pub(super) const fn of(code: u32) -> Self {
        Self {
            code,
            field: 0,
            value: 0,
            min: 0,
            max: 0,
        }
    }
}

/// Index of a name in [`FIELDS`]; 0 for one that is not there.
fn field(name: &str) -> u32 {
    let at = FIELDS.iter().position(|field| *field == name);
    at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfRange {
                name,
                value,
                min,
                max,
            } => Self {
                code: REFUSED_RANGE,
                field: field(name),
                value,
                min,
                max,
            },
            policies::UNKNOWN => Self::of(REFUSED_POLICY),
            Error::Full { name, max } => Self {
                field: field(name),
                // CAST: lengths of tables fit.
                max: max as u64,
                ..Self::of(REFUSED_FULL)
            },
            Error::LimitAboveGroup { limit, group } => Self {
                value: limit.into(),
                min: 1,
                max: group.into(),
                ..Self::of(REFUSED_ABOVE_GROUP)
            },
            Error::LimitBelowMember { limit, member } => Self {
                value: limit.into(),
                min: member.into(),
                max: 100,
                ..Self::of(REFUSED_BELOW_MEMBER)
            },
            Error::CgroupTooDeep { max } => Self {
                // CAST: a small number.
                max: max as u64,
                ..Self::of(REFUSED_DEEP)
            },
            Error::NotLower { name, value, max } => Self {
                field: field(name),
                value,
                min: 1,
                max,
                ..Self::of(REFUSED_NOT_LOWER)
            },
            Error::NotIdle => Self::of(REFUSED_NOT_IDLE),
            Error::NotOwn => Self::of(REFUSED_NOT_OWN),
            Error::Unobserved { .. } => Self::of(REFUSED_UNOBSERVED),
            Error::SteadyPhases => Self::of(REFUSED_STEADY),
            Error::NothingToSet => Self::of(REFUSED_NOTHING),
            Error::NotSet => Self::of(REFUSED_NOT_SET),
            _ => Self::of(REFUSED_OTHER),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            value, min, max, ..
        } = self;
        let at = usize::try_from(self.field).unwrap_or(0);
        let name = FIELDS.get(at).copied().unwrap_or("value");
        match self.code {
            REFUSED_NOT => f.write_str("not refused"),
            REFUSED_RANGE => write!(f, "{name}={value} is out of range, want {min} to {max}"),
            REFUSED_POLICY => policies::UNKNOWN.fmt(f),
            REFUSED_FULL => write!(f, "no room for another of {max} {name}: clear one first"),
            REFUSED_ABOVE_GROUP => write!(
                f,
                "limit={value} is above that of a cgroup or user around it, want at most {max}"
            ),
            REFUSED_BELOW_MEMBER => write!(
                f,
                "limit={value} is below that of a process or cgroup in it, want at least {min}"
            ),
            REFUSED_NOTHING => write!(f, "{}", Error::NothingToSet),
            REFUSED_NOT_SET => write!(f, "{}", Error::NotSet),
            REFUSED_RESERVED => f.write_str("a reserved field is not zero"),
            REFUSED_UNKNOWN_SUBJECT => {
                write!(f, "there is no process, user or cgroup {value}")
            }
            REFUSED_UNOBSERVED => {
                f.write_str("the policy needs to know more than is observed with these settings")
            }
            REFUSED_STEADY => write!(f, "{}", Error::SteadyPhases),
            REFUSED_NOT_LOWER => write!(
                f,
                "{name}={value} is more than what holds for it, which is for root (CAP_SYS_ADMIN): want at most {max}"
            ),
            REFUSED_NOT_IDLE => write!(f, "{}", Error::NotIdle),
            REFUSED_NOT_OWN => write!(f, "{}", Error::NotOwn),
            REFUSED_DEEP => write!(
                f,
                "the cgroup is too deep, want one at most {max} levels below the root"
            ),
            REFUSED_CHANGE => f.write_str(
                "this is for root: want CAP_SYS_ADMIN in the initial user namespace",
            ),
            REFUSED_READ => f.write_str(
                "this shows what others used: want CAP_PERFMON in the initial user namespace",
            ),
            REFUSED_NAME => f.write_str("a name is too long or not in ASCII"),
            code => write!(f, "refused for reason {code}"),
        }
    }
}

const _: () = assert!(core::mem::size_of::<Refusal>() == 32);
