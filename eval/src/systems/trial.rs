// SPDX-License-Identifier: GPL-2.0

//! Runs of one set of clients under one scheduler, and means over their seeds.

use super::figure::Length;
use crate::outcome::{ClientOutcome, Error, GpuOutcome};
use crate::run::{run_gpu, run_together};
use crate::scenario::{Client, Costs, Kind, Policy, Scenario, Shared};
use loga::engaged::Terms;
use loga::policies::dispatch::DispatcherKind;
use loga::policies::PolicyKind;
use loga::units::Ns;

/// The runs.
pub(super) struct Trial {
    names: Vec<String>,
    runs: Vec<GpuOutcome>,
}

/// Without a scheduler.
pub(super) fn hardware(clients: Vec<Client>, length: Length) -> Result<Trial, Error> {
    Trial::new(Policy::paper(Kind::Hardware), clients, Vec::new(), length)
}

/// The highest priority first.
pub(super) fn prio(clients: Vec<Client>, length: Length) -> Result<Trial, Error> {
    sharing(clients, Vec::new(), length)
}

/// The highest priority first, with reserves that clients share.
pub(super) fn sharing(
    clients: Vec<Client>,
    reserves: Vec<Terms>,
    length: Length,
) -> Result<Trial, Error> {
    let policy = Policy::paper(Kind::Engaged(DispatcherKind::Prio));
    Trial::new(policy, clients, reserves, length)
}

/// A policy of the kernel with the module's own settings.
pub(super) fn as_loaded(kind: PolicyKind) -> Policy {
    Policy::of(Kind::Loga(kind))
}

impl Trial {
    /// Runs all seeds.
    pub(super) fn new(
        policy: Policy,
        clients: Vec<Client>,
        reserves: Vec<Terms>,
        length: Length,
    ) -> Result<Self, Error> {
        let time = Ns::from_ms(length.seconds * 1000);
        let shared = |(at, terms): (usize, Terms)| Shared {
            name: at.to_string(),
            terms,
        };
        Self::of(
            Scenario {
                policy,
                reserves: reserves.into_iter().enumerate().map(shared).collect(),
                clients,
                ..Scenario::new(time, Costs::default())
            },
            length,
        )
    }

    /// Runs all seeds of a scenario with one GPU.
    pub(super) fn of(scenario: Scenario, length: Length) -> Result<Self, Error> {
        let runs = length
            .each_seed()
            .map(|seed| run_gpu(&scenario, 0, seed, &mut None));
        Ok(Self {
            runs: runs.collect::<Result<_, _>>()?,
            names: scenario.clients.into_iter().map(|one| one.name).collect(),
        })
    }

    /// Runs all seeds of a scenario with several GPUs whose clients share processors. What is known
    /// of a GPU as a whole is that of the first.
    pub(super) fn together(scenario: Scenario, length: Length) -> Result<Self, Error> {
        let run = |seed| {
            let mut gpus = run_together(&scenario, seed)?.gpus.into_iter();
            let mut all = gpus
                .next()
                .ok_or(Error::NotTogether(scenario.policy.kind))?;
            all.clients.extend(gpus.flat_map(|gpu| gpu.clients));
            all.clients.sort_by_key(|client| client.number);
            Ok(all)
        };
        Ok(Self {
            runs: length.each_seed().map(run).collect::<Result<_, Error>>()?,
            names: scenario.clients.into_iter().map(|one| one.name).collect(),
        })
    }

    /// The mean over the seeds of something of a client.
    ///
    /// # Panics
    ///
    /// If no client has this name.
    fn mean(&self, name: &str, value: impl Fn(&GpuOutcome, &ClientOutcome) -> f64) -> f64 {
        let at = self.names.iter().position(|known| known == name);
        // PANIC: figures name their own clients, and tests make all figures.
        let at = at.expect("a client of the trial");
        self.of_all(|run| value(run, &run.clients[at]))
    }

    /// The mean over the seeds of something of the GPU.
    fn of_all(&self, value: impl Fn(&GpuOutcome) -> f64) -> f64 {
        let sum: f64 = self.runs.iter().map(value).sum();
        // CAST: a few runs.
        sum / self.runs.len() as f64
    }

    /// Time of the scheduler's threads on a processor, in percent.
    pub(super) fn scheduler_pct(&self) -> f64 {
        self.of_all(|run| run.percent(run.ledger.cpu))
    }

    /// Scans of the channels per second.
    pub(super) fn scans(&self) -> f64 {
        // CAST: a count, and a time that a double holds exactly.
        self.of_all(|run| run.ledger.scans as f64 * 1e9 / run.length as f64)
    }

    /// Rounds per second.
    pub(super) fn fps(&self, name: &str) -> f64 {
        // CAST: a count, and a time that a double holds exactly.
        self.mean(name, |run, one| {
            one.got.rounds.count as f64 * 1e9 / run.length as f64
        })
    }

    /// Part of the GPU's time, in percent.
    pub(super) fn use_pct(&self, name: &str) -> f64 {
        self.mean(name, |run, one| run.percent(one.compute.run))
    }

    /// Time on the compute engine and on the copy engine, as parts of the time.
    pub(super) fn engines(&self, name: &str) -> [f64; 2] {
        let on = |usage: fn(&ClientOutcome) -> u64| {
            self.mean(name, |run, one| run.percent(usage(one)) / 100.0)
        };
        [on(|one| one.compute.run), on(|one| one.copy.run)]
    }

    /// Part of the GPU's time of all clients whose name begins so, in percent.
    pub(super) fn use_of_all_pct(&self, begin: &str) -> f64 {
        let names = self.names.iter().filter(|name| name.starts_with(begin));
        names.map(|name| self.use_pct(name)).sum()
    }

    /// Kernels per second.
    pub(super) fn kernels(&self, name: &str) -> f64 {
        // CAST: as above.
        self.mean(name, |run, one| {
            one.compute.commands as f64 * 1e9 / run.length as f64
        })
    }

    /// Mean time of a round, in ms.
    pub(super) fn round_ms(&self, name: &str) -> f64 {
        self.mean(name, |_, one| {
            one.got.rounds.mean().unwrap_or(f64::INFINITY) / 1e6
        })
    }

    /// Deviation of the time of a round, in ms.
    pub(super) fn deviation_ms(&self, name: &str) -> f64 {
        self.mean(name, |_, one| one.got.rounds.deviation() / 1e6)
    }

    /// The same over the mean time of a round, in percent.
    pub(super) fn variation_pct(&self, name: &str) -> f64 {
        self.mean(name, |_, one| {
            let rounds = one.got.rounds;
            100.0 * rounds.deviation() / rounds.mean().unwrap_or(f64::INFINITY)
        })
    }

    /// Rounds within their deadline, of those that were due, in percent.
    pub(super) fn in_time_pct(&self, name: &str, per_second: f64) -> f64 {
        // CAST: as above.
        self.mean(name, |run, one| {
            let done = one.got.rounds.count.saturating_sub(one.got.missed);
            100.0 * done as f64 / (per_second * run.length as f64 / 1e9)
        })
    }

    /// The longest round, in ms.
    pub(super) fn longest_ms(&self, name: &str) -> f64 {
        // CAST: a time of seconds.
        self.mean(name, |_, one| one.got.rounds.longest as f64 / 1e6)
    }

    /// Time that this part of all rounds does not exceed, in ms.
    pub(super) fn percentile_ms(&self, name: &str, percent: u64) -> f64 {
        // CAST: a time of seconds.
        self.mean(name, |_, one| {
            let time = one.got.latency.percentile(percent);
            time.map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
        })
    }
}
