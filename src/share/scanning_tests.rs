// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of scans.

use super::settings::Settings;
use super::shares::Shares;
use crate::policies::ScanResult;
use crate::units::Ns;

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_share_scanning))]
mod tests {
    use super::super::{Entry, Group, GroupBy, Identity, Member, ThrottledBy, Totals};
    use super::*;
    use crate::ids::ClientId;
    use crate::policies::ClientState;
    use crate::storage::Borrowed;
    use crate::units::VTime;

    type OnSlices<'a> = Shares<Borrowed<'a>>;

    /// Two processes of user 5 and one of user 6, divided by user.
    fn by_user(check: for<'a> fn(&mut OnSlices<'a>, &Settings<Borrowed<'a>>)) {
        let mut members = [Member::default(); 3];
        let (mut groups, mut states) = ([Group::default(); 6], [ClientState::default(); 6]);
        let mut entries = [Entry::default(); 2];
        let settings = Settings::<Borrowed<'_>>::new(&mut entries[..]);
        let mut shares = Shares::<Borrowed<'_>>::new(
            &mut members[..],
            &mut groups[..],
            &mut states[..],
            Totals::new(&mut [][..]),
            GroupBy::User,
        );
        for (id, user) in [(1, 5), (2, 5), (3, 6)] {
            let identity = Identity {
                process: id,
                user,
                ..Identity::default()
            };
            let joined = shares.join(ClientId::new(id), identity, &settings, VTime::ZERO);
            assert!(joined.is_ok());
        }
        check(&mut shares, &settings);
    }

    const BUSY: ScanResult = ScanResult {
        pending: true,
        blocked: false,
        submitted: 3,
        completed: 2,
        cpu: Ns::from_us(7),
    };
    const ASLEEP: ScanResult = ScanResult {
        pending: false,
        blocked: true,
        submitted: 0,
        completed: 0,
        cpu: Ns::ZERO,
    };

    #[test]
    fn group_shows_what_its_processes_show() {
        by_user(|shares, _| {
            shares.begin_scan();
            shares.add_scan(0, &BUSY, 12);
            shares.add_scan(1, &BUSY, 2);
            shares.add_scan(1, &ASLEEP, 0);
            let both = shares.states()[0];
            assert_eq!((both.seen.submitted, both.seen.completed), (6, 4));
            assert!(both.seen.pending);
            assert!(both.seen.blocked);
            assert_eq!(both.channels, 14);
            assert_eq!(shares.states()[1].seen, ScanResult::default());
        });
    }

    #[test]
    fn scan_forgets_the_one_before() {
        by_user(|shares, _| {
            shares.add_scan(2, &BUSY, 12);
            shares.begin_scan();
            assert_eq!(shares.states()[1].seen, ScanResult::default());
            assert_eq!(shares.states()[1].channels, 0);
        });
    }

    #[test]
    fn sleep_under_a_limit_is_no_wish() {
        by_user(|shares, _| {
            shares.member_mut(2).throttled_by = Some(ThrottledBy::Limit);
            shares.begin_scan();
            shares.add_scan(2, &ASLEEP, 1);
            assert!(!shares.states()[1].seen.blocked);
            shares.member_mut(2).throttled_by = Some(ThrottledBy::Policy);
            shares.add_scan(2, &ASLEEP, 1);
            assert!(shares.states()[1].seen.blocked);
        });
    }

    #[test]
    fn throttling_a_group_throttles_its_processes() {
        by_user(|shares, settings| {
            shares.states_mut()[0].throttled = true;
            shares.apply(settings, Ns::from_ms(1), true);
            assert_eq!(
                shares.members()[0].throttled_by(),
                Some(ThrottledBy::Policy)
            );
            assert_eq!(
                shares.members()[1].throttled_by(),
                Some(ThrottledBy::Policy)
            );
            assert_eq!(shares.members()[2].throttled_by(), None);
            shares.apply(settings, Ns::from_ms(2), false);
            assert!(shares
                .members()
                .iter()
                .all(|member| member.throttled_by().is_none()));
        });
    }

    // A limit that moves in the table must not throttle a process that has the old position for its
    // own limit. Its tables do not fit on the stack of a kernel thread.
    #[cfg(not(loga_kunit))]
    #[test]
    fn settings_that_changed_since_the_decision_are_taken_over() {
        use super::super::{Change, Period, Row, Subject};
        use crate::account::{Accounts, EngineKind, Slot};

        let mut members = [Member::default(); 2];
        let (mut groups, mut states) = ([Group::default(); 4], [ClientState::default(); 4]);
        let (mut entries, mut rows) = ([Entry::default(); 4], [Row::default(); 8]);
        let mut settings = Settings::<Borrowed<'_>>::new(&mut entries[..]);
        let limit = |limit| Change {
            limit: Some(limit),
            ..Change::default()
        };
        // Nothing can be used under it for a long time.
        let used_up = |user| (Subject::User(user), limit(1));
        for (subject, change) in [used_up(6), (Subject::User(5), limit(90))] {
            assert_eq!(settings.set(subject, None, &change), Ok(()));
        }
        let mut shares = Shares::<Borrowed<'_>>::new(
            &mut members[..],
            &mut groups[..],
            &mut states[..],
            Totals::new(&mut rows[..]),
            GroupBy::Process,
        );
        for (id, user) in [(1, 5), (2, 6)] {
            let identity = Identity {
                process: id,
                user,
                ..Identity::default()
            };
            let joined = shares.join(ClientId::new(id), identity, &settings, VTime::ZERO);
            assert!(joined.is_ok());
        }
        let period = Period {
            now: Ns::from_ms(6),
            poll: Ns::from_ms(1),
            span: Ns::from_ms(6),
            next: Ns::from_ms(6),
            enforce: true,
            ..Period::default()
        };
        let slot = Slot {
            ran: Ns::from_ms(1),
            runs: 1,
            ..Slot::default()
        };
        assert!(shares.charge_at(1, EngineKind::Compute, &slot));
        shares.gather(&settings, Ns::from_ms(1), Ns::from_ms(6));
        shares.book(&mut settings, &period);
        assert_eq!(shares.members()[1].throttled_by(), Some(ThrottledBy::Limit));
        // The table moves up: where the limit of 5 was, that of 6 is now.
        assert_eq!(settings.set(Subject::Process(9), None, &limit(50)), Ok(()));
        assert_eq!(settings.clear(Subject::User(5)), Ok(()));
        shares.apply(&settings, Ns::from_ms(7), true);
        assert_eq!(shares.members()[0].throttled_by(), None);
        assert_eq!(shares.members()[1].throttled_by(), Some(ThrottledBy::Limit));
    }

    #[test]
    fn process_that_is_gone_is_not_seen() {
        by_user(|shares, _| {
            shares.begin_scan();
            shares.add_scan(7, &BUSY, 1);
            assert!(shares.states().iter().all(|state| state.channels == 0));
        });
    }
}
