// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Means over the runs of one program.

use loga::fair::mul_div;
use loga::placement::PPM;
use serde::{Deserialize, Serialize};

/// A new run weighs one part in this many.
const PARTS: u64 = 8;
/// Runs from which on a mean counts.
pub const RUNS: u32 = 3;
/// Most models of GPUs in a record.
pub const MODELS_MAX: usize = 8;
/// After so many runs in a row under other conditions, the mean time is theirs.
const OTHERS: u32 = 8;

/// A mean of a figure over runs, and its mean deviation. A new run weighs one eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mean {
    /// Runs that are in it.
    pub runs: u32,
    /// The mean.
    pub mean: u64,
    /// Mean distance of a run from the mean before it.
    pub deviation: u64,
}

impl Mean {
    /// Adds a run.
    pub fn add(&mut self, value: u64) {
        if self.runs == 0 {
            (self.mean, self.deviation) = (value, 0);
        } else {
            self.deviation = closer(self.deviation, self.mean.abs_diff(value));
            self.mean = closer(self.mean, value);
        }
        self.runs = self.runs.saturating_add(1);
    }

    /// Whether no run is in it.
    pub const fn is_empty(&self) -> bool {
        self.runs == 0
    }

    /// The mean, if it is one of enough runs that were alike: the deviation is half of it at most.
    pub fn known(&self) -> Option<u64> {
        let alike = self.deviation.saturating_mul(2) <= self.mean;
        (self.runs >= RUNS && alike).then_some(self.mean)
    }
}

/// One part in [`PARTS`] of the way, rounded towards `from`.
fn closer(from: u64, to: u64) -> u64 {
    let step = from.abs_diff(to) / PARTS;
    if to > from {
        from.saturating_add(step)
    } else {
        from.saturating_sub(step)
    }
}

/// What a run was under, and on which its time depends beside the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// The policy; empty while decisions are not carried out.
    pub policy: String,
    /// Its hard limit in percent of a GPU; 100 is none.
    pub limit_pct: u32,
    /// Whether it was of the idle class.
    pub idle: bool,
}

/// One run of a program on one GPU that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The model of the GPU: its chip id.
    pub chip: u32,
    /// GPU time.
    pub gpu_ns: u64,
    /// Time on the copy engine; nothing if that is not known.
    pub copy_ns: Option<u64>,
    /// Mean time for which its work was on the engine without a break; nothing if that is not known.
    pub command_ns: Option<u64>,
    /// How long it was there, and how long it waited; nothing if it is not known how long it waited.
    pub there: Option<(u64, u64)>,
    /// What it was under; nothing if that changed meanwhile.
    pub under: Option<Conditions>,
}

/// The runs of a program on GPUs of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnModel {
    /// The chip id.
    pub chip: u32,
    /// Run time without what it waited, in nanoseconds.
    pub time: Mean,
    /// GPU time in nanoseconds. All runs are in it.
    pub gpu: Mean,
    /// What it waited for the GPU, the time throttled included, in nanoseconds.
    pub waited: Mean,
    /// Part of its time alone for which it used the GPU, in millionths.
    pub want: Mean,
    /// The same of the copy engine. Only runs whose copies were measured are in it.
    #[serde(default, skip_serializing_if = "Mean::is_empty")]
    pub copy: Mean,
    /// Mean time for which its work is on the engine without a break, in nanoseconds. Only runs in
    /// which that was measured are in it.
    #[serde(default, skip_serializing_if = "Mean::is_empty")]
    pub command: Mean,
    /// What the runs in `time` were under.
    pub under: Conditions,
    /// Runs in a row that were under something else.
    pub others: u32,
}

impl OnModel {
    /// Adds a run. One under other conditions counts into the means of use and not into that of the
    /// time, until there were as many as a mean remembers.
    pub fn add(&mut self, run: &Run) {
        self.gpu.add(run.gpu_ns);
        if let Some(command_ns) = run.command_ns {
            self.command.add(command_ns);
        }
        let Some((there_ns, waited_ns)) = run.there else {
            return;
        };
        let waited_ns = waited_ns.min(there_ns);
        // What it had an engine for it takes alone as well, whatever it waited for meanwhile.
        let used_ns = run.gpu_ns.max(run.copy_ns.unwrap_or(0));
        let alone_ns = there_ns.saturating_sub(waited_ns).max(used_ns).max(1);
        let part = |used_ns| mul_div(used_ns, PPM, alone_ns).min(PPM);
        self.waited.add(waited_ns);
        self.want.add(part(run.gpu_ns));
        if let Some(copy_ns) = run.copy_ns {
            self.copy.add(part(copy_ns));
        }
        if self.counts(run.under.as_ref()) {
            self.time.add(alone_ns);
        }
    }

    /// Whether a run under these conditions counts into the mean time.
    fn counts(&mut self, under: Option<&Conditions>) -> bool {
        let same = self.time.runs > 0 && under == Some(&self.under);
        if same {
            self.others = 0;
            return true;
        }
        let Some(under) = under else {
            return false;
        };
        self.others = self.others.saturating_add(1);
        if self.time.runs > 0 && self.others < OTHERS {
            return false;
        }
        (self.time, self.under, self.others) = (Mean::default(), under.clone(), 0);
        true
    }
}

/// The runs of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// When a run ended last, in seconds of the system's calendar.
    pub seen_s: u64,
    /// By model, in no order.
    pub models: Vec<OnModel>,
}

impl Record {
    /// Adds a run that has ended now. For a model too many, the one with the fewest runs is left out.
    pub fn add(&mut self, run: &Run, now_s: u64) {
        self.seen_s = self.seen_s.max(now_s);
        if let Some(model) = self.models.iter_mut().find(|one| one.chip == run.chip) {
            return model.add(run);
        }
        if self.models.len() >= MODELS_MAX {
            let rarest = (0..self.models.len()).min_by_key(|at| self.models[*at].gpu.runs);
            rarest.map(|at| self.models.swap_remove(at));
        }
        let mut model = OnModel {
            chip: run.chip,
            ..OnModel::default()
        };
        model.add(run);
        self.models.push(model);
    }

    /// What is known of GPUs of this model.
    pub fn on(&self, chip: u32) -> Option<&OnModel> {
        self.models.iter().find(|one| one.chip == chip)
    }

    /// Runs on all models.
    pub fn runs(&self) -> u32 {
        let runs = self.models.iter().map(|one| one.gpu.runs);
        runs.fold(0, u32::saturating_add)
    }
}
