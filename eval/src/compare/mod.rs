// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Policies side by side on the same work: fairness against overhead.
//!
//! Every client runs alone first, without a scheduler: what it then uses of the GPU is what it
//! wants. Fair is the max-min share of these wants by weight (water-filling). Under each policy:
//!
//! - *fairness*: Jain's index of what each client got over what is fair, at most 1. More than fair
//!   does not help, so that 1 means that no client has less than fair, or all equally less.
//! - *overhead*: kernel time that the GPU did not run although it does without a scheduler.
//! - *slowdown*: time of a round over that alone, the geometric mean over the clients.

pub mod picture;

use crate::outcome::{Error, Outcome};
use crate::report::jain;
use crate::report::text::{optional, table};
use crate::results::stats::geometric_mean;
use crate::results::stats::Spread;
use crate::run::run;
use crate::scenario::{Client, Kind, Scenario};
use serde::Serialize;

/// A policy on the work of a scenario, over all seeds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Row {
    /// Its name.
    pub policy: &'static str,
    /// Jain's index of what each client got over what is fair, at most 1.
    pub fairness: Option<Spread>,
    /// The least that a client got over what is fair.
    pub worst: Option<Spread>,
    /// Kernel time lost against no scheduler, in percent.
    pub overhead_pct: Option<Spread>,
    /// Kernel time over all time.
    pub utilisation_pct: Option<Spread>,
    /// Time of a round over that alone.
    pub slowdown: Option<Spread>,
    /// CPU time of the scheduler, its own and in clients, in percent of one CPU.
    pub cpu_pct: Option<Spread>,
    /// Why there are no figures.
    pub failed: Option<String>,
}

/// Policies side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The file, as it was given.
    pub scenario: String,
    /// Number of runs of each.
    pub seeds: u64,
    /// What is fair for each client, in percent of its GPU.
    pub fair_pct: Vec<(String, f64)>,
    /// The policies.
    pub rows: Vec<Row>,
}

/// What a client does when it is alone.
#[derive(Clone, Copy, Debug)]
struct Alone {
    /// Part of the GPU that it uses.
    wants: f64,
    /// Time of a round, in ns.
    round: Option<f64>,
}

/// Compares these policies on a scenario.
///
/// # Errors
///
/// A client alone, or all of them without a scheduler, cannot be run.
pub fn compare(name: &str, scenario: &Scenario, kinds: &[Kind]) -> Result<Comparison, Error> {
    let alone = alone(scenario)?;
    let fair = fair(scenario, &alone);
    let seeds = 1..=scenario.seeds;
    let free = with(scenario, Kind::Hardware);
    let mut used = Vec::new();
    for seed in seeds.clone() {
        used.push(utilisation(&run(&free, seed, &mut None)?));
    }
    let row = |kind: &Kind| {
        let scenario = with(scenario, *kind);
        let outcomes: Result<Vec<_>, _> = seeds
            .clone()
            .map(|seed| run(&scenario, seed, &mut None))
            .collect();
        match outcomes {
            Ok(outcomes) => filled(kind.name(), &outcomes, &used, &alone, &fair),
            Err(error) => Row {
                failed: Some(error.to_string()),
                policy: kind.name(),
                ..Row::default()
            },
        }
    };
    let percent = |(client, fair): (&Client, &f64)| (client.name.clone(), 100.0 * fair);
    Ok(Comparison {
        scenario: name.to_owned(),
        seeds: scenario.seeds,
        fair_pct: scenario.clients.iter().zip(&fair).map(percent).collect(),
        rows: kinds.iter().map(row).collect(),
    })
}

/// The scenario under another policy.
fn with(scenario: &Scenario, kind: Kind) -> Scenario {
    let mut scenario = scenario.clone();
    scenario.policy.kind = kind;
    scenario
}

/// Runs every client alone, without a scheduler.
fn alone(scenario: &Scenario) -> Result<Vec<Alone>, Error> {
    let one = |client: &Client| {
        let mut single = with(scenario, Kind::Hardware);
        single.until = None;
        single.clients = vec![client.clone()];
        let outcome = run(&single, 1, &mut None)?;
        let got = &outcome.gpus[client.gpu].clients[0];
        let there = got.got.to.saturating_sub(got.got.from).max(1);
        Ok(Alone {
            // CAST: times that a double holds exactly.
            wants: got.compute.run as f64 / there as f64,
            round: got.got.rounds.mean(),
        })
    };
    scenario.clients.iter().map(one).collect()
}

/// Max-min fair parts of each GPU, by weight: a client that wants less than its part leaves
/// the rest to the others.
fn fair(scenario: &Scenario, alone: &[Alone]) -> Vec<f64> {
    let mut fair = vec![0.0; alone.len()];
    for gpu in 0..scenario.gpus.len() {
        let mut open: Vec<_> = (0..alone.len())
            .filter(|at| scenario.clients[*at].gpu == gpu)
            .collect();
        let weight = |at: &usize| f64::from(scenario.clients[*at].weight.get());
        let mut left = 1.0;
        while !open.is_empty() {
            let weights: f64 = open.iter().map(weight).sum();
            let part = |at: &usize| left * weight(at) / weights;
            let (filled, rest): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|at| alone[**at].wants <= part(at));
            if filled.is_empty() {
                for at in &open {
                    fair[*at] = part(at);
                }
                break;
            }
            for at in &filled {
                fair[*at] = alone[*at].wants;
            }
            left -= filled.iter().map(|at| alone[*at].wants).sum::<f64>();
            open = rest;
        }
    }
    fair
}

/// Kernel time over all time, over all GPUs.
fn utilisation(outcome: &Outcome) -> f64 {
    let length: u64 = outcome.gpus.iter().map(|gpu| gpu.length).sum();
    let clients = outcome.gpus.iter().flat_map(|gpu| &gpu.clients);
    let run: u64 = clients.map(|client| client.compute.run).sum();
    // CAST: times that a double holds exactly.
    run as f64 / length.max(1) as f64
}

fn filled(
    policy: &'static str,
    outcomes: &[Outcome],
    used: &[f64],
    alone: &[Alone],
    fair: &[f64],
) -> Row {
    let satisfied = |outcome: &Outcome| -> Vec<f64> {
        let got = outcome.gpus.iter().flat_map(|gpu| {
            gpu.clients.iter().map(|client| {
                let there = client.got.to.saturating_sub(client.got.from).max(1);
                // CAST: times that a double holds exactly.
                (client.number, client.compute.run as f64 / there as f64)
            })
        });
        got.filter(|(number, _)| fair[*number] > 0.0)
            .map(|(number, got)| (got / fair[number]).min(1.0))
            .collect()
    };
    let slowdown = |outcome: &Outcome| {
        let clients = outcome.gpus.iter().flat_map(|gpu| &gpu.clients);
        let ratios: Vec<_> = clients
            .filter_map(|client| Some(client.got.rounds.mean()? / alone[client.number].round?))
            .collect();
        geometric_mean(ratios.iter().copied()).filter(|_| ratios.len() == alone.len())
    };
    let cpu = |outcome: &Outcome| {
        let length: u64 = outcome.gpus.iter().map(|gpu| gpu.length).sum();
        let ledgers = outcome.gpus.iter().map(|gpu| &gpu.ledger);
        let time: u64 = ledgers.map(|ledger| ledger.cpu + ledger.in_clients).sum();
        // CAST: times that a double holds exactly.
        100.0 * time as f64 / length.max(1) as f64
    };
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
    let lost = outcomes
        .iter()
        .zip(used)
        .map(|(outcome, used)| 100.0 * (1.0 - utilisation(outcome) / used));
    Row {
        fairness: Spread::of(outcomes.iter().filter_map(|one| jain(&satisfied(one)))),
        worst: Spread::of(outcomes.iter().filter_map(|one| least(satisfied(one)))),
        overhead_pct: Spread::of(lost),
        utilisation_pct: Spread::of(outcomes.iter().map(|one| 100.0 * utilisation(one))),
        slowdown: Spread::of(outcomes.iter().filter_map(slowdown)),
        cpu_pct: Spread::of(outcomes.iter().map(cpu)),
        policy,
        failed: None,
    }
}

/// The comparison as text.
pub fn text(comparison: &Comparison) -> String {
    let fair: Vec<_> = comparison
        .fair_pct
        .iter()
        .map(|(name, fair)| format!("{name} {fair:.1}"))
        .collect();
    let mut rows = table([
        "policy",
        "fairness",
        "worst client",
        "overhead %",
        "GPU used %",
        "slowdown",
        "CPU %",
    ]);
    let mean = |spread: Option<Spread>, digits| optional(spread.map(|one| one.mean), digits);
    let mut failures = String::new();
    for row in &comparison.rows {
        rows.add_row(vec![
            row.policy.to_owned(),
            mean(row.fairness, 4),
            mean(row.worst, 3),
            mean(row.overhead_pct, 2),
            mean(row.utilisation_pct, 2),
            mean(row.slowdown, 3),
            mean(row.cpu_pct, 2),
        ]);
        if let Some(reason) = &row.failed {
            failures += &format!("\n{}: {reason}\n", row.policy);
        }
    }
    format!(
        "{}: {} runs each\nfair, in percent of the GPU: {}\n\n{}\n{failures}",
        comparison.scenario,
        comparison.seeds,
        fair.join(", "),
        rows.trim_fmt()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    /// Fair parts in percent of clients with these wants and weights.
    fn parts(wants: &[(f64, u32)]) -> Vec<f64> {
        let mut text = "length_ms = 1\n".to_owned();
        for (number, (_, weight)) in wants.iter().enumerate() {
            text += &format!(
                "[[client]]\nname = \"c{number}\"\nweight = {weight}\n\
                 [[client.phase]]\nkernel_us = 1\n"
            );
        }
        let scenario = parse("x", &text, &[]).unwrap();
        let alone: Vec<_> = wants
            .iter()
            .map(|(wants, _)| Alone {
                wants: *wants,
                round: None,
            })
            .collect();
        let rounded = |part: &f64| (part * 1e6).round() / 1e4;
        fair(&scenario, &alone).iter().map(rounded).collect()
    }

    #[test]
    fn fair_is_filled_like_water() {
        assert_eq!(parts(&[(1.0, 100), (1.0, 100)]), [50.0, 50.0]);
        assert_eq!(parts(&[(1.0, 300), (1.0, 100)]), [75.0, 25.0]);
        assert_eq!(
            parts(&[(1.0, 100), (0.1, 100), (0.1, 100), (0.1, 100)]),
            [70.0, 10.0, 10.0, 10.0]
        );
        // The light one wants less than its 25; the rest is halved by weight 1 : 3.
        assert_eq!(
            parts(&[(0.2, 100), (1.0, 100), (1.0, 300)]),
            [20.0, 20.0, 60.0]
        );
        assert_eq!(parts(&[(0.2, 100), (0.3, 100)]), [20.0, 30.0]);
    }
}
