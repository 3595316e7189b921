// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One run of a scenario with one seed: every GPU, every client, and the oracles.

use crate::control::awake::Awake;
use crate::control::both::Both;
use crate::control::engaged::Engaged;
use crate::control::exclusive::Exclusive;
use crate::control::gvim::Gvim;
use crate::control::hardware::Hardware;
use crate::control::loga::Loga;
use crate::control::per_command::PerCommand;
use crate::control::token_bucket::TokenBucket;
use crate::oracle;
use crate::outcome::{ClientOutcome, Error, GpuOutcome, Outcome};
use crate::scenario::{Client, Kind, Scenario};
use crate::together::Together;
use crate::world::{Control, Host, Trace, World};
use loga::policies::dispatch::DispatcherKind;
use loga_model::gpu::{CE0, GR};

/// Runs a scenario with one seed.
///
/// # Errors
///
/// A setting is out of range, or an oracle says that the run does not count.
pub fn run(scenario: &Scenario, seed: u64, trace: &mut Option<Trace>) -> Result<Outcome, Error> {
    let gpus = (0..scenario.gpus.len()).map(|gpu| run_gpu(scenario, gpu, seed, trace));
    let gpus = gpus.collect::<Result<_, _>>()?;
    Ok(Outcome { seed, gpus })
}

/// Runs one GPU of a scenario with one seed: GPUs share nothing.
pub fn run_gpu(
    scenario: &Scenario,
    gpu: usize,
    seed: u64,
    trace: &mut Option<Trace>,
) -> Result<GpuOutcome, Error> {
    let one = Run::new(scenario, gpu, seed);
    if let Some(trace) = trace {
        let names = one.clients.iter().map(|client| client.name.clone());
        trace.begin(gpu, names.collect());
    }
    let outcome = one.go(trace)?;
    let violations = oracle::check(&outcome);
    if violations.is_empty() {
        return Ok(outcome);
    }
    Err(Error::Oracle {
        gpu,
        seed,
        violations,
    })
}

/// Runs all GPUs of a scenario whose clients share its processors, without a scheduler, under a
/// policy of LoGA, or with one client at a time.
///
/// # Errors
///
/// As [`run`], and for another scheduler.
pub fn run_together(scenario: &Scenario, seed: u64) -> Result<Outcome, Error> {
    let gpus: Vec<_> = (0..scenario.gpus.len())
        .map(|gpu| Run::new(scenario, gpu, seed))
        .collect();
    let gpus = match scenario.policy.kind {
        Kind::Loga(kind) if scenario.policy.dispatch.is_none() => {
            together(scenario, seed, &gpus, |one| {
                let Scenario { policy, costs, .. } = scenario;
                Loga::new(kind, policy, costs, &one.clients, one.seed).map_err(Error::Setting)
            })?
        }
        Kind::Hardware => together(scenario, seed, &gpus, |_| Ok(Hardware))?,
        Kind::Exclusive => together(scenario, seed, &gpus, |one| {
            let wakeup = scenario.costs.wakeup.0.get();
            Ok(Exclusive::new(&one.clients, &scenario.policy, wakeup))
        })?,
        kind => return Err(Error::NotTogether(kind)),
    };
    Ok(Outcome { seed, gpus })
}

fn together<C: Control>(
    scenario: &Scenario,
    seed: u64,
    gpus: &[Run<'_>],
    control: impl Fn(&Run<'_>) -> Result<C, Error>,
) -> Result<Vec<GpuOutcome>, Error> {
    let wakeup = scenario.costs.wakeup.0.get();
    let world = |one: &Run<'_>| {
        let host = Host {
            cpus: &[],
            ..one.host
        };
        let control = control(one)?;
        Ok(World::new(
            &host,
            &one.clients,
            None,
            wakeup,
            one.seed,
            control,
        ))
    };
    let worlds = gpus.iter().map(world).collect::<Result<_, Error>>()?;
    let clients: Vec<_> = gpus.iter().map(|one| one.clients.clone()).collect();
    let mut together = Together::new(worlds, &clients, &scenario.cpus);
    let stuck = together.run(scenario.length.get());
    let worlds = together.worlds.iter().zip(gpus).enumerate();
    let outcome = |(gpu, (world, one)): (usize, (&World<C>, &Run<'_>))| {
        let outcome = outcome(world, &one.numbers, stuck);
        let violations = oracle::check(&outcome);
        match violations.is_empty() {
            true => Ok(outcome),
            false => Err(Error::Oracle {
                gpu,
                seed,
                violations,
            }),
        }
    };
    worlds.map(outcome).collect()
}

/// One GPU of a scenario.
struct Run<'a> {
    scenario: &'a Scenario,
    host: Host<'a>,
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
            host: Host {
                card: &scenario.gpus[gpu],
                cpus: &scenario.cpus,
                throttled_spins: scenario.policy.throttled_spins,
            },
            numbers,
            clients,
            // CAST: at most 64 GPUs.
            seed: seed.wrapping_mul(64).wrapping_add(gpu as u64),
        }
    }

    fn go(&self, trace: &mut Option<Trace>) -> Result<GpuOutcome, Error> {
        let (policy, costs) = (&self.scenario.policy, &self.scenario.costs);
        let (clients, wakeup) = (&self.clients[..], costs.wakeup.0.get());
        if self.host.card.packed && !policy.kind.is_baseline() {
            return Err(Error::Packed(policy.kind));
        }
        match policy.kind {
            Kind::Loga(kind) => {
                let loga = Loga::new(kind, policy, costs, clients, self.seed);
                let loga = loga.map_err(Error::Setting)?;
                match policy.dispatch {
                    Some(kind) => self.with(Both::new(loga, self.engaged(kind)?), trace),
                    None => self.with(loga, trace),
                }
            }
            Kind::Engaged(kind) => self.with(self.engaged(kind)?, trace),
            Kind::Hardware => self.with(Hardware, trace),
            Kind::PerCommand => self.with(PerCommand::new(clients, policy), trace),
            Kind::Exclusive => self.with(Exclusive::new(clients, policy, wakeup), trace),
            Kind::GvimRr => self.with(Gvim::new(clients, policy, false, wakeup), trace),
            Kind::GvimXc => self.with(Gvim::new(clients, policy, true, wakeup), trace),
            Kind::Ps => self.with(Awake::new(clients, policy, false, wakeup), trace),
            Kind::LasEpoch => self.with(Awake::new(clients, policy, true, wakeup), trace),
            Kind::TokenBucket => self.with(TokenBucket::new(clients, policy, wakeup), trace),
        }
    }

    fn engaged(&self, kind: DispatcherKind) -> Result<Engaged, Error> {
        let Scenario {
            policy, reserves, ..
        } = self.scenario;
        Engaged::new(kind, policy, &self.clients, reserves).map_err(Error::Setting)
    }

    fn with<C: Control>(&self, control: C, trace: &mut Option<Trace>) -> Result<GpuOutcome, Error> {
        let until = self
            .scenario
            .until
            .and_then(|wanted| self.numbers.iter().position(|number| *number == wanted));
        let wakeup = self.scenario.costs.wakeup.0.get();
        let mut world = World::new(&self.host, &self.clients, until, wakeup, self.seed, control);
        let stuck = world.run(self.scenario.length.get(), trace);
        Ok(outcome(&world, &self.numbers, stuck))
    }
}

/// What happened in a world up to now to the clients with these positions in the scenario; `stuck`
/// if it stood still.
pub(crate) fn outcome<C: Control>(world: &World<C>, numbers: &[usize], stuck: bool) -> GpuOutcome {
    let (board, now) = (&world.machine.board, world.machine.now());
    let clients = numbers.iter().zip(world.got()).enumerate();
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
    GpuOutcome {
        length: now,
        idle: board.idle(GR),
        packed: board.packed,
        clients,
        ledger,
        events: board.events(),
    }
}
