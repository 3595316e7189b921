// SPDX-License-Identifier: GPL-2.0

//! Baseline `exclusive`: one client at a time has the GPU, for a quantum of seconds.
//!
//! The client that has the GPU submits freely; all others sleep, first come, first served. After
//! `quantum_ms`, if another client waits, it submits nothing more, and when its commands have
//! ended, the next one has the GPU. A client that does not use it for `idle_release_ms` gives it
//! up. Weights do nothing. Good for: no switches, all of the memory is one client's.
//! Bad for: clients that compute in between leave the GPU idle, and others wait for seconds. The
//! way of nvshare. Source: its README (quantum 30 s by default); the idle time is assumed.

use super::entities::Entities;
use super::SHORTEST;
use crate::scenario::{Client, Policy};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use std::collections::VecDeque;

/// The client that has the GPU.
#[derive(Clone, Copy, Debug)]
struct Holder {
    entity: usize,
    /// When others may ask for it.
    until: u64,
    /// Whether it may submit nothing more.
    drains: bool,
    /// Since when it has no commands under way.
    idle_since: Option<u64>,
}

/// One client at a time has the GPU.
pub struct Exclusive {
    entities: Entities,
    quantum: u64,
    idle_release: u64,
    wakeup: u64,
    cpu_boost: u64,
    holder: Option<Holder>,
    /// Clients that wait for it.
    queue: VecDeque<usize>,
    /// Commands under way of each entity.
    under_way: Vec<u32>,
    /// Since when a client waits.
    waits: Vec<Option<u64>>,
    throttled: Vec<u64>,
    ledger: Ledger,
}

impl Exclusive {
    /// With the quantum of the scenario.
    pub fn new(clients: &[&Client], policy: &Policy, wakeup: u64) -> Self {
        let entities = Entities::new(clients, policy.by);
        Self {
            quantum: policy.quantum.0.get().max(SHORTEST),
            idle_release: policy.idle_release.0.get(),
            wakeup,
            cpu_boost: policy.cpu_boost.into(),
            holder: None,
            queue: VecDeque::new(),
            under_way: vec![0; entities.len()],
            waits: vec![None; clients.len()],
            throttled: vec![0; clients.len()],
            entities,
            ledger: Ledger::default(),
        }
    }

    /// Gives the GPU to the client that waits longest.
    fn pass_on(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.holder = self.queue.pop_front().map(|entity| Holder {
            entity,
            until: now.saturating_add(self.quantum),
            drains: false,
            idle_since: Some(now),
        });
        let Some(holder) = self.holder else {
            return;
        };
        self.ledger.decisions += 1;
        let members = &self.entities.get(holder.entity).members;
        machine.cpus.boost(members.first().copied(), self.cpu_boost);
        for client in self.entities.get(holder.entity).members.clone() {
            if let Some(since) = self.waits[client].take() {
                self.throttled[client] += now - since;
                let at = now.saturating_add(self.wakeup);
                machine.order(Order::Wake { client, at });
            }
        }
    }

    /// When the holder has to be checked.
    fn due(&self, holder: &Holder) -> Option<u64> {
        if self.queue.is_empty() || holder.drains {
            return None;
        }
        let idle = holder
            .idle_since
            .map(|since| since.saturating_add(self.idle_release));
        Some(idle.map_or(holder.until, |idle| idle.min(holder.until)))
    }
}

impl Control for Exclusive {
    fn come(&mut self, _: &mut Machine, client: usize) {
        self.entities.come(client);
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        self.waits[client] = None;
        if !self.entities.gone(client) {
            return;
        }
        let entity = self.entities.of(client);
        self.queue.retain(|waiting| *waiting != entity);
        if self.holder.is_some_and(|holder| holder.entity == entity) {
            self.pass_on(machine);
        }
    }

    fn submit(&mut self, machine: &mut Machine, client: usize, _: usize, _: u64) -> Verdict {
        let (entity, now) = (self.entities.of(client), machine.now());
        if self.holder.is_none() {
            self.holder = Some(Holder {
                entity,
                until: now.saturating_add(self.quantum),
                drains: false,
                idle_since: None,
            });
        }
        match &mut self.holder {
            Some(holder) if holder.entity == entity && !holder.drains => {
                holder.idle_since = None;
                self.under_way[entity] += 1;
                Verdict::Now
            }
            _ => {
                if !self.queue.contains(&entity) {
                    self.queue.push_back(entity);
                }
                self.waits[client] = Some(now);
                self.ledger.throttles += 1;
                Verdict::Blocked
            }
        }
    }

    fn ended(&mut self, machine: &mut Machine, client: usize, _: usize) {
        let entity = self.entities.of(client);
        self.under_way[entity] -= 1;
        let empty = self.under_way[entity] == 0;
        let Some(holder) = self.holder.as_mut().filter(|on| on.entity == entity) else {
            return;
        };
        if empty && holder.drains {
            self.pass_on(machine);
        } else if empty {
            holder.idle_since = Some(machine.now());
        }
    }

    fn next(&self) -> Option<u64> {
        self.holder.as_ref().and_then(|holder| self.due(holder))
    }

    fn act(&mut self, machine: &mut Machine) {
        let Some(holder) = self.holder.as_mut() else {
            return;
        };
        if self.under_way[holder.entity] > 0 {
            holder.drains = true;
        } else {
            self.pass_on(machine);
        }
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let still = self.waits[client].map_or(0, |since| machine.now() - since);
        Booked {
            throttled: self.throttled[client] + still,
            ..Booked::default()
        }
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        self.ledger.clone()
    }
}
