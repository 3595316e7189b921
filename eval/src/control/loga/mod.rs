// SPDX-License-Identifier: GPL-2.0

//! LoGA: the poller and the main thread around the kernel module's accounting and engine.
//!
//! The module's code observes, accounts and decides; this file models when its two threads run
//! and what that costs. The poller polls every `read_us` and sees the occupant of that instant; it
//! starts `wakeup_us` after it was woken, and stops after the poll that it has begun. The main
//! thread wakes `wakeup_us` after a deadline, waits for the poller, decides, and revokes or
//! restores one client after the other, `revoke_us` each. A client without its mapping takes a
//! fault of `fault_us` at its next submission, and sleeps while it is throttled. For policies that
//! work in stages the main thread scans the channels, `scan_us` each.

mod books;
#[cfg(test)]
mod copying_tests;
mod events;
mod residues;
mod scans;
mod setup;
mod state;
mod waiting;

use super::bound::Bound;
use super::entities::Entities;
use crate::world::{self, Ledger, Machine, Order};
use loga::account::sparse::Sparse;
use loga::account::{Accountant, Accounting, Copies, Slot};
use loga::engine::{Action, Wake};
use loga::gpu::GpuState;
use loga::ids::{Chid, ClientId};
use loga::regs::{Occupant, OccupantReader};
use loga::share::{Account, Identity, Member};
use loga::units::Ns;
use loga::Vectors;
use state::{Residues, Scans};
use std::collections::VecDeque;
use waiting::Waiting;

/// The poller.
#[derive(Clone, Copy, Debug)]
enum Poller {
    /// It sleeps.
    Sleeps,
    /// It has been woken and runs at this time.
    Starts(u64),
    /// It polls, since then.
    Polls(u64),
}

/// A client: fields that the state of the GPU does not have.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    identity: Identity,
    /// Its identity, once it has come.
    id: Option<ClientId>,
    /// It has come and not gone.
    here: bool,
    /// Its account at its end.
    account: Account,
    /// Whether it may not submit.
    closed: bool,
    /// Since when it is throttled, by decision, and for how long it was before.
    since: Option<u64>,
    throttled: u64,
    /// Whether its next submission faults.
    unmapped: bool,
    /// Whether its thread waits in a fault.
    asleep: bool,
}

/// LoGA on one GPU.
pub struct Loga {
    entities: Entities,
    costs: Times,
    /// What the module keeps of a GPU.
    state: GpuState<Vectors>,
    accountant: Accountant,
    /// In place of the accountant, if accounting is sparse; when it reads next.
    sparse: Sparse,
    sparse_next: Option<u64>,
    slots: Vec<Slot>,
    /// There from the first client on.
    reader: Option<OccupantReader>,
    /// Follows the copy engine from the first client that copies on. It sees a change at once, the
    /// module up to eight polls later.
    copies: Copies<Vectors>,
    /// The last occupant that a poll saw, and the one that the next poll will see.
    last: Occupant,
    unseen: Option<(u64, Occupant)>,
    poller: Poller,
    /// When the main thread runs next because of a deadline.
    main: Option<u64>,
    /// When it runs next because channels came or went.
    rung: Option<u64>,
    /// When it has the poller's acknowledgement.
    decides: Option<u64>,
    scans: Scans,
    /// Its next actions: to close or open the gate of a client.
    todo: VecDeque<(u64, usize, bool)>,
    allocated: u32,
    kept: Vec<Kept>,
    /// Clients that have gone since the last decision.
    gone: Vec<usize>,
    waiting: Waiting,
    residues: Residues,
    /// Owner of each slot, by client.
    owner: Vec<Option<usize>>,
    bound: Bound,
    ledger: Ledger,
    ids: u64,
    /// The last answer of [`Loga::due`], which is called far more often than it changes.
    next: Option<u64>,
}

/// Costs in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    read: u64,
    scan: u64,
    revoke: u64,
    fault: u64,
    wakeup: u64,
}

impl Loga {
    /// What the module keeps of the GPU.
    pub fn state(&self) -> &GpuState<Vectors> {
        &self.state
    }

    /// As [`Loga::state`], to change settings.
    pub fn state_mut(&mut self) -> &mut GpuState<Vectors> {
        &mut self.state
    }

    /// The reads of sparse accounting.
    pub fn sparse(&self) -> &Sparse {
        &self.sparse
    }

    /// Violations.
    pub fn violations(&self) -> &[String] {
        &self.ledger.violations
    }

    /// Position of a client among the members.
    fn position(&self, client: usize) -> Option<usize> {
        self.state.shares.find(self.kept[client].id?)
    }

    /// The next action, and its time.
    fn due(&self) -> Option<u64> {
        let start = match self.poller {
            Poller::Starts(at) => Some(at),
            _ => None,
        };
        let gate = self.todo.front().map(|(at, _, _)| *at);
        // While the main thread waits for the poller, or scans, it does nothing else.
        let main = match self.decides.or(self.scans.ends) {
            Some(at) => Some(at),
            None => [self.main, self.rung].into_iter().flatten().min(),
        };
        [
            start,
            gate,
            main,
            self.sparse_next,
            self.waiting.next(),
            self.residues.next,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Channels came or went: the main thread is woken.
    fn ring(&mut self, machine: &Machine) {
        let now = Ns::new(machine.now());
        self.state.engine.channels_changed(now, self.allocated);
        self.rung = Some(machine.now().saturating_add(self.costs.wakeup));
    }

    /// The main thread asks the engine.
    fn wake(&mut self, machine: &mut Machine, wake: Wake) {
        let now = machine.now();
        match self.state.engine.wake(Ns::new(now), wake) {
            Action::None if self.state.engine.is_parked() => self.drop_residue(),
            Action::None if self.state.engine.polling() || self.residues.samples => {}
            Action::None => self.begin_residue(now),
            Action::Scan => {
                let free = self.todo.back().map_or(now, |(at, _, _)| *at);
                self.begin_scan(free.max(now));
            }
            Action::StartPolling => {
                self.poller = Poller::Starts(now.saturating_add(self.costs.wakeup));
            }
            Action::StopPolling => {
                self.decides = Some(match self.poller {
                    Poller::Polls(since) => self.next_poll(since, now),
                    _ => now,
                });
            }
        }
        self.plan();
    }

    /// When the main thread runs next because of the engine's deadline.
    fn plan(&mut self) {
        let deadline = self.state.engine.next_deadline();
        self.main = deadline.map(|at| at.get().saturating_add(self.costs.wakeup));
    }

    /// End of the poll that sees the occupant at `now`.
    fn next_poll(&self, since: u64, now: u64) -> u64 {
        match self.costs.read {
            0 => now,
            read => since + (now - since).div_ceil(read) * read,
        }
    }

    /// The occupant of the engine, by LoGA's own reading of the registers.
    fn occupant(&mut self, machine: &Machine) -> Occupant {
        let read = |reader: &mut OccupantReader| reader.read(&machine.registers()).ok();
        self.reader
            .as_mut()
            .and_then(read)
            .unwrap_or(Occupant::Unknown)
    }

    /// Hands the accountant what the poller saw up to `now`.
    fn see(&mut self, now: u64) {
        if let Some((at, occupant)) = self.unseen.filter(|(at, _)| *at <= now) {
            self.accountant
                .observe(&mut self.slots, Ns::new(at), occupant);
            self.unseen = None;
        }
    }

    fn start_polling(&mut self, machine: &Machine) {
        let now = machine.now();
        self.end_residue();
        self.sample_waits(now);
        if self.state.plan().0 == Accounting::Sparse {
            self.poller = Poller::Sleeps;
            let (_, interval) = self.state.plan();
            let next = self.sparse.begin(&mut self.slots, Ns::new(now), interval);
            self.copies.begin_samples();
            self.sparse_next = Some(next.get().max(now));
            return;
        }
        self.poller = Poller::Polls(now);
        self.last = self.occupant(machine);
        self.unseen = None;
        self.accountant
            .begin(&mut self.slots, Ns::new(now), self.last);
        self.copies.begin(&machine.registers(), Ns::new(now));
    }

    /// The timer of sparse accounting is due.
    fn sample(&mut self, machine: &Machine) {
        let now = Ns::new(machine.now());
        let occupant = self.occupant(machine);
        let next = self.sparse.sample(&mut self.slots, now, occupant);
        self.sparse_next = Some(next.get().max(now.get() + 1));
        let stood_for = self.sparse.stood_for();
        self.copies.sample(&machine.registers(), stood_for);
        self.ledger.cpu += self.costs.read;
        self.waiting.sample_beside(machine, occupant);
    }

    /// Samples of waiting clients begin.
    fn sample_waits(&mut self, now: u64) {
        if !self.waiting.is_wanted() {
            return;
        }
        let members = self.state.shares.members().iter();
        let runs = |member: &&Member| member.throttled_by().is_none();
        let clients: Vec<_> = members.filter(runs).map(Member::id).collect();
        let kept_of = |slot: usize| {
            let id = self.kept[self.owner[slot]?].id?;
            // CAST: a slot is the number of a channel.
            Some((id, Chid::from_bits(slot as u32)))
        };
        let channels: Vec<_> = (0..self.owner.len()).filter_map(kept_of).collect();
        let at_once = self.state.plan().0 == Accounting::Burst;
        self.waiting.begin(now, &clients, &channels, at_once);
    }

    /// The polling phase has ended: books it and decides.
    fn decide(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.see(now);
        let is_sparse = self.sparse_next.take().is_some();
        let totals = match self.poller {
            _ if is_sparse => {
                self.copies.end_samples();
                self.sparse.end()
            }
            Poller::Polls(since) => {
                self.ledger.cpu += now - since;
                if let Some(trace) = &mut machine.board.trace {
                    trace.span(world::Row::Phases, "polls", since, now);
                }
                self.copies.end(Ns::new(now));
                self.accountant.end(&mut self.slots, Ns::new(now))
            }
            // It never began.
            _ => {
                self.end_residue();
                self.copies.forget();
                self.accountant
                    .begin(&mut self.slots, Ns::new(now), Occupant::Idle);
                self.accountant.end(&mut self.slots, Ns::new(now))
            }
        };
        self.poller = Poller::Sleeps;
        self.waiting.end();
        self.decides = None;
        self.end_phase(machine, totals, is_sparse);
        self.ledger.decisions += 1;
        self.drive_gates(machine);
        self.begin_residue(now);
        self.plan();
    }

    /// Closes and opens gates, one after the other.
    fn drive_gates(&mut self, machine: &mut Machine) {
        let mut at = machine.now();
        for client in 0..self.kept.len() {
            if !self.kept[client].here {
                continue;
            }
            let members = self.state.shares.members();
            let member = self.position(client).and_then(|at| members.get(at));
            let throttled = member.is_some_and(|member| member.throttled_by().is_some());
            let kept = &mut self.kept[client];
            match (kept.since, throttled) {
                (None, true) => {
                    kept.since = Some(at);
                    self.ledger.throttles += 1;
                }
                (Some(since), false) => {
                    kept.since = None;
                    kept.throttled += at - since;
                    if let Some(trace) = &mut machine.board.trace {
                        trace.span(world::Row::Throttled(client), "throttled", since, at);
                    }
                }
                _ => continue,
            }
            at += self.costs.revoke;
            self.ledger.cpu += self.costs.revoke;
            self.todo.push_back((at, client, throttled));
        }
    }

    /// The next gate is closed or open.
    fn move_gate(&mut self, machine: &mut Machine) {
        let Some((_, client, close)) = self.todo.pop_front() else {
            return;
        };
        let kept = &mut self.kept[client];
        kept.closed = close;
        if close {
            kept.unmapped = true;
        } else if std::mem::take(&mut kept.asleep) {
            machine.order(Order::Wake {
                client,
                at: machine.now().saturating_add(self.costs.wakeup),
            });
        }
    }
}
