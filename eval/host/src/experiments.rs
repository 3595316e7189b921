// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What runs: application x policy x repetition for each experiment of the paper.

use loga_results::{Throttles, FOUR, TEN_LONG, TEN_SHORT};
use serde::{Deserialize, Serialize};

/// An experiment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Experiment {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is in the paper.
    pub(crate) paper: &'static str,
    /// Whether decisions are carried out.
    pub(crate) enforce: bool,
    /// What runs beside the application.
    pub(crate) beside: Option<Throttles>,
}

/// All experiments. Source: LoGA paper, sections 5.3 and 5.5.
pub(crate) const EXPERIMENTS: [Experiment; 4] = [
    Experiment {
        name: "overhead-10",
        paper: "Figure 7a",
        enforce: false,
        beside: Some(TEN_SHORT),
    },
    Experiment {
        name: "overhead-100",
        paper: "Figure 7b",
        enforce: false,
        beside: Some(TEN_LONG),
    },
    Experiment {
        name: "alone",
        paper: "what Figure 11 is normalised to",
        enforce: true,
        beside: None,
    },
    Experiment {
        name: "quality",
        paper: "Figure 11",
        enforce: true,
        beside: Some(FOUR),
    },
];

/// The policy's name for a run without the module.
pub(crate) const OFF: &str = "off";

/// One run.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Cell {
    /// Name of the experiment.
    pub(crate) experiment: String,
    /// Policy, or [`OFF`].
    pub(crate) policy: String,
    /// Benchmark.
    pub(crate) application: String,
    /// Number of the repetition, from 0.
    pub(crate) repetition: u32,
}

impl Cell {
    /// Name of its file.
    pub(crate) fn file(&self) -> String {
        format!(
            "{}-{}-{}-{}.json",
            self.experiment, self.policy, self.application, self.repetition
        )
    }
}

/// All runs, ordered so that the module is loaded as seldom as possible.
pub(crate) fn matrix(
    experiments: &[Experiment],
    policies: &[String],
    applications: &[String],
    repetitions: u32,
) -> Vec<(Experiment, Cell)> {
    let mut cells = Vec::new();
    for enforce in [false, true] {
        for policy in policies {
            for experiment in experiments.iter().filter(|one| one.enforce == enforce) {
                for application in applications {
                    for repetition in 0..repetitions {
                        let cell = Cell {
                            experiment: experiment.name.to_owned(),
                            policy: policy.clone(),
                            application: application.clone(),
                            repetition,
                        };
                        cells.push((*experiment, cell));
                    }
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_has_every_run_once_and_changes_the_module_seldom() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let policies = names(&[OFF, "event"]);
        let cells = matrix(&EXPERIMENTS, &policies, &names(&["bfs", "nn"]), 3);
        assert_eq!(cells.len(), 4 * 2 * 2 * 3);
        let mut files: Vec<_> = cells.iter().map(|(_, cell)| cell.file()).collect();
        files.sort();
        files.dedup();
        assert_eq!(files.len(), cells.len());
        let module =
            |(experiment, cell): &(Experiment, Cell)| (experiment.enforce, cell.policy.clone());
        let changes = cells
            .windows(2)
            .filter(|two| module(&two[0]) != module(&two[1]));
        assert_eq!(changes.count(), 3);
    }
}
