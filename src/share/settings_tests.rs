// SPDX-License-Identifier: GPL-2.0

//! Tests of what holds for a process, and of what is refused.

use super::*;
use crate::error::Error;
use crate::storage::Borrowed;
use crate::units::Ns;

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_settings))]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity {
        process: 10,
        cgroup: 20,
        above: [0; MAX_LEVELS],
        user: 30,
    };
    const PROCESS: Subject = Subject::Process(10);
    const CGROUP: Subject = Subject::Cgroup(20);
    const USER: Subject = Subject::User(30);

    #[test]
    fn more_specific_setting_wins() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(settings.resolve(&IDENTITY).weight.get(), 100);
        for (subject, value) in [(USER, 3), (CGROUP, 2), (PROCESS, 1)] {
            assert_eq!(
                settings.set(subject, Some(IDENTITY), &Change::weight(value)),
                Ok(())
            );
            assert_eq!(settings.resolve(&IDENTITY).weight.get(), value);
        }
        assert_eq!(settings.clear(PROCESS), Ok(()));
        assert_eq!(settings.resolve(&IDENTITY).weight.get(), 2);
        assert_eq!(settings.clear(PROCESS), Err(Error::NotSet));
    }

    #[test]
    fn setting_of_another_is_not_taken() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        // The same number, but of another kind.
        assert_eq!(
            settings.set(Subject::User(10), None, &Change::weight(5)),
            Ok(())
        );
        assert_eq!(
            settings.set(Subject::Process(20), None, &Change::weight(5)),
            Ok(())
        );
        assert_eq!(settings.resolve(&IDENTITY), Resolved::default());
    }

    #[test]
    fn refused_setting_leaves_the_previous_one() {
        let mut store = [Entry::default(); 1];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(settings.set(USER, None, &Change::weight(5)), Ok(()));
        assert!(settings.set(USER, None, &Change::weight(0)).is_err());
        assert!(settings.set(USER, None, &Change::limit(101)).is_err());
        let full = Error::Full {
            name: "settings",
            max: 1,
        };
        assert_eq!(settings.set(CGROUP, None, &Change::weight(5)), Err(full));
        assert_eq!(settings.resolve(&IDENTITY).weight.get(), 5);
        assert_eq!(settings.all().len(), 1);
    }

    #[test]
    fn limit_of_a_process_above_its_groups_is_refused() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(settings.set(USER, None, &Change::limit(50)), Ok(()));
        let refused = Error::LimitAboveGroup {
            limit: 51,
            group: 50,
        };
        assert_eq!(
            settings.set(PROCESS, Some(IDENTITY), &Change::limit(51)),
            Err(refused)
        );
        assert_eq!(
            settings.set(PROCESS, Some(IDENTITY), &Change::limit(50)),
            Ok(())
        );
    }

    #[test]
    fn limit_of_a_group_below_a_members_is_refused() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(
            settings.set(PROCESS, Some(IDENTITY), &Change::limit(60)),
            Ok(())
        );
        let refused = Error::LimitBelowMember {
            limit: 59,
            member: 60,
        };
        assert_eq!(settings.set(CGROUP, None, &Change::limit(59)), Err(refused));
        assert_eq!(settings.set(CGROUP, None, &Change::limit(60)), Ok(()));
        assert_eq!(
            settings.set(Subject::User(31), None, &Change::limit(1)),
            Ok(())
        );
    }

    /// A process in cgroup 3, which is in 2, which is in the root.
    fn nested(process: u64, own: u64) -> Identity {
        let mut identity = Identity {
            process,
            cgroup: own,
            user: 30,
            ..Identity::default()
        };
        (identity.above[0], identity.above[1]) = (1, 2);
        identity
    }

    /// Where cgroup 2 is, or 3.
    fn place(cgroup: u64) -> Option<Identity> {
        let mut identity = Identity {
            user: NO_USER,
            ..nested(0, cgroup)
        };
        if cgroup == 2 {
            identity.above[1] = 0;
        }
        Some(identity)
    }

    #[test]
    fn nearest_cgroup_gives_the_weight_and_all_of_them_limits() {
        let mut store = [Entry::default(); 6];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let identity = nested(10, 3);
        let both = |percent| Change {
            weight: Some(percent * 10),
            ..Change::limit(percent)
        };
        let outer = settings.set(Subject::Cgroup(2), place(2), &both(30));
        assert_eq!(outer, Ok(()));
        assert_eq!(settings.resolve(&identity).weight.get(), 300);
        assert_eq!(settings.resolve(&identity).limit, Limit::new(30).ok());
        let inner = settings.set(Subject::Cgroup(3), place(3), &both(20));
        assert_eq!(inner, Ok(()));
        assert_eq!(settings.resolve(&identity).weight.get(), 200);
        assert_eq!(settings.resolve(&identity).limit, Limit::new(20).ok());
        // In another cgroup below the outer one.
        assert_eq!(settings.resolve(&nested(11, 4)).weight.get(), 300);
        // What one process uses is used of both.
        let spent = Spent {
            used: Ns::from_ms(500),
            allowed: true,
        };
        settings.spend(&settings.resolve(&identity), &spent);
        let period = Ns::from_ms(6);
        settings.settle(period, period, period);
        let throttled = |identity: &Identity| settings.exhausted(&settings.resolve(identity));
        assert!(throttled(&identity));
        assert!(throttled(&nested(11, 4)));
        assert!(settings.all().iter().all(Entry::exhausted));
    }

    #[test]
    fn debt_stays_under_another_limit_and_ends_with_it() {
        const SECOND: Ns = Ns::from_ms(1000);
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let mut now = Ns::ZERO;
        // Runs all the time, or not at all, for so many seconds.
        let mut pass = |settings: &mut Settings<Borrowed<'_>>, used: Ns, seconds: u64| {
            for _ in 0..seconds {
                now = now.saturating_add(SECOND);
                let spent = Spent {
                    used,
                    allowed: false,
                };
                settings.spend(&settings.resolve(&IDENTITY), &spent);
                settings.settle(now, SECOND, Ns::from_ms(6));
            }
            settings.exhausted(&settings.resolve(&IDENTITY))
        };
        assert_eq!(settings.set(USER, None, &Change::limit(10)), Ok(()));
        assert!(pass(&mut settings, SECOND, 100));
        // It owes 90 s, of which half of all time pays.
        assert_eq!(settings.set(USER, None, &Change::limit(50)), Ok(()));
        assert!(pass(&mut settings, Ns::ZERO, 170));
        assert!(!pass(&mut settings, Ns::ZERO, 11));
        // Whoever set a limit takes it away, and what is owed with it.
        for without in [Change::limit(100), Change::weight(7)] {
            assert_eq!(settings.set(USER, None, &Change::limit(10)), Ok(()));
            assert!(pass(&mut settings, SECOND, 100));
            if without.limit.is_none() {
                // What does not change a limit forgives nothing.
                assert_eq!(settings.set(USER, None, &without), Ok(()));
                assert!(pass(&mut settings, Ns::ZERO, 800));
                assert_eq!(settings.clear(USER), Ok(()));
            } else {
                assert_eq!(settings.set(USER, None, &without), Ok(()));
            }
            assert!(!pass(&mut settings, Ns::ZERO, 1));
            assert_eq!(settings.set(USER, None, &Change::limit(10)), Ok(()));
            assert!(!pass(&mut settings, Ns::ZERO, 1));
        }
    }

    #[test]
    fn limit_of_a_cgroup_above_the_one_around_it_is_refused() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let mut set =
            |id, percent| settings.set(Subject::Cgroup(id), place(id), &Change::limit(percent));
        assert_eq!(set(2, 30), Ok(()));
        let above = Error::LimitAboveGroup {
            limit: 31,
            group: 30,
        };
        assert_eq!(set(3, 31), Err(above));
        assert_eq!(set(3, 30), Ok(()));
        let below = Error::LimitBelowMember {
            limit: 29,
            member: 30,
        };
        assert_eq!(set(2, 29), Err(below));
        assert_eq!(set(3, 10), Ok(()));
        assert_eq!(set(2, 29), Ok(()));
    }

    #[test]
    fn cgroup_too_deep_to_be_found_is_refused() {
        let mut store = [Entry::default(); 1];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let deep = Identity {
            cgroup: 99,
            above: [7; MAX_LEVELS],
            ..Identity::default()
        };
        let refused = settings.set(Subject::Cgroup(99), Some(deep), &Change::limit(1));
        assert_eq!(refused, Err(Error::CgroupTooDeep { max: 15 }));
    }

    #[test]
    fn groups_by_cgroup_are_formed_above_the_leaves() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let (one, other) = (nested(10, 3), nested(11, 4));
        let of = |settings: &Settings<Borrowed<'_>>, identity: &Identity, depth| {
            settings.group_of(identity, GroupBy::Cgroup, depth)
        };
        for identity in [&one, &other] {
            assert_eq!(of(&settings, identity, 0), Subject::Cgroup(2));
            assert_eq!(of(&settings, identity, 1), Subject::Cgroup(2));
        }
        assert_eq!(of(&settings, &one, 2), Subject::Cgroup(3));
        assert_eq!(of(&settings, &one, 15), Subject::Cgroup(3));
        let heavy = settings.set(Subject::Cgroup(3), place(3), &Change::weight(300));
        assert_eq!(heavy, Ok(()));
        assert_eq!(of(&settings, &one, 0), Subject::Cgroup(3));
        assert_eq!(of(&settings, &other, 0), Subject::Cgroup(2));
        let weight_of = |group, identity| settings.weight_of(group, identity).get();
        assert_eq!(weight_of(Subject::Cgroup(3), &one), 300);
        assert_eq!(weight_of(Subject::Cgroup(2), &other), 100);
    }

    #[test]
    fn lowest_of_all_limits_is_reported() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(
            settings.set(PROCESS, Some(IDENTITY), &Change::limit(60)),
            Ok(())
        );
        assert_eq!(settings.set(USER, None, &Change::limit(80)), Ok(()));
        assert_eq!(settings.resolve(&IDENTITY).limit, Limit::new(60).ok());
    }

    #[test]
    fn targets_are_of_their_subject_and_ninety_percent_together() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let target = |percent| Change {
            target: Some(percent),
            ..Change::default()
        };
        let (ann, ben) = (Subject::User(1), Subject::User(2));
        assert_eq!(settings.set(ann, None, &target(60)), Ok(()));
        let refused = Error::TargetsTogether {
            target: 31,
            left: 30,
        };
        assert_eq!(settings.set(ben, None, &target(31)), Err(refused));
        assert_eq!(settings.target_of(ben), 0);
        assert_eq!(settings.set(ben, None, &target(30)), Ok(()));
        assert_eq!(settings.set(ann, None, &target(50)), Ok(()));
        assert_eq!((settings.target_of(ann), settings.target_of(ben)), (50, 30));
        assert_eq!(settings.target_of(Subject::Process(7)), 0);
        assert!(settings.set(ann, None, &target(91)).is_err());
        assert_eq!(settings.set(ann, None, &target(0)), Ok(()));
        assert_eq!(settings.target_of(ann), 0);
        let own = Identity {
            process: 7,
            user: 1,
            ..Identity::default()
        };
        assert!(matches!(
            settings.lower(&own, &target(1)),
            Err(Error::NotLower { .. })
        ));
    }

    #[test]
    fn denied_to_a_cgroup_is_denied_to_all_below_and_to_a_user_to_its_processes() {
        let mut store = [Entry::default(); 6];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let access = |denied| Change {
            denied: Some(denied),
            ..Change::default()
        };
        let (near, far) = (Subject::Cgroup(3), Subject::Cgroup(2));
        let (inside, outside) = (nested(10, 3), nested(11, 4));
        assert!(!settings.denies(&inside));
        assert_eq!(settings.set(far, place(2), &access(true)), Ok(()));
        assert!(settings.denies(&inside));
        assert!(settings.denies(&outside));
        // What is nearer does not allow what is denied around it.
        assert_eq!(settings.set(near, place(3), &access(false)), Ok(()));
        assert!(settings.denies(&inside));
        // Another change leaves it.
        assert_eq!(settings.set(far, place(2), &Change::weight(7)), Ok(()));
        assert!(settings.denies(&inside));
        assert_eq!(settings.set(far, place(2), &access(false)), Ok(()));
        assert_eq!(settings.set(near, place(3), &access(true)), Ok(()));
        assert!(settings.denies(&inside));
        assert!(!settings.denies(&outside));
        assert_eq!(settings.clear(near), Ok(()));
        assert!(!settings.denies(&inside));
        assert_eq!(settings.set(USER, None, &access(true)), Ok(()));
        assert!(settings.denies(&inside));
        assert!(settings.denies(&outside));
        let another = Identity { user: 31, ..inside };
        assert!(!settings.denies(&another));
        let refused = Err(Error::DeniedToProcess);
        assert_eq!(settings.set(PROCESS, Some(inside), &access(true)), refused);
        assert_eq!(settings.lower(&inside, &access(true)), refused);
        assert!(settings.get(PROCESS).is_none());
    }

    /// docs/settings.md shows both against what opens a GPU before a pattern's entry is set.
    #[test]
    fn denied_slice_and_user_hold_for_a_cgroup_that_is_made_later_whatever_is_allowed_in_it() {
        let mut store = [Entry::default(); 6];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        let access = |denied| Change {
            denied: Some(denied),
            ..Change::default()
        };
        let (slice, made) = (Subject::Cgroup(2), Subject::Cgroup(3));
        assert_eq!(settings.set(slice, place(2), &access(true)), Ok(()));
        // The cgroup of a login, for which nothing is set yet.
        let login = nested(10, 3);
        assert!(settings.denies(&login));
        assert_eq!(settings.set(made, place(3), &access(false)), Ok(()));
        assert_eq!(settings.set(USER, None, &access(false)), Ok(()));
        assert!(settings.denies(&login));
        assert_eq!(settings.clear(slice), Ok(()));
        assert!(!settings.denies(&login));
        assert_eq!(settings.set(USER, None, &access(true)), Ok(()));
        assert!(settings.denies(&login));
    }

    #[test]
    fn settings_of_subjects_that_are_gone_are_forgotten() {
        let mut store = [Entry::default(); 4];
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store[..]);
        assert_eq!(
            settings.set(PROCESS, Some(IDENTITY), &Change::weight(5)),
            Ok(())
        );
        assert_eq!(
            settings.set(Subject::Process(11), None, &Change::weight(5)),
            Ok(())
        );
        assert_eq!(settings.set(USER, None, &Change::weight(5)), Ok(()));
        settings.retain(|subject| subject != PROCESS);
        assert_eq!(settings.all().len(), 2);
        assert!(settings.get(PROCESS).is_none());
    }
}
