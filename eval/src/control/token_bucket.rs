// SPDX-License-Identifier: GPL-2.0

//! Baseline `token-bucket`: each client is limited by tokens, which follow a sampled utilisation.
//!
//! A launch takes tokens in proportion to its size; without tokens the client sleeps. Every
//! `sample_ms` the utilisation of each client is sampled, in whole percent; the rate at which its
//! tokens come back moves by a part of what is missing to its limit, and the bucket is filled
//! for the time of one sample. The limit is the client's weight over all weights. With
//! `off_when_alone` a client that has the GPU alone is not limited.
//! Good for: needs no kernel module. Bad for: a limit is not a share, no client gets unused time of
//! another, and the sample lags behind. The way of HAMi-core: watcher thread, about 120 ms, tokens
//! by launch size. Source: HAMi-core's
//! `src/multiprocess/multiprocess_utilization_watcher.c` and issues HAMi#737, HAMi-core#104.
//! Assumed: the size of a launch is its length, and the gain of the rate.

use super::entities::Entities;
use super::SHORTEST;
use crate::scenario::{Client, Policy};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use loga_model::gpu::GR;

/// Part of the difference between limit and utilisation by which a rate moves.
const GAIN: f64 = 0.5;

/// Tokens of one entity.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tokens left, in ns of launches; below zero after a long one.
    left: f64,
    /// Tokens per ns.
    rate: f64,
    /// Use of the GPU when it was last sampled, in ns.
    sampled: u64,
}

/// Limits by tokens.
pub struct TokenBucket {
    entities: Entities,
    sample: u64,
    off_when_alone: bool,
    wakeup: u64,
    buckets: Vec<Bucket>,
    next: u64,
    waits: Vec<Option<u64>>,
    throttled: Vec<u64>,
    ledger: Ledger,
}

impl TokenBucket {
    /// With the sampling of the scenario.
    pub fn new(clients: &[&Client], policy: &Policy, wakeup: u64) -> Self {
        let entities = Entities::new(clients, policy.by);
        let sample = policy.sample.0.get().max(SHORTEST);
        let bucket = Bucket {
            // CAST: a time that a double holds exactly.
            left: sample as f64,
            rate: 1.0,
            sampled: 0,
        };
        Self {
            sample,
            off_when_alone: policy.off_when_alone,
            wakeup,
            buckets: vec![bucket; entities.len()],
            next: sample,
            waits: vec![None; clients.len()],
            throttled: vec![0; clients.len()],
            entities,
            ledger: Ledger::default(),
        }
    }

    /// Whether no client is limited.
    fn off(&self) -> bool {
        self.off_when_alone && self.entities.present().count() < 2
    }

    /// Samples one entity and fills its bucket.
    fn fill(&mut self, machine: &Machine, entity: usize, limit: f64) {
        let members = &self.entities.get(entity).members;
        let used = members
            .iter()
            .map(|client| machine.board.usage(*client, GR).run)
            .sum::<u64>();
        let bucket = &mut self.buckets[entity];
        // CAST: times that a double holds exactly.
        let sample = self.sample as f64;
        let part = (used - bucket.sampled) as f64 / sample;
        let seen = (part * 100.0).round() / 100.0;
        bucket.sampled = used;
        bucket.rate = (bucket.rate + GAIN * (limit - seen)).clamp(0.01, 1.0);
        bucket.left = (bucket.left + bucket.rate * sample).min(sample);
    }
}

impl Control for TokenBucket {
    fn come(&mut self, _: &mut Machine, client: usize) {
        self.entities.come(client);
    }

    fn gone(&mut self, _: &mut Machine, client: usize) {
        self.entities.gone(client);
        self.waits[client] = None;
    }

    fn submit(
        &mut self,
        machine: &mut Machine,
        client: usize,
        engine: usize,
        length: u64,
    ) -> Verdict {
        let off = self.off();
        let bucket = &mut self.buckets[self.entities.of(client)];
        if engine != GR || off {
            return Verdict::Now;
        }
        if bucket.left <= 0.0 {
            self.waits[client] = Some(machine.now());
            self.ledger.throttles += 1;
            return Verdict::Blocked;
        }
        // CAST: a command lasts a minute at most.
        bucket.left -= length as f64;
        Verdict::Now
    }

    fn next(&self) -> Option<u64> {
        Some(self.next)
    }

    fn act(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.next = now.saturating_add(self.sample);
        self.ledger.decisions += 1;
        let present: Vec<_> = self
            .entities
            .present()
            .map(|(entity, one)| (entity, f64::from(one.weight.get())))
            .collect();
        let weights: f64 = present.iter().map(|(_, weight)| weight).sum();
        for (entity, weight) in present {
            self.fill(machine, entity, weight / weights);
        }
        let off = self.off();
        for client in 0..self.waits.len() {
            let open = off || self.buckets[self.entities.of(client)].left > 0.0;
            if let Some(since) = self.waits[client].filter(|_| open) {
                self.waits[client] = None;
                self.throttled[client] += now - since;
                let at = now.saturating_add(self.wakeup);
                machine.order(Order::Wake { client, at });
            }
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
