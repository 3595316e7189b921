// SPDX-License-Identifier: GPL-2.0

//! Figures 1 and 2: how much of the GPU is idle between the bursts of one client and of several.

use super::{App, GROUP_B};
use crate::outcome::Error;
use crate::run::run_gpu;
use crate::scenario::{Client, Costs, Gpu, Kind, Policy, Scenario};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use loga::units::Ns;
use Criterion::{Any, AtMost};

/// Monte Carlo, the program of the figures.
const REQUESTED: App = GROUP_B[1];
/// Requests of all clients together.
pub(super) const REQUESTS: u64 = 80;
/// Longer than all of them take.
const LONGEST: Ns = Ns::from_ms(1_000_000);

/// The part of the time until the last request has ended in which the engine that is used most, the
/// copy engine, has nothing to do: `clients` clients have the requests, each one after the other.
fn idle(clients: u64, packed: bool, length: Length) -> Result<f64, Error> {
    let request = REQUESTED.client();
    let each = request.repeat.unwrap_or(1) * REQUESTS / clients;
    let client = |number: u64| Client {
        name: number.to_string(),
        repeat: Some(each),
        ..request.clone()
    };
    let scenario = Scenario::new(LONGEST, Costs::default());
    let scenario = Scenario {
        policy: Policy::paper(Kind::Hardware),
        gpus: vec![Gpu {
            packed,
            ..scenario.gpus[0]
        }],
        clients: (0..clients).map(client).collect(),
        ..scenario
    };
    let mut idle = 0.0;
    for seed in length.each_seed() {
        let outcome = run_gpu(&scenario, 0, seed, &mut None)?;
        let busy = outcome
            .clients
            .iter()
            .map(|one| one.copy.run + one.copy.switch);
        // CAST: (both) times in a run, and counts, are exact in a double.
        idle += 1.0 - busy.sum::<u64>() as f64 / outcome.length as f64;
    }
    Ok(idle / length.seeds as f64)
}

/// The figure.
pub(super) fn one_and_four(length: Length) -> Lines {
    let mut lines = Vec::new();
    for (name, packed) in [("in turn", false), ("packed", true)] {
        let [one, two, four] = [1, 2, 4].map(|clients| idle(clients, packed, length));
        let (one, two, four) = (one?, two?, four?);
        let pct = |what: &str, part: f64| {
            Line::new(format!("{name}: {what}"), "-", 100.0 * part, "% idle", Any)
        };
        lines.extend([
            pct("one client", one),
            pct("two clients", two),
            pct("four clients", four),
            Line::new(
                format!("{name}: four clients over one"),
                "less",
                four / one,
                "times",
                AtMost(0.9),
            ),
        ]);
    }
    Ok(lines)
}
