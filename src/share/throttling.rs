// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which processes are throttled: by the decision about their group, by a limit, for a
//! process with a coarse reserve, or for being of the idle class.

use super::booking::Period;
use super::groups::Groups;
use super::member::{Member, ThrottledBy};
use super::members::Members;
use super::setting::Class;
use super::settings::Settings;
use crate::storage::Storage;

/// What is known of the processes that are throttled or may be.
pub(super) struct Throttling {
    /// A process that is awake has done nothing for long enough to sleep.
    has_quiet: bool,
    /// A process may come first, by the last decision.
    has_first: bool,
}

impl Throttling {
    /// Nothing was decided.
    pub(super) const NONE: Self = Self {
        has_quiet: false,
        has_first: false,
    };

    /// Whether a process that is awake has done nothing for long enough to sleep.
    pub(super) const fn has_quiet(&self) -> bool {
        self.has_quiet
    }

    /// Sets which processes are throttled from now on. Those of groups that are throttled are awake.
    pub(super) fn throttle<S: Storage>(
        &mut self,
        members: &mut Members<S>,
        groups: &Groups<S>,
        settings: &Settings<S>,
        period: &Period,
    ) {
        let (mut normal_wants, mut has_idle_class) = (false, false);
        let (mut has_quiet, phase) = (false, members.phase());
        let reserved = self.choose_first(members, settings, period);
        each_ruled(members, groups, settings, period, reserved, |member, by| {
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
        each_ruled(members, groups, settings, period, reserved, |member, by| {
            if member.resolved.class == Class::Idle {
                let stays_out = stays_out.filter(|_| !member.comes_first);
                member.set_throttled_by(by.or(stays_out), period.now);
            }
        });
    }

    /// Notes which processes may use their coarse reserves. True if one of them wants the GPU.
    fn choose_first<S: Storage>(
        &mut self,
        members: &mut Members<S>,
        settings: &Settings<S>,
        period: &Period,
    ) -> bool {
        let has_reserves = settings.has_reserves() && period.enforce;
        // What the last reserves left is taken away once.
        if !has_reserves && !core::mem::replace(&mut self.has_first, has_reserves) {
            return false;
        }
        self.has_first = has_reserves;
        let mut reserved = false;
        members.each_awake(|member| {
            let resolved = &member.resolved;
            member.comes_first =
                has_reserves && settings.has_left(resolved) && !settings.exhausted(resolved);
            member.holds = member.comes_first && member.wants;
            reserved |= member.holds;
        });
        reserved
    }
}

/// Shows every process that is awake, and why its limits, reserves or its group throttle it, if
/// they do. `reserved`: one that comes first wants the GPU.
fn each_ruled<S: Storage>(
    members: &mut Members<S>,
    groups: &Groups<S>,
    settings: &Settings<S>,
    period: &Period,
    reserved: bool,
    mut show: impl FnMut(&mut Member, Option<ThrottledBy>),
) {
    members.each_awake(|member| {
        let state = groups.state(member.group);
        let by = if !period.enforce || member.comes_first {
            None
        } else if settings.exhausted(&member.resolved) || settings.is_used_up(&member.resolved) {
            Some(ThrottledBy::Limit)
        } else if reserved {
            Some(ThrottledBy::Reserve)
        } else {
            let is_throttled = state.is_some_and(|state| state.throttled);
            is_throttled.then_some(ThrottledBy::Policy)
        };
        show(member, by);
    });
}
