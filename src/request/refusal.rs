// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Causes as refusals, and refusals in words.

use crate::engaged::{self, Fit, Why, PROMISED_PCT};
use crate::error::Error;
use crate::knobs::{Knob, KNOBS};
use crate::uapi::{
    Refusal, FIELDS, FIELD_KNOBS, REFUSED_ABOVE_GROUP, REFUSED_BELOW_MEMBER, REFUSED_CHANGE,
    REFUSED_CHANGED, REFUSED_COMMAND, REFUSED_COSTS, REFUSED_DEEP, REFUSED_FULL, REFUSED_INHERITED,
    REFUSED_NOT, REFUSED_NOTHING, REFUSED_NOT_IDLE, REFUSED_NOT_LOWER, REFUSED_NOT_OWN,
    REFUSED_NOT_SET, REFUSED_NO_DEADLINE, REFUSED_OTHER, REFUSED_PROCESS, REFUSED_PROMISES,
    REFUSED_PROTECTED, REFUSED_PROTECTED_RESERVE, REFUSED_RANGE, REFUSED_READ, REFUSED_RESERVED,
    REFUSED_SHORT, REFUSED_STEADY, REFUSED_TARGETS, REFUSED_UNKNOWN_SUBJECT, REFUSED_UNOBSERVED,
};
use crate::units::Ns;
use core::fmt;

/// Number of a field or knob; 0 for one that has none.
fn field(name: &str) -> u32 {
    let at = FIELDS.iter().position(|field| *field == name);
    let knob = || Knob::find(name).map(|(at, _)| at.saturating_add(FIELD_KNOBS as usize));
    let at = at.or_else(knob);
    at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
}

/// Name of the field or knob with this number.
fn name_of(field: u32) -> &'static str {
    let knob = |at: u32| KNOBS.get(at as usize).map(|knob| knob.name);
    let name = match field.checked_sub(FIELD_KNOBS) {
        Some(at) => knob(at),
        None => FIELDS.get(field as usize).copied(),
    };
    name.unwrap_or("value")
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
            Error::TargetsTogether { target, left } => Self {
                value: target.into(),
                max: left.into(),
                ..Self::of(REFUSED_TARGETS)
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
            Error::NoDeadline => Self::of(REFUSED_NO_DEADLINE),
            Error::NotSet => Self::of(REFUSED_NOT_SET),
            Error::Changed => Self::of(REFUSED_CHANGED),
            Error::DeniedToProcess => Self::of(REFUSED_PROCESS),
            Error::Inherited { from } => Self {
                value: from,
                ..Self::of(REFUSED_INHERITED)
            },
            _ => Self::of(REFUSED_OTHER),
        }
    }
}

impl Refusal {
    /// For a promise that cannot be kept. `command` is the client whose command is too long, if it
    /// has a process, and that command.
    pub fn of_promise(refused: &engaged::Refusal, command: (u64, Ns)) -> Self {
        let (within, fits) = match refused.fits {
            Some(Fit::Deadline(deadline)) => ("deadline_us", deadline),
            Some(Fit::Period(period)) => ("period_us", period),
            None => ("", Ns::ZERO),
        };
        let (process, longest) = command;
        let (code, value, max) = match refused.why {
            Why::Sum => (REFUSED_PROMISES, 0, PROMISED_PCT),
            Why::Command(_) => (REFUSED_COMMAND, process, longest.get().div_ceil(1_000)),
            Why::Costs => (REFUSED_COSTS, 0, 0),
            Why::Protected => (REFUSED_PROTECTED, 0, 0),
        };
        Self {
            field: field(within),
            value,
            min: fits.get().div_ceil(1_000),
            max,
            ..Self::of(code)
        }
    }

    /// For a reserve with a period shorter than `shortest` while submissions are not decided on.
    pub fn of_period(period: Ns, shortest: Ns) -> Self {
        let us = |time: Ns| time.get().div_ceil(1_000);
        Self {
            value: us(period),
            min: us(shortest),
            ..Self::of(REFUSED_SHORT)
        }
    }

    /// Ends the words for a promise that cannot be kept.
    fn fits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.min {
            0 => f.write_str(": want less capacity, or fewer other reserves"),
            us if name_of(self.field) == "deadline_us" => {
                write!(f, ": a deadline of {us} us would do")
            }
            us => write!(f, ": a period of {us} us would do"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refusal {
            value, min, max, ..
        } = self;
        let name = name_of(self.field);
        match self.code {
            REFUSED_NOT => f.write_str("not refused"),
            REFUSED_RANGE => write!(f, "{name}={value} is out of range, want {min} to {max}"),
            REFUSED_FULL => write!(f, "no room for another of {max} {name}: clear one first"),
            REFUSED_ABOVE_GROUP => write!(
                f,
                "limit={value} is above that of a cgroup or user around it, want at most {max}"
            ),
            REFUSED_BELOW_MEMBER => write!(
                f,
                "limit={value} is below that of a process or cgroup in it, want at least {min}"
            ),
            REFUSED_TARGETS => write!(
                f,
                "target={value} and the others would be more than 90 % of the GPU, {max} % are left"
            ),
            REFUSED_NOTHING => write!(f, "{}", Error::NothingToSet),
            REFUSED_NO_DEADLINE => write!(f, "{}", Error::NoDeadline),
            REFUSED_NOT_SET => write!(f, "{}", Error::NotSet),
            REFUSED_CHANGED => write!(f, "{}", Error::Changed),
            REFUSED_PROCESS => write!(f, "{}", Error::DeniedToProcess),
            REFUSED_INHERITED => write!(f, "{}", Error::Inherited { from: *value }),
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
            REFUSED_PROMISES => {
                write!(f, "all reserves together would be more than {max} % of the GPU")?;
                self.fits(f)
            }
            REFUSED_COMMAND => {
                match value {
                    0 => write!(f, "a command of another reserve")?,
                    process => write!(f, "a command of process {process}")?,
                }
                write!(f, " may take {max} us, which a promised deadline could not bear")?;
                self.fits(f)?;
                f.write_str("; a reserve without --longest-us promises a part of the GPU only")
            }
            REFUSED_COSTS => {
                f.write_str("so many submissions would cost too much")?;
                self.fits(f)
            }
            REFUSED_PROTECTED_RESERVE => f.write_str(
                "a reserve for a protected client: nothing stops it, so that none can be kept; want mode prt or ht, or no reserve",
            ),
            REFUSED_PROTECTED => f.write_str(
                "no deadline can be promised beside a protected client (mode protected), which nothing stops: clear the one or the other; a reserve without --longest-us promises a part of the GPU only",
            ),
            REFUSED_SHORT => write!(
                f,
                "a period of {value} us is too short for a reserve while submissions are not decided on: want at least {min} us, or dispatch=edf or prio"
            ),
            code => write!(f, "refused for reason {code}"),
        }
    }
}
