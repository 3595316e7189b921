// SPDX-License-Identifier: GPL-2.0

//! LoGA with a policy and a dispatcher at once, as the module has them with `policy` and `dispatch`: a
//! store passes the gate of its client first, which the policy opens and closes, and is decided on
//! then.

use super::engaged::Engaged;
use super::loga::Loga;
use crate::world::{Booked, Control, Ledger, Machine, Verdict};

/// A policy and a dispatcher.
pub struct Both {
    policy: Loga,
    dispatcher: Engaged,
}

impl Both {
    /// Of one GPU.
    pub const fn new(policy: Loga, dispatcher: Engaged) -> Self {
        Self { policy, dispatcher }
    }
}

impl Control for Both {
    fn come(&mut self, machine: &mut Machine, client: usize) {
        self.policy.come(machine, client);
        self.dispatcher.come(machine, client);
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        self.policy.gone(machine, client);
        self.dispatcher.gone(machine, client);
    }

    fn submit(&mut self, machine: &mut Machine, at: usize, engine: usize, length: u64) -> Verdict {
        self.dispatcher.wakes_up(machine, at);
        match self.policy.submit(machine, at, engine, length) {
            Verdict::Now => self.dispatcher.submit(machine, at, engine, length),
            // Its fault; then it is decided on.
            Verdict::After(time) => Verdict::Computes(time),
            held => held,
        }
    }

    fn ended(&mut self, machine: &mut Machine, client: usize, engine: usize) {
        self.policy.ended(machine, client, engine);
        self.dispatcher.ended(machine, client, engine);
    }

    fn observe(&mut self, machine: &mut Machine) {
        self.policy.observe(machine);
    }

    fn next(&self) -> Option<u64> {
        let both = [self.policy.next(), self.dispatcher.next()];
        both.into_iter().flatten().min()
    }

    fn act(&mut self, machine: &mut Machine) {
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= machine.now());
        if is_due(self.policy.next()) {
            return self.policy.act(machine);
        }
        if is_due(self.dispatcher.next()) {
            self.dispatcher.act(machine);
        }
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let booked = self.policy.booked(machine, client);
        let waited = self.dispatcher.booked(machine, client).throttled;
        // The policy may hold one that waits for its turn.
        Booked {
            throttled: booked.throttled.max(waited),
            ..booked
        }
    }

    fn ledger(&self, machine: &Machine) -> Ledger {
        let (own, other) = (self.policy.ledger(machine), self.dispatcher.ledger(machine));
        Ledger {
            cpu: own.cpu.saturating_add(other.cpu),
            in_clients: own.in_clients.saturating_add(other.in_clients),
            throttles: own.throttles.saturating_add(other.throttles),
            faults: own.faults.saturating_add(other.faults),
            misses: other.misses,
            ..own
        }
    }
}
