// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The processes and groups of one GPU.

use super::activity::{Activity, END};
use super::direct::Direct;
use super::member::{Group, Member, ThrottledBy};
use super::setting::{GroupBy, Identity};
use super::settings::Settings;
use super::totals::{Kind, Totals};
use crate::account::waits::Waited;
use crate::account::{Accounts, Charge, EngineKind, Slot};
use crate::error::Error;
use crate::ids::ClientId;
use crate::policies::ClientState;
use crate::storage::{find_near, Bounded, Storage};
use crate::units::{Ns, VTime};

/// The processes and groups of one GPU, in storage that the caller owns.
///
/// # Invariants
///
/// Members and groups are in ascending order of id. Every group has a state, see
/// [`Group::state_index`]; states of groups of which a process is awake come first. Every member
/// belongs to the group of its [`Settings::group_of`], as of the last decision. A group without
/// members is ahead of the system, or [`Group::is_remembered`].
///
/// The sums of a group are kept with each member that comes, goes, is booked or resolved, and are
/// those of its members whenever nothing is being changed: `members`, `awake`, `caps` over their
/// limits, `used` over what they used in it. `account` has what they got but for [`Member::recent`],
/// which is nothing while a member sleeps.
pub struct Shares<S: Storage> {
    pub(super) members: Bounded<S::Of<Member>>,
    pub(super) groups: Bounded<S::Of<Group>>,
    pub(super) states: Bounded<S::Of<ClientState>>,
    /// Per user and cgroup, as of [`Shares::add_up`].
    pub(super) totals: Totals<S>,
    pub(super) group_by: GroupBy,
    /// Level of the groups by cgroup, see [`Settings::group_of`].
    pub(super) depth: u32,
    /// Position of a process that is awake: the first of the list.
    pub(super) first: usize,
    /// States of groups that take part in decisions.
    pub(super) awake_groups: usize,
    /// Groups without members.
    pub(super) empty: usize,
    /// Those of them that are there for what they attained alone.
    pub(super) remembered: usize,
    /// System virtual time after the last decision.
    pub(super) t_sys: VTime,
    /// Weights together of the groups that wanted the GPU in the last phase.
    pub(super) wanting: u64,
    /// Identity of the next group.
    pub(super) next: u64,
    /// Generation of the settings that members and groups know; 0 when either changed.
    pub(super) generation: u64,
    /// Lengths of the last polling phase and of the last period.
    pub(super) last_poll: Ns,
    pub(super) last_span: Ns,
    /// Time charged one to one in the period that is being booked.
    pub(super) direct: Direct,
    /// As `direct`, on the copy engine.
    pub(super) direct_copies: Direct,
    /// Number of the phase that is charged next; the first is 1.
    pub(super) phase: u32,
    /// Whether samples of all processes are compared with this phase, and were with the last one.
    pub(super) compares: bool,
    pub(super) compared: bool,
    /// There were samples in the non-polling phase before this phase.
    pub(super) is_sampled: bool,
    /// Channels of a process came or went since the last decision.
    pub(super) changed: bool,
    /// A process that is awake has done nothing for long enough to sleep.
    pub(super) has_quiet: bool,
    /// A process may come first, by the last decision.
    pub(super) has_first: bool,
}

impl<S: Storage> Shares<S> {
    /// Empty tables. There must be at least as much room for groups and for their states as for
    /// members; twice as much lets groups without members pay what they owe.
    pub const fn new(
        members: S::Of<Member>,
        groups: S::Of<Group>,
        states: S::Of<ClientState>,
        totals: Totals<S>,
        group_by: GroupBy,
    ) -> Self {
        Self {
            members: Bounded::new(members),
            groups: Bounded::new(groups),
            states: Bounded::new(states),
            totals,
            group_by,
            depth: 0,
            first: END,
            awake_groups: 0,
            empty: 0,
            remembered: 0,
            t_sys: VTime::ZERO,
            wanting: 0,
            next: 1,
            generation: 0,
            last_poll: Ns::ZERO,
            last_span: Ns::ZERO,
            direct: Direct::NONE,
            direct_copies: Direct::NONE,
            phase: 1,
            compares: false,
            compared: false,
            is_sampled: false,
            changed: false,
            has_quiet: false,
            has_first: false,
        }
    }

    /// Whether a further process can join.
    pub fn has_room(&self) -> bool {
        !self.members.is_full() && (!self.groups.is_full() || self.empty > 0)
    }

    /// Moves to larger storage.
    pub fn grow(
        &mut self,
        members: S::Of<Member>,
        groups: S::Of<Group>,
        states: S::Of<ClientState>,
    ) {
        self.members.grow(members);
        self.groups.grow(groups);
        self.states.grow(states);
    }

    /// The processes.
    pub fn members(&self) -> &[Member] {
        self.members.all()
    }

    /// Adds time of a phase of `length` in which commands of the process at `at` waited for an engine
    /// and none of them ran on it. It is measured by other means than the time used, so the sum of
    /// both may exceed the phase.
    pub fn add_waited(&mut self, at: usize, waited: Waited, length: Ns) {
        if waited == Waited::default() {
            return;
        }
        self.add_to(at, |member| {
            let used = &mut member.used;
            let most = length.saturating_sub(used.busy);
            used.waited = used.waited.saturating_add(waited.compute.min(most));
            let most = length.saturating_sub(used.copied);
            used.waited_to_copy = used.waited_to_copy.saturating_add(waited.copy.min(most));
        });
    }

    /// Adds time since the last decision in which a thread of the process at `at` waited for its turn.
    pub fn note_turn_wait(&mut self, at: usize, waited: Ns) {
        self.add_to(at, |member| {
            member.turn_waited = member.turn_waited.saturating_add(waited);
        });
    }

    /// Counts a process that begins to use the GPU in the totals of its user and its cgroup.
    pub fn begin_process(&mut self, identity: &Identity, now: Ns) {
        for kind in [Kind::User, Kind::Cgroup] {
            self.totals.begin_process(kind, identity, now);
        }
    }

    /// What users and cgroups got so far.
    pub fn totals(&mut self) -> &mut Totals<S> {
        self.add_up();
        &mut self.totals
    }

    /// Position of a process.
    pub fn find(&self, id: ClientId) -> Option<usize> {
        self.members().binary_search_by_key(&id, Member::id).ok()
    }

    /// As [`Shares::find`], for a process that is probably at `guess`.
    pub(crate) fn find_near(&self, id: ClientId, guess: usize) -> Option<usize> {
        find_near(self.members(), guess, &id, Member::id)
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        self.groups.all()
    }

    /// What the policy sees of each group; groups that sleep come last, as they fell asleep.
    pub fn states(&self) -> &[ClientState] {
        self.states.all()
    }

    /// What the policy sees of each group that takes part, for the engine to decide on.
    pub fn states_mut(&mut self) -> &mut [ClientState] {
        let awake_groups = self.awake_groups;
        self.states
            .all_mut()
            .get_mut(..awake_groups)
            .unwrap_or_default()
    }

    /// The state of a group.
    pub(super) fn state_mut(&mut self, group: usize) -> Option<&mut ClientState> {
        let state_index = self.groups.all().get(group)?.state_index;
        self.states.all_mut().get_mut(state_index)
    }

    /// Adds a process and returns its position. `id` must be larger than all before; `t_sys`
    /// is the virtual time at which a new group starts if its user owes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] without room, see [`Shares::has_room`].
    pub fn join(
        &mut self,
        id: ClientId,
        identity: Identity,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Result<usize, Error> {
        let full = Error::Full {
            name: "clients",
            max: self.members.room(),
        };
        if !self.has_room() {
            return Err(full);
        }
        let of_user = self.inheritance(identity.user, t_sys);
        let (mut waits, groups) = (of_user.waits, self.next);
        let group = self.group_for(&identity, settings, t_sys).ok_or(full)?;
        if self.next != groups {
            self.owe(group, of_user.lead);
            if let Some(legacy) = of_user.legacy {
                self.begin_with(group, legacy);
            }
        }
        // Until the next decision, a fresh process would submit without waiting.
        waits |= self.waits(group, t_sys);
        let resolved = settings.resolve(&identity);
        self.count_in(group, &resolved);
        let at = self
            .members
            .push(Member {
                id,
                identity,
                resolved,
                group,
                throttled_by: waits.then_some(ThrottledBy::Policy),
                ..Member::default()
            })
            .ok_or(full)?;
        self.wake(at);
        if let Some(state) = self.state_mut(group).filter(|_| waits) {
            state.throttled = true;
        }
        Ok(at)
    }

    /// A process that has joined, and whose group has used nothing yet, owes what its user owes by now:
    /// what ended before it may have been booked since.
    pub fn owe_anew(&mut self, at: usize, t_sys: VTime) {
        let Some(member) = self.members().get(at) else {
            return;
        };
        let (group, user) = (member.group, member.identity.user);
        let fresh = |group: &Group| group.members == 1 && group.used.is_zero();
        if !member.used_in_group().is_zero() || !self.groups().get(group).is_some_and(fresh) {
            return;
        }
        let of_user = self.inheritance(user, t_sys);
        let more = of_user.lead.saturating_sub(self.lead(group, t_sys));
        self.owe(group, more);
        if of_user.waits && !more.is_zero() {
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.throttled_by = member.throttled_by.or(Some(ThrottledBy::Policy));
            }
            if let Some(state) = self.state_mut(group) {
                state.throttled = true;
            }
        }
    }

    /// Removes the process at `at`; the later ones move up. What its group owes stays
    /// with the group.
    pub fn leave(&mut self, at: usize, t_sys: VTime) {
        self.add_up_one(at);
        self.wake(at);
        self.unlink_awake(at);
        let Some(member) = self.members.remove(at) else {
            return;
        };
        self.count_asleep(member.group);
        self.count_out(member.group, &member.resolved, member.used_in_group());
        self.drop_paid_groups(t_sys);
    }

    /// Notes that a process has moved to another cgroup or user. It takes along a part of its old
    /// group's lead, in proportion to what it used there.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; then it stays where it was.
    pub fn rejoin(
        &mut self,
        at: usize,
        identity: Identity,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Result<(), Error> {
        self.add_up_one(at);
        self.wake(at);
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return Ok(());
        };
        let group = member.group;
        let old = core::mem::replace(&mut member.identity, identity);
        self.resolve(at, settings);
        let subject = settings.group_of(&identity, self.group_by, self.depth);
        if let Some(own) = self.groups.all_mut().get_mut(group) {
            if own.subject == subject {
                own.identity = identity;
                self.resolve_group(group, settings);
                return Ok(());
            }
        }
        self.split_off(at, t_sys);
        let moved = self.move_member(at, settings, t_sys);
        if moved.is_err() {
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.identity = old;
            }
            self.resolve(at, settings);
        }
        self.drop_paid_groups(t_sys);
        moved
    }

    /// Moves a process that is awake to the group where it belongs, with its part of the old
    /// group's lead, after [`Shares::split`] or [`Shares::split_off`].
    fn move_member(
        &mut self,
        at: usize,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Result<(), Error> {
        let Some(member) = self.members().get(at).copied() else {
            return Ok(());
        };
        let full = Error::Full {
            name: "groups",
            max: self.groups.room(),
        };
        let (groups, legacy) = (self.next, self.legacy_of_member(at));
        let group = self
            .group_for(&member.identity, settings, t_sys)
            .ok_or(full)?;
        if let Some(legacy) = legacy.filter(|_| self.next != groups) {
            self.begin_with(group, legacy);
        }
        // Making room for the group may have moved the old one.
        let old = self.members().get(at).map_or(group, |member| member.group);
        if let Some(member) = self.members.all_mut().get_mut(at) {
            member.group = group;
            member.before = member.account.received;
        }
        self.count_in(group, &member.resolved);
        self.count_awake(group);
        self.owe_less(old, member.lead);
        self.owe(group, member.lead);
        self.count_asleep(old);
        self.count_out(old, &member.resolved, member.used_in_group());
        Ok(())
    }

    /// Moves processes that belong to another group since settings changed.
    pub(super) fn regroup(&mut self, settings: &Settings<S>) {
        // Only groups at the nearest cgroup that has a weight depend on what is set.
        if self.group_by != GroupBy::Cgroup || self.depth != 0 {
            return;
        }
        let t_sys = self.t_sys;
        let mut is_split = false;
        for at in 0..self.members().len() {
            let Some(member) = self.members().get(at) else {
                break;
            };
            let subject = settings.group_of(&member.identity, self.group_by, self.depth);
            if self.groups().get(member.group).map(Group::subject) == Some(subject) {
                continue;
            }
            self.add_up_one(at);
            if !core::mem::replace(&mut is_split, true) {
                self.split(t_sys);
            }
            self.wake(at);
            // Without room for another group it stays where it is.
            let _ = self.move_member(at, settings, t_sys);
        }
        if is_split {
            self.drop_paid_groups(t_sys);
        }
    }

    /// Level of the groups by cgroup; 0 where that depends on weights.
    pub const fn depth(&self) -> u32 {
        self.depth
    }

    /// What the GPU is divided between, before there are members.
    pub(crate) const fn begin_grouping(&mut self, group_by: GroupBy, depth: u32) {
        (self.group_by, self.depth) = (group_by, depth);
    }

    /// Divides the GPU between something else from now on, with groups by cgroup at this level.
    /// Each new group gets the leads of its processes: no process gets rid of a debt. What groups
    /// attained is forgotten.
    pub fn set_grouping(
        &mut self,
        group_by: GroupBy,
        depth: u32,
        settings: &Settings<S>,
        t_sys: VTime,
    ) {
        if (group_by, depth) == (self.group_by, self.depth) {
            return;
        }
        self.depth = depth;
        self.generation = 0;
        self.add_up();
        self.split(t_sys);
        self.groups.clear();
        self.states.clear();
        (self.first, self.awake_groups) = (END, 0);
        (self.empty, self.remembered) = (0, 0);
        self.group_by = group_by;
        for at in 0..self.members().len() {
            let Some(member) = self.members().get(at).copied() else {
                break;
            };
            // There is room for as many groups as members.
            let Some(group) = self.group_for(&member.identity, settings, t_sys) else {
                break;
            };
            self.owe(group, member.lead);
            self.count_in(group, &member.resolved);
            if let Some(group) = self.groups.all_mut().get_mut(group) {
                group.account.add(&member.account);
            }
            if let Some(state) = self.state_mut(group) {
                state.throttled |= member.throttled_by == Some(ThrottledBy::Policy);
            }
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.group = group;
                member.before = member.account.received;
                member.activity = Activity::default();
            }
            self.wake(at);
        }
    }
}

impl<S: Storage> Accounts for Shares<S> {
    fn charge_at(&mut self, at: usize, on: EngineKind, slot: &Slot) -> bool {
        self.add_to(at, |member| member.charge(on, slot))
    }
}
