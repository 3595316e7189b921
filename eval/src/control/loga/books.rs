// SPDX-License-Identifier: GPL-2.0

//! What a decision is booked as, and the oracles that look at it.

use super::{Kept, Loga};
use crate::control::bound::Use;
use crate::world::Machine;
use loga::account::{settle, PhaseTotals};
use loga::fair;
use loga::policies::ClientState;
use loga::units::{Ns, VTime};
use loga_model::gpu::GR;

/// Violations that are kept; the first says what is wrong.
const VIOLATIONS_MAX: usize = 10;

impl Loga {
    /// The phase as the module books it: time per entity, and how long it waited.
    pub(super) fn settle(&mut self, mut totals: PhaseTotals) -> (PhaseTotals, Vec<ClientState>) {
        let mut states: Vec<_> = self.kept.iter().map(|kept| kept.state).collect();
        for state in &mut states {
            state.busy = Ns::ZERO;
            state.runs = 0;
        }
        let mut owner = |slot: usize| {
            let entity = self.entities.of(self.owner[slot]?);
            self.kept.iter().position(|kept| kept.entity == entity)
        };
        let used = self.accountant.used();
        settle(
            &mut totals,
            &self.slots,
            used,
            &mut owner,
            states.as_mut_slice(),
        );
        for state in &mut states {
            state.waited = self.waiting.waited(state.id, totals.length);
        }
        (totals, states)
    }

    /// The oracles of a decision.
    pub(super) fn check(
        &mut self,
        totals: &PhaseTotals,
        states: &[ClientState],
        before: VTime,
        fallbacks: u64,
    ) {
        let used: u64 = states.iter().map(|state| state.busy.get()).sum();
        let used = used + self.drains.polled;
        let parts = used + totals.idle.get() + totals.unknown.get();
        if parts != totals.length.get() || used != totals.held.get() {
            self.violate(format!(
                "conservation: a polling phase of {} ns has parts of {parts} ns",
                totals.length.get()
            ));
        }
        let t_sys = self.engine.start_vtime();
        if t_sys < before {
            self.violate(format!(
                "virtual time: that of the system fell from {} to {} ns",
                before.get(),
                t_sys.get()
            ));
        }
        for (kept, state) in self.kept.clone().iter().zip(states) {
            if state.vtime < kept.state.vtime {
                self.violate(format!(
                    "virtual time: that of entity {} fell from {} to {} ns",
                    kept.entity,
                    kept.state.vtime.get(),
                    state.vtime.get()
                ));
            }
        }
        self.check_fallbacks(fallbacks);
    }

    /// Whether a policy broke its contract since there were so many fallbacks.
    pub(super) fn check_fallbacks(&mut self, fallbacks: u64) {
        if self.engine.stats().fallbacks != fallbacks {
            let reason = self.engine.last_fallback();
            self.violate(format!(
                "contract: the engine let everybody run: {reason:?}"
            ));
        }
    }

    /// Books a period: for clients, and against the bound of the policy. `apart` is what those who
    /// were held back ran, by entity.
    pub(super) fn book(
        &mut self,
        machine: &Machine,
        totals: &PhaseTotals,
        states: &[ClientState],
        apart: &[Ns],
    ) {
        let stats = *self.engine.stats();
        let (poll, span) = (
            stats.last_poll,
            stats.last_poll.saturating_add(stats.last_nonpoll),
        );
        // What the time of everybody else stands for.
        let rest = (
            totals.length.saturating_sub(Ns::new(self.drains.polled)),
            span.saturating_sub(totals.apart),
        );
        for client in 0..self.measured.len() {
            let slot = self.slots[usize::from(machine.channels[client].compute)];
            let ran = apart[self.entities.of(client)];
            self.measured[client] += if ran.is_zero() {
                fair::estimate(slot.held, rest.0, rest.1).get()
            } else {
                // Clients of one entity share what it ran.
                ran.get() / self.entities.get(self.entities.of(client)).members.len() as u64
            };
        }
        let wanted = |kept: &Kept, state: &ClientState| {
            state.active() || self.gates[kept.entity].since.is_some()
        };
        let kept = self.kept.clone();
        let weights = kept
            .iter()
            .zip(states)
            .filter(|(kept, state)| wanted(kept, state))
            .map(|(_, state)| u64::from(state.weight.get()))
            .sum();
        let entitled: Vec<_> = kept
            .iter()
            .zip(states)
            .map(|(kept, state)| {
                if wanted(kept, state) {
                    fair::entitlement(span, state.weight, weights).get()
                } else {
                    0
                }
            })
            .collect();
        for (kept, time) in kept.iter().zip(entitled) {
            self.gates[kept.entity].entitled += time;
        }
        let uses: Vec<_> = kept
            .iter()
            .zip(states)
            .map(|(kept, state)| Use {
                entity: kept.entity,
                weight: state.weight,
                busy: state.busy.get(),
                apart: apart[kept.entity].get(),
            })
            .collect();
        let config = self.engine.config();
        let ratio = if config.poll_always { 0 } else { config.ratio };
        let poll_ms = u64::from(config.poll_ms) * u64::from(self.allocated);
        let lead = poll_ms * u64::from(ratio + 1) * 1_000_000;
        // Drawn lengths are up to half as long again.
        let lead = if config.randomize { lead * 3 / 2 } else { lead };
        if let Some(broken) = self.bound.period(&uses, poll.get(), span.get(), lead) {
            self.violate(broken);
        }
        self.ledger.booked = machine.now();
        self.ledger.error = self.error(machine);
    }

    /// Differences between true and measured GPU time, over all GPU time.
    fn error(&self, machine: &Machine) -> Option<f64> {
        let (mut off, mut all) = (0, 0);
        for (client, measured) in self.measured.iter().enumerate() {
            let usage = machine.board.usage(client, GR);
            let truth = usage.run + usage.switch;
            off += truth.abs_diff(*measured);
            all += truth;
        }
        // CAST: times that a double holds exactly.
        (all > 0).then(|| off as f64 / all as f64)
    }

    pub(super) fn violate(&mut self, what: String) {
        if self.ledger.violations.len() < VIOLATIONS_MAX {
            self.ledger.violations.push(what);
        }
    }
}
