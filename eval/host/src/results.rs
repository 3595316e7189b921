// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One file per run, written at once or not at all; all together in one file.

use crate::experiments::{Cell, Experiment};
use crate::Error;
use loga_results::{stats, whole, Throttles};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Version of the JSON layout. Raised when a member changes its meaning or goes away.
pub(crate) const VERSION: u32 = 1;

/// What one run gave.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RunResult {
    /// Which one.
    #[serde(flatten)]
    pub(crate) cell: Cell,
    /// Mean time of an iteration: the sum over the programs that the benchmark's script runs.
    pub(crate) turnaround_ms: f64,
    /// Iterations of each program.
    pub(crate) iterations: u64,
    /// What `loga stat --json --watch` said meanwhile; nothing without the module.
    pub(crate) stat: Value,
    /// What `throttle --json` said; nothing without throttles.
    pub(crate) throttle: Value,
}

/// A result file.
#[derive(Debug, Serialize)]
pub(crate) struct Results<'a> {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Always `host`: a real one.
    pub(crate) origin: &'static str,
    /// What was found by the check.
    pub(crate) host: Vec<String>,
    /// The experiments.
    pub(crate) experiments: Vec<Described>,
    /// The runs.
    pub(crate) runs: &'a [RunResult],
    /// Mean and standard deviation over the repetitions.
    pub(crate) summary: Vec<Spread>,
}

/// An experiment as it is written down.
#[derive(Debug, Serialize)]
pub(crate) struct Described {
    name: &'static str,
    paper: &'static str,
    enforce: bool,
    throttles: Option<Throttles>,
}

impl From<&Experiment> for Described {
    fn from(one: &Experiment) -> Self {
        Described {
            name: one.name,
            paper: one.paper,
            enforce: one.enforce,
            throttles: one.beside,
        }
    }
}

/// The repetitions of a run together.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// Policy.
    pub(crate) policy: String,
    /// Benchmark.
    pub(crate) application: String,
    /// Repetitions.
    pub(crate) repetitions: usize,
    /// Mean of their mean turnaround times.
    pub(crate) turnaround_ms: f64,
    /// Standard deviation of them; zero for one.
    pub(crate) deviation_ms: f64,
}

/// Mean and standard deviation over the repetitions, by experiment, policy and benchmark.
pub(crate) fn summary(runs: &[RunResult]) -> Vec<Spread> {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<f64>> = BTreeMap::new();
    for run in runs {
        let cell = &run.cell;
        let key = (&*cell.experiment, &*cell.policy, &*cell.application);
        groups.entry(key).or_default().push(run.turnaround_ms);
    }
    let spread = |((experiment, policy, application), times): ((&str, &str, &str), Vec<f64>)| {
        let repetitions = times.len();
        let spread = stats::Spread::of(times.into_iter())?;
        Some(Spread {
            experiment: experiment.to_owned(),
            policy: policy.to_owned(),
            application: application.to_owned(),
            repetitions,
            turnaround_ms: spread.mean,
            deviation_ms: spread.deviation,
        })
    };
    groups.into_iter().filter_map(spread).collect()
}

/// Mean time of an iteration and the number of iterations, from what the wrapper wrote.
///
/// # Errors
///
/// A line that cannot be read, a program that failed, no line at all.
pub(crate) fn turnaround(log: &str) -> Result<(f64, u64), Error> {
    let mut programs: BTreeMap<(u64, &str), (u64, u64)> = BTreeMap::new();
    for line in log.lines() {
        let bad = || Error::Step(format!("unreadable line of the wrapper: {line}"));
        let words: Vec<&str> = line.split(' ').collect();
        let [pid, program, _, start, end, status] = words[..] else {
            return Err(bad());
        };
        let number = |word: &str| word.parse::<u64>().map_err(|_| bad());
        if status != "0" {
            return Err(Error::Step(format!("{program} ended with status {status}")));
        }
        let (time, count) = programs.entry((number(pid)?, program)).or_default();
        *time += number(end)?.saturating_sub(number(start)?);
        *count += 1;
    }
    let iterations = programs.values().map(|(_, count)| *count).min();
    let iterations = iterations.ok_or_else(|| {
        Error::Step("no program was repeated: is it linked statically?".to_owned())
    })?;
    let mean = |(time, count): &(u64, u64)| *time as f64 / *count as f64 / 1e6;
    Ok((programs.values().map(mean).sum(), iterations))
}

/// The result of this run, if it is there and whole.
pub(crate) fn load(folder: &Path, cell: &Cell) -> Option<RunResult> {
    let text = fs::read_to_string(folder.join(cell.file())).ok()?;
    let result: RunResult = serde_json::from_str(&text).ok()?;
    (result.cell == *cell).then_some(result)
}

/// Writes a value so that the file is there as a whole or not at all.
///
/// # Errors
///
/// What the file system says; an earlier file is left as it was.
pub(crate) fn store<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let text =
        serde_json::to_string_pretty(value).map_err(|error| Error::Step(error.to_string()))?;
    whole::replace(path, (text + "\n").as_bytes()).map_err(|error| Error::file(path, error))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(
        experiment: &str,
        policy: &str,
        repetition: u32,
        turnaround_ms: f64,
    ) -> RunResult {
        RunResult {
            cell: Cell {
                experiment: experiment.to_owned(),
                policy: policy.to_owned(),
                application: "bfs".to_owned(),
                repetition,
            },
            turnaround_ms,
            iterations: 1,
            stat: Value::Null,
            throttle: Value::Null,
        }
    }

    #[test]
    fn turnaround_adds_up_programs_and_averages_iterations() {
        let log = "7 /a 0 0 1000000 0\n7 /a 1 1000000 4000000 0\n8 /b 0 5000000 10000000 0\n";
        assert_eq!(turnaround(log).expect("times"), (2.0 + 5.0, 1));
    }

    #[test]
    fn turnaround_of_a_failed_program_is_an_error() {
        let failed = turnaround("7 /a 0 0 1 3\n").unwrap_err().to_string();
        assert!(failed.contains("status 3"), "{failed}");
        assert!(turnaround("").is_err());
        assert!(turnaround("7 /a 0 0\n").is_err());
    }

    #[test]
    fn summary_has_mean_and_deviation() {
        let run = |repetition, turnaround_ms| run("alone", "off", repetition, turnaround_ms);
        let spread = &summary(&[run(0, 2.0), run(1, 4.0)])[0];
        assert_eq!((spread.repetitions, spread.turnaround_ms), (2, 3.0));
        assert!((spread.deviation_ms - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(summary(&[run(0, 2.0)])[0].deviation_ms, 0.0);
    }
}
