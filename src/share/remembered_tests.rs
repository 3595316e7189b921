// SPDX-License-Identifier: GPL-2.0

//! Tests of what is left of groups whose processes have ended.

use super::*;
use crate::ids::ClientId;
use crate::policies::{Attained, ClientState, PolicyKind};
use crate::storage::Borrowed;
use crate::units::{Ns, VTime};

type Few<'a> = Shares<Borrowed<'a>>;
type SomeSettings<'a> = Settings<Borrowed<'a>>;

/// System virtual time in all tests.
const T_SYS: VTime = VTime::new(1_000_000);

/// Room for four processes and five groups, divided as asked for.
fn with_room(group_by: GroupBy, check: for<'a> fn(&mut Few<'a>, &mut SomeSettings<'a>)) {
    let mut members = [Member::default(); 4];
    let (mut groups, mut states) = ([Group::default(); 5], [ClientState::default(); 5]);
    let (mut entries, mut rows) = ([Entry::default(); 2], [Row::default(); 4]);
    let mut settings = SomeSettings::new(&mut entries[..]);
    let totals = Totals::new(&mut rows[..]);
    let (members, groups, states) = (&mut members[..], &mut groups[..], &mut states[..]);
    let mut shares = Shares::new(members, groups, states, totals, group_by);
    check(&mut shares, &mut settings);
}

/// A process of a user joins, and its position is returned.
fn join<'a>(shares: &mut Few<'a>, settings: &SomeSettings<'a>, id: u64, user: u32) -> usize {
    let identity = Identity {
        process: id,
        user,
        ..Identity::default()
    };
    let joined = shares.join(ClientId::new(id), identity, settings, T_SYS);
    assert!(joined.is_ok());
    joined.unwrap_or_default()
}

/// The policy notes that the group of the process at `at` was served for a while.
fn serve(shares: &mut Few<'_>, at: usize, ms: u64) {
    let group = shares.members()[at].group();
    let index = shares.groups()[group].state_index;
    // A decision makes what is kept one of `las-levels`.
    let state = &mut shares.all_states_mut()[index..=index];
    let _ = PolicyKind::LasLevels.decide(&Default::default(), &mut Default::default(), state);
    let past = Ns::from_ms(ms);
    state[0].kept = state[0].kept.beginning_with(Attained {
        past,
        ..Attained::default()
    });
}

/// What the group of the process at `at` has attained, in milliseconds.
fn attained(shares: &Few<'_>, at: usize) -> u64 {
    let state = shares.state_of(shares.members()[at].group());
    state.unwrap_or_default().kept.attained().past.get() / 1_000_000
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_shares_remembered))]
mod tests {
    use super::*;

    // Row 3 of the abuse cases, for users and cgroups.
    #[test]
    fn user_that_comes_back_has_attained_what_it_had() {
        with_room(GroupBy::User, |shares, settings| {
            let at = join(shares, settings, 1, 7);
            serve(shares, at, 5_000);
            shares.leave(at, T_SYS);
            assert!(shares.groups()[0].is_remembered());
            let at = join(shares, settings, 2, 7);
            assert_eq!(attained(shares, at), 5_000);
            assert!(!shares.groups()[0].is_remembered());
            let other = join(shares, settings, 3, 8);
            assert_eq!(attained(shares, other), 0);
            // Only what is empty and remembered costs nothing in decisions.
            shares.leave(other, T_SYS);
            assert_eq!(shares.vacancies(), (0, 0));
            shares.leave(at, T_SYS);
            assert_eq!(shares.vacancies(), (1, 1));
        });
    }

    #[test]
    fn group_that_owes_is_remembered_once_it_has_paid() {
        with_room(GroupBy::User, |shares, settings| {
            let at = join(shares, settings, 1, 7);
            serve(shares, at, 5_000);
            shares.states_mut()[0].vtime = VTime::new(5_000_000);
            shares.leave(at, T_SYS);
            assert_eq!(shares.vacancies(), (1, 0));
            shares.drop_paid_groups(VTime::new(5_000_000));
            assert_eq!(shares.vacancies(), (1, 1));
            let at = join(shares, settings, 2, 7);
            assert_eq!(attained(shares, at), 5_000);
        });
    }

    // Row 3 of the abuse cases, where processes are groups: a restart, and a fork.
    #[test]
    fn process_begins_with_the_greatest_that_its_user_attained() {
        with_room(GroupBy::Process, |shares, settings| {
            for (id, user, ms) in [(1, 7, 3_000), (2, 7, 5_000), (3, 8, 9_000)] {
                let at = join(shares, settings, id, user);
                serve(shares, at, ms);
            }
            shares.leave(1, T_SYS);
            let at = join(shares, settings, 4, 7);
            assert_eq!(attained(shares, at), 5_000);
            shares.leave(at, T_SYS);
            shares.leave(0, T_SYS);
            // One group is left of the user.
            assert_eq!(shares.vacancies(), (1, 1));
            let at = join(shares, settings, 5, 7);
            assert_eq!(attained(shares, at), 5_000);
            serve(shares, at, 6_000);
            let child = join(shares, settings, 6, 7);
            assert_eq!(attained(shares, child), 6_000);
            let other = join(shares, settings, 7, 9);
            assert_eq!(attained(shares, other), 0);
        });
    }

    #[test]
    fn attained_service_is_inherited_as_gpu_time() {
        with_room(GroupBy::Process, |shares, settings| {
            let light = Subject::Process(2);
            assert_eq!(settings.set(light, None, &Change::weight(50)), Ok(()));
            let at = join(shares, settings, 1, 7);
            serve(shares, at, 4_000);
            // Over half the weight it is twice as much.
            let at = join(shares, settings, 2, 7);
            assert_eq!(attained(shares, at), 8_000);
            shares.leave(0, T_SYS);
            shares.leave(0, T_SYS);
            let at = join(shares, settings, 3, 7);
            assert_eq!(attained(shares, at), 4_000);
        });
    }

    #[test]
    fn full_table_forgets_the_user_that_was_awake_least_recently() {
        with_room(GroupBy::User, |shares, settings| {
            for user in 1..=5 {
                let at = join(shares, settings, user.into(), user);
                serve(shares, at, 1_000);
                let group = shares.members()[at].group();
                let vtime = VTime::new(u64::from(10 - user) * 1_000);
                shares
                    .state_mut(group)
                    .into_iter()
                    .for_each(|state| state.vtime = vtime);
                shares.leave(at, T_SYS);
            }
            assert_eq!(shares.vacancies().1, 5);
            let new = join(shares, settings, 6, 6);
            assert_eq!((attained(shares, new), shares.vacancies().1), (0, 4));
            let at = join(shares, settings, 7, 5);
            assert_eq!(attained(shares, at), 0);
            let at = join(shares, settings, 8, 1);
            assert_eq!(attained(shares, at), 1_000);
        });
    }

    #[test]
    fn process_that_moves_takes_along_what_it_used_itself() {
        with_room(GroupBy::User, |shares, settings| {
            let one = join(shares, settings, 1, 7);
            let two = join(shares, settings, 2, 7);
            shares.member_mut(two).account.received = Ns::from_ms(1_500);
            serve(shares, one, 5_000);
            let moved = Identity {
                process: 2,
                user: 8,
                ..Identity::default()
            };
            assert_eq!(shares.rejoin(two, moved, settings, T_SYS), Ok(()));
            assert_eq!(attained(shares, one), 5_000);
            assert_eq!(attained(shares, two), 1_500);
        });
    }

    #[test]
    fn nothing_attained_is_left_for_another_policy() {
        with_room(GroupBy::User, |shares, settings| {
            let at = join(shares, settings, 1, 7);
            serve(shares, at, 5_000);
            shares.leave(at, T_SYS);
            let at = join(shares, settings, 2, 8);
            serve(shares, at, 5_000);
            shares.forget_attained();
            assert_eq!((shares.groups().len(), shares.vacancies().1), (1, 0));
            // The engine clears what is kept of clients that are awake.
            assert_eq!(attained(shares, at), 5_000);
            let at = join(shares, settings, 3, 7);
            assert_eq!(attained(shares, at), 0);
        });
    }
}
