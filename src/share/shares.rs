// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How a GPU is shared: processes join, move and leave, what they used is booked, and decisions
//! about groups throttle them.
//!
//! Four owners keep what there is: the [processes](Members), the [groups](Groups), the
//! [booking](Booking) of a period, and the [totals](Totals) that outlive processes. This tells each what
//! concerns it.
//!
//! A *scan*, for policies that work in stages: what it shows of processes becomes what it shows of
//! groups.

use super::activity::{Activity, END};
use super::booking::{Booking, Period};
use super::direct::Direct;
use super::groups::{Groups, Legacy};
use super::member::{Account, Group, Member, Parts, ThrottledBy};
use super::members::Members;
use super::setting::{GroupBy, Identity, Subject};
use super::settings::Settings;
use super::throttling::Throttling;
use super::totals::{Kind, Totals};
use crate::account::waits::Waited;
use crate::account::{Accounts, Charge, EngineKind, Slot};
use crate::error::Error;
use crate::fair::mul_div;
use crate::ids::ClientId;
use crate::policies::{ClientState, ScanResult};
use crate::storage::Storage;
use crate::units::{Ns, VTime};

/// The processes and groups of one GPU, in storage that the caller owns.
///
/// # Invariants
///
/// Every member belongs to the group of its [`Settings::group_of`], as of the last decision. A group
/// counts those of its members that are in the list of members that are awake.
pub struct Shares<S: Storage> {
    members: Members<S>,
    groups: Groups<S>,
    /// Per user and cgroup, as of [`Shares::add_up`].
    totals: Totals<S>,
    booking: Booking,
    throttling: Throttling,
    /// Generation of the settings that members and groups know; 0 when either changed.
    generation: u64,
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
            members: Members::new(members),
            groups: Groups::new(groups, states, group_by),
            totals,
            booking: Booking::NONE,
            throttling: Throttling::NONE,
            generation: 0,
        }
    }

    /// Whether a further process can join.
    pub fn has_room(&self) -> bool {
        !self.members.is_full() && self.groups.has_room()
    }

    /// Moves to larger storage.
    pub fn grow(
        &mut self,
        members: S::Of<Member>,
        groups: S::Of<Group>,
        states: S::Of<ClientState>,
    ) {
        self.members.grow(members);
        self.groups.grow(groups, states);
    }

    /// The processes.
    pub fn members(&self) -> &[Member] {
        self.members.all()
    }

    /// Position of a process.
    pub fn find(&self, id: ClientId) -> Option<usize> {
        self.members.find(id)
    }

    /// As [`Shares::find`], for a process that is probably at `guess`.
    pub(crate) fn find_near(&self, id: ClientId, guess: usize) -> Option<usize> {
        self.members.find_near(id, guess)
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        self.groups.all()
    }

    /// What the policy sees of each group; groups that sleep come last, as they fell asleep.
    pub fn states(&self) -> &[ClientState] {
        self.groups.states()
    }

    /// What the policy sees of each group that takes part, for the engine to decide on.
    pub fn states_mut(&mut self) -> &mut [ClientState] {
        self.groups.states_mut()
    }

    /// The state of a group as the policy would see it.
    pub fn state_of(&self, group: usize) -> Option<ClientState> {
        self.groups.state_of(group)
    }

    /// Positions of the processes that are awake, in no order.
    pub fn awake(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.awake()
    }

    /// Level of the groups by cgroup; 0 where that depends on weights.
    pub const fn depth(&self) -> u32 {
        self.groups.grouping().1
    }

    /// What the GPU is divided between, before there are members.
    pub(crate) const fn begin_grouping(&mut self, group_by: GroupBy, depth: u32) {
        self.groups.begin_grouping(group_by, depth);
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
        let of_user = self.groups.inheritance(identity.user, t_sys);
        let (mut waits, groups) = (of_user.waits, self.groups.made());
        let group = self
            .groups
            .group_for(&mut self.members, &identity, settings, t_sys)
            .ok_or(full)?;
        if self.groups.made() != groups {
            self.groups.owe(group, of_user.lead);
            if let Some(legacy) = of_user.legacy {
                self.groups.begin_with(group, legacy);
            }
        }
        // Until the next decision, a fresh process would submit without waiting.
        waits |= self.groups.waits(group, t_sys);
        let resolved = settings.resolve(&identity);
        self.groups.count_in(group, &resolved);
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
        if let Some(state) = self.groups.state_mut(group).filter(|_| waits) {
            state.throttled = true;
        }
        Ok(at)
    }

    /// A process that has joined, and whose group has used nothing yet, owes what its user owes by now:
    /// what ended before it may have been booked since.
    pub fn owe_anew(&mut self, at: usize, t_sys: VTime) {
        let Some(member) = self.members.get(at) else {
            return;
        };
        let (group, user) = (member.group, member.identity.user);
        let fresh = |group: &Group| group.members == 1 && group.used.is_zero();
        if !member.used_in_group().is_zero() || !self.groups.get(group).is_some_and(fresh) {
            return;
        }
        let of_user = self.groups.inheritance(user, t_sys);
        let more = of_user.lead.saturating_sub(self.groups.lead(group, t_sys));
        self.groups.owe(group, more);
        if of_user.waits && !more.is_zero() {
            if let Some(member) = self.members.get_mut(at) {
                member.throttled_by = member.throttled_by.or(Some(ThrottledBy::Policy));
            }
            if let Some(state) = self.groups.state_mut(group) {
                state.throttled = true;
            }
        }
    }

    /// Removes the process at `at`; the later ones move up. What its group owes stays
    /// with the group.
    pub fn leave(&mut self, at: usize, t_sys: VTime) {
        self.add_up_one(at);
        self.wake(at);
        let Some(member) = self.members.remove(at) else {
            return;
        };
        self.groups.count_asleep(member.group);
        self.groups
            .count_out(member.group, &member.resolved, member.used_in_group());
        self.groups.drop_paid_groups(t_sys, &mut self.members);
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
        let Some(member) = self.members.get_mut(at) else {
            return Ok(());
        };
        let group = member.group;
        let old = core::mem::replace(&mut member.identity, identity);
        self.resolve(at, settings);
        let subject = self.group_of(&identity, settings);
        if let Some(own) = self.groups.get_mut(group) {
            if own.subject == subject {
                own.identity = identity;
                self.groups.resolve(group, settings);
                return Ok(());
            }
        }
        self.split_off(at, t_sys);
        let moved = self.move_member(at, settings, t_sys);
        if moved.is_err() {
            if let Some(member) = self.members.get_mut(at) {
                member.identity = old;
            }
            self.resolve(at, settings);
        }
        self.groups.drop_paid_groups(t_sys, &mut self.members);
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
        let Some(member) = self.members.get(at).copied() else {
            return Ok(());
        };
        let full = Error::Full {
            name: "groups",
            max: self.groups.room(),
        };
        let (groups, legacy) = (self.groups.made(), self.legacy_of_member(at));
        let group = self
            .groups
            .group_for(&mut self.members, &member.identity, settings, t_sys)
            .ok_or(full)?;
        if let Some(legacy) = legacy.filter(|_| self.groups.made() != groups) {
            self.groups.begin_with(group, legacy);
        }
        // Making room for the group may have moved the old one.
        let old = self.members.get(at).map_or(group, |member| member.group);
        if let Some(member) = self.members.get_mut(at) {
            member.group = group;
            member.before = member.account.received;
        }
        self.groups.count_in(group, &member.resolved);
        self.groups.count_awake(group);
        self.groups.owe_less(old, member.lead);
        self.groups.owe(group, member.lead);
        self.groups.count_asleep(old);
        self.groups
            .count_out(old, &member.resolved, member.used_in_group());
        Ok(())
    }

    /// What a process takes along to a new group: of what its group attained, not more than it used
    /// there itself.
    fn legacy_of_member(&self, at: usize) -> Option<Legacy> {
        let member = self.members.get(at)?;
        let (kept, attained) = self.groups.legacy(member.group)?;
        Some((kept, attained.at_most(member.used_in_group())))
    }

    /// Sets what the process at `at` takes along when it moves: a part of its group's lead, by what it
    /// used there; equally among its processes, if they used nothing.
    fn split_off(&mut self, at: usize, t_sys: VTime) {
        let Some(member) = self.members.get(at) else {
            return;
        };
        let (group, used) = (member.group, member.used_in_group());
        let lead = self.groups.lead(group, t_sys).get();
        let part = self.groups.get(group).map_or(0, |group| match group.used {
            Ns::ZERO => mul_div(lead, 1, group.members.max(1).into()),
            all => mul_div(lead, used.get().min(all.get()), all.get()),
        });
        if let Some(member) = self.members.get_mut(at) {
            member.lead = Ns::new(part);
        }
    }

    /// Divides the lead of each group among its members, by what they used in it; equally, if they
    /// used nothing. Nothing is lost in rounding.
    fn split(&mut self, t_sys: VTime) {
        for at in 0..self.groups.all().len() {
            let lead = self.groups.lead(at, t_sys);
            if let Some(group) = self.groups.get_mut(at) {
                group.parts = Parts {
                    lead,
                    ..Parts::default()
                };
            }
        }
        for member in self.members.all() {
            if let Some(group) = self.groups.get_mut(member.group) {
                let parts = &mut group.parts;
                parts.used = parts.used.saturating_add(member.used_in_group().get());
                parts.count = parts.count.saturating_add(1);
            }
        }
        for member in self.members.all_mut() {
            let Some(group) = self.groups.get_mut(member.group) else {
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

    /// Moves processes that belong to another group since settings changed.
    fn regroup(&mut self, settings: &Settings<S>) {
        // Only groups at the nearest cgroup that has a weight depend on what is set.
        if self.groups.grouping() != (GroupBy::Cgroup, 0) {
            return;
        }
        let t_sys = self.groups.t_sys();
        let mut is_split = false;
        for at in 0..self.members.all().len() {
            let Some(member) = self.members.get(at) else {
                break;
            };
            let subject = self.group_of(&member.identity, settings);
            if self.groups.get(member.group).map(Group::subject) == Some(subject) {
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
            self.groups.drop_paid_groups(t_sys, &mut self.members);
        }
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
        if (group_by, depth) == self.groups.grouping() {
            return;
        }
        self.generation = 0;
        self.add_up();
        self.split(t_sys);
        self.groups.form_anew(group_by, depth);
        self.members.forget_awake();
        for at in 0..self.members.all().len() {
            let Some(member) = self.members.get(at).copied() else {
                break;
            };
            // There is room for as many groups as members.
            let Some(group) =
                self.groups
                    .group_for(&mut self.members, &member.identity, settings, t_sys)
            else {
                break;
            };
            self.groups.owe(group, member.lead);
            self.groups.count_in(group, &member.resolved);
            if let Some(group) = self.groups.get_mut(group) {
                group.account.add(&member.account);
            }
            if let Some(state) = self.groups.state_mut(group) {
                state.throttled |= member.throttled_by == Some(ThrottledBy::Policy);
            }
            if let Some(member) = self.members.get_mut(at) {
                member.group = group;
                member.before = member.account.received;
                member.activity = Activity::default();
            }
            self.wake(at);
        }
    }

    /// The group to which a process belongs.
    fn group_of(&self, identity: &Identity, settings: &Settings<S>) -> Subject {
        let (group_by, depth) = self.groups.grouping();
        settings.group_of(identity, group_by, depth)
    }

    /// Forgets what groups attained that have no processes, or none that is awake: it means nothing
    /// to another policy.
    pub fn forget_attained(&mut self) {
        self.groups.forget_attained(&mut self.members);
    }

    /// Takes over settings that have changed, if they have.
    fn take_over(&mut self, settings: &Settings<S>) {
        if self.generation == settings.generation() {
            return;
        }
        self.generation = settings.generation();
        self.regroup(settings);
        for at in 0..self.members.all().len() {
            self.resolve(at, settings);
        }
        for at in 0..self.groups.all().len() {
            self.groups.resolve(at, settings);
        }
        // A process that is under a limit now may not sleep.
        self.wake_all();
    }

    /// What holds for the process at `at` by the settings as they are now.
    fn resolve(&mut self, at: usize, settings: &Settings<S>) {
        let Some(member) = self.members.get_mut(at) else {
            return;
        };
        let before = member.resolved.cap();
        member.resolved = settings.resolve(&member.identity);
        let (group, after) = (member.group, member.resolved.cap());
        self.groups.count_cap(group, before, after);
    }

    /// The user of the process at `at` lowered what holds for it, or took that back.
    pub(crate) fn follow_lowered(&mut self, at: usize, settings: &Settings<S>) {
        let Some(group) = self.members.get(at).map(|member| member.group) else {
            return;
        };
        self.resolve(at, settings);
        self.groups.resolve(group, settings);
        // Under a limit it may not sleep.
        self.wake(at);
    }

    /// Makes all processes take part in the next decision, which may concern them.
    pub fn wake_all(&mut self) {
        for at in 0..self.members.all().len() {
            self.wake(at);
        }
    }

    /// Adds to what the process at `at` did in this phase, so that it takes part in the next
    /// decisions; false without such a process.
    fn add_to(&mut self, at: usize, add: impl FnOnce(&mut Member)) -> bool {
        let phase = self.members.phase();
        match self.members.get_mut(at) {
            Some(member) if member.activity.awake => {
                add(member.in_phase(phase));
                return true;
            }
            _ => self.wake(at),
        }
        let member = self.members.get_mut(at);
        member.map(|member| add(member.in_phase(phase))).is_some()
    }

    /// Makes the process at `at` take part in the next decisions.
    fn wake(&mut self, at: usize) {
        if let Some(group) = self.members.wake(at) {
            self.groups.count_awake(group);
        }
    }

    /// Wakes the processes of groups that are throttled: each is throttled then.
    fn wake_throttled(&mut self) {
        // A group of one process has no others.
        if self.groups.grouping().0 == GroupBy::Process {
            return;
        }
        let sleeps = |group: &Group| group.awake > 0 && group.awake < group.members;
        let is_throttled = |group| {
            self.groups
                .state(group)
                .is_some_and(|state| state.throttled)
        };
        let has_sleepers = |at| {
            let group = self.members.get(at).map(|member| member.group);
            group.is_some_and(|at| self.groups.get(at).is_some_and(sleeps) && is_throttled(at))
        };
        if !self.members.awake().any(has_sleepers) {
            return;
        }
        for at in 0..self.members.all().len() {
            let group = self.members.get(at).map(|member| member.group);
            let state = group.and_then(|group| self.groups.state(group));
            if state.is_some_and(|state| state.throttled) {
                self.wake(at);
            }
        }
    }

    /// Lets processes sleep that have done nothing for long enough. At the end of a decision.
    fn let_sleep(&mut self) {
        let (phase, t_sys) = (self.members.phase(), self.groups.t_sys());
        let (mut before, mut next) = (END, self.members.first_awake());
        while let Some(member) = self.members.get_mut(next) {
            let at = core::mem::replace(&mut next, member.next_awake());
            if !member.is_quiet(phase) {
                before = at;
                continue;
            }
            let group = member.group;
            let state = self.groups.state(group);
            let owes = state.is_some_and(|state| state.vtime > t_sys);
            let is_last = self.groups.get(group).is_some_and(|group| group.awake == 1);
            if is_last && owes {
                before = at;
                continue;
            }
            member.used = Default::default();
            member.wants = false;
            self.add_up_one(at);
            self.members.let_sleep(at, before);
            self.groups.count_asleep(group);
        }
    }

    /// Adds what processes got since the last call to their groups, users and cgroups: before these
    /// are read. Those that sleep have nothing to be added.
    pub fn add_up(&mut self) {
        let mut at = self.members.first_awake();
        while let Some(member) = self.members.get(at) {
            let next = member.next_awake();
            self.add_up_one(at);
            at = next;
        }
    }

    /// As [`Shares::add_up`], for the process at `at`: before it leaves them, or falls asleep.
    fn add_up_one(&mut self, at: usize) {
        let Some(member) = self.members.get_mut(at) else {
            return;
        };
        let got = member.recent();
        if got == Account::default() {
            return;
        }
        member.added = member.account;
        if let Some(group) = self.groups.get_mut(member.group) {
            group.account.add(&got);
        }
        let [user, cgroup] = &mut member.rows;
        let (totals, booked) = (&mut self.totals, member.fading.booked());
        *user = totals.charge(Kind::User, &member.identity, *user, &got, booked);
        *cgroup = totals.charge(Kind::Cgroup, &member.identity, *cgroup, &got, booked);
    }

    /// Notes what [`Residue`] found to run since the last decision: of clients that are throttled,
    /// and with `compares` of all. Phases of steady length are in step with throttling itself, so
    /// that the two kinds of phase differ without any doing of the clients: nothing is compared
    /// then.
    ///
    /// [`Residue`]: crate::account::residue::Residue
    ///
    /// `copied` is what it found on the copy engine, which is of use for clients that are throttled
    /// only: copies in the non-polling phase are taken to be like those in the polling phase.
    pub fn note_residue(
        &mut self,
        found: impl Iterator<Item = (ClientId, Ns)>,
        copied: impl Iterator<Item = (ClientId, Ns)>,
        compares: bool,
    ) {
        self.booking.begin_residue(compares);
        self.members.each_awake(|member| {
            let counts = compares || member.changed || member.throttled_by.is_some();
            member.residue = counts.then_some(Ns::ZERO);
        });
        for (id, time) in found {
            let Some(at) = self.members.find(id) else {
                continue;
            };
            if compares {
                self.wake(at);
            }
            let Some(member) = self.members.get_mut(at) else {
                continue;
            };
            if compares || member.residue.is_some() {
                let residue = member.residue.unwrap_or_default();
                member.residue = Some(residue.saturating_add(time));
            }
        }
        for (id, time) in copied {
            let at = self.members.find(id);
            let member = at.and_then(|at| self.members.get_mut(at));
            if let Some(member) = member.filter(|member| member.throttled_by.is_some()) {
                member.copy_residue = member.copy_residue.saturating_add(time);
            }
        }
    }

    /// The channels of a process came or went: the polling phase that follows does not show what it
    /// did in the non-polling phase, so that what was found there counts, see [`Shares::note_residue`].
    pub fn note_changed(&mut self, at: usize) {
        self.wake(at);
        if let Some(member) = self.members.get_mut(at) {
            member.changed = true;
            self.booking.note_changed();
        }
    }

    /// Sums up what the processes used for the groups. Before the decision; takes changed settings
    /// over first. Returns what throttled processes used, for [`crate::account::PhaseTotals`].
    /// `poll` is the length of the polling phase, `span` that of the period.
    pub fn gather(&mut self, settings: &Settings<S>, poll: Ns, span: Ns) -> Direct {
        self.booking.compare(&mut self.members, poll, span);
        self.take_over(settings);
        self.booking
            .gather(&mut self.members, &mut self.groups, poll, span)
    }

    /// Books the period and sets which processes are throttled, see [`Member::throttled_by`]. After
    /// the decision.
    pub fn book(&mut self, settings: &mut Settings<S>, period: &Period) {
        self.booking
            .book(&mut self.members, &mut self.groups, settings, period);
        if period.enforce {
            settings.settle(period.now, period.span, period.next);
        } else {
            settings.suspend();
        }
        self.throttle(settings, period);
        self.groups.set_t_sys(period.t_sys);
        if self.throttling.has_quiet() {
            self.let_sleep();
        }
        self.groups
            .drop_paid_groups(period.t_sys, &mut self.members);
        self.members.begin_phase();
    }

    /// Sets which processes are throttled from now on.
    pub(super) fn throttle(&mut self, settings: &Settings<S>, period: &Period) {
        self.wake_throttled();
        self.throttling
            .throttle(&mut self.members, &self.groups, settings, period);
    }

    /// Lets all processes run, whatever was decided: until the next decision.
    pub fn release(&mut self, now: Ns) {
        for state in self.groups.states_mut() {
            state.throttled = false;
        }
        for group in self.groups.all_mut() {
            group.was_throttled = false;
        }
        // Throttled processes are awake.
        self.members
            .each_awake(|member| member.set_throttled_by(None, now));
    }

    /// Forgets what the last scan showed. Before a new one begins.
    pub fn begin_scan(&mut self) {
        for state in self.groups.states_mut() {
            state.seen = ScanResult::default();
            state.channels = 0;
        }
    }

    /// Adds what a scan shows of the process at `at`, and the number of its channels.
    ///
    /// A thread of a process that sleeps because of a limit, its class or a reserve does not count as blocked:
    /// the policy could not release it.
    pub fn add_scan(&mut self, at: usize, seen: &ScanResult, channels: u32) {
        let Some(member) = self.members.get(at) else {
            return;
        };
        let (group, sits_out) = (member.group, member.sits_out());
        let Some(state) = self.groups.state_mut(group) else {
            return;
        };
        state.seen.pending |= seen.pending;
        state.seen.blocked |= seen.blocked && !sits_out;
        state.seen.submitted = state.seen.submitted.saturating_add(seen.submitted);
        state.seen.completed = state.seen.completed.saturating_add(seen.completed);
        state.seen.cpu = state.seen.cpu.saturating_add(seen.cpu);
        state.channels = state.channels.saturating_add(channels);
    }

    /// Sets which processes are throttled, see [`Member::throttled_by`], after the decision on a scan. Takes changed settings over first: members know positions of limits in their table.
    pub fn apply(&mut self, settings: &Settings<S>, now: Ns, enforce: bool) {
        let period = Period {
            now,
            enforce,
            ..Period::default()
        };
        self.take_over(settings);
        self.throttle(settings, &period);
    }

    /// Groups without members, and those of them that are there for what they attained alone.
    #[cfg(any(test, loga_kunit))]
    pub(super) const fn vacancies(&self) -> (usize, usize) {
        self.groups.vacancies()
    }

    /// A process, to change it.
    #[cfg(any(test, loga_kunit))]
    pub(super) fn member_mut(&mut self, at: usize) -> &mut Member {
        &mut self.members.all_mut()[at]
    }

    /// All states, to change them.
    #[cfg(any(test, loga_kunit))]
    pub(super) fn all_states_mut(&mut self) -> &mut [ClientState] {
        self.groups.all_states_mut()
    }

    /// The state of a group, to change it.
    #[cfg(any(test, loga_kunit))]
    pub(super) fn state_mut(&mut self, group: usize) -> Option<&mut ClientState> {
        self.groups.state_mut(group)
    }

    /// Forgets groups without members that owe nothing.
    #[cfg(any(test, loga_kunit))]
    pub(super) fn drop_paid_groups(&mut self, t_sys: VTime) {
        self.groups.drop_paid_groups(t_sys, &mut self.members);
    }

    /// The totals as they were added up last.
    #[cfg(test)]
    pub(super) fn totals_as_added(&mut self) -> &mut Totals<S> {
        &mut self.totals
    }

    /// Generation of the settings that members and groups know.
    #[cfg(test)]
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }
}

impl<S: Storage> Accounts for Shares<S> {
    fn charge_at(&mut self, at: usize, on: EngineKind, slot: &Slot) -> bool {
        self.add_to(at, |member| member.charge(on, slot))
    }
}
