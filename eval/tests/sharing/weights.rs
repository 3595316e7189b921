// SPDX-License-Identifier: GPL-2.0

//! Shares by weight.

use super::{enforcing, hogs, percent};
use loga::engine::Config;
use loga::policies::PolicyKind;
use loga::share::{Change, GroupBy};
use loga::units::Ns;
use loga_eval::ideal::IdealGpu;

/// How far two saturating clients are from what their weights give, in points, over
/// `length_ms` after `from_ms`, in the mean of these seeds.
fn off_by(
    weights: [u32; 2],
    kernels_us: [u64; 2],
    config: Config,
    channels: u16,
    seeds: u32,
) -> f64 {
    // Until the lead of a period that the rule grants at the beginning is used up.
    let (from_ms, length_ms) = if channels == 12 {
        (2_000, 10_000)
    } else {
        (500, 2_000)
    };
    let first = |seed: u32| {
        let processes = hogs(&kernels_us, channels);
        let machine = IdealGpu::seeded(&processes, config, GroupBy::Process, Ns::ZERO, seed.into());
        let mut machine = machine.unwrap();
        for (at, value) in weights.into_iter().enumerate() {
            machine.set_process(at, &Change::weight(value)).unwrap();
        }
        percent(&mut machine, from_ms, from_ms + length_ms)[0]
    };
    let all: Vec<f64> = (1..=seeds).map(first).collect();
    let share = all.iter().sum::<f64>() / f64::from(seeds);
    let wanted = 100.0 * f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
    println!("weights {weights:?}, {kernels_us:?} us, {channels} channels: {share:.2} of {all:.2?}, wanted {wanted:.2}");
    (share - wanted).abs()
}

const WEIGHTS: [[u32; 2]; 4] = [[100, 100], [100, 300], [100, 900], [10_000, 100]];
const KERNELS_US: [[u64; 2]; 3] = [[1000, 1000], [200, 1000], [1000, 200]];

#[test]
fn shares_follow_weights_with_the_phases_of_the_paper() {
    for weights in WEIGHTS {
        for kernels_us in KERNELS_US {
            let off = off_by(weights, kernels_us, enforcing(PolicyKind::Event), 12, 1);
            assert!(off <= 1.0, "{weights:?}, {kernels_us:?}: {off}");
        }
    }
}

#[test]
fn shares_follow_weights_with_short_phases_that_vary() {
    let config = Config {
        randomize: true,
        ..enforcing(PolicyKind::Event)
    };
    // One window of two seconds is off by a point or two at random: its phases of 2 ms cover two
    // commands of 1 ms. The mean of sixteen is known to a quarter of that.
    for weights in WEIGHTS {
        for kernels_us in KERNELS_US {
            let off = off_by(weights, kernels_us, config, 1, 16);
            assert!(off <= 1.0, "{weights:?}, {kernels_us:?}: {off}");
        }
    }
}
