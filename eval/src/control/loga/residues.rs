// SPDX-License-Identifier: GPL-2.0

//! Residue between polling phases, as the timer of the module samples it.
//!
//! The module's code chooses the instants and the time that each stands for.

use super::Loga;
use crate::world::Machine;
use loga::ids::ClientId;
use loga::regs::Occupant;
use loga::units::Ns;

impl Loga {
    /// Begins to sample, after a decision.
    pub(super) fn begin_residue(&mut self, now: u64) {
        let engine = &self.state.engine;
        if !engine.samples_pauses() {
            return;
        }
        let throttled = self.kept.iter().any(|kept| kept.since.is_some());
        let until = engine.next_deadline().unwrap_or_default();
        let length = until.saturating_sub(Ns::new(now));
        let residue = &mut self.residues.residue;
        let next = residue.begin(Ns::new(now), length, throttled);
        self.residues.next = next.map(Ns::get);
        self.residues.samples = next.is_some();
    }

    /// A sample is due.
    pub(super) fn sample_residue(&mut self, machine: &Machine) {
        let occupant = self.occupant(machine);
        let next = self
            .residues
            .residue
            .sample(Ns::new(machine.now()), occupant);
        self.residues.next = Some(next.get());
        if let Some(copying) = self.copies.occupant(&machine.registers()) {
            self.residues.residue.sample_copies(copying);
        }
        self.ledger.cpu += self.costs.read;
    }

    /// There are no channels any more: what was found is of none.
    pub(super) fn drop_residue(&mut self) {
        self.residues.next = None;
        self.residues.samples = false;
    }

    /// The next polling phase begins.
    pub(super) fn end_residue(&mut self) {
        self.residues.next = None;
        if !std::mem::take(&mut self.residues.samples) {
            return;
        }
        let client = |(occupant, time): &(Occupant, Ns)| -> Option<(ClientId, Ns)> {
            // The simulated GPU has no TSGs.
            let Occupant::Channel(chid) = *occupant else {
                return None;
            };
            let client = self.owner[chid.index()]?;
            Some((self.kept[client].id?, *time))
        };
        let found = self.residues.residue.found().iter().filter_map(client);
        let copied = self.residues.residue.found_copying();
        let copied = copied.iter().filter_map(client);
        self.state.begin_phase(found, copied);
        self.residues.noted = true;
    }
}
