// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The groups between which a GPU is divided: which one a process belongs to, and how they
//! come with their first process and stay after the last one until what it used is paid for, or
//! longer.
//!
//! Where every process is a group, a new one starts as far ahead of the system as the group of its
//! user that is furthest ahead, processes that have ended included: a program that forks, or ends
//! and begins again, pays what it owes. It costs another program of the user one wait of this
//! length at its start.
//!
//! *Remembered*: what groups attained, once their processes have ended, is not forgotten, for policies
//! that go by it (see [`Policy::attained`]).
//!
//! A group without processes that owes nothing stays in the table as long as the policy keeps some
//! attained service of it. Where processes are groups, a process never comes back, and its user
//! does: one group of each user stays, with the greatest of what its processes attained, and a new
//! process begins with the greatest of all of them. When the table is full, the group that is
//! furthest behind the system, and so was awake least recently, is forgotten.
//!
//! [`Policy::attained`]: crate::policies::Policy::attained
//!
//! # Invariants
//!
//! Groups are in ascending order of id. Every group has a state, see [`Group::state_index`]; states of
//! groups of which a process is awake come first. A group without members is ahead of the system, or
//! [`Group::is_remembered`]. The sums of a group are kept with each member that comes, goes, is booked
//! or resolved, and are those of its members whenever nothing is being changed: `members`, `awake`,
//! `caps` over their limits, `used` over what they used in it. `account` has what they got but for
//! [`Member::recent`](super::Member::recent), which is nothing while a member sleeps.

use super::member::Group;
use super::members::Members;
use super::resolved::Resolved;
use super::setting::{GroupBy, Identity};
use super::settings::Settings;
use crate::fair::mul_div;
use crate::ids::GroupId;
use crate::policies::{Attained, ClientState, KeptOfClient};
use crate::storage::{Bounded, Storage};
use crate::units::{Ns, VTime, Weight};

/// What a policy keeps of a client, and what that client attained over the default weight.
pub(super) type Legacy = (KeptOfClient, Attained);

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

/// The groups of one GPU, and what the policy sees of them, in storage that the caller owns.
pub(super) struct Groups<S: Storage> {
    table: Bounded<S::Of<Group>>,
    states: Bounded<S::Of<ClientState>>,
    group_by: GroupBy,
    /// Level of the groups by cgroup, see [`Settings::group_of`].
    depth: u32,
    /// States of groups that take part in decisions.
    awake: usize,
    /// Groups without members.
    empty: usize,
    /// Those of them that are there for what they attained alone.
    remembered: usize,
    /// System virtual time after the last decision.
    t_sys: VTime,
    /// Identity of the next group.
    next_id: u64,
}

impl<S: Storage> Groups<S> {
    /// None. There must be as much room for their states as for them.
    pub(super) const fn new(
        table: S::Of<Group>,
        states: S::Of<ClientState>,
        group_by: GroupBy,
    ) -> Self {
        Self {
            table: Bounded::new(table),
            states: Bounded::new(states),
            group_by,
            depth: 0,
            awake: 0,
            empty: 0,
            remembered: 0,
            t_sys: VTime::ZERO,
            next_id: 1,
        }
    }

    /// Moves to larger storage.
    pub(super) fn grow(&mut self, table: S::Of<Group>, states: S::Of<ClientState>) {
        self.table.grow(table);
        self.states.grow(states);
    }

    /// Whether a process without a group of its own can join.
    pub(super) fn has_room(&self) -> bool {
        !self.table.is_full() || self.empty > 0
    }

    /// Most of them.
    pub(super) fn room(&self) -> usize {
        self.table.room()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Group] {
        self.table.all()
    }

    /// A group.
    pub(super) fn get(&self, at: usize) -> Option<&Group> {
        self.table.all().get(at)
    }

    /// A group, to change it.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Group> {
        self.table.all_mut().get_mut(at)
    }

    /// All of them, to change them.
    pub(super) fn all_mut(&mut self) -> &mut [Group] {
        self.table.all_mut()
    }

    /// A group and its state, to change them.
    pub(super) fn with_state(&mut self, at: usize) -> Option<(&mut Group, &mut ClientState)> {
        let group = self.table.all_mut().get_mut(at)?;
        let state = self.states.all_mut().get_mut(group.state_index)?;
        Some((group, state))
    }

    /// What the policy sees of each group; groups that sleep come last, as they fell asleep.
    pub(super) fn states(&self) -> &[ClientState] {
        self.states.all()
    }

    /// The state of a group as it was left.
    pub(super) fn state(&self, at: usize) -> Option<&ClientState> {
        self.states.all().get(self.get(at)?.state_index)
    }

    /// What the GPU is divided between, and the level of groups by cgroup.
    pub(super) const fn grouping(&self) -> (GroupBy, u32) {
        (self.group_by, self.depth)
    }

    /// What the GPU is divided between, before there are members.
    pub(super) const fn begin_grouping(&mut self, group_by: GroupBy, depth: u32) {
        (self.group_by, self.depth) = (group_by, depth);
    }

    /// Forgets all groups, and divides the GPU between something else from now on.
    pub(super) fn form_anew(&mut self, group_by: GroupBy, depth: u32) {
        self.table.clear();
        self.states.clear();
        (self.awake, self.empty, self.remembered) = (0, 0, 0);
        self.begin_grouping(group_by, depth);
    }

    /// System virtual time after the last decision.
    pub(super) const fn t_sys(&self) -> VTime {
        self.t_sys
    }

    /// A decision was made.
    pub(super) fn set_t_sys(&mut self, t_sys: VTime) {
        self.t_sys = t_sys;
    }

    /// Groups that were made so far.
    pub(super) const fn made(&self) -> u64 {
        self.next_id
    }

    /// Groups without members, and those of them that are there for what they attained alone.
    #[cfg(any(test, loga_kunit))]
    pub(super) const fn vacancies(&self) -> (usize, usize) {
        (self.empty, self.remembered)
    }

    /// All states, to change them.
    #[cfg(any(test, loga_kunit))]
    pub(super) fn all_states_mut(&mut self) -> &mut [ClientState] {
        self.states.all_mut()
    }

    /// Position of the group that a process belongs to, made if there is none; counts
    /// the process in.
    pub(super) fn group_for(
        &mut self,
        members: &mut Members<S>,
        identity: &Identity,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Option<usize> {
        let subject = settings.group_of(identity, self.group_by, self.depth);
        let at = match self.all().iter().position(|g| g.subject() == subject) {
            Some(at) => at,
            None => {
                if self.table.is_full() {
                    self.drop_poorest_empty_group(members);
                }
                let group = Group {
                    subject,
                    identity: *identity,
                    limit: settings.limit_of(subject, identity),
                    ..Group::default()
                };
                let weight = settings.weight_of(subject, identity);
                let mut state = ClientState::new(GroupId::new(self.next_id), weight, t_sys);
                state.target_pct = settings.target_of(subject);
                self.next_id = self.next_id.saturating_add(1);
                let (id, state_index) = (state.id, self.states.push(state)?);
                self.empty = self.empty.saturating_add(1);
                self.table.push(Group {
                    id,
                    state_index,
                    ..group
                })?
            }
        };
        let group = self.table.all_mut().get_mut(at)?;
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
        if let Some(group) = self.table.all_mut().get_mut(at) {
            group.used = group.used.saturating_sub(used);
            group.members = group.members.saturating_sub(1);
            if group.members == 0 {
                self.empty = self.empty.saturating_add(1);
            }
        }
    }

    /// What processes of a group may use together: with `after` for one process in place of `before`.
    pub(super) fn count_cap(&mut self, at: usize, before: u32, after: u32) {
        if let Some(group) = self.table.all_mut().get_mut(at) {
            group.caps = group.caps.saturating_sub(before).saturating_add(after);
        }
    }

    /// What holds for the group at `at` by the settings as they are now.
    pub(super) fn resolve(&mut self, at: usize, settings: &Settings<S>) {
        let Some(group) = self.table.all_mut().get_mut(at) else {
            return;
        };
        if let Some(state) = self.states.all_mut().get_mut(group.state_index) {
            state.weight = settings.weight_of(group.subject, &group.identity);
            state.target_pct = settings.target_of(group.subject);
        }
        group.limit = settings.limit_of(group.subject, &group.identity);
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
        let groups = self.all().iter().enumerate();
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
        let waited = self.all().get(at).is_some_and(waited);
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
    pub(super) fn drop_paid_groups(&mut self, t_sys: VTime, members: &mut Members<S>) {
        // Nearly always there is none.
        let mut at = if self.empty > self.remembered {
            self.all().len()
        } else {
            0
        };
        while let Some(last) = at.checked_sub(1) {
            at = last;
            let is_empty = |group: &Group| group.members == 0 && !group.is_remembered;
            let is_empty = self.all().get(at).is_some_and(is_empty);
            let state = self
                .all()
                .get(at)
                .and_then(|g| self.states.all().get(g.state_index));
            let owes = state.is_some_and(|state| state.vtime > t_sys);
            if is_empty && !owes && !self.remember(at) {
                self.drop_group(at, members);
            }
        }
    }

    /// Forgets the group without members that owes the least.
    fn drop_poorest_empty_group(&mut self, members: &mut Members<S>) {
        let groups = self.all().iter().enumerate();
        let poorest = groups
            .filter(|(_, group)| group.members == 0)
            .min_by_key(|(_, group)| {
                self.states
                    .all()
                    .get(group.state_index)
                    .map(|state| state.vtime)
            })
            .map(|(at, _)| at);
        if let Some(at) = poorest {
            self.drop_group(at, members);
        }
    }

    /// Forgets a group without members, which is asleep.
    fn drop_group(&mut self, at: usize, members: &mut Members<S>) {
        let Some(gone) = self.table.remove(at) else {
            return;
        };
        self.empty = self.empty.saturating_sub(1);
        if gone.is_remembered {
            self.remembered = self.remembered.saturating_sub(1);
        }
        self.states.remove(gone.state_index);
        for group in self.table.all_mut() {
            if group.state_index > gone.state_index {
                group.state_index = group.state_index.saturating_sub(1);
            }
        }
        members.forget_group(at);
    }

    /// What the policy keeps of a group, if it has attained anything.
    pub(super) fn legacy(&self, at: usize) -> Option<Legacy> {
        let group = self.all().get(at)?;
        let state = self.states.all().get(group.state_index)?;
        let attained = state.kept.attained();
        let over = |attained: Attained| attained.over(state.weight, Weight::DEFAULT);
        (!attained.is_zero()).then(|| (state.kept, over(attained)))
    }

    /// A group begins with this.
    pub(super) fn begin_with(&mut self, at: usize, (kept, attained): Legacy) {
        if let Some(state) = self.state_mut(at) {
            let own = attained.over(Weight::DEFAULT, state.weight);
            state.kept = kept.beginning_with(own);
        }
    }

    /// Keeps what a group without processes attained, in the group or in another one of its user.
    /// False if the group itself is of no use any more.
    pub(super) fn remember(&mut self, at: usize) -> bool {
        let Some((kept, attained)) = self.legacy(at) else {
            return false;
        };
        if let Some(other) = self.remembered_of_user(at) {
            let greater = self
                .legacy(other)
                .map_or(attained, |(_, old)| attained.or_greater(old));
            let vtime = self.state_mut(at).map(|state| state.vtime);
            self.begin_with(other, (kept, greater));
            if let Some(state) = self.state_mut(other) {
                state.vtime = state.vtime.max(vtime.unwrap_or_default());
            }
            return false;
        }
        let Some(group) = self.table.all_mut().get_mut(at) else {
            return false;
        };
        group.is_remembered = true;
        self.remembered = self.remembered.saturating_add(1);
        true
    }

    /// Another group that is there for what processes of the user of this one attained, where
    /// processes are groups.
    fn remembered_of_user(&self, at: usize) -> Option<usize> {
        let user = self.all().get(at)?.identity.user;
        let of_user = self.all().iter().position(|group| {
            let is_other = group.is_remembered && group.identity.user == user;
            is_other && self.group_by == GroupBy::Process
        });
        of_user.filter(|other| *other != at)
    }

    /// Forgets what groups attained that have no processes, or none that is awake: it means nothing
    /// to another policy.
    pub(super) fn forget_attained(&mut self, members: &mut Members<S>) {
        let awake = self.awake;
        for state in self.states.all_mut().iter_mut().skip(awake) {
            state.kept = KeptOfClient::Nothing;
        }
        for at in (0..self.all().len()).rev() {
            if self.all().get(at).is_some_and(|group| group.is_remembered) {
                self.drop_group(at, members);
            }
        }
    }

    /// The state of a group as the policy would see it.
    pub(super) fn state_of(&self, group: usize) -> Option<ClientState> {
        let group = self.all().get(group)?;
        let mut state = *self.states.all().get(group.state_index)?;
        if group.awake == 0 {
            state.vtime = state.vtime.max(self.t_sys);
        }
        Some(state)
    }

    /// Counts one more process of a group as awake. The states of groups that take part come first
    /// in the table.
    pub(super) fn count_awake(&mut self, at: usize) {
        let Some(group) = self.table.all_mut().get_mut(at) else {
            return;
        };
        group.awake = group.awake.saturating_add(1);
        if group.awake > 1 {
            return;
        }
        let state_index = group.state_index;
        self.swap_states(state_index, self.awake);
        if let Some(state) = self.states.all_mut().get_mut(self.awake) {
            state.vtime = state.vtime.max(self.t_sys);
        }
        self.awake = self.awake.saturating_add(1);
    }

    /// Counts one less process of a group as awake.
    pub(super) fn count_asleep(&mut self, at: usize) {
        let Some(group) = self.table.all_mut().get_mut(at) else {
            return;
        };
        group.awake = group.awake.saturating_sub(1);
        if group.awake > 0 {
            return;
        }
        let state_index = group.state_index;
        let state = self.states.all().get(state_index);
        group.was_throttled = state.is_some_and(|state| state.throttled);
        self.awake = self.awake.saturating_sub(1);
        self.swap_states(state_index, self.awake);
        if let Some(state) = self.states.all_mut().get_mut(self.awake) {
            (state.busy, state.runs, state.waited) = (Ns::ZERO, 0, Ns::ZERO);
            state.paid = Ns::ZERO;
            (state.copied, state.waited_to_copy) = (Ns::ZERO, Ns::ZERO);
            state.throttled = false;
        }
    }

    fn swap_states(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        self.states.all_mut().swap(one, other);
        for state_index in [one, other] {
            let id = self.states.all().get(state_index).map(|state| state.id);
            let place = id.and_then(|id| self.all().binary_search_by_key(&id, Group::id).ok());
            let group = place.and_then(|at| self.table.all_mut().get_mut(at));
            if let Some(group) = group {
                group.state_index = state_index;
            }
        }
    }

    /// What the policy sees of each group that takes part, for the engine to decide on.
    pub(super) fn states_mut(&mut self) -> &mut [ClientState] {
        let awake_groups = self.awake;
        self.states
            .all_mut()
            .get_mut(..awake_groups)
            .unwrap_or_default()
    }

    /// The state of a group.
    pub(super) fn state_mut(&mut self, group: usize) -> Option<&mut ClientState> {
        let state_index = self.table.all().get(group)?.state_index;
        self.states.all_mut().get_mut(state_index)
    }
}

/// Virtual time of a GPU time.
pub(super) fn virtual_time(time: Ns, weight: Weight) -> VTime {
    let normal = Weight::DEFAULT.get().into();
    VTime::new(mul_div(time.get(), normal, weight.get().into()))
}
