// SPDX-License-Identifier: GPL-2.0

//! [tool] One run of a scenario with one seed: every GPU, every client, and the oracles.

use crate::control::exclusive::Exclusive;
use crate::control::hardware::Hardware;
use crate::control::loga::Loga;
use crate::control::per_command::PerCommand;
use crate::control::token_bucket::TokenBucket;
use crate::control::{Booked, Control, Kind, Ledger};
use crate::oracle;
use crate::scenario::{Client, Gpu, Scenario};
use crate::world::{Got, Trace, Usage, World};
use loga_model::gpu::{CE0, GR};
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

/// What happened on one GPU. Times in ns.
#[derive(Clone, Debug)]
pub struct GpuOutcome {
    /// How long it ran.
    pub length: u64,
    /// Time without work on the compute engine.
    pub idle: u64,
    /// Its clients.
    pub clients: Vec<ClientOutcome>,
    /// What the scheduler did.
    pub ledger: Ledger,
    /// Events: changes of an engine's status word, and submissions.
    pub events: u64,
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
    /// Something is not as it has to be.
    Oracle {
        /// On which GPU.
        gpu: usize,
        /// With which seed.
        seed: u64,
        /// What.
        violations: Vec<String>,
    },
    /// An application of an experiment was not done in time.
    Unfinished(String),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(error) => error.fmt(f),
            Self::Oracle {
                gpu,
                seed,
                violations,
            } => {
                write!(f, "GPU {gpu}, seed {seed}: the run does not count: ")?;
                f.write_str(&violations.join("; "))
            }
            Self::Unfinished(name) => write!(f, "{name} was not done in time"),
        }
    }
}

impl std::error::Error for Error {}

/// Runs a scenario with one seed.
///
/// # Errors
///
/// A setting is out of range, or an oracle says that the run does not count.
pub fn run(scenario: &Scenario, seed: u64, trace: &mut Option<Trace>) -> Result<Outcome, Error> {
    let mut gpus = Vec::new();
    for number in 0..scenario.gpus.len() {
        let gpu = Run::new(scenario, number, seed);
        if let Some(trace) = trace {
            let names = gpu.clients.iter().map(|client| client.name.clone());
            trace.begin(number, names.collect());
        }
        let outcome = gpu.go(trace)?;
        let violations = oracle::check(&outcome);
        if !violations.is_empty() {
            return Err(Error::Oracle {
                gpu: number,
                seed,
                violations,
            });
        }
        gpus.push(outcome);
    }
    Ok(Outcome { seed, gpus })
}

/// One GPU of a scenario.
struct Run<'a> {
    scenario: &'a Scenario,
    card: &'a Gpu,
    numbers: Vec<usize>,
    clients: Vec<&'a Client>,
    /// Of the random numbers; differs between GPUs.
    seed: u64,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, gpu: usize, seed: u64) -> Self {
        let on = |client: &(usize, &Client)| client.1.gpu == gpu;
        let (numbers, clients) = scenario.clients.iter().enumerate().filter(on).unzip();
        Self {
            scenario,
            card: &scenario.gpus[gpu],
            numbers,
            clients,
            // CAST: at most 64 GPUs.
            seed: seed.wrapping_mul(64).wrapping_add(gpu as u64),
        }
    }

    fn go(&self, trace: &mut Option<Trace>) -> Result<GpuOutcome, Error> {
        let (policy, costs) = (&self.scenario.policy, &self.scenario.costs);
        let (clients, wakeup) = (&self.clients[..], costs.wakeup.0.get());
        match policy.kind {
            Kind::Loga(kind) => {
                let loga = Loga::new(kind, policy, costs, clients, self.seed);
                self.with(loga.map_err(Error::Setting)?, trace)
            }
            Kind::Hardware => self.with(Hardware, trace),
            Kind::PerCommand => self.with(PerCommand::new(clients, policy), trace),
            Kind::Exclusive => self.with(Exclusive::new(clients, policy, wakeup), trace),
            Kind::TokenBucket => self.with(TokenBucket::new(clients, policy, wakeup), trace),
        }
    }

    fn with<C: Control>(&self, control: C, trace: &mut Option<Trace>) -> Result<GpuOutcome, Error> {
        let until = self
            .scenario
            .until
            .and_then(|wanted| self.numbers.iter().position(|number| *number == wanted));
        let wakeup = self.scenario.costs.wakeup.0.get();
        let mut world = World::new(self.card, &self.clients, until, wakeup, self.seed, control);
        let stuck = world.run(self.scenario.length.get(), trace);
        let (board, now) = (&world.machine.board, world.machine.now());
        let clients = self.numbers.iter().zip(world.got()).enumerate();
        let clients = clients
            .map(|(at, (number, got))| ClientOutcome {
                number: *number,
                got,
                compute: board.usage(at, GR),
                copy: board.usage(at, CE0),
                booked: world.control.booked(&world.machine, at),
            })
            .collect();
        let mut ledger = world.control.ledger(&world.machine);
        ledger.violations.extend(board.violations());
        if stuck {
            let what = "progress: the scenario stands still, something takes no time at all";
            ledger.violations.push(what.to_owned());
        }
        Ok(GpuOutcome {
            length: now,
            idle: board.idle(GR),
            clients,
            ledger,
            events: board.events(),
        })
    }
}
