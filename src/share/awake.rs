// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Which processes take part in decisions: a process that does nothing for a while sleeps.
//!
//! A decision goes over the processes that are awake, and over their groups, so its cost does not
//! depend on the others. A process falls asleep when in [`QUIET`] decisions in a row it has neither
//! used the GPU nor waited for it nor been throttled. A process under a limit or of the idle class
//! never sleeps: its budget and its gate change while it does nothing. A process wakes up as soon
//! as time is charged to it.
//!
//! A group sleeps with the last of its processes, which stays awake while the group is ahead of the
//! system: a policy may throttle it for that, and then all of its processes are awake. A policy
//! lifts idle groups to the system virtual time; a group that wakes up is lifted then, once for all
//! decisions in between. What the policy keeps of it does not change.

use super::activity::{Activity, END};
use super::member::{Group, Member};
use super::setting::{Class, GroupBy};
use super::shares::Shares;
use crate::policies::ClientState;
use crate::storage::Storage;
use crate::units::Ns;

/// Decisions after which a process that does nothing sleeps. What a policy keeps of it has faded by
/// then.
pub const QUIET: u32 = 32;

impl Member {
    /// Position of the process that is awake after this one, or [`END`].
    pub(super) const fn next_awake(&self) -> usize {
        self.activity.next
    }

    /// Notes after the decision on a phase whether the process did anything, and returns whether it
    /// has done nothing for long enough to sleep.
    pub(super) fn note_activity(&mut self, phase: u32) -> bool {
        let does_nothing = self.used.is_nothing()
            && self.used.waited.is_zero()
            && self.used.waited_to_copy.is_zero()
            && self.throttled_by.is_none()
            && self.resolved.limit.is_none()
            && self.resolved.class == Class::Normal;
        if !does_nothing {
            self.activity.last = phase;
        }
        self.is_quiet(phase)
    }

    const fn is_quiet(&self, phase: u32) -> bool {
        phase.wrapping_sub(self.activity.last) >= QUIET
    }
}

impl<S: Storage> Shares<S> {
    /// Positions of the processes that are awake, in no order.
    pub fn awake(&self) -> impl Iterator<Item = usize> + '_ {
        let place = |at: usize| self.members().get(at).map(|_| at);
        core::iter::successors(place(self.first), move |at| {
            place(self.members().get(*at)?.next_awake())
        })
    }

    /// The state of a group as the policy would see it.
    pub fn state_of(&self, group: usize) -> Option<ClientState> {
        let group = self.groups().get(group)?;
        let mut state = *self.states().get(group.state_index)?;
        if group.awake == 0 {
            state.vtime = state.vtime.max(self.t_sys);
        }
        Some(state)
    }

    /// Makes all processes take part in the next decision, which may concern them.
    pub fn wake_all(&mut self) {
        for at in 0..self.members().len() {
            self.wake(at);
        }
    }

    /// Adds to what the process at `at` did in this phase, so that it takes part in the next
    /// decisions; false without such a process.
    pub(super) fn add_to(&mut self, at: usize, add: impl FnOnce(&mut Member)) -> bool {
        let phase = self.phase;
        match self.members.all_mut().get_mut(at) {
            Some(member) if member.activity.awake => {
                add(member.in_phase(phase));
                return true;
            }
            _ => self.wake(at),
        }
        let member = self.members.all_mut().get_mut(at);
        member.map(|member| add(member.in_phase(phase))).is_some()
    }

    /// Makes the process at `at` take part in the next decisions.
    pub(super) fn wake(&mut self, at: usize) {
        let Some(member) = self.members.all_mut().get_mut(at) else {
            return;
        };
        member.activity.last = self.phase.wrapping_sub(1);
        if member.activity.awake {
            return;
        }
        member.activity.awake = true;
        member.activity.next = self.first;
        let group = member.group;
        self.first = at;
        self.count_awake(group);
    }

    /// Wakes the processes of groups that are throttled: each is throttled then.
    pub(super) fn wake_throttled(&mut self) {
        // A group of one process has no others.
        if self.group_by == GroupBy::Process {
            return;
        }
        let sleeps = |group: &Group| group.awake > 0 && group.awake < group.members;
        let is_throttled = |group: &Group| {
            self.states()
                .get(group.state_index)
                .is_some_and(|s| s.throttled)
        };
        let group = |at: usize| self.groups().get(self.members().get(at)?.group);
        let has_sleepers = |at| group(at).is_some_and(|group| sleeps(group) && is_throttled(group));
        if !self.awake().any(has_sleepers) {
            return;
        }
        for at in 0..self.members().len() {
            let group = self.members().get(at).map(|member| member.group);
            let group = group.and_then(|at| self.groups().get(at));
            let state = group.and_then(|group| self.states().get(group.state_index));
            if state.is_some_and(|state| state.throttled) {
                self.wake(at);
            }
        }
    }

    /// Lets processes sleep that have done nothing for long enough. At the end of a decision.
    pub(super) fn let_sleep(&mut self) {
        let (mut before, mut next) = (END, self.first);
        while let Some(member) = self.members.all_mut().get_mut(next) {
            let at = core::mem::replace(&mut next, member.activity.next);
            if !member.is_quiet(self.phase) {
                before = at;
                continue;
            }
            let group = self.groups.all().get(member.group);
            let state = group.and_then(|group| self.states.all().get(group.state_index));
            let owes = state.is_some_and(|state| state.vtime > self.t_sys);
            let is_last = group.is_some_and(|group| group.awake == 1);
            if is_last && owes {
                before = at;
                continue;
            }
            member.used = Default::default();
            member.wants = false;
            member.activity = Activity::default();
            let group = member.group;
            self.add_up_one(at);
            match self.members.all_mut().get_mut(before) {
                Some(before) => before.activity.next = next,
                None => self.first = next,
            }
            self.count_asleep(group);
        }
    }

    /// Takes the process at `gone`, which is awake and about to leave the table, out of the list. The
    /// later ones move up then.
    pub(super) fn unlink_awake(&mut self, gone: usize) {
        let after = self.members().get(gone).map_or(END, Member::next_awake);
        let moved = |at: usize| match if at == gone { after } else { at } {
            END => END,
            at if at > gone => at.saturating_sub(1),
            at => at,
        };
        let here = |moved: usize| moved.saturating_add(usize::from(moved >= gone));
        let mut at = moved(self.first);
        self.first = at;
        // The table has not moved yet.
        while let Some(member) = self.members.all_mut().get_mut(here(at)) {
            at = moved(member.activity.next);
            member.activity.next = at;
        }
    }

    /// Counts one more process of a group as awake. The states of groups that take part come first
    /// in the table.
    pub(super) fn count_awake(&mut self, at: usize) {
        let Some(group) = self.groups.all_mut().get_mut(at) else {
            return;
        };
        group.awake = group.awake.saturating_add(1);
        if group.awake > 1 {
            return;
        }
        let state_index = group.state_index;
        self.swap_states(state_index, self.awake_groups);
        if let Some(state) = self.states.all_mut().get_mut(self.awake_groups) {
            state.vtime = state.vtime.max(self.t_sys);
        }
        self.awake_groups = self.awake_groups.saturating_add(1);
    }

    /// Counts one less process of a group as awake.
    pub(super) fn count_asleep(&mut self, at: usize) {
        let Some(group) = self.groups.all_mut().get_mut(at) else {
            return;
        };
        group.awake = group.awake.saturating_sub(1);
        if group.awake > 0 {
            return;
        }
        let state_index = group.state_index;
        let state = self.states.all().get(state_index);
        group.was_throttled = state.is_some_and(|state| state.throttled);
        self.awake_groups = self.awake_groups.saturating_sub(1);
        self.swap_states(state_index, self.awake_groups);
        if let Some(state) = self.states.all_mut().get_mut(self.awake_groups) {
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
            let id = self.states().get(state_index).map(|state| state.id);
            let place = id.and_then(|id| self.groups().binary_search_by_key(&id, Group::id).ok());
            let group = place.and_then(|at| self.groups.all_mut().get_mut(at));
            if let Some(group) = group {
                group.state_index = state_index;
            }
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_awake))]
mod tests {
    use super::super::{
        Change, Entry, GroupBy, Identity, Period, Settings, Subject, ThrottledBy, Totals,
    };
    use super::*;
    use crate::account::waits::Waited;
    use crate::account::{Accounts, EngineKind, Slot};
    use crate::ids::ClientId;
    use crate::storage::Borrowed;
    use crate::units::VTime;

    type OnSlices<'a> = Shares<Borrowed<'a>>;
    type SomeSettings<'a> = Settings<Borrowed<'a>>;

    /// Three processes, 1 and 2 of user 5, 3 of user 6.
    fn with_three(group_by: GroupBy, check: for<'a> fn(&mut OnSlices<'a>, &mut SomeSettings<'a>)) {
        let mut members = [Member::default(); 4];
        let (mut groups, mut states) = ([Group::default(); 8], [ClientState::default(); 8]);
        let mut entries = [Entry::default(); 2];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut entries[..]);
        let (members, groups, states) = (&mut members[..], &mut groups[..], &mut states[..]);
        let mut shares = Shares::new(members, groups, states, Totals::new(&mut [][..]), group_by);
        for (id, user) in [(1, 5), (2, 5), (3, 6)] {
            let identity = Identity {
                process: id,
                user,
                ..Identity::default()
            };
            let joined = shares.join(ClientId::new(id), identity, &settings, VTime::ZERO);
            assert!(joined.is_ok());
        }
        check(&mut shares, &mut settings);
    }

    /// `count` decisions at a system time, in each of which the process at `at` uses the GPU.
    fn decide<'a>(
        shares: &mut OnSlices<'a>,
        settings: &mut SomeSettings<'a>,
        count: u32,
        at: usize,
        t_sys: u64,
    ) {
        for _ in 0..count {
            let slot = Slot {
                ran: Ns::from_us(100),
                runs: 1,
                ..Slot::default()
            };
            shares.charge_at(at, EngineKind::Compute, &slot);
            shares.gather(settings, Ns::ZERO, Ns::ZERO);
            let period = Period {
                poll: Ns::from_ms(1),
                span: Ns::from_ms(6),
                next: Ns::from_ms(6),
                t_sys: VTime::new(t_sys),
                enforce: true,
                ..Period::default()
            };
            shares.book(settings, &period);
        }
    }

    /// Number of states that the policy sees, and whether every group finds its state.
    fn seen(shares: &mut OnSlices<'_>) -> (usize, bool) {
        let count = shares.states_mut().len();
        let right = (0..shares.groups().len()).all(|at| {
            let id = shares.groups().get(at).map(Group::id);
            id.is_some() && id == shares.state_of(at).map(|state| state.id)
        });
        (count, right)
    }

    #[test]
    fn process_that_does_nothing_falls_asleep_after_a_while() {
        with_three(GroupBy::Process, |shares, settings| {
            decide(shares, settings, QUIET - 1, 1, 7);
            assert_eq!(seen(shares), (3, true));
            decide(shares, settings, 1, 1, 7);
            assert_eq!(seen(shares), (1, true));
            assert!(shares.awake().eq([1]));
        });
    }

    #[test]
    fn sleeper_that_uses_the_gpu_is_awake_and_at_system_time() {
        with_three(GroupBy::Process, |shares, settings| {
            decide(shares, settings, QUIET, 0, 7);
            decide(shares, settings, 1, 0, 9);
            assert_eq!(shares.states()[2].vtime, VTime::ZERO);
            decide(shares, settings, 1, 2, 9);
            assert_eq!(seen(shares), (2, true));
            let state = shares.state_of(2).unwrap_or_default();
            assert_eq!(state.vtime, VTime::new(9));
            assert_eq!(state.busy, Ns::from_us(100));
            assert_eq!(shares.members()[2].account().measured, Ns::from_us(100));
        });
    }

    #[test]
    fn sleeper_that_waits_is_awake() {
        with_three(GroupBy::Process, |shares, settings| {
            decide(shares, settings, QUIET, 0, 7);
            shares.add_waited(1, Waited::default(), Ns::new(1));
            assert_eq!(seen(shares), (1, true));
            shares.add_waited(1, Waited::to_compute(Ns::new(1)), Ns::new(1));
            assert_eq!(seen(shares), (2, true));
        });
    }

    #[test]
    fn throttled_or_limited_process_does_not_sleep() {
        with_three(GroupBy::Process, |shares, settings| {
            let half = Change {
                limit: Some(50),
                ..Change::default()
            };
            assert_eq!(settings.set(Subject::Process(3), None, &half), Ok(()));
            shares.states_mut()[1].throttled = true;
            decide(shares, settings, QUIET + 5, 0, 7);
            assert_eq!(
                shares.members()[1].throttled_by(),
                Some(ThrottledBy::Policy)
            );
            assert_eq!(seen(shares), (3, true));
            shares.release(Ns::ZERO);
            assert_eq!(settings.clear(Subject::Process(3)), Ok(()));
            decide(shares, settings, QUIET, 0, 7);
            assert_eq!(seen(shares), (1, true));
        });
    }

    #[test]
    fn process_of_the_idle_class_does_not_sleep() {
        with_three(GroupBy::Process, |shares, settings| {
            let idle = Change::class(Class::Idle);
            assert_eq!(settings.set(Subject::Process(3), None, &idle), Ok(()));
            // The second one falls asleep, and the third one does nothing for as long.
            decide(shares, settings, QUIET + 5, 0, 7);
            assert_eq!(seen(shares), (2, true));
            assert!(shares.awake().any(|at| at == 2));
        });
    }

    #[test]
    fn group_sleeps_with_the_last_of_its_processes() {
        with_three(GroupBy::User, |shares, settings| {
            decide(shares, settings, QUIET, 1, 7);
            assert_eq!(seen(shares), (1, true));
            assert!(shares.awake().eq([1]));
            decide(shares, settings, QUIET, 2, 7);
            assert_eq!(seen(shares), (1, true));
            let state = shares.state_of(1).unwrap_or_default();
            assert_eq!(state.busy, Ns::from_us(100));
        });
    }

    #[test]
    fn sleeper_of_a_group_that_is_throttled_is_throttled() {
        with_three(GroupBy::User, |shares, settings| {
            decide(shares, settings, QUIET, 1, 7);
            shares.states_mut()[0].throttled = true;
            decide(shares, settings, 1, 1, 7);
            assert_eq!(
                shares.members()[0].throttled_by(),
                Some(ThrottledBy::Policy)
            );
            assert_eq!(shares.members()[2].throttled_by(), None);
            assert_eq!(shares.awake().count(), 2);
        });
    }

    #[test]
    fn sleeper_can_leave_move_and_be_counted_in_other_groups() {
        with_three(GroupBy::User, |shares, settings| {
            decide(shares, settings, QUIET, 2, 7);
            let identity = Identity {
                process: 2,
                user: 6,
                ..Identity::default()
            };
            assert_eq!(shares.rejoin(1, identity, settings, VTime::new(7)), Ok(()));
            assert_eq!(seen(shares), (1, true));
            shares.leave(0, VTime::new(7));
            assert_eq!(seen(shares), (1, true));
            assert_eq!(shares.groups().len(), 1);
            shares.set_grouping(GroupBy::Process, 0, settings, VTime::new(7));
            assert_eq!(seen(shares), (2, true));
            assert_eq!(shares.awake().count(), 2);
            decide(shares, settings, QUIET, 1, 7);
            assert!(shares.awake().eq([1]));
        });
    }
}
