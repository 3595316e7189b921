// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The groups between which a GPU is divided: which one a process belongs to, and how they
//! come with their first process and stay after the last one until what it used is paid for, or
//! longer: see [`super::remembered`].
//!
//! Where every process is a group, a new one starts as far ahead of the system as the group of its
//! user that is furthest ahead, processes that have ended included: a program that forks, or ends
//! and begins again, pays what it owes. It costs another program of the user one wait of this
//! length at its start.

use super::member::{Group, Parts};
use super::remembered::Legacy;
use super::setting::{GroupBy, Identity, Limit, Setting, Subject, Target};
use super::settings::{Entry, Resolved, Settings};
use super::shares::Shares;
use crate::fair::mul_div;
use crate::ids::GroupId;
use crate::policies::ClientState;
use crate::storage::Storage;
use crate::units::{Ns, VTime, Weight};

/// What a new group begins with, of the other groups of its user.
#[derive(Clone, Copy, Default)]
pub(super) struct Inheritance {
    /// GPU time by which the one that is furthest ahead is ahead of the system.
    pub(super) lead: Ns,
    /// That one waits.
    pub(super) waits: bool,
    /// The greatest of what their processes attained.
    pub(super) legacy: Option<Legacy>,
}

impl<S: Storage> Shares<S> {
    /// Position of the group that a process belongs to, made if there is none; counts
    /// the process in.
    pub(super) fn group_for(
        &mut self,
        identity: &Identity,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Option<usize> {
        let subject = settings.group_of(identity, self.group_by, self.depth);
        let at = match self.groups().iter().position(|g| g.subject() == subject) {
            Some(at) => at,
            None => {
                if self.groups.is_full() {
                    self.drop_poorest_empty_group();
                }
                let group = Group {
                    subject,
                    identity: *identity,
                    limit: settings.limit_of(subject, identity),
                    ..Group::default()
                };
                let weight = settings.weight_of(subject, identity);
                let mut state = ClientState::new(GroupId::new(self.next), weight, t_sys);
                state.target_pct = settings.target_of(subject);
                self.next = self.next.saturating_add(1);
                let (id, state_index) = (state.id, self.states.push(state)?);
                self.empty = self.empty.saturating_add(1);
                self.groups.push(Group {
                    id,
                    state_index,
                    ..group
                })?
            }
        };
        let group = self.groups.all_mut().get_mut(at)?;
        if group.members == 0 {
            self.empty = self.empty.saturating_sub(1);
        }
        if core::mem::take(&mut group.is_remembered) {
            self.remembered = self.remembered.saturating_sub(1);
        }
        group.members = group.members.saturating_add(1);
        Some(at)
    }

    /// A process for which this holds comes to a group.
    pub(super) fn count_in(&mut self, at: usize, resolved: &Resolved) {
        self.count_cap(at, 0, resolved.cap());
    }

    /// A process for which this holds, and which used so much in the group, belongs to it no more.
    pub(super) fn count_out(&mut self, at: usize, resolved: &Resolved, used: Ns) {
        self.count_cap(at, resolved.cap(), 0);
        if let Some(group) = self.groups.all_mut().get_mut(at) {
            group.used = group.used.saturating_sub(used);
            group.members = group.members.saturating_sub(1);
            if group.members == 0 {
                self.empty = self.empty.saturating_add(1);
            }
        }
    }

    /// What holds for the process at `at` by the settings as they are now.
    pub(super) fn resolve(&mut self, at: usize, settings: &Settings<S>) {
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        let before = member.resolved.cap();
        member.resolved = settings.resolve(&member.identity);
        let (group, after) = (member.group, member.resolved.cap());
        self.count_cap(group, before, after);
    }

    /// What processes of a group may use together: with `after` for one process in place of `before`.
    fn count_cap(&mut self, at: usize, before: u32, after: u32) {
        if let Some(group) = self.groups.all_mut().get_mut(at) {
            group.caps = group.caps.saturating_sub(before).saturating_add(after);
        }
    }

    /// What holds for the group at `at` by the settings as they are now.
    pub(super) fn resolve_group(&mut self, at: usize, settings: &Settings<S>) {
        let Some(group) = self.groups.all_mut().get_mut(at) else {
            return;
        };
        if let Some(state) = self.states.all_mut().get_mut(group.state_index) {
            state.weight = settings.weight_of(group.subject, &group.identity);
            state.target_pct = settings.target_of(group.subject);
        }
        group.limit = settings.limit_of(group.subject, &group.identity);
    }

    /// The user of the process at `at` lowered what holds for it, or took that back.
    pub(crate) fn follow_lowered(&mut self, at: usize, settings: &Settings<S>) {
        let Some(group) = self.members().get(at).map(|member| member.group) else {
            return;
        };
        self.resolve(at, settings);
        self.resolve_group(group, settings);
        // Under a limit it may not sleep.
        self.wake(at);
    }

    /// Sets what the process at `at` takes along when it moves: a part of its group's lead, by what it
    /// used there; equally among its processes, if they used nothing.
    pub(super) fn split_off(&mut self, at: usize, t_sys: VTime) {
        let Some(member) = self.members().get(at) else {
            return;
        };
        let (group, used) = (member.group, member.used_in_group());
        let lead = self.lead(group, t_sys).get();
        let part = self
            .groups()
            .get(group)
            .map_or(0, |group| match group.used {
                Ns::ZERO => mul_div(lead, 1, group.members.max(1).into()),
                all => mul_div(lead, used.get().min(all.get()), all.get()),
            });
        if let Some(member) = self.members.all_mut().get_mut(at) {
            member.lead = Ns::new(part);
        }
    }

    /// Divides the lead of each group among its members, by what they used in it; equally, if they
    /// used nothing. Nothing is lost in rounding.
    pub(super) fn split(&mut self, t_sys: VTime) {
        for at in 0..self.groups().len() {
            let lead = self.lead(at, t_sys);
            if let Some(group) = self.groups.all_mut().get_mut(at) {
                group.parts = Parts {
                    lead,
                    ..Parts::default()
                };
            }
        }
        for member in self.members.all() {
            if let Some(group) = self.groups.all_mut().get_mut(member.group) {
                let parts = &mut group.parts;
                parts.used = parts.used.saturating_add(member.used_in_group().get());
                parts.count = parts.count.saturating_add(1);
            }
        }
        for member in self.members.all_mut() {
            let Some(group) = self.groups.all_mut().get_mut(member.group) else {
                continue;
            };
            let parts = &mut group.parts;
            let (part, whole) = match parts.used {
                0 => (1, parts.count),
                used => (member.used_in_group().get(), used),
            };
            parts.so_far = parts.so_far.saturating_add(part);
            let until = mul_div(parts.lead.get(), parts.so_far, whole);
            member.lead = Ns::new(until.saturating_sub(parts.given));
            parts.given = until;
        }
    }

    /// GPU time by which a group is ahead of the system.
    pub(super) fn lead(&self, at: usize, t_sys: VTime) -> Ns {
        let normal = Weight::DEFAULT.get().into();
        self.state_of(at).map_or(Ns::ZERO, |state| {
            let ahead = state.vtime.saturating_sub(t_sys).get();
            Ns::new(mul_div(ahead, state.weight.get().into(), normal))
        })
    }

    /// What a new group of a user begins with, where processes are groups.
    pub(super) fn inheritance(&self, user: u32, t_sys: VTime) -> Inheritance {
        let mut all = Inheritance::default();
        if self.group_by != GroupBy::Process {
            return all;
        }
        let groups = self.groups().iter().enumerate();
        // One pass over all: a process joins with the books locked.
        for (at, _) in groups.filter(|(_, group)| group.identity.user == user) {
            let lead = self.lead(at, t_sys);
            if !lead.is_zero() {
                let own = (lead, self.waits(at, t_sys));
                (all.lead, all.waits) = own.max((all.lead, all.waits));
            }
            all.legacy = match (all.legacy, self.legacy(at)) {
                (Some(one), Some(other)) => Some((one.0, one.1.or_greater(other.1))),
                (one, other) => one.or(other),
            };
        }
        all
    }

    /// Whether a process that joins a group waits until the next decision: the group is throttled,
    /// or its last process ended while it was, and it is ahead still.
    pub(super) fn waits(&self, at: usize, t_sys: VTime) -> bool {
        let waited = |one: &Group| one.awake == 0 && one.was_throttled;
        let waited = self.groups().get(at).is_some_and(waited);
        let is_throttled = self.state_of(at).is_some_and(|state| state.throttled);
        is_throttled || (waited && !self.lead(at, t_sys).is_zero())
    }

    /// Sets a group further ahead.
    pub(super) fn owe(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.state_mut(at) {
            state.vtime = state.vtime.saturating_add(virtual_time(lead, state.weight));
        }
    }

    /// Sets a group less far ahead: a part of its lead has gone to another group.
    pub(super) fn owe_less(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.state_mut(at) {
            state.vtime = state.vtime.saturating_sub(virtual_time(lead, state.weight));
        }
    }

    /// Forgets groups without members that owe nothing, or remembers what they attained.
    pub(super) fn drop_paid_groups(&mut self, t_sys: VTime) {
        // Nearly always there is none.
        let mut at = if self.empty > self.remembered {
            self.groups().len()
        } else {
            0
        };
        while let Some(last) = at.checked_sub(1) {
            at = last;
            let is_empty = |group: &Group| group.members == 0 && !group.is_remembered;
            let is_empty = self.groups().get(at).is_some_and(is_empty);
            let state = self
                .groups()
                .get(at)
                .and_then(|g| self.states().get(g.state_index));
            let owes = state.is_some_and(|state| state.vtime > t_sys);
            if is_empty && !owes && !self.remember(at) {
                self.drop_group(at);
            }
        }
    }

    /// Forgets the group without members that owes the least.
    fn drop_poorest_empty_group(&mut self) {
        let groups = self.groups().iter().enumerate();
        let poorest = groups
            .filter(|(_, group)| group.members == 0)
            .min_by_key(|(_, group)| {
                self.states()
                    .get(group.state_index)
                    .map(|state| state.vtime)
            })
            .map(|(at, _)| at);
        if let Some(at) = poorest {
            self.drop_group(at);
        }
    }

    /// Forgets a group without members, which is asleep.
    pub(super) fn drop_group(&mut self, at: usize) {
        let Some(gone) = self.groups.remove(at) else {
            return;
        };
        self.empty = self.empty.saturating_sub(1);
        if gone.is_remembered {
            self.remembered = self.remembered.saturating_sub(1);
        }
        self.states.remove(gone.state_index);
        for group in self.groups.all_mut() {
            if group.state_index > gone.state_index {
                group.state_index = group.state_index.saturating_sub(1);
            }
        }
        for member in self.members.all_mut() {
            if member.group > at {
                member.group = member.group.saturating_sub(1);
            }
        }
    }
}

impl<S: Storage> Settings<S> {
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
}

/// Virtual time of a GPU time.
pub(super) fn virtual_time(time: Ns, weight: Weight) -> VTime {
    let normal = Weight::DEFAULT.get().into();
    VTime::new(mul_div(time.get(), normal, weight.get().into()))
}
