// SPDX-License-Identifier: GPL-2.0

//! Limits and the idle class.

use super::{enforcing, hogs, percent, IDLE};
use loga::engine::Config;
use loga::policies::PolicyKind;
use loga::share::{Change, GroupBy, Subject};
use loga::units::Ns;
use loga_eval::ideal::{IdealGpu, Process};

/// The most that the process at 0 used in any window of `window_ms`, in percent of the
/// window, checked every millisecond; and its share of the whole time.
fn most_in_a_window(machine: &mut IdealGpu, end_ms: u64, window_ms: usize) -> (f64, f64) {
    let mut used = Vec::new();
    for ms in 0..=end_ms {
        machine.run_until(Ns::from_ms(ms));
        used.push(machine.ran()[0].get() as f64 / 1e6);
    }
    let windows = used.windows(window_ms + 1);
    let most = windows.map(|window| window[window_ms] - window[0]);
    let most = 100.0 * most.fold(0.0, f64::max) / window_ms as f64;
    (most, 100.0 * used[used.len() - 1] / end_ms as f64)
}

/// The most that a hog with commands of this length used of any window of two seconds
/// under a limit, and its mean, as fractions of the limit.
fn under_limit(kernel_us: u64, percent: u32) -> (f64, f64) {
    // Back to back but for the time that a submission takes.
    let hog = Process {
        channels: 1,
        ..Process::new(kernel_us, 10)
    };
    let config = Config {
        randomize: true,
        ..enforcing(PolicyKind::Event)
    };
    let mut machine = IdealGpu::new(&[hog], config, GroupBy::Process).unwrap();
    machine.set_process(0, &Change::limit(percent)).unwrap();
    let (most, mean) = most_in_a_window(&mut machine, 8_000, 2000);
    println!("limit {percent}, {kernel_us} us: most {most:.2}, mean {mean:.2}");
    (most / f64::from(percent), mean / f64::from(percent))
}

#[test]
fn limit_holds_for_a_client_alone() {
    for kernel_us in [100, 1000, 3000] {
        for percent in [10, 20, 50, 80] {
            let (most, mean) = under_limit(kernel_us, percent);
            // A window of two seconds may hold a tenth of a period more, and a command.
            let bound = 1.05 + kernel_us as f64 / (20_000.0 * f64::from(percent));
            assert!(most <= bound, "{kernel_us} us, {percent}: {most}");
            assert!(mean >= 0.95, "{kernel_us} us, {percent}: {mean}");
        }
    }
}

#[test]
fn limit_holds_beside_others_and_they_get_the_rest() {
    let mut machine = IdealGpu::new(
        &hogs(&[1000, 1000], 1),
        enforcing(PolicyKind::Event),
        GroupBy::Process,
    )
    .unwrap();
    machine.set_process(0, &Change::limit(20)).unwrap();
    let shares = percent(&mut machine, 0, 4000);
    assert!(shares[0] <= 21.0, "{shares:?}");
    assert!(shares[0] >= 18.0, "{shares:?}");
    assert!(shares[0] + shares[1] > 99.9, "{shares:?}");
}

#[test]
fn limit_of_a_user_holds_for_all_its_processes_together() {
    let mut processes = hogs(&[500, 500, 500], 1);
    processes[2].user = 7;
    let config = enforcing(PolicyKind::Event);
    let mut machine = IdealGpu::new(&processes, config, GroupBy::Process).unwrap();
    machine
        .state_mut()
        .settings
        .set(Subject::User(0), None, &Change::limit(30))
        .unwrap();
    let shares = percent(&mut machine, 0, 4000);
    let user = shares[0] + shares[1];
    assert!((28.0..=31.5).contains(&user), "{shares:?}");
    assert!(shares[2] > 68.0, "{shares:?}");
}

#[test]
fn limit_without_enforcement_is_not_carried_out() {
    let mut machine = IdealGpu::new(&hogs(&[1000], 1), Config::paper(), GroupBy::Process).unwrap();
    machine.set_process(0, &Change::limit(10)).unwrap();
    assert!(percent(&mut machine, 0, 1000)[0] > 99.0);
}

#[test]
fn idle_class_runs_only_while_no_other_client_wants_the_gpu() {
    let mut processes = hogs(&[1000], 12);
    processes.push(Process {
        from: Ns::from_ms(2000),
        until: Some(Ns::from_ms(4000)),
        ..Process::new(200, 800)
    });
    let config = enforcing(PolicyKind::Event);
    let mut machine = IdealGpu::new(&processes, config, GroupBy::Process).unwrap();
    machine.set_process(0, &IDLE).unwrap();
    let alone = percent(&mut machine, 0, 2000);
    assert!(alone[0] > 99.0, "{alone:?}");
    // After the period in which the other one is seen for the first time.
    let beside = percent(&mut machine, 2200, 4000);
    assert!(beside[0] < 0.1, "{beside:?}");
    assert!(beside[1] > 19.0, "{beside:?}");
    let after = percent(&mut machine, 4300, 5000);
    assert!(after[0] > 99.0, "{after:?}");
    let waited = machine.state().shares.members()[0].account().waited;
    assert!(waited > Ns::from_ms(1700));
    assert!(waited < Ns::from_ms(2300));
}

#[test]
fn idle_class_among_itself_shares_by_weight() {
    let config = enforcing(PolicyKind::Event);
    let mut machine = IdealGpu::new(&hogs(&[1000, 1000], 12), config, GroupBy::Process).unwrap();
    machine.set_process(0, &IDLE).unwrap();
    machine.set_process(1, &IDLE).unwrap();
    machine.set_process(1, &Change::weight(300)).unwrap();
    let shares = percent(&mut machine, 2000, 10_000);
    assert!((shares[0] - 25.0).abs() < 1.5, "{shares:?}");
}
