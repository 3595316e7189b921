// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Why a setting was refused.
//!
//! One variant per cause, with the value that caused it. The kernel module turns
//! these into an errno and a line in one place.

use core::fmt;

/// Why a setting was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A number outside its range.
    OutOfRange {
        /// Name of the setting, as the user writes it.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Smallest value accepted.
        min: u64,
        /// Largest value accepted.
        max: u64,
    },
    /// Something else than a number.
    NotANumber {
        /// Name of the setting.
        setting: &'static str,
        /// Smallest value accepted.
        min: u64,
        /// Largest value accepted.
        max: u64,
    },
    /// A name that is not known.
    UnknownName {
        /// Name of the setting.
        setting: &'static str,
        /// The names there are.
        names: &'static [&'static str],
    },
    /// A knob that is set when the module is loaded, and not later.
    AtLoad {
        /// Its name.
        setting: &'static str,
    },
    /// The policy needs inputs that are not observed here.
    Unobserved {
        /// Its name.
        policy: &'static str,
        /// What it needs to know.
        needs: &'static str,
    },
    /// Phases that grow with active clients must vary.
    SteadyPhases,
    /// A table has no room left.
    Full {
        /// Name of the table.
        name: &'static str,
        /// How much it holds.
        max: usize,
    },
    /// A limit above that of a cgroup or user around the process or cgroup.
    LimitAboveGroup {
        /// What was given, in percent.
        limit: u32,
        /// The lowest limit around it.
        group: u32,
    },
    /// A limit of a cgroup or user below that of a process or cgroup inside.
    LimitBelowMember {
        /// What was given, in percent.
        limit: u32,
        /// The highest limit inside.
        member: u32,
    },
    /// Targets that are more together than may be set.
    TargetsTogether {
        /// What was given, in percent.
        target: u32,
        /// What is left beside the others.
        left: u32,
    },
    /// Access to the GPU for a process, whose children would not have it denied.
    DeniedToProcess,
    /// A cgroup at a level of the hierarchy that LoGA does not follow.
    CgroupTooDeep {
        /// Deepest level at which something can be set.
        max: usize,
    },
    /// A user asked for more than an administrator lets the process have.
    NotLower {
        /// Name of the setting.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Most that the user may set.
        max: u64,
    },
    /// A user asked for the normal class for a process that an administrator made idle.
    NotIdle,
    /// A user asked to change a process of another user, a user or a cgroup.
    NotOwn,
    /// A process that uses the GPU through pages of another one, which has ended.
    Inherited {
        /// Number of that one.
        from: u64,
    },
    /// A deadline of a reserve that promises none.
    NoDeadline,
    /// A request that sets nothing.
    NothingToSet,
    /// Nothing has been set for this process, user or cgroup.
    NotSet,
    /// A claim was made since the figures were read that this one is based on.
    Changed,
}

impl core::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::OutOfRange {
                name,
                value,
                min,
                max,
            } => write!(f, "{name}={value} is out of range, want {min} to {max}"),
            Error::NotANumber { setting, min, max } => {
                write!(f, "{setting} wants a whole number, {min} to {max}")
            }
            Error::UnknownName { setting, names } => {
                write!(f, "unknown {setting}, want one of")?;
                for (at, name) in names.iter().enumerate() {
                    write!(f, "{} {name}", if at == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Error::AtLoad { setting } => {
                write!(f, "{setting} is a parameter of the module: set it at insmod")
            }
            Error::Unobserved { policy, needs } => {
                write!(
                    f,
                    "policy {policy} needs {needs}, which are not observed here"
                )
            }
            Error::SteadyPhases => {
                write!(
                    f,
                    "scale=active needs randomize=1, so that no application runs in step"
                )
            }
            Error::Full { name, max } => {
                write!(f, "no room for another of {max} {name}: clear one first")
            }
            Error::TargetsTogether { target, left } => write!(
                f,
                "target={target} and the others would be more than 90 % of the GPU, {left} % are left"
            ),
            Error::LimitAboveGroup { limit, group } => write!(
                f,
                "limit={limit} is above that of a cgroup or user around it, want at most {group}"
            ),
            Error::LimitBelowMember { limit, member } => write!(
                f,
                "limit={limit} is below that of a process or cgroup in it, want at least {member}"
            ),
            Error::DeniedToProcess => write!(
                f,
                "access is set for a cgroup or user: it would not hold for the children of a process"
            ),
            Error::CgroupTooDeep { max } => write!(
                f,
                "the cgroup is too deep, want one at most {max} levels below the root"
            ),
            Error::NotLower { name, value, max } => write!(
                f,
                "{name}={value} is more than what holds for it, which is for root (CAP_SYS_ADMIN): want at most {max}"
            ),
            Error::NotIdle => write!(
                f,
                "class=normal is more than what holds for it, which is for root (CAP_SYS_ADMIN): want class=idle"
            ),
            Error::NotOwn => write!(
                f,
                "this is for root (CAP_SYS_ADMIN): a user may lower its own processes only"
            ),
            Error::Inherited { from } => write!(
                f,
                "it uses pages of process {from}, which has ended, and is that client: set it for the user or cgroup"
            ),
            Error::NoDeadline => write!(
                f,
                "a deadline of a reserve that promises none: want kind cbs, not soft, with its longest submission declared, or no deadline"
            ),
            Error::NothingToSet => write!(f, "nothing to set, want a weight, limit, class, target or access"),
            Error::NotSet => write!(f, "nothing is set for it"),
            Error::Changed => write!(
                f,
                "another program has claimed a GPU since: read the snapshots again"
            ),
        }
    }
}

/// Checks that `value` lies in `min..=max`.
///
/// # Errors
///
/// [`Error::OutOfRange`] that names the setting, the value and the range.
pub fn in_range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), Error> {
    if value < min || value > max {
        return Err(Error::OutOfRange {
            name,
            value,
            min,
            max,
        });
    }
    Ok(())
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_error))]
mod tests {
    use super::*;

    #[test]
    fn in_range_at_both_ends_accepts() {
        assert!(in_range("ratio", 1, 1, 1000).is_ok());
        assert!(in_range("ratio", 1000, 1, 1000).is_ok());
    }

    #[test]
    fn in_range_outside_names_value_and_range() {
        let refused = in_range("ratio", 0, 1, 1000);
        assert_eq!(
            refused,
            Err(Error::OutOfRange {
                name: "ratio",
                value: 0,
                min: 1,
                max: 1000
            })
        );
        assert!(in_range("ratio", 1001, 1, 1000).is_err());
    }
}
