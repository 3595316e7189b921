// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a run of a scenario gave, or why it does not count.

use crate::scenario::{self, Kind};
use crate::world::{Booked, Got, Ledger, Usage};
use std::fmt::{self, Display, Formatter};

/// What one client got.
#[derive(Clone, Debug)]
pub struct ClientOutcome {
    /// Position in the scenario.
    pub number: usize,
    /// What it got done.
    pub got: Got,
    /// Its use of the compute engine.
    pub compute: Usage,
    /// Its use of the copy engine.
    pub copy: Usage,
    /// What the scheduler believes.
    pub booked: Booked,
}

impl ClientOutcome {
    /// GPU time as the scheduler believes, in ms.
    pub fn measured_ms(&self) -> Option<f64> {
        self.booked.measured.map(ms)
    }

    /// From coming to having done all it was to do, in ms.
    pub fn total_ms(&self) -> Option<f64> {
        let finished = self.got.finished?;
        Some(ms(finished - self.got.from))
    }
}

/// What happened on one GPU. Times in ns.
#[derive(Clone, Debug)]
pub struct GpuOutcome {
    /// How long it ran.
    pub length: u64,
    /// Time without work on the compute engine.
    pub idle: u64,
    /// Whether kernels of several clients run at the same time, and each counts as long as alone.
    pub packed: bool,
    /// Its clients.
    pub clients: Vec<ClientOutcome>,
    /// What the scheduler did.
    pub ledger: Ledger,
    /// Events: changes of an engine's status word, and submissions.
    pub events: u64,
}

impl GpuOutcome {
    /// A part of the time that it ran, in percent.
    pub fn percent(&self, ns: u64) -> f64 {
        100.0 * ms(ns) / ms(self.length).max(f64::MIN_POSITIVE)
    }

    /// Time executing kernels, in percent.
    pub fn utilisation_pct(&self) -> f64 {
        self.percent(self.clients.iter().map(|client| client.compute.run).sum())
    }

    /// Up to when GPU time is measured, in ms: the last decision.
    pub fn booked_ms(&self) -> Option<f64> {
        (self.ledger.booked > 0).then(|| ms(self.ledger.booked))
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The GPUs.
    pub gpus: Vec<GpuOutcome>,
}

/// Why a run does not count.
#[derive(Clone, Debug)]
pub enum Error {
    /// A setting is out of range.
    Setting(loga::error::Error),
    /// A profile of an experiment makes no sense.
    Profile(scenario::Error),
    /// Something is not as it has to be.
    Oracle {
        /// On which GPU.
        gpu: usize,
        /// With which seed.
        seed: u64,
        /// What.
        violations: Vec<String>,
    },
    /// LoGA on a packed GPU.
    Packed(Kind),
    /// GPUs that share processors under a scheduler that has not been built for them.
    NotTogether(Kind),
    /// An application of an experiment was not done in time.
    Unfinished(String),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(error) => error.fmt(f),
            Self::Profile(error) => error.fmt(f),
            Self::Oracle {
                gpu,
                seed,
                violations,
            } => {
                write!(f, "GPU {gpu}, seed {seed}: the run does not count: ")?;
                f.write_str(&violations.join("; "))
            }
            Self::Packed(kind) => f.write_str(&kind.on_packed()),
            Self::NotTogether(kind) => write!(
                f,
                "GPUs that share processors under {}: want none or a policy of LoGA",
                kind.name()
            ),
            Self::Unfinished(name) => write!(f, "{name} was not done in time"),
        }
    }
}

impl std::error::Error for Error {}

/// Milliseconds.
pub(crate) fn ms(ns: u64) -> f64 {
    // CAST: times in a run are exact in a double.
    ns as f64 / 1e6
}
