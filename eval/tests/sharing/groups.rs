// SPDX-License-Identifier: GPL-2.0

//! Groups, and what they are entitled to.

use super::{enforcing, hogs, percent};
use loga::policies::PolicyKind;
use loga::share::{Change, GroupBy, Kind, Row, Subject};
use loga::units::Ns;
use loga_eval::ideal::IdealGpu;

/// A user with three processes and one with a single one.
fn two_users(group_by: GroupBy) -> IdealGpu {
    let mut processes = hogs(&[500, 500, 500, 500], 6);
    processes[3].user = 1;
    for (at, process) in processes.iter_mut().enumerate() {
        process.cgroup = [5, 5, 6, 6][at];
    }
    IdealGpu::new(&processes, enforcing(PolicyKind::Event), group_by).unwrap()
}

#[test]
fn gpu_is_divided_between_what_was_asked_for() {
    for (group_by, wanted) in [
        (GroupBy::Process, [25.0, 25.0, 25.0, 25.0]),
        (GroupBy::User, [16.7, 16.7, 16.7, 50.0]),
        (GroupBy::Cgroup, [25.0, 25.0, 25.0, 25.0]),
    ] {
        let shares = percent(&mut two_users(group_by), 2000, 12_000);
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!((share - wanted).abs() < 1.0, "{group_by:?}: {shares:?}");
        }
    }
}

#[test]
fn weight_of_a_user_counts_between_users() {
    let mut machine = two_users(GroupBy::User);
    machine
        .state_mut()
        .settings
        .set(Subject::User(1), None, &Change::weight(300))
        .unwrap();
    let shares = percent(&mut machine, 2000, 12_000);
    assert!((shares[3] - 75.0).abs() < 1.0, "{shares:?}");
}

#[test]
fn switch_of_groups_under_load_loses_no_time_used() {
    let mut machine = two_users(GroupBy::Process);
    let mut previous = Ns::ZERO;
    for round in 1..=20 {
        machine.run_until(Ns::from_ms(round * 500));
        let received = |machine: &IdealGpu| {
            let members = machine.state().shares.members().iter();
            members.map(|m| m.account().received.get()).sum::<u64>()
        };
        let before = received(&machine);
        machine.set_group_by(GroupBy::ALL[round as usize % 3]);
        assert_eq!(received(&machine), before);
        assert!(Ns::new(before) > previous);
        previous = Ns::new(before);
        // The groups know what their processes got.
        let groups = machine.state().shares.groups().iter();
        assert_eq!(
            groups.map(|g| g.account().received.get()).sum::<u64>(),
            before
        );
        assert_eq!(
            machine
                .state()
                .shares
                .groups()
                .iter()
                .map(|g| g.members())
                .sum::<u32>(),
            4
        );
    }
    // And what was received is what was used.
    let used: u64 = machine.ran().iter().map(|ran| ran.get()).sum();
    assert!((previous.get() as f64 / used as f64 - 1.0).abs() < 0.02);
}

#[test]
fn totals_of_users_are_what_their_processes_received() {
    let mut machine = two_users(GroupBy::Process);
    machine.run_until(Ns::from_ms(5000));
    let mut rows = [Row::default(); 4];
    let count = machine
        .state_mut()
        .shares
        .totals()
        .read(Kind::User, true, &mut rows);
    assert_eq!(count, 2);
    let members = machine.state().shares.members();
    let of_user = |user: u32| {
        let mine = members.iter().filter(|m| m.identity().user == user);
        mine.map(|m| m.account().received.get()).sum::<u64>()
    };
    for row in &rows[..count] {
        let user = row.key.unwrap() as u32;
        assert_eq!(row.account.received.get(), of_user(user));
    }
    assert_eq!(
        machine
            .state_mut()
            .shares
            .totals()
            .read(Kind::User, true, &mut rows),
        0
    );
    assert_eq!(
        machine
            .state_mut()
            .shares
            .totals()
            .read(Kind::Cgroup, false, &mut rows),
        2
    );
}

#[test]
fn entitled_time_is_divided_by_weight_and_cut_by_the_limit() {
    let config = enforcing(PolicyKind::Event);
    let mut machine = IdealGpu::new(&hogs(&[500, 500], 6), config, GroupBy::Process).unwrap();
    machine.set_process(0, &Change::weight(300)).unwrap();
    machine.run_until(Ns::from_ms(5000));
    let entitled = |machine: &IdealGpu| {
        let members = machine.state().shares.members().iter();
        members
            .map(|m| m.account().entitled.get() as f64)
            .collect::<Vec<_>>()
    };
    let at = entitled(&machine);
    assert!((at[0] / at[1] - 3.0).abs() < 0.01, "{at:?}");
    machine.set_process(0, &Change::limit(10)).unwrap();
    machine.run_until(Ns::from_ms(7000));
    let later = entitled(&machine);
    let points = (later[0] - at[0]) / 2e9;
    assert!((points - 0.10).abs() < 0.01, "{points}");
}
