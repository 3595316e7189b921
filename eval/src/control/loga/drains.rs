// SPDX-License-Identifier: GPL-2.0

//! What runs on after a hold, as the timer of the module looks for it between polling phases.
//!
//! The code that chooses the instants and what they stand for is the module's.

use super::Loga;
use crate::world::Machine;
use loga::account::drain::Drain;
use loga::account::PhaseTotals;
use loga::fair;
use loga::policies::ClientState;
use loga::units::Ns;

/// Looks between polling phases.
pub(super) struct Drains {
    drain: Drain,
    /// When the next look is due.
    next: Option<u64>,
    /// GPU time found since the last decision, by entity, if somebody looked.
    found: Option<Vec<Ns>>,
    /// Of the last polling phase, the time of those who were held back.
    pub(super) polled: u64,
}

impl Drains {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            drain: Drain::new(seed),
            next: None,
            found: None,
            polled: 0,
        }
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }
}

impl Loga {
    /// Begins to look, after a decision that holds somebody back.
    pub(super) fn begin_drain(&mut self, now: u64) {
        let staged = self.engine.config().policy.staged();
        if staged || self.gates.iter().all(|gate| gate.since.is_none()) {
            return;
        }
        let until = self.engine.next_deadline().unwrap_or_default();
        let length = until.saturating_sub(Ns::new(now));
        let next = self.drains.drain.begin(Ns::new(now), length);
        self.drains.next = next.map(Ns::get);
        if next.is_some() {
            self.drains.found = Some(Vec::new());
        }
    }

    /// A look is due.
    pub(super) fn look_drain(&mut self, machine: &Machine) {
        let occupant = self.occupant(machine);
        let next = self.drains.drain.look(Ns::new(machine.now()), occupant);
        self.drains.next = next.map(Ns::get);
        self.ledger.cpu += self.costs.read;
    }

    /// The next polling phase begins.
    pub(super) fn end_drain(&mut self) {
        self.drains.next = None;
        let Some(found) = &mut self.drains.found else {
            return;
        };
        *found = vec![Ns::ZERO; self.gates.len()];
        for (chid, time) in self.drains.drain.found() {
            if let Some(client) = self.owner[chid.index()] {
                let found = &mut found[self.entities.of(client)];
                *found = found.saturating_add(*time);
            }
        }
    }

    /// Charges those who were held back for what they ran, as it is, and takes it out of what the
    /// polling phase stands for. Returns what each ran, by entity.
    pub(super) fn charge_apart(
        &mut self,
        totals: &mut PhaseTotals,
        states: &mut [ClientState],
    ) -> Vec<Ns> {
        let mut apart = vec![Ns::ZERO; self.gates.len()];
        self.drains.polled = 0;
        let Some(found) = self.drains.found.take() else {
            return apart;
        };
        for (kept, state) in self.kept.iter().zip(states) {
            if self.gates[kept.entity].since.is_none() {
                continue;
            }
            let ran = found[kept.entity].saturating_add(state.busy);
            let by = fair::advance(ran, ran, ran, state.weight);
            state.vtime = state.vtime.saturating_add(by);
            self.drains.polled += state.busy.get();
            state.busy = Ns::ZERO;
            state.runs = 0;
            totals.apart = totals.apart.saturating_add(ran);
            apart[kept.entity] = ran;
        }
        apart
    }
}
