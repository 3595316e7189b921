// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What groups attained, once their processes have ended: it is not forgotten, for policies
//! that go by it (see [`Policy::attained`]).
//!
//! A group without processes that owes nothing stays in the table as long as the policy keeps some
//! attained service of it. Where processes are groups, a process never comes back, and its user
//! does: one group of each user stays, with the greatest of what its processes attained, and a new
//! process begins with the greatest of all of them. When the table is full, the group that is
//! furthest behind the system, and so was awake least recently, is forgotten.
//!
//! [`Policy::attained`]: crate::policies::Policy::attained

use super::setting::GroupBy;
use super::shares::Shares;
use crate::policies::{Attained, KeptOfClient};
use crate::storage::Storage;
use crate::units::Weight;

/// What a policy keeps of a client, and what that client attained over the default weight.
pub(super) type Legacy = (KeptOfClient, Attained);

impl<S: Storage> Shares<S> {
    /// What the policy keeps of a group, if it has attained anything.
    pub(super) fn legacy(&self, at: usize) -> Option<Legacy> {
        let group = self.groups().get(at)?;
        let state = self.states().get(group.state_index)?;
        let attained = state.kept.attained();
        let over = |attained: Attained| attained.over(state.weight, Weight::DEFAULT);
        (!attained.is_zero()).then(|| (state.kept, over(attained)))
    }

    /// What a process takes along to a new group: of what its group attained, not more than it used
    /// there itself.
    pub(super) fn legacy_of_member(&self, at: usize) -> Option<Legacy> {
        let member = self.members().get(at)?;
        let (kept, attained) = self.legacy(member.group)?;
        Some((kept, attained.at_most(member.used_in_group())))
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
        let Some(group) = self.groups.all_mut().get_mut(at) else {
            return false;
        };
        group.is_remembered = true;
        self.remembered = self.remembered.saturating_add(1);
        true
    }

    /// Another group that is there for what processes of the user of this one attained, where
    /// processes are groups.
    fn remembered_of_user(&self, at: usize) -> Option<usize> {
        let user = self.groups().get(at)?.identity.user;
        let of_user = self.groups().iter().position(|group| {
            let is_other = group.is_remembered && group.identity.user == user;
            is_other && self.group_by == GroupBy::Process
        });
        of_user.filter(|other| *other != at)
    }

    /// Forgets what groups attained that have no processes, or none that is awake: it means nothing
    /// to another policy.
    pub fn forget_attained(&mut self) {
        let awake = self.awake_groups;
        for state in self.states.all_mut().iter_mut().skip(awake) {
            state.kept = KeptOfClient::Nothing;
        }
        for at in (0..self.groups().len()).rev() {
            if self
                .groups()
                .get(at)
                .is_some_and(|group| group.is_remembered)
            {
                self.drop_group(at);
            }
        }
    }
}
