// SPDX-License-Identifier: GPL-2.0

//! Weights, limits, classes and groups on the ideal GPU.

mod groups;
mod limits;
mod sparse;
mod weights;

use loga::engine::Config;
use loga::policies::PolicyKind;
use loga::share::{Change, Class, GroupBy};
use loga::units::Ns;
use loga_eval::ideal::{IdealGpu, Process};

fn enforcing(policy: PolicyKind) -> Config {
    Config {
        enforce: true,
        policy,
        ..Config::paper()
    }
}

const IDLE: Change = Change::class(Class::Idle);

/// Percentages of the time from `from` to `to` milliseconds that each process had.
fn percent(machine: &mut IdealGpu, from_ms: u64, to_ms: u64) -> Vec<f64> {
    machine.run_until(Ns::from_ms(from_ms));
    let before = machine.ran();
    machine.run_until(Ns::from_ms(to_ms));
    let length = Ns::from_ms(to_ms - from_ms).get() as f64;
    let pairs = machine.ran().into_iter().zip(before);
    pairs
        .map(|(after, before)| 100.0 * after.saturating_sub(before).get() as f64 / length)
        .collect()
}

/// Processes that always want the GPU, with commands of these lengths.
fn hogs(kernels_us: &[u64], channels: u16) -> Vec<Process> {
    let hog = |kernel: &u64| Process {
        channels,
        ..Process::new(*kernel, 0)
    };
    kernels_us.iter().map(hog).collect()
}

// Regression: waits up to the end of a step were forgotten, so that `maxmin` took
// waiting clients for modest ones.
#[test]
fn run_in_steps_gives_what_a_run_in_one_gives() {
    let machine = || {
        let config = enforcing(PolicyKind::MaxMin);
        IdealGpu::new(&hogs(&[1000, 100], 12), config, GroupBy::Process).unwrap()
    };
    let (mut whole, mut stepped) = (machine(), machine());
    whole.run_until(Ns::from_ms(5000));
    for ms in 1..=5000 {
        stepped.run_until(Ns::from_ms(ms));
    }
    assert_eq!(whole.ran(), stepped.ran());
}
