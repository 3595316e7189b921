// SPDX-License-Identifier: GPL-2.0

//! [pure] The table of what has been set.
//!
//! Weight and class of a process are those set for the process, else those for its
//! cgroup, else those for its user, else 100 and normal. Limits do not replace each
//! other: each holds for all processes of its subject together, so a process stays
//! within its own limit, its cgroup's and its user's. Limits of several subjects may
//! add up to more than their group's or than a GPU, as a limit promises nothing; one
//! limit above that of the group around it could never be used up, and is refused.

use super::bounded::Bounded;
use super::budget::{Budget, Spent};
use super::setting::{Change, Class, Limit, Setting, Subject, Who};
use crate::error::Error;
use crate::units::{Ns, Weight};
use core::ops::DerefMut;

/// Settings of one GPU. A table of them takes less than 100 KiB.
pub const MAX_SETTINGS: usize = 512;

/// What is set for one subject, and the budget of its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    subject: Subject,
    setting: Setting,
    /// Whose process it is, for a process.
    within: Option<Who>,
    pub(super) budget: Budget,
    pub(super) spent: Spent,
}

impl Entry {
    /// For whom.
    pub const fn subject(&self) -> Subject {
        self.subject
    }

    /// What.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Whether its limit holds its processes back.
    pub const fn exhausted(&self) -> bool {
        self.budget.held()
    }
}

/// What holds for one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Its weight.
    pub weight: Weight,
    /// Its class.
    pub class: Class,
    /// The lowest limit that it is under.
    pub limit: Option<Limit>,
    /// Positions of its limits.
    pub(super) limits: [Option<u16>; 3],
}

/// The settings of one GPU, in storage that the caller owns, at most
/// [`MAX_SETTINGS`].
///
/// # Invariants
///
/// In ascending order of subject, each subject once.
pub struct Settings<S> {
    table: Bounded<S>,
    /// Raised by every change.
    generation: u64,
}

impl<S: DerefMut<Target = [Entry]>> Settings<S> {
    /// No settings.
    pub const fn new(store: S) -> Self {
        Self {
            table: Bounded::new(store),
            generation: 1,
        }
    }

    /// Everything that is set.
    pub fn all(&self) -> &[Entry] {
        self.table.all()
    }

    /// A number that differs after every change.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// What is set for a subject.
    pub fn get(&self, subject: Subject) -> Option<&Setting> {
        let at = self.find(subject).ok()?;
        self.all().get(at).map(Entry::setting)
    }

    /// Changes what is set for a subject. `within` says whose process a process is.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NothingToSet`], [`Error::LimitAboveGroup`],
    /// [`Error::LimitBelowMember`] or [`Error::Full`]; then nothing has changed.
    pub fn set(
        &mut self,
        subject: Subject,
        within: Option<Who>,
        change: &Change,
    ) -> Result<(), Error> {
        let place = self.find(subject);
        let old = place.ok().and_then(|at| self.all().get(at));
        let setting = change.apply(&old.map(|old| old.setting).unwrap_or_default())?;
        self.check_limit(subject, within, setting.limit)?;
        let mut entry = old.copied().unwrap_or_default();
        if entry.setting.limit != setting.limit {
            entry.budget.restart();
        }
        entry = Entry {
            subject,
            setting,
            within: within.filter(|_| subject.is_process()),
            ..entry
        };
        match place {
            Ok(at) => {
                if let Some(slot) = self.table.all_mut().get_mut(at) {
                    *slot = entry;
                }
            }
            Err(at) => {
                if !self.table.insert(at, entry) {
                    return Err(Error::Full {
                        name: "settings",
                        max: self.table.room(),
                    });
                }
            }
        }
        self.changed();
        Ok(())
    }

    /// Forgets what is set for a subject.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if nothing is.
    pub fn clear(&mut self, subject: Subject) -> Result<(), Error> {
        let at = self.find(subject).map_err(|_| Error::NotSet)?;
        self.table.remove(at);
        self.changed();
        Ok(())
    }

    /// Forgets everything.
    pub fn clear_all(&mut self) {
        self.table.clear();
        self.changed();
    }

    /// Forgets the settings of processes that are not alive. To be called when a
    /// process exits, or at the latest when the table is full.
    pub fn retain_processes(&mut self, is_alive: impl Fn(u64) -> bool) {
        let mut at = self.all().len();
        while let Some(last) = at.checked_sub(1) {
            at = last;
            if let Some(Subject::Process(key)) = self.all().get(at).map(Entry::subject) {
                if !is_alive(key) {
                    self.table.remove(at);
                    self.changed();
                }
            }
        }
    }

    /// What holds for a process.
    pub fn resolve(&self, who: &Who) -> Resolved {
        let places = Subject::of(who).map(|subject| self.find(subject).ok());
        let settings = || places.iter().flatten().filter_map(|at| self.all().get(*at));
        let limits = places.map(|place| {
            let at = place?;
            self.all().get(at)?.setting.limit?;
            u16::try_from(at).ok()
        });
        Resolved {
            weight: settings()
                .find_map(|entry| entry.setting.weight)
                .unwrap_or_default(),
            class: settings()
                .find_map(|entry| entry.setting.class)
                .unwrap_or_default(),
            limit: settings().filter_map(|entry| entry.setting.limit).min(),
            limits,
        }
    }

    /// Whether a limit holds back a process for which `resolved` holds.
    pub(super) fn exhausted(&self, resolved: &Resolved) -> bool {
        let mut limits = resolved.limits.iter().flatten();
        limits.any(|at| {
            self.all()
                .get(usize::from(*at))
                .is_some_and(Entry::exhausted)
        })
    }

    /// Adds what a process used to all limits that it is under.
    pub(super) fn spend(&mut self, resolved: &Resolved, spent: &Spent) {
        for at in resolved.limits.iter().flatten() {
            if let Some(entry) = self.table.all_mut().get_mut(usize::from(*at)) {
                entry.spent.used = entry.spent.used.saturating_add(spent.used);
                entry.spent.allowed |= spent.allowed;
            }
        }
    }

    /// Books what was spent since the last call, and decides which limits hold.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns) {
        for entry in self.table.all_mut() {
            let spent = core::mem::take(&mut entry.spent);
            if let Some(limit) = entry.setting.limit {
                entry.budget.settle(limit, now, span, next, &spent);
            }
        }
    }

    /// Starts all budgets anew: nothing is carried out for now.
    pub(super) fn suspend(&mut self) {
        for entry in self.table.all_mut() {
            entry.budget.restart();
            entry.spent = Spent::default();
        }
    }

    /// Refuses a limit that another one makes meaningless.
    fn check_limit(
        &self,
        subject: Subject,
        within: Option<Who>,
        limit: Option<Limit>,
    ) -> Result<(), Error> {
        let Some(limit) = limit else {
            return Ok(());
        };
        if let (Subject::Process(_), Some(who)) = (subject, within) {
            let group = [Subject::Cgroup(who.cgroup), Subject::User(who.user)]
                .into_iter()
                .filter_map(|group| self.get(group)?.limit)
                .min();
            return match group {
                Some(group) if limit > group => Err(Error::LimitAboveGroup {
                    limit: limit.get(),
                    group: group.get(),
                }),
                _ => Ok(()),
            };
        }
        let is_member = |entry: &&Entry| {
            entry
                .within
                .is_some_and(|who| Subject::of(&who).contains(&subject))
        };
        let members = self.all().iter().filter(is_member);
        match members.filter_map(|entry| entry.setting.limit).max() {
            Some(member) if limit < member => Err(Error::LimitBelowMember {
                limit: limit.get(),
                member: member.get(),
            }),
            _ => Ok(()),
        }
    }

    /// Position of a subject, or where it would be.
    fn find(&self, subject: Subject) -> Result<usize, usize> {
        self.all()
            .binary_search_by_key(&subject, |entry| entry.subject)
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_settings))]
mod tests {
    use super::*;

    const WHO: Who = Who {
        process: 10,
        cgroup: 20,
        user: 30,
    };
    const PROCESS: Subject = Subject::Process(10);
    const CGROUP: Subject = Subject::Cgroup(20);
    const USER: Subject = Subject::User(30);

    fn weight(weight: u32) -> Change {
        Change {
            weight: Some(weight),
            ..Change::default()
        }
    }

    fn limit(percent: u32) -> Change {
        Change {
            limit: Some(percent),
            ..Change::default()
        }
    }

    #[test]
    fn more_specific_setting_wins() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.resolve(&WHO).weight.get(), 100);
        for (subject, value) in [(USER, 3), (CGROUP, 2), (PROCESS, 1)] {
            assert_eq!(settings.set(subject, Some(WHO), &weight(value)), Ok(()));
            assert_eq!(settings.resolve(&WHO).weight.get(), value);
        }
        assert_eq!(settings.clear(PROCESS), Ok(()));
        assert_eq!(settings.resolve(&WHO).weight.get(), 2);
        assert_eq!(settings.clear(PROCESS), Err(Error::NotSet));
    }

    #[test]
    fn setting_of_another_is_not_taken() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        // The same number, but of another kind.
        assert_eq!(settings.set(Subject::User(10), None, &weight(5)), Ok(()));
        assert_eq!(settings.set(Subject::Process(20), None, &weight(5)), Ok(()));
        assert_eq!(settings.resolve(&WHO), Resolved::default());
    }

    #[test]
    fn refused_setting_leaves_the_previous_one() {
        let mut store = [Entry::default(); 1];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.set(USER, None, &weight(5)), Ok(()));
        assert!(settings.set(USER, None, &weight(0)).is_err());
        assert!(settings.set(USER, None, &limit(101)).is_err());
        let full = Error::Full {
            name: "settings",
            max: 1,
        };
        assert_eq!(settings.set(CGROUP, None, &weight(5)), Err(full));
        assert_eq!(settings.resolve(&WHO).weight.get(), 5);
        assert_eq!(settings.all().len(), 1);
    }

    #[test]
    fn limit_of_a_process_above_its_groups_is_refused() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.set(USER, None, &limit(50)), Ok(()));
        let refused = Error::LimitAboveGroup {
            limit: 51,
            group: 50,
        };
        assert_eq!(settings.set(PROCESS, Some(WHO), &limit(51)), Err(refused));
        assert_eq!(settings.set(PROCESS, Some(WHO), &limit(50)), Ok(()));
    }

    #[test]
    fn limit_of_a_group_below_a_members_is_refused() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.set(PROCESS, Some(WHO), &limit(60)), Ok(()));
        let refused = Error::LimitBelowMember {
            limit: 59,
            member: 60,
        };
        assert_eq!(settings.set(CGROUP, None, &limit(59)), Err(refused));
        assert_eq!(settings.set(CGROUP, None, &limit(60)), Ok(()));
        assert_eq!(settings.set(Subject::User(31), None, &limit(1)), Ok(()));
    }

    #[test]
    fn lowest_of_all_limits_is_reported() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.set(PROCESS, Some(WHO), &limit(60)), Ok(()));
        assert_eq!(settings.set(USER, None, &limit(80)), Ok(()));
        assert_eq!(settings.resolve(&WHO).limit, Limit::new(60).ok());
    }

    #[test]
    fn settings_of_dead_processes_are_forgotten() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::new(&mut store[..]);
        assert_eq!(settings.set(PROCESS, Some(WHO), &weight(5)), Ok(()));
        assert_eq!(settings.set(Subject::Process(11), None, &weight(5)), Ok(()));
        assert_eq!(settings.set(USER, None, &weight(5)), Ok(()));
        settings.retain_processes(|key| key == 11);
        assert_eq!(settings.all().len(), 2);
        assert!(settings.get(PROCESS).is_none());
        settings.clear_all();
        assert!(settings.all().is_empty());
    }
}
