// SPDX-License-Identifier: GPL-2.0

//! Baseline `per-command`: the host schedules every command.
//!
//! A client hands each command to the host, which costs it `submit_us`. The host lets one command
//! at a time run on an engine; at its end an interrupt wakes the host, which `interrupt_us` later
//! starts the next: that of the client with the least GPU time over weight. The GPU stands still
//! in between. Good for: exact shares, and a client never waits for more than one command of
//! others. Bad for: short commands. The way of TimeGraph (its PRT policy: interrupt at each end,
//! one command at a time) and of Pegasus (the host chooses the client that submits next); the fair
//! choice in place of their priorities and credits is ours. Source: papers of TimeGraph, section 4,
//! and Pegasus, section 4; neither gives the two costs, so their defaults are assumed.

use super::entities::Entities;
use crate::scenario::{Client, Policy};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use loga::units::Weight;
use loga_model::gpu::ENGINES;
use std::collections::VecDeque;

/// State of an engine, as the host knows it.
#[derive(Clone, Copy, Debug, Default)]
enum EngineState {
    /// Nothing.
    #[default]
    Free,
    /// A command that was started then.
    Runs { since: u64 },
    /// The interrupt is on its way until then.
    Ends { at: u64 },
}

/// The host schedules every command.
pub struct PerCommand {
    entities: Entities,
    submit: u64,
    interrupt: u64,
    /// Clients that have paid for their next submission.
    paid: Vec<bool>,
    waiting: Vec<[VecDeque<u64>; ENGINES]>,
    engines: [EngineState; ENGINES],
    /// GPU time over weight of each entity.
    clocks: Vec<u64>,
    /// The clock of the client served last.
    floor: u64,
    measured: Vec<u64>,
    ledger: Ledger,
}

impl PerCommand {
    /// With the costs of the scenario.
    pub fn new(clients: &[&Client], policy: &Policy) -> Self {
        let entities = Entities::new(clients, policy.by);
        Self {
            submit: policy.submit.0.get(),
            interrupt: policy.interrupt.0.get(),
            paid: vec![false; clients.len()],
            waiting: vec![Default::default(); clients.len()],
            engines: [EngineState::Free; ENGINES],
            clocks: vec![0; entities.len()],
            entities,
            floor: 0,
            measured: vec![0; clients.len()],
            ledger: Ledger::default(),
        }
    }

    /// Starts the next command on an engine.
    fn start(&mut self, machine: &mut Machine, engine: usize) {
        let wants = |client: &usize| !self.waiting[*client][engine].is_empty();
        let clock = |client: &usize| (self.clocks[self.entities.of(*client)], *client);
        let next = (0..self.waiting.len()).filter(wants).min_by_key(clock);
        let Some(client) = next else {
            self.engines[engine] = EngineState::Free;
            return;
        };
        self.floor = self.floor.max(self.clocks[self.entities.of(client)]);
        if let Some(length) = self.waiting[client][engine].pop_front() {
            machine.order(Order::Launch {
                client,
                engine,
                length,
            });
            self.engines[engine] = EngineState::Runs {
                since: machine.now(),
            };
            self.ledger.decisions += 1;
        }
    }
}

impl Control for PerCommand {
    fn come(&mut self, _: &mut Machine, client: usize) {
        self.entities.come(client);
    }

    fn gone(&mut self, _: &mut Machine, client: usize) {
        self.entities.gone(client);
    }

    fn submit(
        &mut self,
        machine: &mut Machine,
        client: usize,
        engine: usize,
        length: u64,
    ) -> Verdict {
        if !self.paid[client] {
            self.paid[client] = true;
            self.ledger.faults += 1;
            self.ledger.in_clients += self.submit;
            return Verdict::Again(self.submit);
        }
        self.paid[client] = false;
        let entity = self.entities.of(client);
        let idle = self
            .entities
            .get(entity)
            .members
            .iter()
            .all(|member| self.waiting[*member].iter().all(VecDeque::is_empty));
        if idle {
            // A client that had nothing to do has saved no time up.
            self.clocks[entity] = self.clocks[entity].max(self.floor);
        }
        self.waiting[client][engine].push_back(length);
        if matches!(self.engines[engine], EngineState::Free) {
            self.start(machine, engine);
        }
        Verdict::Accepted
    }

    fn ended(&mut self, machine: &mut Machine, client: usize, engine: usize) {
        let now = machine.now();
        if let EngineState::Runs { since } = self.engines[engine] {
            let entity = self.entities.of(client);
            let weight: u64 = self.entities.get(entity).weight.get().into();
            let normal: u64 = Weight::DEFAULT.get().into();
            self.measured[client] += now - since;
            self.clocks[entity] += (now - since) * normal / weight;
        }
        self.ledger.cpu += self.interrupt;
        self.engines[engine] = EngineState::Ends {
            at: now.saturating_add(self.interrupt),
        };
    }

    fn next(&self) -> Option<u64> {
        let end = |turn: &EngineState| match turn {
            EngineState::Ends { at } => Some(*at),
            _ => None,
        };
        self.engines.iter().filter_map(end).min()
    }

    fn act(&mut self, machine: &mut Machine) {
        for engine in 0..ENGINES {
            if matches!(self.engines[engine], EngineState::Ends { at } if at <= machine.now()) {
                self.start(machine, engine);
            }
        }
    }

    fn booked(&self, _: &Machine, client: usize) -> Booked {
        Booked {
            measured: Some(self.measured[client]),
            ..Booked::default()
        }
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        self.ledger.clone()
    }
}
