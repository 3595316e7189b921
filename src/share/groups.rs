// SPDX-License-Identifier: GPL-2.0

//! [pure] The groups between which a GPU is divided: they come with their first process, and stay
//! after the last one until what it used is paid for.

use super::member::{Group, Member};
use super::setting::{Subject, Who};
use super::settings::{Entry, Settings};
use super::shares::Shares;
use crate::fair::mul_div;
use crate::ids::ClientId;
use crate::policies::ClientState;
use crate::units::{Ns, VTime, Weight};
use core::ops::DerefMut;

impl<M, G, C> Shares<M, G, C>
where
    M: DerefMut<Target = [Member]>,
    G: DerefMut<Target = [Group]>,
    C: DerefMut<Target = [ClientState]>,
{
    /// Position of the group that a process belongs to, made if there is none; counts
    /// the process in.
    pub(super) fn group_for<S>(
        &mut self,
        who: &Who,
        settings: &Settings<S>,
        t_sys: VTime,
    ) -> Option<usize>
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
                let (id, seat) = (state.id, self.states.push(state)?);
                self.empty = self.empty.saturating_add(1);
                self.groups.push(Group { id, seat, ..group })?
            }
        };
        let group = self.groups.all_mut().get_mut(at)?;
        if group.members == 0 {
            self.empty = self.empty.saturating_sub(1);
        }
        group.members = group.members.saturating_add(1);
        Some(at)
    }

    /// One process less belongs to a group.
    pub(super) fn count_out(&mut self, at: usize) {
        if let Some(group) = self.groups.all_mut().get_mut(at) {
            group.members = group.members.saturating_sub(1);
            if group.members == 0 {
                self.empty = self.empty.saturating_add(1);
            }
        }
    }

    /// Divides what each group is ahead among its members, by what they used in it;
    /// equally, if that was nothing. Nothing is lost in rounding.
    pub(super) fn split(&mut self, t_sys: VTime) {
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
        self.state_of(at).map_or(Ns::ZERO, |state| {
            let ahead = state.vtime.saturating_sub(t_sys).get();
            Ns::new(mul_div(ahead, state.weight.get().into(), normal))
        })
    }

    /// Sets a group further ahead.
    pub(super) fn owe(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.state_mut(at) {
            state.vtime = state.vtime.saturating_add(virtual_time(lead, state.weight));
        }
    }

    /// Sets a group less far ahead: a part of it has gone to another one.
    pub(super) fn owe_less(&mut self, at: usize, lead: Ns) {
        if let Some(state) = self.state_mut(at) {
            state.vtime = state.vtime.saturating_sub(virtual_time(lead, state.weight));
        }
    }

    /// Forgets groups without members that owe nothing.
    pub(super) fn drop_paid_groups(&mut self, t_sys: VTime) {
        // Nearly always there is none.
        let mut at = if self.empty > 0 {
            self.groups().len()
        } else {
            0
        };
        while let Some(last) = at.checked_sub(1) {
            at = last;
            let is_empty = self.groups().get(at).is_some_and(|g| g.members == 0);
            let state = self
                .groups()
                .get(at)
                .and_then(|g| self.states().get(g.seat));
            let owes = state.is_some_and(|state| state.vtime > t_sys);
            if is_empty && !owes {
                self.drop_group(at);
            }
        }
    }

    /// Forgets the group without members that owes the least.
    fn drop_poorest_empty_group(&mut self) {
        let groups = self.groups().iter().enumerate();
        let poorest = groups
            .filter(|(_, group)| group.members == 0)
            .min_by_key(|(_, group)| self.states().get(group.seat).map(|state| state.vtime))
            .map(|(at, _)| at);
        if let Some(at) = poorest {
            self.drop_group(at);
        }
    }

    /// Forgets a group without members; they are all asleep.
    fn drop_group(&mut self, at: usize) {
        let Some(gone) = self.groups.remove(at) else {
            return;
        };
        self.empty = self.empty.saturating_sub(1);
        self.states.remove(gone.seat);
        for group in self.groups.all_mut() {
            if group.seat > gone.seat {
                group.seat = group.seat.saturating_sub(1);
            }
        }
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
