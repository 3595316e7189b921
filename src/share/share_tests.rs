// SPDX-License-Identifier: GPL-2.0

//! Tests of joining, leaving, forming groups anew, and of what is booked.

use super::*;
use crate::account::waits::Waited;
use crate::account::{Accounts, EngineKind, Slot};
use crate::ids::ClientId;
use crate::policies::ClientState;
use crate::storage::Borrowed;
use crate::units::{Ns, VTime};

pub(super) type Few<'a> = Shares<Borrowed<'a>>;

/// System virtual time in all tests.
pub(super) const T_SYS: VTime = VTime::new(1_000_000);

/// Room for three processes and three groups.
pub(super) struct Store {
    pub(super) tables: Tables,
    pub(super) entries: [Entry; 3],
}

pub(super) struct Tables {
    members: [Member; 3],
    groups: [Group; 3],
    states: [ClientState; 3],
    rows: [Row; 4],
}

pub(super) fn store() -> Store {
    Store {
        tables: Tables {
            members: [Member::default(); 3],
            groups: [Group::default(); 3],
            states: [ClientState::default(); 3],
            rows: [Row::default(); 4],
        },
        entries: [Entry::default(); 3],
    }
}

pub(super) fn shares(tables: &mut Tables, group_by: GroupBy) -> Few<'_> {
    Shares::new(
        &mut tables.members[..],
        &mut tables.groups[..],
        &mut tables.states[..],
        Totals::new(&mut tables.rows[..]),
        group_by,
    )
}

pub(super) fn identity(process: u64, user: u32) -> Identity {
    Identity {
        process,
        user,
        ..Identity::default()
    }
}

/// A period of 6 ms, of which 1 ms was polled, that ends at `now_ms`.
pub(super) fn period(now_ms: u64) -> Period {
    Period {
        now: Ns::from_ms(now_ms),
        poll: Ns::from_ms(1),
        span: Ns::from_ms(6),
        next: Ns::from_ms(6),
        t_sys: T_SYS,
        enforce: true,
        sparse: None,
    }
}

/// The process at `at` used `us` microseconds of the polling phase.
pub(super) fn use_us(shares: &mut Few<'_>, at: usize, us: u64) {
    let slot = Slot {
        ran: Ns::from_us(us),
        runs: 1,
        ..Slot::default()
    };
    assert!(shares.charge_at(at, EngineKind::Compute, &slot));
}

/// GPU time by which the groups are ahead together, in nanoseconds.
fn lead(shares: &Few<'_>) -> u64 {
    let ahead = |state: &ClientState| {
        state.vtime.saturating_sub(T_SYS).get() / 100 * u64::from(state.weight.get())
    };
    shares.states().iter().map(ahead).sum()
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_shares))]
mod tests {
    use super::*;

    #[test]
    fn process_past_the_room_is_refused_until_one_leaves() {
        let mut store = store();
        let settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for id in 1..=3 {
            let joined = shares.join(ClientId::new(id), identity(id, 0), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        assert!(!shares.has_room());
        let refused = shares.join(ClientId::new(4), identity(4, 0), &settings, T_SYS);
        assert!(refused.is_err());
        shares.leave(1, T_SYS);
        assert!(shares.has_room());
        assert_eq!(shares.find(ClientId::new(3)), Some(1));
        assert_eq!(shares.find(ClientId::new(2)), None);
        let joined = shares.join(ClientId::new(4), identity(4, 0), &settings, T_SYS);
        assert_eq!(joined, Ok(2));
    }

    // A user must not get rid of a debt by starting another process.
    #[test]
    fn group_without_processes_stays_until_it_has_paid() {
        let mut store = store();
        let settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::User);
        assert!(shares
            .join(ClientId::new(1), identity(1, 7), &settings, T_SYS)
            .is_ok());
        shares.states_mut()[0].vtime = VTime::new(5_000_000);
        shares.leave(0, T_SYS);
        assert_eq!(shares.groups().len(), 1);
        assert!(shares
            .join(ClientId::new(2), identity(2, 7), &settings, T_SYS)
            .is_ok());
        assert_eq!(shares.states()[0].vtime, VTime::new(5_000_000));
        shares.leave(0, VTime::new(5_000_000));
        assert_eq!(shares.groups().len(), 0);
    }

    // A program must not get rid of a debt by going on in a child, or by ending and beginning
    // again.
    #[test]
    fn process_of_a_user_that_owes_starts_as_far_ahead() {
        let mut store = store();
        let settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        let joined = shares.join(ClientId::new(1), identity(1, 7), &settings, T_SYS);
        assert_eq!(joined, Ok(0));
        let state = &mut shares.states_mut()[0];
        (state.vtime, state.throttled) = (VTime::new(5_000_000), true);
        // Another user owes nothing; a child owes what its parent does, and waits as it does.
        let joined = shares.join(ClientId::new(2), identity(2, 8), &settings, T_SYS);
        assert_eq!(joined, Ok(1));
        let state = shares.states()[1];
        assert_eq!((state.vtime, state.throttled), (T_SYS, false));
        shares.leave(0, T_SYS);
        let joined = shares.join(ClientId::new(3), identity(3, 7), &settings, T_SYS);
        assert_eq!(joined, Ok(1));
        let group = shares.members()[1].group();
        let state = shares.state_of(group).unwrap_or_default();
        assert_eq!(state.vtime, VTime::new(5_000_000));
        assert!(state.throttled);
        assert!(shares.members()[1].throttled_by().is_some());
        // What has been paid is not inherited.
        shares.leave(1, VTime::new(6_000_000));
        let later = VTime::new(6_000_000);
        let joined = shares.join(ClientId::new(4), identity(4, 7), &settings, later);
        assert_eq!(joined, Ok(1));
        let group = shares.members()[1].group();
        let state = shares.state_of(group).unwrap_or_default();
        assert_eq!((state.vtime, state.throttled), (later, false));
    }

    // What the one before has used may be booked only when the next one is there already.
    #[test]
    fn process_that_has_used_nothing_owes_what_its_user_owes_by_now() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for (id, user) in [(1, 7), (2, 7), (3, 8)] {
            let joined = shares.join(ClientId::new(id), identity(id, user), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        let state = &mut shares.states_mut()[0];
        (state.vtime, state.throttled) = (VTime::new(T_SYS.get() + 5_000_000), true);
        for at in 0..3 {
            shares.owe_anew(at, T_SYS);
        }
        let owed = |shares: &Few<'_>, at: usize| {
            let state = shares.state_of(shares.members()[at].group());
            let state = state.unwrap_or_default();
            (state.vtime.get() - T_SYS.get(), state.throttled)
        };
        assert_eq!(owed(&shares, 0), (5_000_000, true));
        assert_eq!(owed(&shares, 1), (5_000_000, true));
        assert!(shares.members()[1].throttled_by().is_some());
        assert_eq!(owed(&shares, 2), (0, false));
        // One that has used the GPU owes for itself.
        use_us(&mut shares, 1, 100);
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        shares.book(&mut settings, &period(6));
        let before = owed(&shares, 1);
        shares.states_mut()[0].vtime = VTime::new(T_SYS.get() + 9_000_000);
        shares.owe_anew(1, T_SYS);
        assert_eq!(owed(&shares, 1), before);
    }

    #[test]
    fn lead_of_groups_formed_anew_is_that_of_their_processes() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let heavy = Change {
            weight: Some(300),
            ..Change::default()
        };
        assert_eq!(settings.set(Subject::User(7), None, &heavy), Ok(()));
        let mut shares = shares(&mut store.tables, GroupBy::User);
        for (id, user) in [(1, 7), (2, 7), (3, 8)] {
            let joined = shares.join(ClientId::new(id), identity(id, user), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        use_us(&mut shares, 0, 600);
        use_us(&mut shares, 1, 200);
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        shares.book(&mut settings, &period(6));
        shares.states_mut()[0].vtime = VTime::new(T_SYS.get() + 4_000_000);
        let before = lead(&shares);
        assert_eq!(before, 12_000_000);
        shares.set_grouping(GroupBy::Process, 0, &settings, T_SYS);
        assert_eq!(shares.groups().len(), 3);
        // By what they used; both have the weight of their user.
        assert_eq!(shares.states()[0].vtime.get(), T_SYS.get() + 3_000_000);
        assert_eq!(shares.states()[1].vtime.get(), T_SYS.get() + 1_000_000);
        assert_eq!(lead(&shares), before);
        shares.set_grouping(GroupBy::Cgroup, 0, &settings, T_SYS);
        assert_eq!(shares.groups().len(), 1);
        assert_eq!(lead(&shares), before);
    }

    #[test]
    fn process_that_moves_takes_its_part_along() {
        let mut store = store();
        let settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::User);
        for id in 1..=2 {
            let joined = shares.join(ClientId::new(id), identity(id, 7), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        shares.states_mut()[0].vtime = VTime::new(T_SYS.get() + 4_000_000);
        assert_eq!(shares.rejoin(1, identity(2, 8), &settings, T_SYS), Ok(()));
        assert_eq!(shares.groups().len(), 2);
        assert_eq!(shares.states()[0].vtime.get(), T_SYS.get() + 2_000_000);
        assert_eq!(shares.states()[1].vtime.get(), T_SYS.get() + 2_000_000);
        assert_eq!(shares.members()[1].group(), 1);
        assert_eq!(lead(&shares), 4_000_000);
    }

    #[test]
    fn throttling_a_group_throttles_all_its_processes() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::User);
        for (id, user) in [(1, 7), (2, 7), (3, 8)] {
            let joined = shares.join(ClientId::new(id), identity(id, user), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        use_us(&mut shares, 0, 500);
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        shares.states_mut()[0].throttled = true;
        shares.book(&mut settings, &period(6));
        let all_are =
            |shares: &Few<'_>, by| shares.members().iter().all(|m| m.throttled_by() == by);
        assert_eq!(
            shares.members()[0].throttled_by(),
            Some(ThrottledBy::Policy)
        );
        assert_eq!(
            shares.members()[1].throttled_by(),
            Some(ThrottledBy::Policy)
        );
        assert_eq!(shares.members()[2].throttled_by(), None);
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        shares.book(&mut settings, &period(12));
        assert_eq!(shares.members()[1].account().throttled, Ns::from_ms(6));
        assert_eq!(shares.members()[1].account().throttles, 1);
        shares.add_up();
        assert_eq!(shares.groups()[0].account().throttles, 2);
        shares.release(Ns::from_ms(15));
        assert!(all_are(&shares, None));
        let later = shares.members()[1].account_at(Ns::from_ms(20));
        assert_eq!(later.throttled, Ns::from_ms(9));
    }

    #[test]
    fn decision_that_is_not_carried_out_throttles_no_process() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let strict = Change {
            limit: Some(1),
            class: Some(Class::Idle),
            ..Change::default()
        };
        assert_eq!(settings.set(Subject::User(7), None, &strict), Ok(()));
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for (id, user) in [(1, 7), (2, 8)] {
            let joined = shares.join(ClientId::new(id), identity(id, user), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        for (enforce, by) in [
            (false, None),
            (true, Some(ThrottledBy::Limit)),
            (false, None),
        ] {
            use_us(&mut shares, 0, 500);
            use_us(&mut shares, 1, 500);
            shares.gather(&settings, Ns::ZERO, Ns::ZERO);
            let period = Period {
                enforce,
                ..period(6)
            };
            shares.book(&mut settings, &period);
            assert_eq!(shares.members()[0].throttled_by(), by);
        }
    }

    /// The status word shows no ends of commands of a client that runs alone: all of them appear as
    /// one.
    #[test]
    fn hog_alone_gets_its_limit_though_its_commands_have_no_length() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        let joined = shares.join(ClientId::new(1), identity(1, 7), &settings, T_SYS);
        assert!(joined.is_ok());
        let mut ran = 0;
        for at in 1..=1200 {
            if at == 200 {
                let fifth = Change {
                    limit: Some(20),
                    ..Change::default()
                };
                assert_eq!(settings.set(Subject::User(7), None, &fifth), Ok(()));
            }
            if shares.members()[0].throttled_by().is_none() {
                ran += u32::from(at > 200);
                use_us(&mut shares, 0, 1000);
            }
            shares.gather(&settings, Ns::ZERO, Ns::ZERO);
            shares.book(&mut settings, &period(at * 6));
        }
        // A fifth of 1000, less what it may have run on while throttled each time.
        assert!((180..=201).contains(&ran));
    }

    // Two processes of equal weight; the first is throttled, was found to run on for 2 ms and is
    // still there for 400 us of the polling phase. The other had the rest.
    #[test]
    fn process_that_runs_on_while_throttled_pays_one_to_one() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for id in 1..=2 {
            let joined = shares.join(ClientId::new(id), identity(id, 0), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        shares.states_mut()[0].throttled = true;
        shares.throttle(&settings, &period(6));
        let found = [(1, 1500), (2, 4000), (1, 500)];
        let found = found.map(|(id, us)| (ClientId::new(id), Ns::from_us(us)));
        shares.note_residue(found.into_iter(), core::iter::empty(), true);
        use_us(&mut shares, 0, 400);
        use_us(&mut shares, 1, 600);
        let direct = shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        assert_eq!(direct.polled, Ns::from_us(400));
        assert_eq!(direct.all, Ns::from_us(2400));
        assert_eq!(shares.states()[0].busy, Ns::ZERO);
        assert_eq!(shares.states()[0].paid, Ns::from_us(2400));
        assert_eq!(shares.states()[1].paid, Ns::ZERO);
        assert_eq!(
            shares.states()[0].vtime,
            T_SYS.saturating_add(VTime::new(2_400_000))
        );
        assert_eq!(shares.states()[1].busy, Ns::from_us(600));
        assert_eq!(shares.states()[1].vtime, T_SYS);
        shares.book(&mut settings, &period(12));
        let received = |at: usize| shares.members()[at].account().received;
        assert_eq!(received(0), Ns::from_us(2400));
        assert_eq!(received(1), Ns::from_us(3600));
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        assert_eq!(shares.states()[0].paid, Ns::ZERO);
    }

    // A program that submits when the poller sleeps: no polling phase shows it, and samples find it
    // for 2 of the 5 ms between two of them. The other is seen all the time, and found for 3 ms.
    #[test]
    fn process_that_runs_between_polling_phases_is_charged_what_was_found() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        for id in 1..=2 {
            let joined = shares.join(ClientId::new(id), identity(id, 0), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        let mut told = 0;
        for at in 1..=100u64 {
            let found = [(1, 2), (2, 3)];
            let found = found.map(|(id, ms)| (ClientId::new(id), Ns::from_ms(ms)));
            shares.note_residue(found.into_iter(), core::iter::empty(), true);
            use_us(&mut shares, 1, 1000);
            shares.gather(&settings, Ns::from_ms(1), Ns::from_ms(6));
            shares.book(&mut settings, &period(at * 6));
            told += u32::from(shares.members()[0].evaded().is_some());
        }
        // The time gained before is charged too, except for the part that has faded.
        let received = |at: usize| shares.members()[at].account().received;
        assert!(received(0) > Ns::from_ms(195));
        assert!(received(0) <= Ns::from_ms(200));
        assert_eq!(told, 1);
        assert_eq!(shares.members()[0].evasions(), 1);
        assert_eq!(shares.members()[1].evasions(), 0);
        // The policy sees both, a third and two thirds of the phase.
        assert_eq!(shares.states()[0].busy, Ns::new(333_333));
        assert_eq!(shares.states()[1].busy, Ns::new(666_666));
    }

    #[test]
    fn released_process_is_not_charged_for_what_was_found() {
        let mut store = store();
        let settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        let joined = shares.join(ClientId::new(1), identity(1, 0), &settings, T_SYS);
        assert!(joined.is_ok());
        let found = [(ClientId::new(1), Ns::from_ms(2))];
        shares.note_residue(found.into_iter(), core::iter::empty(), true);
        let direct = shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        assert_eq!(direct.all, Ns::ZERO);
        assert_eq!(shares.states()[0].vtime, T_SYS);
    }

    #[test]
    fn time_stays_with_the_group_and_the_user_where_it_was_used() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::User);
        for (id, user) in [(1, 7), (2, 8)] {
            let joined = shares.join(ClientId::new(id), identity(id, user), &settings, T_SYS);
            assert!(joined.is_ok());
        }
        // What the first one used counts once.
        for (at, us) in [(0, 500), (1, 0)] {
            use_us(&mut shares, at, us);
            shares.gather(&settings, Ns::ZERO, Ns::ZERO);
            shares.book(&mut settings, &period(6));
        }
        assert_eq!(shares.rejoin(0, identity(1, 8), &settings, T_SYS), Ok(()));
        use_us(&mut shares, 0, 300);
        shares.gather(&settings, Ns::ZERO, Ns::ZERO);
        shares.book(&mut settings, &period(12));
        shares.leave(0, T_SYS);
        let mut rows = [Row::default(); 4];
        shares.totals().read(Kind::User, false, &mut rows);
        let of_user = |user| {
            let row = rows.iter().find(|row| row.key == Some(user));
            row.map(|row| row.account.measured)
        };
        assert_eq!(of_user(7), Some(Ns::from_us(500)));
        assert_eq!(of_user(8), Some(Ns::from_us(300)));
        let groups = shares.groups().iter();
        let mut of_8 = groups.filter(|group| group.subject() == Subject::User(8));
        let measured = of_8.next().map(|group| group.account().measured);
        assert_eq!(measured, Some(Ns::from_us(300)));
    }

    #[test]
    fn booked_times_are_in_the_means() {
        let mut store = store();
        let mut settings = Settings::<Borrowed<'_>>::new(&mut store.entries[..]);
        let mut shares = shares(&mut store.tables, GroupBy::Process);
        let joined = shares.join(ClientId::new(1), identity(1, 0), &settings, T_SYS);
        assert!(joined.is_ok());
        for at in 1..=100 {
            use_us(&mut shares, 0, 250);
            shares.add_waited(0, Waited::to_compute(Ns::from_us(500)), Ns::from_ms(1));
            shares.gather(&settings, Ns::ZERO, Ns::ZERO);
            shares.book(&mut settings, &period(at * 6));
        }
        let means = shares.members()[0].means(Ns::from_ms(600), Ns::ZERO);
        assert!(means.busy_2s.abs_diff(250_000) < 100);
        assert!(means.waited_30s.abs_diff(500_000) < 100);
    }
}
