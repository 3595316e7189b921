// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The table of what has been set.
//!
//! Weight and class of a process are the ones set for the process, else for the nearest cgroup
//! around it that has one, else for its user, else 100 and normal. Limits do not replace each
//! other: each holds for all processes of its subject together, so a process stays within its own
//! limit, that of every cgroup around it, and its user's. Limits of several subjects may add up to
//! more than their group's or than a GPU, as a limit promises nothing; one limit above that of the
//! group around it could never be used up, and is refused. A process may not open the GPU if that
//! is denied to a cgroup around it, however far, or to its user.
//!
//! What the user of a process lowered is kept apart from what an administrator set, see
//! `lowering`.

use super::budget::{Budget, Spent};
use super::coarse::CoarseReserve;
use super::setting::{Change, Class, Identity, Limit, Setting, Subject, Target, MAX_LEVELS};
use crate::error::Error;
use crate::quota::Tenant;
use crate::storage::{Bounded, Storage};
use crate::units::{Ns, Weight};
use core::cell::Cell;

/// Settings of one GPU. A table of them takes less than 200 KiB.
pub const MAX_SETTINGS: usize = 512;
/// As [`Identity::user`] of a cgroup: no user has this number.
pub const NO_USER: u32 = u32::MAX;

/// What is set for one subject, and the budget of its limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    pub(super) subject: Subject,
    pub(super) setting: Setting,
    /// What its user lowered, for a process.
    pub(super) lowered: Setting,
    /// Cgroups and user of a process; the place of a cgroup.
    pub(super) within: Option<Identity>,
    pub(super) budget: Budget,
    pub(super) spent: Spent,
    /// Its number, by which [`Resolved`] knows it.
    pub(super) number: u16,
    /// Of the place in memory where this entry is: one more than the position of the entry that has
    /// the number of that place; 0 if none has.
    pub(super) place: u16,
}

impl Entry {
    /// The process, cgroup or user.
    pub const fn subject(&self) -> Subject {
        self.subject
    }

    /// What an administrator set.
    pub const fn setting(&self) -> &Setting {
        &self.setting
    }

    /// What the user of a process lowered.
    pub const fn lowered(&self) -> &Setting {
        &self.lowered
    }

    /// For a process: the user it belonged to when something was set for it.
    pub fn user(&self) -> Option<u32> {
        let within = self.within.filter(|_| self.subject.is_process());
        within.map(|identity| identity.user)
    }

    /// The tenant of that process, with cgroups at this level.
    pub(super) fn tenant(&self, depth: u32) -> Tenant {
        let within = self.within.map(|identity| identity.tenant(depth));
        within.unwrap_or(Tenant::from(NO_USER))
    }

    /// The weight that is set for it.
    pub fn weight(&self) -> Option<Weight> {
        self.setting
            .weight
            .into_iter()
            .chain(self.lowered.weight)
            .min()
    }

    /// The class that is set for it.
    pub fn class(&self) -> Option<Class> {
        self.setting
            .class
            .into_iter()
            .chain(self.lowered.class)
            .max()
    }

    /// The limit that holds for its processes together.
    pub fn limit(&self) -> Option<Limit> {
        self.setting
            .limit
            .into_iter()
            .chain(self.lowered.limit)
            .min()
    }

    /// Whether its limit throttles its processes.
    pub const fn exhausted(&self) -> bool {
        self.budget.throttled()
    }

    /// Whether only its user made it.
    pub(super) fn is_of_user(&self) -> bool {
        self.setting.is_empty() && !self.lowered.is_empty()
    }
}

/// Most limits that a process is under: its own, those of the cgroups around it, its user's.
const MAX_LIMITS: usize = MAX_LEVELS + 2;

/// What holds for one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Its weight.
    pub weight: Weight,
    /// Its class.
    pub class: Class,
    /// The lowest limit that it is under.
    pub limit: Option<Limit>,
    /// Position of its coarse reserve.
    pub(super) reserve: Option<u8>,
    /// Numbers of the entries of its limits; the first `count` of them.
    limits: [u16; MAX_LIMITS],
    count: u8,
}

impl Resolved {
    /// Whether it has a budget.
    pub const fn is_limited(&self) -> bool {
        self.limit.is_some() || self.reserve.is_some()
    }

    /// The percentage of a GPU that it may use.
    pub(super) fn cap(&self) -> u32 {
        self.limit.unwrap_or(Limit::NONE).get()
    }

    /// Numbers of the entries of its limits.
    fn limits(&self) -> impl Iterator<Item = usize> + '_ {
        let limits = self.limits.iter().take(self.count.into());
        limits.map(|number| usize::from(*number))
    }

    fn push_limit(&mut self, number: u16, limit: Limit) {
        // It does not fail: the number of limits is bounded.
        if let Some(slot) = self.limits.get_mut(usize::from(self.count)) {
            *slot = number;
            self.count = self.count.saturating_add(1);
        }
        self.limit = self.limit.into_iter().chain(Some(limit)).min();
    }
}

/// The settings of one GPU, in storage that the caller owns, at most
/// [`MAX_SETTINGS`].
///
/// # Invariants
///
/// In ascending order of subject, each subject once. Each entry has a number that no other one has,
/// and keeps it when others come and go: that of a place in memory, which has its position in the
/// table.
pub struct Settings<S: Storage> {
    table: Bounded<S::Of<Entry>>,
    /// Coarse reserves, if there is room for any.
    pub(super) reserves: Option<Bounded<S::Of<CoarseReserve>>>,
    /// Raised by every change of what administrators set, which may concern all processes. What its
    /// user lowers concerns one process only: see `GpuState::lower`.
    generation: u64,
    /// The knob `cgroup_depth`: what users set is divided between cgroups at this level.
    pub(super) depth: u32,
}

impl<S: Storage> Settings<S> {
    /// No settings.
    pub const fn new(store: S::Of<Entry>) -> Self {
        Self {
            table: Bounded::new(store),
            reserves: None,
            generation: 1,
            depth: 0,
        }
    }

    /// Divides what users set between cgroups at this level from now on.
    pub(crate) const fn divide_at(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Everything that is set.
    pub fn all(&self) -> &[Entry] {
        self.table.all()
    }

    /// A number that differs after every change of what administrators set.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// What is set for a subject by an administrator.
    pub fn get(&self, subject: Subject) -> Option<&Setting> {
        self.entry(subject).map(Entry::setting)
    }

    /// Everything about a subject for which something is set.
    pub fn entry(&self, subject: Subject) -> Option<&Entry> {
        let at = self.find(subject).ok()?;
        self.all().get(at)
    }

    /// Changes what is set for a subject, for an administrator. `within` has the cgroups and user
    /// of a process, and the place of a cgroup.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NothingToSet`], [`Error::LimitAboveGroup`],
    /// [`Error::LimitBelowMember`], [`Error::TargetsTogether`], [`Error::DeniedToProcess`],
    /// [`Error::CgroupTooDeep`] or [`Error::Full`]; then nothing has changed.
    pub fn set(
        &mut self,
        subject: Subject,
        within: Option<Identity>,
        change: &Change,
    ) -> Result<(), Error> {
        let old = self.entry(subject).copied().unwrap_or_default();
        let setting = change.apply(&old.setting)?;
        if setting.denied && subject.is_process() {
            return Err(Error::DeniedToProcess);
        }
        self.check_place(subject, within)?;
        self.check_target(subject, setting.target)?;
        self.check_limit(subject, within, setting.limit)?;
        let mut entry = Entry {
            subject,
            setting,
            within,
            ..old
        };
        // What is owed stays owed under another limit, and ends with the limit.
        let holds = |limit: Option<Limit>| limit.is_some_and(|limit| limit != Limit::NONE);
        let (before, after) = (old.setting.limit, setting.limit);
        if before != after && !(holds(before) && holds(after)) {
            entry.budget.restart();
        }
        self.put(entry)
    }

    /// Forgets what is set for a subject.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if nothing is.
    pub fn clear(&mut self, subject: Subject) -> Result<(), Error> {
        let at = self.find(subject).map_err(|_| Error::NotSet)?;
        self.remove(at);
        self.changed();
        Ok(())
    }

    /// Takes out the entry at `at`.
    pub(super) fn remove(&mut self, at: usize) {
        let gone = self.table.remove(at);
        self.note_places();
        if gone.is_some_and(|gone| !gone.setting.is_empty()) {
            self.changed();
        }
    }

    /// Notes where the entries are, after some have moved.
    fn note_places(&mut self) {
        for slot in self.table.memory_mut() {
            slot.place = 0;
        }
        for at in 0..self.all().len() {
            let number = self.all().get(at).map_or(0, |entry| entry.number);
            let slot = self.table.memory_mut().get_mut(usize::from(number));
            if let (Some(slot), Ok(place)) = (slot, u16::try_from(at.saturating_add(1))) {
                slot.place = place;
            }
        }
    }

    /// A number that no entry has.
    fn free_number(&self) -> Option<u16> {
        let mut slots = self.table.memory().iter();
        let free = slots.position(|slot| slot.place == 0)?;
        u16::try_from(free).ok()
    }

    /// Position of the entry with this number.
    fn place(&self, number: usize) -> Option<usize> {
        let slot = self.table.memory().get(number)?;
        usize::from(slot.place).checked_sub(1)
    }

    /// Puts back what [`Settings::entry`] said of a subject before.
    pub fn restore(&mut self, subject: Subject, before: Option<Entry>) {
        match before {
            // There was room for it.
            Some(entry) => drop(self.put(entry)),
            None => {
                if let Ok(at) = self.find(subject) {
                    self.remove(at);
                }
            }
        }
    }

    /// Adds an entry, or replaces that of the same subject.
    pub(super) fn put(&mut self, entry: Entry) -> Result<(), Error> {
        let full = Error::Full {
            name: "settings",
            max: self.table.room(),
        };
        let before = match self.find(entry.subject) {
            Ok(at) => {
                let Some(slot) = self.table.all_mut().get_mut(at) else {
                    return Ok(());
                };
                let (number, place) = (slot.number, slot.place);
                let entry = Entry {
                    number,
                    place,
                    ..entry
                };
                core::mem::replace(slot, entry).setting
            }
            Err(at) => {
                let number = self.free_number().ok_or(full)?;
                if !self.table.insert(at, Entry { number, ..entry }) {
                    return Err(full);
                }
                self.note_places();
                Setting::default()
            }
        };
        if before != entry.setting {
            self.changed();
        }
        Ok(())
    }

    /// Forgets the settings of subjects that are gone. To be called when a process exits, or at the
    /// latest when the table is full.
    pub fn retain(&mut self, stays: impl Fn(Subject) -> bool) {
        let before = self.all().len();
        // What users lowered for processes that are gone concerns nobody else.
        let changed = Cell::new(false);
        self.table.retain(|entry| {
            let stays = stays(entry.subject);
            changed.set(changed.get() || (!stays && !entry.setting.is_empty()));
            stays
        });
        if self.all().len() != before {
            self.note_places();
        }
        if changed.get() {
            self.changed();
        }
    }

    /// What holds for a process.
    pub fn resolve(&self, identity: &Identity) -> Resolved {
        let mut resolved = self.collect(identity, Entry::limit);
        let own = self.entry(Subject::Process(identity.process));
        if let Some(lowered) = own.map(Entry::lowered) {
            resolved.weight = lowered
                .weight
                .unwrap_or(resolved.weight)
                .min(resolved.weight);
            resolved.class = lowered.class.unwrap_or_default().max(resolved.class);
        }
        resolved.reserve = self.reserve_of(identity);
        resolved
    }

    /// What administrators set for a process and around it, with these limits.
    pub(super) fn collect(
        &self,
        identity: &Identity,
        limit: fn(&Entry) -> Option<Limit>,
    ) -> Resolved {
        let mut resolved = Resolved::default();
        let (mut weight, mut class) = (None, None);
        for at in self.places(identity) {
            let Some(entry) = self.all().get(at) else {
                continue;
            };
            weight = weight.or(entry.setting.weight);
            class = class.or(entry.setting.class);
            if let Some(limit) = limit(entry) {
                resolved.push_limit(entry.number, limit);
            }
        }
        resolved.weight = weight.unwrap_or_default();
        resolved.class = class.unwrap_or_default();
        resolved
    }

    /// Whether a process may not open the GPU.
    pub fn denies(&self, identity: &Identity) -> bool {
        let mut around = self.places(identity).filter_map(|at| self.all().get(at));
        around.any(|entry| entry.setting.denied)
    }

    /// Positions of everything set for a process or around it, the most specific first.
    fn places<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = usize> + 'a {
        let subjects = identity.subjects();
        subjects.filter_map(|subject| self.find(subject).ok())
    }

    /// Whether a limit throttles a process for which `resolved` holds.
    pub(super) fn exhausted(&self, resolved: &Resolved) -> bool {
        let mut places = resolved.limits().filter_map(|number| self.place(number));
        places.any(|at| self.all().get(at).is_some_and(Entry::exhausted))
    }

    /// Adds what a process used to all limits that it is under.
    pub(super) fn spend(&mut self, resolved: &Resolved, spent: &Spent) {
        for number in resolved.limits() {
            let at = self.place(number).unwrap_or(usize::MAX);
            if let Some(entry) = self.table.all_mut().get_mut(at) {
                entry.spent.used = entry.spent.used.saturating_add(spent.used);
                entry.spent.allowed |= spent.allowed;
            }
        }
    }

    /// Books what was spent since the last call, and decides which limits throttle.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns) {
        for entry in self.table.all_mut() {
            let spent = core::mem::take(&mut entry.spent);
            if let Some(limit) = entry.limit() {
                entry.budget.settle(limit.rate(), now, span, next, &spent);
            }
        }
        self.settle_reserves(now, span, next);
    }

    /// Starts all budgets anew: nothing is carried out for now.
    pub(super) fn suspend(&mut self) {
        for entry in self.table.all_mut() {
            entry.budget.restart();
            entry.spent = Spent::default();
        }
        self.suspend_reserves();
    }

    /// Refuses a cgroup that is not in the path kept of a process below it.
    fn check_place(&self, subject: Subject, within: Option<Identity>) -> Result<(), Error> {
        let level = within.map_or(0, |identity| identity.level());
        match subject {
            Subject::Cgroup(_) if level >= MAX_LEVELS => Err(Error::CgroupTooDeep {
                max: MAX_LEVELS.saturating_sub(1),
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a target that is too much beside the others.
    fn check_target(&self, subject: Subject, target: Option<Target>) -> Result<(), Error> {
        let Some(target) = target else {
            return Ok(());
        };
        let others = self.all().iter().filter(|entry| entry.subject != subject);
        let others = others.filter_map(|entry| entry.setting.target);
        let sum = others.map(Target::get).fold(0, u32::saturating_add);
        let left = Target::MAX.saturating_sub(sum);
        if target.get() > left {
            let target = target.get();
            return Err(Error::TargetsTogether { target, left });
        }
        Ok(())
    }

    /// Refuses a limit that another one makes meaningless. Settings that users lowered do not limit
    /// an administrator.
    fn check_limit(
        &self,
        subject: Subject,
        within: Option<Identity>,
        limit: Option<Limit>,
    ) -> Result<(), Error> {
        let Some(limit) = limit else {
            return Ok(());
        };
        let limit_at = |at: usize| {
            let entry = self.all().get(at);
            let entry = entry.filter(|entry| entry.subject != subject);
            entry.and_then(|entry| entry.setting.limit)
        };
        if let Some(identity) = within {
            let group = self.places(&identity).filter_map(limit_at).min();
            if let Some(group) = group.filter(|group| limit > *group) {
                return Err(Error::LimitAboveGroup {
                    limit: limit.get(),
                    group: group.get(),
                });
            }
        }
        let is_inside = |entry: &&Entry| {
            let inside = |identity: Identity| match subject {
                Subject::Process(_) => false,
                Subject::User(user) => identity.user == user,
                Subject::Cgroup(id) => identity.is_in(id),
            };
            entry.subject != subject && entry.within.is_some_and(inside)
        };
        let inside = self.all().iter().filter(is_inside);
        match inside.filter_map(|entry| entry.setting.limit).max() {
            Some(member) if limit < member => Err(Error::LimitBelowMember {
                limit: limit.get(),
                member: member.get(),
            }),
            _ => Ok(()),
        }
    }

    /// Position of a subject, or where it would be.
    pub(super) fn find(&self, subject: Subject) -> Result<usize, usize> {
        self.all()
            .binary_search_by_key(&subject, |entry| entry.subject)
    }

    pub(super) fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}
