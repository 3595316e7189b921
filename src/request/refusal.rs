// SPDX-License-Identifier: GPL-2.0

//! [pure] Causes as refusals, and refusals in words.

use crate::error::Error;
use crate::policies;
use crate::uapi::{
    Refusal, FIELDS, REFUSED_ABOVE_GROUP, REFUSED_BELOW_MEMBER, REFUSED_CHANGE, REFUSED_DEEP,
    REFUSED_FULL, REFUSED_NAME, REFUSED_NOT, REFUSED_NOTHING, REFUSED_NOT_IDLE, REFUSED_NOT_LOWER,
    REFUSED_NOT_OWN, REFUSED_NOT_SET, REFUSED_OTHER, REFUSED_POLICY, REFUSED_RANGE, REFUSED_READ,
    REFUSED_RESERVED, REFUSED_STEADY, REFUSED_UNKNOWN_SUBJECT, REFUSED_UNOBSERVED,
};
use core::fmt;

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
