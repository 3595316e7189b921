// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A scenario of streams, run: how long programs took, and where they ran.

use crate::arrivals::{alone, arrivals, run_under, Chooser, Rule};
use crate::outcome::{ms, Error};
use crate::report::{jain, text::table};
use crate::scenario::Streams;
use serde::Serialize;
use std::fmt::Write;

/// The programs of one stream, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub stream: String,
    /// Programs, of all seeds.
    pub programs: usize,
    /// From arrival to end.
    pub mean_ms: f64,
    /// The time that 95 of 100 do not exceed.
    pub p95_ms: f64,
    /// The time that 99 of 100 do not exceed.
    pub p99_ms: f64,
    /// Mean time over that alone on the fastest GPU.
    pub slowdown: f64,
    /// Mean time under the other policy over that under this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
}

/// A GPU.
#[derive(Clone, Debug, Serialize)]
pub struct Chosen {
    /// Its node.
    pub node: String,
    /// Its number.
    pub gpu: usize,
    /// Programs that were placed on it, of all seeds.
    pub programs: usize,
}

/// What a scenario gave.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its file.
    pub scenario: String,
    /// The placement policy.
    pub policy: &'static str,
    /// The other one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<&'static str>,
    /// Seeds.
    pub seeds: u64,
    /// The streams.
    pub streams: Vec<Row>,
    /// Mean of the speedups of the streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// Jain's index of the streams' speeds: of one over their slowdowns.
    pub jain: Option<f64>,
    /// Where programs ran.
    pub gpus: Vec<Chosen>,
}

/// Completion times of each stream in ms, in order, and programs of each GPU.
fn completions(scenario: &Streams, chooser: Chooser) -> Result<(Vec<Vec<f64>>, Vec<usize>), Error> {
    let rule = Rule {
        chooser,
        knows: Rule::by(chooser).knows,
        ..scenario.rule
    };
    let mut times = vec![Vec::new(); scenario.streams.len()];
    let mut chosen = vec![0; scenario.places.len()];
    for seed in 1..=scenario.seeds {
        let arrivals = arrivals(&scenario.streams, seed);
        let placed = run_under(&scenario.places, &arrivals, rule, &scenario.policy, seed)?;
        for (arrival, placed) in arrivals.iter().zip(&placed) {
            times[arrival.application].push(ms(placed.completion));
            chosen[placed.gpu] += 1;
        }
    }
    times.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    Ok((times, chosen))
}

fn mean(of: &[f64]) -> f64 {
    // CAST: a count.
    of.iter().sum::<f64>() / of.len() as f64
}

/// The value that so many of 100, in order, do not exceed.
fn percentile(of: &[f64], pct: usize) -> f64 {
    of[(of.len() * pct).div_ceil(100).saturating_sub(1)]
}

/// Runs a scenario, and with another policy to compare.
///
/// # Errors
///
/// A run does not count.
pub fn run(name: &str, scenario: &Streams, against: Option<Chooser>) -> Result<Report, Error> {
    let (times, chosen) = completions(scenario, scenario.rule.chooser)?;
    let other = against.map(|against| completions(scenario, against));
    let other = other.transpose()?.map(|(times, _)| times);
    let row = |(at, stream): (usize, &crate::arrivals::Incoming)| {
        let all = &times[at];
        Row {
            stream: stream.client.name.clone(),
            programs: all.len(),
            mean_ms: mean(all),
            p95_ms: percentile(all, 95),
            p99_ms: percentile(all, 99),
            slowdown: mean(all) * 1e6 / alone(&stream.client),
            speedup: other.as_ref().map(|other| mean(&other[at]) / mean(all)),
        }
    };
    let streams: Vec<_> = scenario.streams.iter().enumerate().map(row).collect();
    let speedups: Option<Vec<_>> = streams.iter().map(|row| row.speedup).collect();
    let speeds: Vec<_> = streams.iter().map(|row| 1.0 / row.slowdown).collect();
    let gpu = |((gpu, place), programs): ((usize, &crate::arrivals::PoolGpu), usize)| Chosen {
        node: scenario.nodes[place.node].clone(),
        gpu,
        programs,
    };
    Ok(Report {
        scenario: name.to_owned(),
        policy: scenario.rule.chooser.name(),
        against: against.map(Chooser::name),
        seeds: scenario.seeds,
        speedup: speedups.map(|all| mean(&all)),
        jain: jain(&speeds),
        gpus: scenario
            .places
            .iter()
            .enumerate()
            .zip(chosen)
            .map(gpu)
            .collect(),
        streams,
    })
}

/// The report as tables.
pub fn text(report: &Report) -> String {
    let mut text = format!(
        "{}: placed by {}, {} seeds\n\n",
        report.scenario, report.policy, report.seeds
    );
    let against = report
        .against
        .map_or(String::new(), |name| format!("over {name}"));
    let mut streams = table([
        "stream", "programs", "mean ms", "95 % ms", "99 % ms", "slowdown", &against,
    ]);
    let number = |of: f64| format!("{of:.2}");
    for row in &report.streams {
        streams.add_row([
            row.stream.clone(),
            row.programs.to_string(),
            number(row.mean_ms),
            number(row.p95_ms),
            number(row.p99_ms),
            number(row.slowdown),
            row.speedup.map_or(String::new(), number),
        ]);
    }
    let mut gpus = table(["GPU", "node", "programs"]);
    for one in &report.gpus {
        gpus.add_row([
            one.gpu.to_string(),
            one.node.clone(),
            one.programs.to_string(),
        ]);
    }
    // Writing to a string does not fail.
    let _ = write!(text, "{}\n\n{}\n\n", streams.trim_fmt(), gpus.trim_fmt());
    let _ = writeln!(
        text,
        "Jain index of speeds {:.4}",
        report.jain.unwrap_or(f64::NAN)
    );
    if let (Some(speedup), Some(against)) = (report.speedup, report.against) {
        let _ = writeln!(text, "speedup over {against} {speedup:.2}");
    }
    text
}
