// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What can be set, and for which subjects.

use super::budget::{Rate, BURST};
use crate::error::{in_range, Error};
use crate::names::named;
use crate::quota::Tenant;
use crate::units::{Ns, Weight};

/// Levels of the hierarchy of cgroups at which something can be set, from the root on. A path of
/// them is part of every process and setting, so it is bounded; what is set there holds for
/// everything below, however deep.
pub const MAX_LEVELS: usize = 16;

/// A process, its cgroups and its user. The numbers are those of the initial namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Key of the process, never used again while the machine runs.
    pub process: u64,
    /// Its cgroup; 0 if there is none.
    pub cgroup: u64,
    /// The cgroups around that one, from the root on: one for each level, at most [`MAX_LEVELS`].
    /// The rest is 0.
    pub above: [u64; MAX_LEVELS],
    /// Its user.
    pub user: u32,
}

impl Identity {
    /// Its cgroup and the cgroups around it, the nearest first.
    pub fn cgroups(&self) -> impl Iterator<Item = u64> + '_ {
        let own = core::iter::once(self.cgroup);
        let all = own.chain(self.above.iter().rev().copied());
        all.filter(|id| *id != 0)
    }

    /// What can be set for it or around it, the most specific first.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        let process = core::iter::once(Subject::Process(self.process));
        let cgroups = self.cgroups().map(Subject::Cgroup);
        let user = core::iter::once(Subject::User(self.user));
        process.chain(cgroups).chain(user)
    }

    /// The level of its cgroup; the root is at level 0. [`MAX_LEVELS`] stands for this level and
    /// all deeper ones.
    pub fn level(&self) -> usize {
        self.above.iter().take_while(|id| **id != 0).count()
    }

    /// The cgroup around it at a level; its own if that is less deep.
    pub fn cgroup_at(&self, level: usize) -> u64 {
        let above = self.above.get(level).copied();
        above.filter(|id| *id != 0).unwrap_or(self.cgroup)
    }

    /// Who holds what it takes of bounded tables: its user, and its cgroup at the tenants' level.
    /// `depth` is the knob `cgroup_depth`, the level at which `group_by=cgroup` has its groups. Where
    /// that depends on weights (0), the tenants' level is 1. A process that is less deep belongs to
    /// its own cgroup.
    pub fn tenant(&self, depth: u32) -> Tenant {
        let level = usize::try_from(depth.max(1)).unwrap_or(usize::MAX);
        Tenant {
            user: self.user,
            cgroup: self.cgroup_at(level),
        }
    }

    /// Whether it is in this cgroup or one below.
    pub fn is_in(&self, cgroup: u64) -> bool {
        self.cgroups().any(|id| id == cgroup)
    }
}

/// The subject of a setting. The earlier kinds are the more specific ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The process with this key.
    Process(u64),
    /// All processes of this cgroup and those below it.
    Cgroup(u64),
    /// All processes of this user.
    User(u32),
}

impl Default for Subject {
    fn default() -> Self {
        Subject::Process(0)
    }
}

impl Subject {
    /// Whether this is a process.
    pub const fn is_process(&self) -> bool {
        matches!(self, Subject::Process(_))
    }
}

named! {
    /// What the GPU is divided between.
    pub enum GroupBy of "group_by" {
        /// Processes.
        #[default]
        Process = "process",
        /// Users.
        User = "user",
        /// Cgroups, see [`Settings::group_of`].
        ///
        /// [`Settings::group_of`]: super::Settings::group_of
        Cgroup = "cgroup",
    }
}

/// When a client may run at all. The later ones get less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// By its weight.
    #[default]
    Normal,
    /// Only when no client of the normal class wants the GPU.
    Idle,
}

/// A hard limit in percent of a GPU.
///
/// # Invariants
///
/// In [`Limit::MIN`]`..=`[`Limit::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(u8);

impl Limit {
    /// Smallest limit.
    pub const MIN: u32 = 1;
    /// No limit.
    pub const MAX: u32 = 100;
    /// The whole GPU: no limit.
    pub const NONE: Self = Self(100);

    /// This limit.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] outside 1 to 100.
    pub fn new(percent: u32) -> Result<Self, Error> {
        in_range("limit", percent.into(), Self::MIN.into(), Self::MAX.into())?;
        // CAST: at most 100.
        Ok(Self(percent as u8))
    }

    /// The percentage.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }

    /// The rate at which its budget grows.
    pub fn rate(self) -> Rate {
        Rate {
            // 100 percent of it is all of it.
            capacity: Ns::new(BURST.get() / 100 * u64::from(self.0)),
            period: BURST,
        }
    }
}

/// A part of a GPU, in percent, that a group that wants it is to get: see policy `credit-slo`.
///
/// # Invariants
///
/// In `1..=`[`Target::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target(u8);

impl Target {
    /// Most of all targets together.
    pub const MAX: u32 = 90;

    /// This target.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] outside 1 to 90.
    pub fn new(percent: u32) -> Result<Self, Error> {
        in_range("target", percent.into(), 1, Self::MAX.into())?;
        // CAST: at most 90.
        Ok(Self(percent as u8))
    }

    /// The percentage.
    pub const fn get(self) -> u32 {
        self.0 as u32
    }
}

/// What is set for one subject. What is not set is taken from a less specific one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Weight.
    pub weight: Option<Weight>,
    /// Hard limit for all processes of the subject together.
    pub limit: Option<Limit>,
    /// Class.
    pub class: Option<Class>,
    /// Target, of the group that is this subject.
    pub target: Option<Target>,
    /// Whether its processes may not open the GPU, of a cgroup or user.
    pub denied: bool,
}

impl Setting {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A request to set something, not checked yet. Absent fields do not change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Weight, 1 to 10000.
    pub weight: Option<u32>,
    /// Hard limit in percent of a GPU, 1 to 100; 100 is none.
    pub limit: Option<u32>,
    /// Class.
    pub class: Option<Class>,
    /// Target in percent of a GPU, 1 to 90; 0 is none.
    pub target: Option<u32>,
    /// Whether its processes may not open the GPU.
    pub denied: Option<bool>,
}

impl Change {
    /// A change of nothing.
    const NONE: Self = Self {
        weight: None,
        limit: None,
        class: None,
        target: None,
        denied: None,
    };

    /// Of a weight alone.
    pub const fn weight(weight: u32) -> Self {
        Self {
            weight: Some(weight),
            ..Self::NONE
        }
    }

    /// Of a limit alone, in percent.
    pub const fn limit(percent: u32) -> Self {
        Self {
            limit: Some(percent),
            ..Self::NONE
        }
    }

    /// Of a class alone.
    pub const fn class(class: Class) -> Self {
        Self {
            class: Some(class),
            ..Self::NONE
        }
    }

    /// The setting after this change.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], or [`Error::NothingToSet`].
    pub fn apply(&self, old: &Setting) -> Result<Setting, Error> {
        if *self == Self::NONE {
            return Err(Error::NothingToSet);
        }
        let target = match self.target {
            None => old.target,
            Some(0) => None,
            Some(percent) => Some(Target::new(percent)?),
        };
        Ok(Setting {
            weight: self.weight.map(Weight::new).transpose()?.or(old.weight),
            limit: self.limit.map(Limit::new).transpose()?.or(old.limit),
            class: self.class.or(old.class),
            target,
            denied: self.denied.unwrap_or(old.denied),
        })
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_setting))]
mod tests {
    use super::*;

    #[test]
    fn tenant_is_the_cgroup_at_the_level_of_the_groups() {
        let mut process = Identity {
            cgroup: 40,
            user: 5,
            ..Identity::default()
        };
        for (above, id) in process.above.iter_mut().zip([10, 20, 30]) {
            *above = id;
        }
        let at = |depth| process.tenant(depth).cgroup;
        assert_eq!([0, 1, 2, 3, 9].map(at), [20, 20, 30, 40, 40]);
        assert_eq!(process.tenant(u32::MAX).user, 5);
    }

    #[test]
    fn cgroups_of_a_process_are_the_nearest_first() {
        let mut identity = Identity {
            cgroup: 4,
            ..Identity::default()
        };
        for (slot, id) in identity.above.iter_mut().zip([1, 2, 3]) {
            *slot = id;
        }
        assert!(identity.cgroups().eq([4, 3, 2, 1]));
        assert_eq!(identity.level(), 3);
        assert_eq!(identity.cgroup_at(1), 2);
        assert_eq!(identity.cgroup_at(3), 4);
        assert_eq!(identity.cgroup_at(9), 4);
        assert!(identity.is_in(1));
        assert!(identity.is_in(4));
        assert!(!identity.is_in(5));
        assert!(Identity::default().cgroups().next().is_none());
    }

    #[test]
    fn limit_outside_its_range_is_refused() {
        assert!(Limit::new(0).is_err());
        assert!(Limit::new(101).is_err());
        assert_eq!(Limit::new(1).map(Limit::get), Ok(1));
        assert_eq!(Limit::new(100), Ok(Limit::NONE));
    }

    #[test]
    fn limit_of_any_time_stays_in_range() {
        let of = |limit: Limit, ns| limit.rate().of(Ns::new(ns));
        assert_eq!(of(Limit::NONE, u64::MAX), Ns::new(u64::MAX));
        assert!(Limit::new(30).is_ok_and(|limit| of(limit, 199) == Ns::new(59)));
    }

    #[test]
    fn change_of_nothing_is_refused() {
        let empty = Change::default();
        assert_eq!(empty.apply(&Setting::default()), Err(Error::NothingToSet));
    }

    #[test]
    fn change_keeps_what_it_does_not_name() {
        let old = Setting {
            weight: Weight::new(7).ok(),
            ..Setting::default()
        };
        let change = Change {
            limit: Some(20),
            ..Change::default()
        };
        let new = change.apply(&old).unwrap_or_default();
        assert_eq!(new.weight, old.weight);
        assert_eq!(new.limit, Limit::new(20).ok());
    }
}
