// SPDX-License-Identifier: GPL-2.0

//! LoGA's calls from the world: clients that come, go and submit, and deadlines.

use super::{Loga, Poller};
use crate::world::{Booked, Control, Ledger, Machine, Verdict};
use loga::engine::Wake;
use loga::ids::ClientId;
use loga::regs::{self, OccupantReader, Source};
use loga::units::Ns;
use loga_model::gpu::GR;

/// The engine that is polled, as the registers number it.
const COMPUTE: u8 = 0;

impl Control for Loga {
    fn come(&mut self, machine: &mut Machine, client: usize) {
        if self.reader.is_none() {
            let chip = regs::detect(&machine.registers()).ok();
            self.reader =
                chip.map(|chip| OccupantReader::new(Source::EngineStatus, &chip, COMPUTE));
        }
        self.entities.come(client);
        let channels = machine.channels[client];
        if channels.copy.is_some() && !self.copies.follows() {
            let chip = regs::detect(&machine.registers()).ok();
            self.copies.follow(chip.and_then(|chip| chip.copy_engine));
        }
        let first = usize::from(channels.compute);
        for slot in first..first + usize::from(channels.allocated) {
            self.owner[slot] = Some(client);
        }
        let (id, identity) = (ClientId::new(self.ids), self.kept[client].identity);
        self.ids += 1;
        // There is room for all clients.
        let joined = self.state.join(id, identity);
        if let Ok(at) = joined {
            self.state.shares.note_changed(at);
        }
        let kept = &mut self.kept[client];
        (kept.id, kept.here) = (joined.ok().map(|_| id), true);
        self.allocated += u32::from(channels.allocated);
        self.ring(machine);
        self.next = self.due();
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        if let Some(at) = self.position(client) {
            self.state.shares.note_changed(at);
        }
        self.entities.gone(client);
        let kept = &mut self.kept[client];
        (kept.asleep, kept.here, kept.closed) = (false, false, false);
        if let Some(since) = kept.since.take() {
            kept.throttled += machine.now().saturating_sub(since);
        }
        self.todo.retain(|(_, other, _)| *other != client);
        self.gone.push(client);
        self.allocated -= u32::from(machine.channels[client].allocated);
        self.ring(machine);
        self.next = self.due();
    }

    #[inline]
    fn submit(&mut self, _: &mut Machine, client: usize, engine: usize, length: u64) -> Verdict {
        if engine == GR {
            self.bound.submitted(length);
        }
        if !self.kept[client].unmapped {
            if !self.is_trapped(client) {
                return Verdict::Now;
            }
            self.ledger.faults += 1;
            self.ledger.in_clients += self.costs.fault;
            return Verdict::After(self.costs.fault);
        }
        self.ledger.faults += 1;
        self.ledger.in_clients += self.costs.fault;
        let kept = &mut self.kept[client];
        if kept.closed {
            kept.asleep = true;
            return Verdict::Blocked;
        }
        kept.unmapped = false;
        Verdict::After(self.costs.fault)
    }

    #[inline]
    fn observe(&mut self, machine: &mut Machine) {
        let Poller::Polls(since) = self.poller else {
            return;
        };
        let now = Ns::new(machine.now());
        self.copies.poll(&machine.registers(), || now);
        let occupant = self.occupant(machine);
        if occupant == self.last {
            return;
        }
        self.last = occupant;
        let now = machine.now();
        let at = self.next_poll(since, now);
        if self.unseen.is_some_and(|(before, _)| before < at) {
            self.see(at - 1);
        }
        self.unseen = Some((at, occupant));
    }

    #[inline]
    fn next(&self) -> Option<u64> {
        self.next
    }

    fn act(&mut self, machine: &mut Machine) {
        let now = machine.now();
        let is_due = |at: Option<u64>| at.is_some_and(|at| at <= now);
        if matches!(self.poller, Poller::Starts(at) if at <= now) {
            self.start_polling(machine);
        } else if is_due(self.sparse_next) {
            self.sample(machine);
        } else if is_due(self.waiting.next()) {
            self.waiting.sample(machine, self.last);
        } else if is_due(self.residues.next) {
            self.sample_residue(machine);
        } else if is_due(self.todo.front().map(|(at, _, _)| *at)) {
            self.move_gate(machine);
        } else if is_due(self.decides) {
            self.decide(machine);
        } else if is_due(self.scans.ends) {
            self.end_scan(machine);
        } else if is_due(self.rung) {
            self.rung = None;
            self.wake(machine, Wake::ChannelsChanged);
        } else {
            self.wake(machine, Wake::Timer);
        }
        self.next = self.due();
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let (kept, account) = (&self.kept[client], self.account(client));
        let still = kept
            .since
            .map_or(0, |since| machine.now().saturating_sub(since));
        Booked {
            measured: Some(account.received.get()),
            entitled: Some(account.entitled.get()),
            throttled: kept.throttled + still,
        }
    }

    fn ledger(&self, machine: &Machine) -> Ledger {
        let mut ledger = self.ledger.clone();
        if let Poller::Polls(since) = self.poller {
            ledger.cpu += machine.now().saturating_sub(since);
        }
        ledger
    }
}
