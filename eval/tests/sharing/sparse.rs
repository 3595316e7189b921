// SPDX-License-Identifier: GPL-2.0

//! Sparse accounting.

use super::{enforcing, percent};
use loga::account::Accounting;
use loga::engine::Config;
use loga::policies::PolicyKind;
use loga::share::{Change, GroupBy};
use loga::units::Ns;
use loga_eval::ideal::{IdealGpu, Process};

/// A machine that accounts sparsely, with periods of 6 ms per channel.
fn sparse(processes: &[Process], policy: PolicyKind, seed: u64) -> IdealGpu {
    let config = Config {
        poll_always: true,
        poll_ms: 6,
        accounting: Some(Accounting::Sparse),
        ..enforcing(policy)
    };
    IdealGpu::seeded(processes, config, GroupBy::Process, Ns::ZERO, seed).unwrap()
}

/// Runs for two seconds with many seeds. Returns the error that 95 % of all stay below
/// for the worst client, in points, how often a client was within its stated bound at
/// least, in percent, and samples per second.
fn sparse_errors(processes: &[Process]) -> (f64, f64, u64) {
    const RUNS: usize = 20;
    let (mut errors, mut within) = (vec![Vec::new(); processes.len()], vec![0; processes.len()]);
    let mut samples = 0;
    for seed in 1..=RUNS as u64 {
        let mut machine = sparse(processes, PolicyKind::None, seed * 77);
        machine.run_until(Ns::from_ms(500));
        let received = |machine: &IdealGpu| {
            let members = machine.state().shares.members().iter();
            members.map(|m| *m.account()).collect::<Vec<_>>()
        };
        let before = (machine.ran(), received(&machine), machine.reads());
        machine.run_until(Ns::from_ms(2500));
        let after = (machine.ran(), received(&machine), machine.reads());
        samples += after.2 - before.2;
        for at in 0..processes.len() {
            let truth = after.0[at].saturating_sub(before.0[at]).get() as f64;
            let got = after.1[at].received.saturating_sub(before.1[at].received);
            let error = (got.get() as f64 - truth).abs();
            let variance = after.1[at].variance_us2 - before.1[at].variance_us2;
            // The last phase is not booked yet.
            let bound = loga::account::sparse::bound(variance, machine.interval());
            within[at] += u64::from(error <= bound.get() as f64 + 24e6 * truth / 2e9);
            errors[at].push(error / 2e7);
        }
    }
    let quantile = |list: &mut Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list[RUNS * 95 / 100 - 1]
    };
    let worst = errors.iter_mut().map(quantile).fold(0.0, f64::max);
    let least = within.iter().min().copied().unwrap_or(0);
    (
        worst,
        100.0 * least as f64 / RUNS as f64,
        samples / (2 * RUNS as u64),
    )
}

fn varying(list: &[(u64, u64)]) -> Vec<Process> {
    let process = |(kernel, sleep): &(u64, u64)| Process {
        varies_pct: 10,
        channels: 1,
        ..Process::new(*kernel, *sleep)
    };
    list.iter().map(process).collect()
}

#[test]
fn sparse_accounting_of_the_demo_and_of_small_clients_is_close() {
    let demo = [(1000, 0), (200, 800), (200, 800), (200, 800)];
    for list in [&demo[..], &[(10, 1000); 10]] {
        let (error, within, samples) = sparse_errors(&varying(list));
        println!("{list:?}: {error:.2} points, {within} % within, {samples} samples/s");
        // A point, and what lies between the windows here and the periods booked.
        assert!(error <= 2.0, "{list:?}: {error}");
        assert!(within >= 80.0, "{list:?}: {within}");
        assert!(samples <= 3334, "{list:?}: {samples}");
    }
}

#[test]
fn sparse_accounting_of_clients_in_step_with_the_samples_is_unbiased() {
    for (kernel, sleep) in [(60, 240), (120, 480), (30, 1170)] {
        let processes = [Process::new(kernel, sleep), Process::new(15, 285)];
        let truth = 2.0 * kernel as f64 / (kernel + sleep) as f64;
        let mut sum = 0.0;
        for seed in 1..=20 {
            let mut machine = sparse(&processes, PolicyKind::None, seed);
            machine.run_until(Ns::from_ms(2000));
            sum += machine.state().shares.members()[0].account().received.get() as f64 / 1e9;
        }
        // The last period is not booked: up to 144 ms of 2 s.
        let mean = sum / 20.0 / truth;
        assert!((0.92..1.06).contains(&mean), "{kernel}/{sleep}: {mean}");
    }
}

#[test]
fn sparse_accounting_of_one_client_is_rare_and_still_measures() {
    let (error, _, samples) = sparse_errors(&varying(&[(500, 500)]));
    println!("alone: {error:.2} points, {samples} samples/s");
    assert!(samples <= 110, "{samples}");
    // 1.96 standard deviations of 200 independent samples are 6.9 points, and some more.
    assert!(error <= 12.0, "{error}");
}

#[test]
fn policy_with_sparse_accounting_is_fair_too() {
    let hogs = [Process::new(1000, 0), Process::new(100, 0)];
    // A light client that a phase does not find counts as idle, and loses what it is behind.
    for seed in 1..=12 {
        let mut machine = sparse(&hogs, PolicyKind::Event, seed);
        let shares = percent(&mut machine, 2000, 12_000);
        assert!((shares[0] - 50.0).abs() < 1.0, "{shares:?}");
    }
    let mut machine = sparse(&hogs, PolicyKind::Event, 3);
    percent(&mut machine, 2000, 12_000);
    machine.set_process(0, &Change::weight(300)).unwrap();
    let shares = percent(&mut machine, 14_000, 24_000);
    assert!((shares[0] - 75.0).abs() < 2.0, "{shares:?}");
    machine.set_process(0, &Change::limit(20)).unwrap();
    let shares = percent(&mut machine, 25_000, 35_000);
    assert!((17.0..22.0).contains(&shares[0]), "{shares:?}");
}
