// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How an experiment is carried out, and the runs of its scenarios.

use crate::outcome::{Error, GpuOutcome};
use crate::results::{Experiment, Origin, Setting};
use crate::run::run_gpu;
use crate::scenario::{Costs, Scenario};
use loga::units::Ns;

/// Repetitions, as in the paper.
const REPETITIONS: u64 = 10;
/// Applications of a quick run: long kernels, short kernels in a queue, hardly any kernels.
const QUICK: [&str; 3] = ["heartwall", "lud", "nn"];

/// Follows how far an experiment is.
pub trait Progress {
    /// That many runs of scenarios will be made.
    fn expect(&mut self, runs: u64);
    /// One of them is done.
    fn done(&mut self);
}

/// Nothing follows.
impl Progress for () {
    fn expect(&mut self, _: u64) {}
    fn done(&mut self) {}
}

/// How an experiment is carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of this plan, see [`Experiment::setting`].
    pub setting: String,
    /// Runs of each point, with the seeds 1 to this.
    pub repetitions: u64,
    /// Few points, for tests: as much as shows that everything works.
    pub quick: bool,
    /// What things cost in every scenario.
    pub costs: Costs,
    /// What was measured, for the reader of the result.
    pub settings: Vec<Setting>,
}

impl Plan {
    /// As in the paper.
    pub fn paper() -> Self {
        Self {
            setting: "paper".to_owned(),
            repetitions: REPETITIONS,
            quick: false,
            costs: Costs::default(),
            settings: Vec::new(),
        }
    }

    /// For tests.
    pub fn quick() -> Self {
        Self {
            setting: "quick".to_owned(),
            repetitions: 2,
            quick: true,
            ..Self::paper()
        }
    }

    /// Those of these applications that run.
    pub(super) fn names<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let wanted = |name: &&str| !self.quick || QUICK.contains(name);
        names.filter(wanted).collect()
    }

    /// Runs a scenario of one GPU with every seed; `arrive` says when its first client comes.
    pub(super) fn runs(
        &self,
        mut scenario: Scenario,
        arrive: impl Fn(u64) -> Ns,
        progress: &mut dyn Progress,
    ) -> Result<Vec<GpuOutcome>, Error> {
        let run = |seed| {
            scenario.clients[0].arrive = arrive(seed);
            let outcome = run_gpu(&scenario, 0, seed, &mut None);
            progress.done();
            outcome
        };
        (1..=self.repetitions).map(run).collect()
    }

    /// An experiment without series.
    pub(crate) fn empty(&self, figure: &str) -> Experiment {
        Experiment {
            settings: self.settings.clone(),
            ..Experiment::new(figure, Origin::Simulator, &self.setting)
        }
    }
}
