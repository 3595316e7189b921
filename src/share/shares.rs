// SPDX-License-Identifier: GPL-2.0

//! [pure] The processes and groups of one GPU.

use super::booking::Apart;
use super::bounded::Bounded;
use super::member::{Group, Hold, Member};
use super::setting::{GroupBy, Subject, Who};
use super::settings::{Entry, Settings};
use crate::error::Error;
use crate::fair::mul_div;
use crate::ids::ClientId;
use crate::policies::ClientState;
use crate::units::{Ns, VTime, Weight};
use core::ops::DerefMut;

/// The processes and groups of one GPU, in storage that the caller owns.
///
/// # Invariants
///
/// Members are in ascending order of id, groups in ascending order of their states'
/// id. Groups and states correspond element by element. Every member belongs to the
/// group of its [`GroupBy::subject`]. A group without members is ahead of the system.
pub struct Shares<M, G, C> {
    pub(super) members: Bounded<M>,
    pub(super) groups: Bounded<G>,
    pub(super) states: Bounded<C>,
    pub(super) group_by: GroupBy,
    /// Identity of the next group.
    next: u64,
    /// Generation of the settings that members and groups know; 0 when either changed.
    pub(super) generation: u64,
    /// Lengths of the last polling phase and of the last period.
    pub(super) last_poll: Ns,
    pub(super) last_span: Ns,
    /// What is charged apart in the period that is being booked.
    pub(super) apart: Apart,
}

impl<M, G, C> Shares<M, G, C>
where
    M: DerefMut<Target = [Member]>,
    G: DerefMut<Target = [Group]>,
    C: DerefMut<Target = [ClientState]>,
{
    /// Nobody yet. There must be at least as much room for groups and for their states
    /// as for members; twice as much lets groups without members pay what they owe.
    pub const fn new(members: M, groups: G, states: C, group_by: GroupBy) -> Self {
        Self {
            members: Bounded::new(members),
            groups: Bounded::new(groups),
            states: Bounded::new(states),
            group_by,
            next: 1,
            generation: 0,
            last_poll: Ns::ZERO,
            last_span: Ns::ZERO,
            apart: Apart::NONE,
        }
    }

    /// Whether a further process can join.
    pub fn has_room(&self) -> bool {
        !self.members.is_full()
            && (!self.groups.is_full() || self.groups.all().iter().any(|group| group.members == 0))
    }

    /// Moves to larger storage.
    pub fn grow(&mut self, members: M, groups: G, states: C) {
        self.members.grow(members);
        self.groups.grow(groups);
        self.states.grow(states);
    }

    /// The processes.
    pub fn members(&self) -> &[Member] {
        self.members.all()
    }

    /// The processes, to charge time to them.
    pub fn members_mut(&mut self) -> &mut [Member] {
        self.members.all_mut()
    }

    /// Position of a process.
    pub fn find(&self, id: ClientId) -> Option<usize> {
        self.members().binary_search_by_key(&id, Member::id).ok()
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        self.groups.all()
    }

    /// What the policy sees of each group.
    pub fn states(&self) -> &[ClientState] {
        self.states.all()
    }

    /// What the policy sees of each group, for the engine to decide on.
    pub fn states_mut(&mut self) -> &mut [ClientState] {
        self.states.all_mut()
    }

    /// Between what the GPU is divided.
    pub const fn group_by(&self) -> GroupBy {
        self.group_by
    }

    /// Adds a process and returns its position. `id` must be larger than all before;
    /// `t_sys` is the virtual time at which a new group starts.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] without room, see [`Shares::has_room`].
    pub fn join<S>(
        &mut self,
        id: ClientId,
        who: Who,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Result<usize, Error>
    where
        S: DerefMut<Target = [Entry]>,
    {
        let full = Error::Full {
            name: "clients",
            max: self.members.room(),
        };
        if !self.has_room() {
            return Err(full);
        }
        let group = self.group_for(&who, settings, t_sys).ok_or(full)?;
        let hold = self.states().get(group).is_some_and(|state| state.held);
        self.generation = 0;
        self.members
            .push(Member {
                id,
                who,
                resolved: settings.resolve(&who),
                group,
                hold: hold.then_some(Hold::Policy),
                ..Member::default()
            })
            .ok_or(full)
    }

    /// Removes the process at `at`; the later ones move up. What its group owes stays
    /// with the group.
    pub fn leave(&mut self, at: usize, t_sys: VTime) {
        let Some(member) = self.members.remove(at) else {
            return;
        };
        if let Some(group) = self.groups.all_mut().get_mut(member.group) {
            group.members = group.members.saturating_sub(1);
        }
        self.generation = 0;
        self.drop_paid_groups(t_sys);
    }

    /// Notes that a process has moved to another cgroup or user. It takes along what
    /// its old group is ahead, in proportion to what it used there.
    ///
    /// # Errors
    ///
    /// [`Error::Full`]; then it stays where it was.
    pub fn rejoin<S>(
        &mut self,
        at: usize,
        who: Who,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Result<(), Error>
    where
        S: DerefMut<Target = [Entry]>,
    {
        self.generation = 0;
        self.split(t_sys);
        let Some(member) = self.members().get(at).copied() else {
            return Ok(());
        };
        let stays = self.group_by.subject(&who) == self.group_by.subject(&member.who);
        let group = if stays {
            member.group
        } else {
            let full = Error::Full {
                name: "groups",
                max: self.groups.room(),
            };
            self.group_for(&who, settings, t_sys).ok_or(full)?
        };
        // Making room for the group may have moved the old one.
        let old = self.members().get(at).map_or(group, |member| member.group);
        if let Some(member) = self.members.all_mut().get_mut(at) {
            member.who = who;
            member.resolved = settings.resolve(&who);
            member.group = group;
            if !stays {
                member.before = member.account.received;
            }
        }
        if stays {
            return Ok(());
        }
        self.owe_less(old, member.lead);
        self.owe(group, member.lead);
        if let Some(group) = self.groups.all_mut().get_mut(old) {
            group.members = group.members.saturating_sub(1);
        }
        self.drop_paid_groups(t_sys);
        Ok(())
    }

    /// Divides the GPU between something else from now on. Each new group is ahead by
    /// what its processes were ahead: nobody gets rid of time used.
    pub fn set_group_by<S>(&mut self, group_by: GroupBy, settings: &Settings<S>, t_sys: VTime)
    where
        S: DerefMut<Target = [Entry]>,
    {
        if group_by == self.group_by {
            return;
        }
        self.generation = 0;
        self.split(t_sys);
        self.groups.clear();
        self.states.clear();
        self.group_by = group_by;
        for at in 0..self.members().len() {
            let Some(member) = self.members().get(at).copied() else {
                break;
            };
            // There is room for as many groups as members.
            let Some(group) = self.group_for(&member.who, settings, t_sys) else {
                break;
            };
            self.owe(group, member.lead);
            if let Some(group) = self.groups.all_mut().get_mut(group) {
                group.account.add(&member.account);
            }
            if let Some(state) = self.states.all_mut().get_mut(group) {
                state.held |= member.hold == Some(Hold::Policy);
            }
            if let Some(member) = self.members.all_mut().get_mut(at) {
                member.group = group;
                member.before = member.account.received;
            }
        }
    }

    /// Position of the group that a process belongs to, made if there is none; counts
    /// the process in.
    fn group_for<S>(&mut self, who: &Who, settings: &Settings<S>, t_sys: VTime) -> Option<usize>
    where
        S: DerefMut<Target = [Entry]>,
    {
        let subject = self.group_by.subject(who);
        let at = match self.groups().iter().position(|g| g.subject() == subject) {
            Some(at) => at,
            None => {
                if self.groups.is_full() {
                    self.drop_poorest_empty_group();
                }
                let group = Group {
                    kind: self.group_by,
                    who: *who,
                    ..Group::default()
                };
                let weight = weight_of(subject, who, settings);
                let state = ClientState::new(ClientId::new(self.next), weight, t_sys);
                self.next = self.next.saturating_add(1);
                self.states.push(state)?;
                self.groups.push(group)?
            }
        };
        let group = self.groups.all_mut().get_mut(at)?;
        group.members = group.members.saturating_add(1);
        Some(at)
    }

    /// Divides what each group is ahead among its members, by what they used in it;
    /// equally, if that was nothing. Nothing is lost in rounding.
    fn split(&mut self, t_sys: VTime) {
        for at in 0..self.groups().len() {
            let lead = self.lead(at, t_sys);
            let (mut used, mut count) = (0u64, 0u64);
            for member in self.members().iter().filter(|member| member.group == at) {
                used = used.saturating_add(member.used_in_group().get());
                count = count.saturating_add(1);
            }
            let whole = if used == 0 { count } else { used };
            let (mut so_far, mut given) = (0u64, 0u64);
            let members = self.members.all_mut().iter_mut();
            for member in members.filter(|member| member.group == at) {
                let part = if used == 0 {
                    1
                } else {
                    member.used_in_group().get()
                };
                so_far = so_far.saturating_add(part);
                let until = mul_div(lead.get(), so_far, whole);
                member.lead = Ns::new(until.saturating_sub(given));
                given = until;
            }
        }
    }

    /// GPU time by which a group is ahead of the system.
    fn lead(&self, at: usize, t_sys: VTime) -> Ns {
        let normal = Weight::DEFAULT.get().into();
        self.states().get(at).map_or(Ns::ZERO, |state| {
            let ahead = state.vtime.saturating_sub(t_sys).get();
            Ns::new(mul_div(ahead, state.weight.get().into(), normal))
        })
    }

    /// Sets a group further ahead.
    fn owe(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.states.all_mut().get_mut(at) {
            state.vtime = state.vtime.saturating_add(virtual_time(lead, state.weight));
        }
    }

    /// Sets a group less far ahead: a part of it has gone to another one.
    fn owe_less(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.states.all_mut().get_mut(at) {
            state.vtime = state.vtime.saturating_sub(virtual_time(lead, state.weight));
        }
    }

    /// Forgets groups without members that owe nothing.
    pub(super) fn drop_paid_groups(&mut self, t_sys: VTime) {
        let mut at = self.groups().len();
        while let Some(last) = at.checked_sub(1) {
            at = last;
            let is_empty = self.groups().get(at).is_some_and(|g| g.members == 0);
            let owes = self.states().get(at).is_some_and(|s| s.vtime > t_sys);
            if is_empty && !owes {
                self.drop_group(at);
            }
        }
    }

    /// Forgets the group without members that owes the least.
    fn drop_poorest_empty_group(&mut self) {
        let empty = |(_, (group, _)): &(usize, (&Group, &ClientState))| group.members == 0;
        let groups = self.groups().iter().zip(self.states()).enumerate();
        let poorest = groups
            .filter(empty)
            .min_by_key(|(_, (_, state))| state.vtime)
            .map(|(at, _)| at);
        if let Some(at) = poorest {
            self.drop_group(at);
        }
    }

    fn drop_group(&mut self, at: usize) {
        self.groups.remove(at);
        self.states.remove(at);
        for member in self.members.all_mut() {
            if member.group > at {
                member.group = member.group.saturating_sub(1);
            }
        }
    }
}

/// Virtual time of so much GPU time.
pub(super) fn virtual_time(time: Ns, weight: Weight) -> VTime {
    let normal = Weight::DEFAULT.get().into();
    VTime::new(mul_div(time.get(), normal, weight.get().into()))
}

/// The weight of a group.
pub(super) fn weight_of<S>(subject: Subject, who: &Who, settings: &Settings<S>) -> Weight
where
    S: DerefMut<Target = [Entry]>,
{
    if subject.is_process() {
        return settings.resolve(who).weight;
    }
    let setting = settings.get(subject);
    setting
        .and_then(|setting| setting.weight)
        .unwrap_or_default()
}
