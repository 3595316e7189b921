// SPDX-License-Identifier: GPL-2.0

//! [pure] Which processes are throttled: by the decision about their group, by a limit, or for
//! being of the idle class.

use super::booking::Period;
use super::member::{Member, ThrottledBy};
use super::setting::Class;
use super::settings::Settings;
use super::shares::Shares;
use crate::storage::Storage;
use crate::units::Ns;

impl<S: Storage> Shares<S> {
    /// Lets all processes run, whatever was decided: until the next decision.
    pub fn release(&mut self, now: Ns) {
        for state in self.states_mut() {
            state.throttled = false;
        }
        for group in self.groups.all_mut() {
            group.was_throttled = false;
        }
        // Throttled processes are awake.
        self.each_awake(|member| member.set_throttled_by(None, now));
    }

    /// Sets which processes are throttled from now on.
    pub(super) fn throttle(&mut self, settings: &Settings<S>, period: &Period) {
        self.wake_throttled();
        let (mut normal_wants, mut has_idle_class) = (false, false);
        let (mut has_quiet, phase) = (false, self.phase);
        self.each_ruled(settings, period, |member, by| {
            if member.resolved.class == Class::Idle {
                has_idle_class = true;
                return;
            }
            // A process that its own limit throttles leaves the GPU to the idle class.
            let wants = member.wants || !member.used.copied.is_zero();
            normal_wants |= wants && by != Some(ThrottledBy::Limit);
            member.set_throttled_by(by, period.now);
            has_quiet |= member.note_activity(phase);
        });
        self.has_quiet = has_quiet;
        if !has_idle_class {
            return;
        }
        let stays_out = (normal_wants && period.enforce).then_some(ThrottledBy::Class);
        self.each_ruled(settings, period, |member, by| {
            if member.resolved.class == Class::Idle {
                member.set_throttled_by(by.or(stays_out), period.now);
            }
        });
    }

    /// Shows every process that is awake, and why its limits or its group throttle it, if they do.
    fn each_ruled(
        &mut self,
        settings: &Settings<S>,
        period: &Period,
        mut show: impl FnMut(&mut Member, Option<ThrottledBy>),
    ) {
        let (members, groups) = (self.members.all_mut(), self.groups.all());
        let states = self.states.all();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            let group = groups.get(member.group);
            let state = group.and_then(|group| states.get(group.state_index));
            let by = if !period.enforce {
                None
            } else if settings.exhausted(&member.resolved) {
                Some(ThrottledBy::Limit)
            } else {
                let is_throttled = state.is_some_and(|state| state.throttled);
                is_throttled.then_some(ThrottledBy::Policy)
            };
            show(member, by);
        }
    }
}
