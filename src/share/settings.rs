// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What has been set, and what holds for a process and for a group.
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
//!
//! The generation is another one after each change that may concern more than one process.

use super::budget::Spent;
use super::coarse::{CoarseReserve, CoarseTerms};
use super::entries::{Entries, Entry};
use super::lowering;
use super::reserving::CoarseReserves;
use super::resolved::Resolved;
use super::setting::{Change, GroupBy, Identity, Limit, Setting, Subject, Target, MAX_LEVELS};
use crate::error::Error;
use crate::storage::Storage;
use crate::units::{Ns, Weight};

/// The settings of one GPU, in storage that the caller owns, for
/// [`MAX_SETTINGS`](super::MAX_SETTINGS) at most.
pub struct Settings<S: Storage> {
    entries: Entries<S>,
    reserves: CoarseReserves<S>,
    /// Raised by every change of what administrators set, which may concern all processes. What its
    /// user lowers concerns one process only: see `GpuState::lower`.
    generation: u64,
    /// The knob `cgroup_depth`: what users set is divided between cgroups at this level.
    depth: u32,
}

impl<S: Storage> Settings<S> {
    /// No settings.
    pub const fn new(store: S::Of<Entry>) -> Self {
        Self {
            entries: Entries::new(store),
            reserves: CoarseReserves::none(),
            generation: 1,
            depth: 0,
        }
    }

    /// Makes room for coarse reserves.
    pub fn with_reserves(mut self, store: S::Of<CoarseReserve>) -> Self {
        self.reserves = CoarseReserves::new(store);
        self
    }

    /// Divides what users set between cgroups at this level from now on.
    pub(crate) const fn divide_at(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Everything that is set.
    pub fn all(&self) -> &[Entry] {
        self.entries.all()
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
        self.entries.get(subject)
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
        let setting = change.apply(old.setting())?;
        if setting.denied && subject.is_process() {
            return Err(Error::DeniedToProcess);
        }
        self.check_place(subject, within)?;
        self.check_target(subject, setting.target)?;
        self.check_limit(subject, within, setting.limit)?;
        let entry = old.with_setting(subject, within, setting);
        self.put(entry)
    }

    /// Forgets what is set for a subject.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if nothing is.
    pub fn clear(&mut self, subject: Subject) -> Result<(), Error> {
        self.entries.remove(subject).ok_or(Error::NotSet)?;
        self.changed();
        Ok(())
    }

    /// Puts back what [`Settings::entry`] said of a subject before.
    pub fn restore(&mut self, subject: Subject, before: Option<Entry>) {
        match before {
            // There was room for it.
            Some(entry) => drop(self.put(entry)),
            None => self.remove(subject),
        }
    }

    fn put(&mut self, entry: Entry) -> Result<(), Error> {
        if self.entries.put(entry)? {
            self.changed();
        }
        Ok(())
    }

    fn remove(&mut self, subject: Subject) {
        let gone = self.entries.remove(subject);
        if gone.is_some_and(|gone| !gone.setting().is_empty()) {
            self.changed();
        }
    }

    /// Forgets the settings of subjects that are gone. To be called when a process exits, or at the
    /// latest when the table is full.
    pub fn retain(&mut self, stays: impl Fn(Subject) -> bool) {
        // What users lowered for processes that are gone concerns nobody else.
        if self.entries.retain(stays) {
            self.changed();
        }
    }

    /// Lowers what holds for a process, or takes back what was lowered, for its user.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::NothingToSet`]; [`Error::NotLower`] for more than what
    /// an administrator lets it have, [`Error::DeniedToProcess`]; [`Error::Full`] if its tenant may lower no further process. Then
    /// nothing has changed.
    pub fn lower(&mut self, identity: &Identity, change: &Change) -> Result<(), Error> {
        let subject = Subject::Process(identity.process);
        if let Some(target) = change.target {
            return Err(Error::NotLower {
                name: "target",
                value: target.into(),
                max: 0,
            });
        }
        if change.denied.is_some() {
            return Err(Error::DeniedToProcess);
        }
        let old = self.entry(subject).copied().unwrap_or_default();
        let lowered = change.apply(old.lowered())?;
        lowering::check(change, &self.inherited(identity))?;
        if old.subject() != subject || old.lowered().is_empty() {
            let lowered = self.all().iter().filter(|entry| entry.is_of_user());
            let of = lowered.map(|entry| entry.tenant(self.depth));
            lowering::check_room(identity.tenant(self.depth), of)?;
        }
        self.put(old.with_lowered(identity, lowered))
    }

    /// Forgets what the user of a process lowered.
    ///
    /// # Errors
    ///
    /// [`Error::NotSet`] if it lowered nothing.
    pub fn clear_lowered(&mut self, identity: &Identity) -> Result<(), Error> {
        let subject = Subject::Process(identity.process);
        let entry = self.entry(subject).copied();
        let entry = entry.filter(|old| !old.lowered().is_empty());
        let entry = entry.ok_or(Error::NotSet)?;
        if entry.setting().is_empty() {
            self.remove(subject);
            return Ok(());
        }
        self.put(entry.without_lowered())
    }

    /// What would hold for a process if its user had lowered nothing.
    pub fn inherited(&self, identity: &Identity) -> Resolved {
        self.collect(identity, |entry| entry.setting().limit)
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
        resolved.set_reserve(self.reserves.followed_by(identity));
        resolved
    }

    /// What administrators set for a process and around it, with these limits.
    fn collect(&self, identity: &Identity, limit: fn(&Entry) -> Option<Limit>) -> Resolved {
        let mut resolved = Resolved::default();
        let (mut weight, mut class) = (None, None);
        for entry in self.set_around(identity) {
            weight = weight.or(entry.setting().weight);
            class = class.or(entry.setting().class);
            if let Some(limit) = limit(entry) {
                resolved.push_limit(entry.number(), limit);
            }
        }
        resolved.weight = weight.unwrap_or_default();
        resolved.class = class.unwrap_or_default();
        resolved
    }

    /// Whether a process may not open the GPU.
    pub fn denies(&self, identity: &Identity) -> bool {
        let mut around = self.set_around(identity);
        around.any(|entry| entry.setting().denied)
    }

    /// Everything set for a process or around it, the most specific first.
    fn set_around<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Entry> + 'a {
        let subjects = identity.subjects();
        subjects.filter_map(|subject| self.entries.get(subject))
    }

    /// Whether a limit throttles a process for which `resolved` holds.
    pub(super) fn exhausted(&self, resolved: &Resolved) -> bool {
        let mut limits = resolved.limits();
        limits.any(|number| self.entries.numbered(number).is_some_and(Entry::exhausted))
    }

    /// Adds what a process used to all limits that it is under.
    pub(super) fn spend(&mut self, resolved: &Resolved, spent: &Spent) {
        for number in resolved.limits() {
            if let Some(entry) = self.entries.numbered_mut(number) {
                entry.spend(spent);
            }
        }
    }

    /// Books what was spent since the last call, and decides which limits throttle.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns) {
        for entry in self.entries.all_mut() {
            entry.settle(now, span, next);
        }
        self.reserves.settle(now, span, next);
    }

    /// Starts all budgets anew: nothing is carried out for now.
    pub(super) fn suspend(&mut self) {
        for entry in self.entries.all_mut() {
            entry.restart();
        }
        self.reserves.suspend();
    }

    /// Sets all coarse reserves. One that was there before keeps its budget, debts included;
    /// without room the last ones are left out.
    pub fn set_reserves(
        &mut self,
        rows: impl Iterator<Item = (Subject, Option<CoarseTerms>)> + Clone,
    ) {
        if self.reserves.set(rows) {
            self.changed();
        }
    }

    /// The coarse reserve of a subject, if something is promised to it.
    pub fn coarse(&self, subject: Subject) -> Option<&CoarseReserve> {
        self.reserves.of(subject)
    }

    /// Whether there is any coarse reserve.
    pub(super) fn has_reserves(&self) -> bool {
        !self.reserves.all().is_empty()
    }

    /// The coarse reserve that a process follows.
    fn reserve(&self, resolved: &Resolved) -> Option<&CoarseReserve> {
        self.reserves.get(resolved.reserve()?)
    }

    /// Whether a process comes before the policy.
    pub(super) fn has_left(&self, resolved: &Resolved) -> bool {
        self.reserve(resolved).is_some_and(CoarseReserve::has_left)
    }

    /// Whether its reserve throttles a process.
    pub(super) fn is_used_up(&self, resolved: &Resolved) -> bool {
        self.reserve(resolved)
            .is_some_and(CoarseReserve::is_exhausted)
    }

    /// Charges what a process used to its coarse reserve, see [`CoarseReserve::charge`].
    pub(super) fn spend_reserve(
        &mut self,
        resolved: &Resolved,
        used: Ns,
        came_first: bool,
        holds: bool,
    ) {
        let at = resolved.reserve();
        if let Some(one) = at.and_then(|at| self.reserves.get_mut(at)) {
            one.charge(used, came_first, holds);
        }
    }

    /// The group to which a process belongs.
    ///
    /// Groups by cgroup are formed at level `depth` of the hierarchy, so that no number of
    /// cgroups below makes more of them; a process that is less deep belongs to the group of its
    /// cgroup. With `depth` 0, the group is the nearest cgroup around the process for which a
    /// weight or a target is set, else the one at level 1. The root is the group of its own processes only.
    pub fn group_of(&self, identity: &Identity, by: GroupBy, depth: u32) -> Subject {
        match (by, usize::try_from(depth)) {
            (GroupBy::Process, _) => Subject::Process(identity.process),
            (GroupBy::User, _) => Subject::User(identity.user),
            (GroupBy::Cgroup, Ok(level @ 1..)) => Subject::Cgroup(identity.cgroup_at(level)),
            (GroupBy::Cgroup, _) => {
                let root = identity.cgroup_at(0);
                let is_group = |id: &u64| {
                    let setting = self.get(Subject::Cgroup(*id));
                    setting.is_some_and(|set| set.weight.is_some() || set.target.is_some())
                };
                let mut cgroups = identity.cgroups().filter(|id| *id != root);
                Subject::Cgroup(cgroups.find(is_group).unwrap_or(identity.cgroup_at(1)))
            }
        }
    }

    /// The weight of a group to which the process with `identity` belongs.
    pub fn weight_of(&self, group: Subject, identity: &Identity) -> Weight {
        match group {
            Subject::Process(_) => self.resolve(identity).weight,
            Subject::User(_) => self
                .get(group)
                .and_then(|set| set.weight)
                .unwrap_or_default(),
            Subject::Cgroup(id) => {
                let mut around = self.around(id, identity);
                around
                    .find_map(|setting| setting.weight)
                    .unwrap_or_default()
            }
        }
    }

    /// The target of a group in percent, 0 for none: what is set for itself. One for what is around
    /// it or in it is that of another group.
    pub fn target_of(&self, group: Subject) -> u32 {
        let target = self.get(group).and_then(|set| set.target);
        target.map_or(0, Target::get)
    }

    /// The lowest limit for a group as a whole to which the process with `identity` belongs.
    pub fn limit_of(&self, group: Subject, identity: &Identity) -> Option<Limit> {
        match group {
            Subject::Cgroup(id) => self.around(id, identity).filter_map(|set| set.limit).min(),
            _ => self.entry(group).and_then(Entry::limit),
        }
    }

    /// What is set for a cgroup around a process, and for the cgroups around that one.
    fn around<'a>(
        &'a self,
        cgroup: u64,
        identity: &'a Identity,
    ) -> impl Iterator<Item = &'a Setting> + 'a {
        let cgroups = identity.cgroups().skip_while(move |id| *id != cgroup);
        cgroups.filter_map(|id| self.get(Subject::Cgroup(id)))
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
        let others = self.all().iter().filter(|entry| entry.subject() != subject);
        let others = others.filter_map(|entry| entry.setting().target);
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
        if let Some(identity) = within {
            let around = self.set_around(&identity);
            let around = around.filter(|entry| entry.subject() != subject);
            let group = around.filter_map(|entry| entry.setting().limit).min();
            if let Some(group) = group.filter(|group| limit > *group) {
                return Err(Error::LimitAboveGroup {
                    limit: limit.get(),
                    group: group.get(),
                });
            }
        }
        let inside = self.all().iter().filter(|entry| entry.is_inside(subject));
        match inside.filter_map(|entry| entry.setting().limit).max() {
            Some(member) if limit < member => Err(Error::LimitBelowMember {
                limit: limit.get(),
                member: member.get(),
            }),
            _ => Ok(()),
        }
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}
