// SPDX-License-Identifier: GPL-2.0

//! Booking of a decision, and the oracles that check it.

use super::Loga;
use crate::control::bound::Use;
use crate::world::Machine;
use loga::account::PhaseTotals;
use loga::engine::Fallback;
use loga::gpu::{Decision, Ended};
use loga::ids::ClientId;
use loga::policies::PolicyKind;
use loga::share::{Account, Member};
use loga::units::{Ns, VTime};
use loga_model::gpu::GR;

/// Violations that are kept; the first names the fault.
const VIOLATIONS_MAX: usize = 10;

/// State of a member before a decision, for the bound of a policy.
struct Before {
    id: ClientId,
    received: Ns,
    /// It was throttled; its residue is charged directly.
    direct: bool,
}

impl Loga {
    /// The phase as the module books it, and the oracles of the decision.
    pub(super) fn end_phase(&mut self, machine: &Machine, totals: PhaseTotals, is_sparse: bool) {
        let noted = self.residues.take_noted();
        let before = |member: &Member| Before {
            id: member.id(),
            received: member.account().received,
            direct: noted && member.throttled_by().is_some(),
        };
        let before: Vec<_> = self.state.shares.members().iter().map(before).collect();
        let (vtimes, t_sys) = (self.vtimes(), self.state.engine.start_vtime());
        let mut used: Vec<_> = if is_sparse {
            self.sparse.used().collect()
        } else {
            self.accountant.used().collect()
        };
        let of_compute = used.len();
        let copies = self.copies.found();
        used.extend(copies.iter().flat_map(|found| found.used.iter()));
        let position = |slot: usize| self.owner[slot].and_then(|client| self.position(client));
        let mut owners: Vec<_> = used.iter().map(|slot| (*slot, position(*slot))).collect();
        owners.sort_unstable();
        let used = &used[..of_compute];
        let mut owner = |slot: usize| {
            let at = owners.binary_search_by_key(&slot, |(slot, _)| *slot).ok()?;
            owners[at].1
        };
        let ended = Ended {
            totals,
            slots: &self.slots,
            used: used.iter().copied(),
            strata: is_sparse.then(|| self.sparse.interval()),
            alone: self.kept.iter().filter(|kept| kept.here).count() <= 1,
            copies,
        };
        let waits = self.waiting.found(totals.length);
        let now = Ns::new(machine.now());
        let decision = self.state.end_phase(now, ended, &mut owner, waits);
        self.check(&decision, &vtimes, t_sys);
        self.check_bound(&decision, &before);
        self.forget_gone();
        self.ledger.booked = machine.now();
        self.ledger.error = self.error(machine);
    }

    /// Virtual times of the entities that have members.
    pub(super) fn vtimes(&self) -> Vec<Option<VTime>> {
        let mut vtimes = vec![None; self.entities.len()];
        for client in 0..self.kept.len() {
            let Some(at) = self.position(client) else {
                continue;
            };
            let group = self.state.shares.members()[at].group();
            let state = self.state.shares.state_of(group);
            vtimes[self.entities.of(client)] = state.map(|state| state.vtime);
        }
        vtimes
    }

    /// The oracles of a decision.
    fn check(&mut self, decision: &Decision, before: &[Option<VTime>], t_sys: VTime) {
        let totals = &decision.totals;
        let members = self.state.shares.members().iter();
        let used: u64 = members.map(|member| member.used().busy.get()).sum();
        let parts = used + totals.idle.get() + totals.unknown.get();
        if parts != totals.length.get() || used != totals.ran.get() {
            self.violate(format!(
                "conservation: a polling phase of {} ns has parts of {parts} ns",
                totals.length.get()
            ));
        }
        let now = self.state.engine.start_vtime();
        if now < t_sys {
            self.violate(format!(
                "virtual time: that of the system fell from {} to {} ns",
                t_sys.get(),
                now.get()
            ));
        }
        // Only this policy forgives what a client is ahead of the system, and never more.
        let forgives = self.state.engine.config().policy == PolicyKind::MaxMin;
        self.check_vtimes(before, forgives.then_some(now));
        self.check_fallback(decision.fallback);
    }

    /// Whether a virtual time fell; below `system`, if leads may be forgiven.
    pub(super) fn check_vtimes(&mut self, before: &[Option<VTime>], system: Option<VTime>) {
        for (entity, (before, after)) in before.iter().zip(self.vtimes()).enumerate() {
            let (Some(before), Some(after)) = (before, after) else {
                continue;
            };
            if after < system.map_or(*before, |system| system.min(*before)) {
                self.violate(format!(
                    "virtual time: that of entity {entity} fell from {} to {} ns",
                    before.get(),
                    after.get()
                ));
            }
        }
    }

    /// Whether a policy broke its contract.
    pub(super) fn check_fallback(&mut self, fallback: Option<Fallback>) {
        if fallback.is_some() {
            self.violate(format!(
                "contract: the engine let all clients run: {fallback:?}"
            ));
        }
    }

    /// Checks the period against the bound of the policy.
    fn check_bound(&mut self, decision: &Decision, before: &[Before]) {
        let mut uses: Vec<Option<Use>> = vec![None; self.entities.len()];
        for client in 0..self.kept.len() {
            let Some(at) = self.position(client) else {
                continue;
            };
            let member = &self.state.shares.members()[at];
            let entity = self.entities.of(client);
            let one = uses[entity].get_or_insert(Use {
                entity,
                weight: self.entities.get(entity).weight,
                busy: 0,
                direct: 0,
            });
            let direct = before
                .binary_search_by_key(&member.id(), |before| before.id)
                .ok()
                .map(|at| &before[at])
                .filter(|before| before.direct);
            match direct {
                Some(before) => {
                    let received = member.account().received;
                    one.direct += received.saturating_sub(before.received).get();
                }
                None => one.busy += member.used().busy.get(),
            }
        }
        let uses: Vec<_> = uses.into_iter().flatten().collect();
        let config = self.state.engine.config();
        let ratio = if config.poll_always { 0 } else { config.ratio };
        let poll_ms = u64::from(config.poll_ms) * u64::from(self.allocated);
        let lead = poll_ms * u64::from(ratio + 1) * 1_000_000;
        // Drawn lengths are up to half as long again.
        let lead = if config.randomize { lead * 3 / 2 } else { lead };
        let (poll, span) = (decision.period.poll.get(), decision.period.span.get());
        if let Some(broken) = self.bound.period(&uses, poll, span, lead) {
            self.violate(broken);
        }
    }

    /// Forgets the clients that have gone, now that their last phase is booked.
    pub(super) fn forget_gone(&mut self) {
        for client in std::mem::take(&mut self.gone) {
            let Some(at) = self.position(client) else {
                continue;
            };
            self.kept[client].account = *self.state.shares.members()[at].account();
            self.state.leave(at);
            self.kept[client].id = None;
            if self.entities.get(self.entities.of(client)).present == 0 {
                self.bound.gone(self.entities.of(client));
            }
        }
    }

    /// The figures of a client.
    pub fn account(&self, client: usize) -> Account {
        match self.position(client) {
            Some(at) => *self.state.shares.members()[at].account(),
            None => self.kept[client].account,
        }
    }

    /// Differences between true and measured GPU time, over all GPU time.
    fn error(&self, machine: &Machine) -> Option<f64> {
        let (mut off, mut all) = (0, 0);
        for client in 0..self.kept.len() {
            let usage = machine.board.usage(client, GR);
            let truth = usage.run + usage.switch;
            off += truth.abs_diff(self.account(client).received.get());
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
