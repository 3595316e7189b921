// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What `loga-sim run` prints: the same figures as text and as JSON.
//!
//! Nothing here depends on the machine or the hour: the same scenario and seed give the same
//! bytes. `docs/scenarios.md` says what the figures mean.

pub mod text;

pub use loga_results::stats::Spread;

use crate::outcome::{ms, ClientOutcome, GpuOutcome, Outcome};
use crate::scenario::Scenario;
use serde::Serialize;

/// Version of the JSON; a change of meaning or the loss of a name changes it.
const VERSION: u32 = 1;

/// All runs of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this layout.
    pub version: u32,
    /// The file, as it was given.
    pub scenario: String,
    /// The scheduler.
    pub policy: &'static str,
    /// Whether decisions were carried out.
    pub enforce: bool,
    /// One run for each seed.
    pub runs: Vec<Run>,
    /// Over all runs.
    pub summary: Summary,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// The GPUs.
    pub gpus: Vec<Gpu>,
}

/// One GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// Its number.
    pub gpu: usize,
    /// How long it ran.
    pub length_ms: f64,
    /// Time executing kernels.
    pub utilisation_pct: f64,
    /// Time without work.
    pub idle_pct: f64,
    /// Time switching contexts.
    pub switch_pct: f64,
    /// Time the copy engine executed copies.
    pub copy_pct: f64,
    /// Up to when GPU time is measured: the last decision.
    pub booked_ms: Option<f64>,
    /// Sum of the differences between true and measured time of clients, over all true time.
    pub accounting_error_pct: Option<f64>,
    /// CPU time of the scheduler's own threads.
    pub loga_cpu_ms: f64,
    /// The same, in percent of one CPU.
    pub loga_cpu_pct: f64,
    /// CPU time of the scheduler in the threads of clients.
    pub loga_in_clients_ms: f64,
    /// Jain's index of GPU time over weight.
    pub jain: Option<f64>,
    /// Decisions made.
    pub decisions: u64,
    /// Scans of the channels, of policies that work in stages.
    pub scans: u64,
    /// Times a client was throttled.
    pub throttles: u64,
    /// Faults or traps taken by clients.
    pub faults: u64,
    /// Changes of an engine's status word, and submissions.
    pub events: u64,
    /// Its clients.
    pub clients: Vec<Client>,
}

/// One client.
#[derive(Clone, Debug, Serialize)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u32,
    /// Kernels completed.
    pub kernels: u64,
    /// Copies completed.
    pub copies: u64,
    /// Rounds of all its phases completed.
    pub rounds: u64,
    /// Mean time from the beginning of a round to its end.
    pub turnaround_ms: Option<f64>,
    /// Its standard deviation over the rounds.
    pub turnaround_deviation_ms: Option<f64>,
    /// The longest.
    pub turnaround_max_ms: Option<f64>,
    /// What half of the rounds did not exceed.
    pub turnaround_p50_ms: Option<f64>,
    /// What 95 % did not exceed.
    pub turnaround_p95_ms: Option<f64>,
    /// What 99 % did not exceed.
    pub turnaround_p99_ms: Option<f64>,
    /// Rounds that did not end by their deadline; nothing without one.
    pub missed: Option<u64>,
    /// From coming to having done all it was to do.
    pub total_ms: Option<f64>,
    /// True GPU time executing kernels.
    pub gpu_ms: f64,
    /// The same, in percent of the run.
    pub gpu_pct: f64,
    /// True time of switches that show it.
    pub switch_ms: f64,
    /// Time on the copy engine.
    pub copy_ms: f64,
    /// GPU time as the scheduler believes.
    pub measured_ms: Option<f64>,
    /// GPU time to which it was entitled by weight while it wanted some.
    pub entitled_ms: Option<f64>,
    /// Time for which it was throttled.
    pub throttled_ms: f64,
    /// Time for which its thread slept because of that.
    pub blocked_ms: f64,
}

/// Figures over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Number of runs.
    pub runs: usize,
    /// The GPUs.
    pub gpus: Vec<GpuSummary>,
}

/// A GPU over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct GpuSummary {
    /// As in [`Gpu`].
    pub utilisation_pct: Option<Spread>,
    /// As in [`Gpu`].
    pub accounting_error_pct: Option<Spread>,
    /// As in [`Gpu`].
    pub loga_cpu_pct: Option<Spread>,
    /// As in [`Gpu`].
    pub jain: Option<Spread>,
    /// The clients.
    pub clients: Vec<ClientSummary>,
}

/// A client over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct ClientSummary {
    /// Its name.
    pub name: String,
    /// As in [`Client`].
    pub gpu_pct: Option<Spread>,
    /// As in [`Client`].
    pub turnaround_ms: Option<Spread>,
}

/// Jain's index of fairness, `(sum x)^2 / (n * sum x^2)`: 1 when all are alike, 1/n when one has
/// everything. Source: Jain, Chiu and Hawe, DEC-TR-301, 1984.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    // CAST: a number of clients.
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// The figures of these runs.
pub fn report(name: &str, scenario: &Scenario, outcomes: &[Outcome]) -> Report {
    let runs: Vec<_> = outcomes
        .iter()
        .map(|outcome| Run {
            seed: outcome.seed,
            gpus: outcome
                .gpus
                .iter()
                .enumerate()
                .map(|(number, gpu)| self::gpu(scenario, number, gpu))
                .collect(),
        })
        .collect();
    Report {
        version: VERSION,
        scenario: name.to_owned(),
        policy: scenario.policy.kind.name(),
        enforce: scenario.policy.enforce,
        summary: summary(&runs),
        runs,
    }
}

fn gpu(scenario: &Scenario, number: usize, outcome: &GpuOutcome) -> Gpu {
    let percent = |ns: u64| outcome.percent(ns);
    let sum = |part: fn(&ClientOutcome) -> u64| outcome.clients.iter().map(part).sum::<u64>();
    let ledger = &outcome.ledger;
    let clients: Vec<_> = outcome
        .clients
        .iter()
        .map(|one| client(scenario, one, outcome))
        .collect();
    let shares: Vec<_> = clients
        .iter()
        .map(|client| client.gpu_ms / f64::from(client.weight))
        .collect();
    Gpu {
        gpu: number,
        length_ms: ms(outcome.length),
        utilisation_pct: outcome.utilisation_pct(),
        idle_pct: percent(outcome.idle),
        switch_pct: percent(sum(|client| client.compute.switch)),
        copy_pct: percent(sum(|client| client.copy.run)),
        booked_ms: outcome.booked_ms(),
        accounting_error_pct: ledger.error.map(|error| 100.0 * error),
        loga_cpu_ms: ms(ledger.cpu),
        loga_cpu_pct: percent(ledger.cpu),
        loga_in_clients_ms: ms(ledger.in_clients),
        jain: jain(&shares),
        decisions: ledger.decisions,
        scans: ledger.scans,
        throttles: ledger.throttles,
        faults: ledger.faults,
        events: outcome.events,
        clients,
    }
}

fn client(scenario: &Scenario, one: &ClientOutcome, gpu: &GpuOutcome) -> Client {
    let spec = &scenario.clients[one.number];
    let rounds = &one.got.rounds;
    let percentile = |percent| one.got.latency.percentile(percent).map(ms);
    Client {
        name: spec.name.clone(),
        weight: spec.weight.get(),
        kernels: one.compute.commands,
        copies: one.copy.commands,
        rounds: rounds.count,
        turnaround_ms: rounds.mean().map(|ns| ns / 1e6),
        turnaround_deviation_ms: rounds.mean().map(|_| rounds.deviation() / 1e6),
        turnaround_max_ms: rounds.mean().map(|_| ms(rounds.longest)),
        turnaround_p50_ms: percentile(50),
        turnaround_p95_ms: percentile(95),
        turnaround_p99_ms: percentile(99),
        missed: spec.deadline.map(|_| one.got.missed),
        total_ms: one.total_ms(),
        gpu_ms: ms(one.compute.run),
        gpu_pct: gpu.percent(one.compute.run),
        switch_ms: ms(one.compute.switch),
        copy_ms: ms(one.copy.run),
        measured_ms: one.measured_ms(),
        entitled_ms: one.booked.entitled.map(ms),
        throttled_ms: ms(one.booked.throttled),
        blocked_ms: ms(one.got.blocked),
    }
}

fn summary(runs: &[Run]) -> Summary {
    let gpus = runs.first().map_or(0, |run| run.gpus.len());
    let gpu = |number: usize| {
        let figure = |part: fn(&Gpu) -> Option<f64>| {
            Spread::of(runs.iter().filter_map(|run| part(&run.gpus[number])))
        };
        let clients = runs
            .first()
            .map_or(&[][..], |run| &run.gpus[number].clients);
        let client = |at: usize| {
            let figure = |part: fn(&Client) -> Option<f64>| {
                Spread::of(
                    runs.iter()
                        .filter_map(|run| part(&run.gpus[number].clients[at])),
                )
            };
            ClientSummary {
                name: clients[at].name.clone(),
                gpu_pct: figure(|client| Some(client.gpu_pct)),
                turnaround_ms: figure(|client| client.turnaround_ms),
            }
        };
        GpuSummary {
            utilisation_pct: figure(|gpu| Some(gpu.utilisation_pct)),
            accounting_error_pct: figure(|gpu| gpu.accounting_error_pct),
            loga_cpu_pct: figure(|gpu| Some(gpu.loga_cpu_pct)),
            jain: figure(|gpu| gpu.jain),
            clients: (0..clients.len()).map(client).collect(),
        }
    };
    Summary {
        runs: runs.len(),
        gpus: (0..gpus).map(gpu).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_for_equals_and_one_over_n_for_one_that_has_all() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert_eq!(jain(&[5.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }
}
