// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of processes that sleep and wake up.

use super::activity::QUIET;
use super::member::{Group, Member};
use super::setting::Class;
use super::shares::Shares;
use crate::policies::ClientState;
use crate::units::Ns;

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
