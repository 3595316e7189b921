// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which processes are throttled: by the decision about their group, by a limit, for a
//! process with a coarse reserve, or for being of the idle class.

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
        let reserved = self.choose_first(settings, period);
        self.each_ruled(settings, period, reserved, |member, by| {
            if member.resolved.class == Class::Idle {
                has_idle_class = true;
                // It never sleeps: nobody would let it run again.
                member.note_activity(phase);
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
        self.each_ruled(settings, period, reserved, |member, by| {
            if member.resolved.class == Class::Idle {
                let stays_out = stays_out.filter(|_| !member.comes_first);
                member.set_throttled_by(by.or(stays_out), period.now);
            }
        });
    }

    /// Notes which processes may use their coarse reserves. True if one of them wants the GPU.
    fn choose_first(&mut self, settings: &Settings<S>, period: &Period) -> bool {
        let has_reserves = settings.has_reserves() && period.enforce;
        // What the last reserves left is taken away once.
        if !has_reserves && !core::mem::replace(&mut self.has_first, has_reserves) {
            return false;
        }
        self.has_first = has_reserves;
        let mut reserved = false;
        self.each_awake(|member| {
            let resolved = &member.resolved;
            member.comes_first =
                has_reserves && settings.has_left(resolved) && !settings.exhausted(resolved);
            member.holds = member.comes_first && member.wants;
            reserved |= member.holds;
        });
        reserved
    }

    /// Shows every process that is awake, and why its limits, reserves or its group throttle it, if
    /// they do. `reserved`: one that comes first wants the GPU.
    fn each_ruled(
        &mut self,
        settings: &Settings<S>,
        period: &Period,
        reserved: bool,
        mut show: impl FnMut(&mut Member, Option<ThrottledBy>),
    ) {
        let (members, groups) = (self.members.all_mut(), self.groups.all());
        let states = self.states.all();
        let mut at = self.first;
        while let Some(member) = members.get_mut(at) {
            at = member.next_awake();
            let group = groups.get(member.group);
            let state = group.and_then(|group| states.get(group.state_index));
            let by = if !period.enforce || member.comes_first {
                None
            } else if settings.exhausted(&member.resolved) || settings.is_used_up(&member.resolved)
            {
                Some(ThrottledBy::Limit)
            } else if reserved {
                Some(ThrottledBy::Reserve)
            } else {
                let is_throttled = state.is_some_and(|state| state.throttled);
                is_throttled.then_some(ThrottledBy::Policy)
            };
            show(member, by);
        }
    }
}
