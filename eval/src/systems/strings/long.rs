// SPDX-License-Identifier: GPL-2.0

//! Light programs beside long kernels, or beside many short ones.

use super::gpu;
use crate::arrivals::{run, Arrival, Placed, PoolGpu, Rule};
use crate::outcome::Error;
use crate::scenario::{Client, Phase, Span};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use loga::placement::{Placement, PPM};
use loga::units::Ns;
use Criterion::{Any, AtMost, Within};

/// Two GPUs.
const PAIR: [PoolGpu; 2] = [gpu(0, 100); 2];
/// Light programs.
pub(super) const LIGHT: u64 = 10;
/// What one does, in us: it computes and waits for a kernel, so often.
const LIGHT_CPU_US: f64 = 400.0;
const LIGHT_KERNEL_US: u64 = 100;
const LIGHT_ROUNDS: u64 = 400;
/// From one to the next.
const APART: Ns = Ns::from_ms(1_000);
/// When the first comes.
const FIRST: Ns = Ns::from_ms(4_000);

/// A client that is bound to a GPU until the last light program has ended.
fn resident(gpu: usize, application: usize, pause_us: f64, kernel_us: u64) -> Arrival {
    let phase = Phase::new(Span::Exponential(1e3 * pause_us), Span::us(kernel_us));
    let end = FIRST.saturating_add(APART.saturating_mul(LIGHT + 1));
    Arrival {
        application,
        node: 0,
        gpu: Some(gpu),
        known: true,
        client: Client {
            channels: 1,
            leave: Some(end),
            ..Client::new("resident", vec![phase])
        },
    }
}

/// The residents, then the light programs.
fn programs() -> Vec<Arrival> {
    let phase = Phase::new(
        Span::Exponential(1e3 * LIGHT_CPU_US),
        Span::us(LIGHT_KERNEL_US),
    );
    let light = |number: u64| Arrival {
        application: 2,
        node: 0,
        gpu: None,
        known: true,
        client: Client {
            channels: 1,
            arrive: FIRST.saturating_add(APART.saturating_mul(number)),
            repeat: Some(LIGHT_ROUNDS),
            ..Client::new("light", vec![phase])
        },
    };
    let mut all = vec![resident(0, 0, 2_000.0, 3_000)];
    all.extend((0..6).map(|_| resident(1, 1, 900.0, 100)));
    all.extend((0..LIGHT).map(light));
    all
}

/// Mean slowdown of the light programs, and the mean of what was expected.
fn slowdown(policy: Placement, length: Length) -> Result<[f64; 2], Error> {
    let arrivals = programs();
    // CAST: a few hundred.
    let alone = (LIGHT_CPU_US + LIGHT_KERNEL_US as f64) * 1e3 * LIGHT_ROUNDS as f64;
    let mut sums = [0.0; 2];
    for seed in length.each_seed() {
        let placed = run(&PAIR, &arrivals, Rule::of(policy), seed)?;
        // CAST: times and counts that are exact in a double.
        for Placed {
            completion,
            expected,
            ..
        } in placed.iter().rev().take(LIGHT as usize)
        {
            sums[0] += *completion as f64 / alone;
            sums[1] += *expected as f64 / PPM as f64;
        }
    }
    // CAST: as above.
    Ok(sums.map(|sum| sum / (LIGHT * length.seeds) as f64))
}

/// The figure.
pub(super) fn long(length: Length) -> Lines {
    let [wait, expected] = slowdown(Placement::Wait, length)?;
    let [guf, _] = slowdown(Placement::Guf, length)?;
    let [gmin, foreseen] = slowdown(Placement::Gmin, length)?;
    let third = Within(2.0 / 3.0, 4.0 / 3.0);
    Ok(vec![
        Line::new("time over that alone: guf", "-", guf, "times", Any),
        Line::new("gmin", "-", gmin, "times", Any),
        Line::new("wait", "-", wait, "times", Any),
        Line::new("wait over guf", "-", wait / guf, "times", AtMost(0.9)),
        Line::new("wait over gmin", "-", wait / gmin, "times", AtMost(0.9)),
        Line::new(
            "beside short kernels: expected over measured",
            "-",
            expected / wait,
            "times",
            third,
        ),
        Line::new(
            "beside long kernels: expected over measured",
            "-",
            foreseen / gmin,
            "times",
            third,
        ),
    ])
}
