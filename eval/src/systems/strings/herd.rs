// SPDX-License-Identifier: GPL-2.0

//! Many programs start at once.

use super::gpu;
use crate::arrivals::{run, Arrival, PoolGpu, Rule};
use crate::outcome::Error;
use crate::scenario::{Client, Phase, Span};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use loga::placement::Placement;
use loga::units::Ns;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::ops::RangeInclusive;
use Criterion::{Any, AtLeast, AtMost};

/// Programs, and the time in which they start.
pub(super) const STARTS: u64 = 200;
const WITHIN: Ns = Ns::from_ms(2_000);
/// The pool.
const POOL: [PoolGpu; 8] = [gpu(0, 100); 8];
/// The part of a GPU that a program uses alone, in percent: about what is assumed of unknown ones.
const PARTS_PCT: RangeInclusive<u64> = 5..=95;
/// The same of light programs, of which much more is assumed.
const LIGHT_PCT: RangeInclusive<u64> = 1..=10;
/// Kernels of a program.
const KERNEL_US: u64 = 1_000;
/// How long it runs alone, about.
const TIME_US: u64 = 2_500_000;

/// The programs, and which part of a GPU each uses.
fn programs(parts_pct: RangeInclusive<u64>, seed: u64) -> (Vec<Arrival>, Vec<f64>) {
    let mut random = Pcg64::seed_from_u64(seed);
    let one = |number: u64| {
        let pct = random.random_range(parts_pct.clone());
        let round = 100 * KERNEL_US / pct;
        let phase = Phase::new(Span::us(round - KERNEL_US), Span::us(KERNEL_US));
        let arrival = Arrival {
            // CAST: a few hundred.
            application: number as usize,
            node: 0,
            gpu: None,
            known: number % 2 == 0,
            client: Client {
                channels: 1,
                repeat: Some(TIME_US / round),
                arrive: Ns::new(WITHIN.get() / STARTS * number),
                ..Client::new("started", vec![phase])
            },
        };
        // CAST: at most a hundred.
        (arrival, pct as f64 / 100.0)
    };
    (0..STARTS).map(one).unzip()
}

/// The largest load of a GPU over the mean of all.
fn largest(parts_pct: RangeInclusive<u64>, claims: bool, length: Length) -> Result<f64, Error> {
    let rule = Rule {
        claims,
        ..Rule::of(Placement::Wait)
    };
    let mut largest = 0.0;
    for seed in length.each_seed() {
        let (arrivals, parts) = programs(parts_pct.clone(), seed);
        let mut loads = [0.0; POOL.len()];
        for (placed, part) in run(&POOL, &arrivals, rule, seed)?.iter().zip(&parts) {
            loads[placed.gpu] += part;
        }
        // CAST: a few.
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        // CAST: a few.
        largest += loads.into_iter().fold(0.0, f64::max) / mean / length.seeds as f64;
    }
    Ok(largest)
}

/// The figure.
pub(super) fn herd(length: Length) -> Lines {
    Ok(vec![
        Line::new(
            "the largest load of a GPU over the mean, with claims",
            "-",
            largest(PARTS_PCT, true, length)?,
            "times",
            AtMost(1.5),
        ),
        Line::new(
            "the same without",
            "-",
            largest(PARTS_PCT, false, length)?,
            "times",
            AtLeast(2.0),
        ),
        Line::new(
            "all use less than is assumed of the unknown, with claims",
            "-",
            largest(LIGHT_PCT, true, length)?,
            "times",
            Any,
        ),
    ])
}
