// SPDX-License-Identifier: GPL-2.0

//! LoGA: the poller and the main thread around the kernel module's accounting and engine.
//!
//! Everything that observes, accounts and decides is the code of the module; what is modelled
//! here is when its two threads run and what that costs. The poller looks every `read_us` and
//! sees what is there then; it starts `wakeup_us` after it was told to, and stops after the
//! look that it has begun. The main thread wakes `wakeup_us` after a deadline, waits for the
//! poller, decides, and revokes or restores one client after the other, `revoke_us` each. A
//! client whose mapping is gone takes a fault of `fault_us` at its next submission, and sleeps
//! while it is held back. For policies that work in stages the main thread looks at the channels,
//! `look_us` each.

mod books;
mod drains;
mod events;
mod looks;
mod replay;
mod waiting;

pub use replay::Replay;

use super::bound::Bound;
use super::entities::Entities;
use super::Ledger;
use crate::scenario::{Client, Costs, Policy};
use crate::world::{Machine, Order, Row};
use drains::Drains;
use loga::account::{Accountant, Accounting, Slot};
use loga::engine::{Action, Config, Engine, Scale, Sight, Wake};
use loga::error::Error;
use loga::ids::{Chid, MAX_CHANNELS};
use loga::policies::{ClientState, PolicyKind};
use loga::regs::{Occupant, Sampler};
use loga::units::Ns;
use looks::Looks;
use std::collections::VecDeque;
use waiting::Waiting;

/// Largest polling phase per channel.
pub const MAX_POLL_MS: u32 = Config::MAX_POLL_MS;
/// Largest ratio of the phases.
pub const MAX_RATIO: u32 = Config::MAX_RATIO;
/// The poller.
#[derive(Clone, Copy, Debug)]
enum Poller {
    /// It sleeps.
    Sleeps,
    /// It has been told to start and runs at this time.
    Starts(u64),
    /// It looks, since then.
    Polls(u64),
}

/// An entity, as LoGA keeps it.
#[derive(Clone, Copy, Debug)]
struct Kept {
    state: ClientState,
    entity: usize,
    gone: bool,
}

/// What is booked for an entity.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    /// Whether its clients may not submit.
    closed: bool,
    /// Since when it is held back, by decision.
    since: Option<u64>,
    held: u64,
    entitled: u64,
}

/// LoGA on one GPU.
pub struct Loga {
    entities: Entities,
    costs: Times,
    engine: Engine,
    accountant: Accountant,
    slots: Vec<Slot>,
    /// There from the first client on.
    sampler: Option<Sampler>,
    /// Looks at the GPU: the last occupant, and the one that the next look will see.
    last: Occupant,
    unseen: Option<(u64, Occupant)>,
    poller: Poller,
    /// When the main thread runs next because of a deadline.
    main: Option<u64>,
    /// When it runs next because channels came or went.
    rung: Option<u64>,
    /// When it has the poller's acknowledgement.
    decides: Option<u64>,
    looks: Looks,
    /// What it does afterwards: close or open the gate of an entity.
    todo: VecDeque<(u64, usize, bool)>,
    allocated: u32,
    kept: Vec<Kept>,
    gates: Vec<Gate>,
    /// Whether a client's next submission faults; whether it sleeps.
    unmapped: Vec<bool>,
    asleep: Vec<bool>,
    /// Which clients have come and not gone.
    here: Vec<bool>,
    measured: Vec<u64>,
    waiting: Waiting,
    drains: Drains,
    /// Owner of each slot, by client.
    owner: Vec<Option<usize>>,
    bound: Bound,
    ledger: Ledger,
    ids: u64,
    /// What [`Loga::due`] said last; it is asked far more often than it changes.
    next: Option<u64>,
}

/// Costs in ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    read: u64,
    look: u64,
    revoke: u64,
    fault: u64,
    wakeup: u64,
}

impl Loga {
    /// LoGA with a policy and the settings of a scenario.
    ///
    /// # Errors
    ///
    /// A setting out of range.
    pub fn new(
        policy: PolicyKind,
        settings: &Policy,
        costs: &Costs,
        clients: &[&Client],
        seed: u64,
    ) -> Result<Self, Error> {
        let entities = Entities::new(clients, settings.by);
        let looks = Looks::new(policy, settings.enforce, settings.trap, entities.len());
        let config = Config {
            poll_ms: settings.poll_ms,
            scale: Scale::Channels,
            // The simulator knows everything.
            sight: Sight::Channels,
            ratio: settings.ratio,
            randomize: settings.randomize,
            accounting: Accounting::Burst,
            accounting_follows: false,
            enforce: settings.enforce || looks.evened(),
            policy,
            poll_always: settings.poll_always,
        };
        let always = |entity| {
            let members = &Entities::get(&entities, entity).members;
            members.iter().any(|client| clients[*client].always_wants())
        };
        let always = (0..entities.len()).map(always).collect();
        let depth = clients.iter().map(|client| client.deepest()).sum();
        Ok(Self {
            costs: Times {
                read: costs.read.0.get(),
                look: costs.look.0.get(),
                revoke: costs.revoke.0.get(),
                fault: costs.fault.0.get(),
                wakeup: costs.wakeup.0.get(),
            },
            engine: Engine::new(config, seed)?,
            accountant: Accountant::new(),
            slots: vec![Slot::default(); MAX_CHANNELS],
            sampler: None,
            last: Occupant::Idle,
            unseen: None,
            poller: Poller::Sleeps,
            main: None,
            rung: None,
            decides: None,
            looks,
            todo: VecDeque::new(),
            allocated: 0,
            kept: Vec::new(),
            gates: vec![Gate::default(); entities.len()],
            unmapped: vec![false; clients.len()],
            asleep: vec![false; clients.len()],
            here: vec![false; clients.len()],
            measured: vec![0; clients.len()],
            waiting: Waiting::new(policy, costs.read.0.get(), seed),
            drains: Drains::new(seed),
            owner: vec![None; MAX_CHANNELS],
            bound: Bound::new(policy, settings.enforce, always, depth),
            ledger: Ledger::default(),
            entities,
            ids: 0,
            next: None,
        })
    }

    /// What runs next, and when.
    fn due(&self) -> Option<u64> {
        let start = match self.poller {
            Poller::Starts(at) => Some(at),
            _ => None,
        };
        let gate = self.todo.front().map(|(at, _, _)| *at);
        // While the main thread waits for the poller, or looks, it does nothing else.
        let main = match self.decides.or(self.looks.ends) {
            Some(at) => Some(at),
            None => [self.main, self.rung].into_iter().flatten().min(),
        };
        [start, gate, main, self.waiting.next(), self.drains.next()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Channels came or went: the main thread is woken.
    fn ring(&mut self, machine: &Machine) {
        let now = Ns::new(machine.now());
        self.engine.channels_changed(now, self.allocated);
        self.rung = Some(machine.now().saturating_add(self.costs.wakeup));
    }

    /// The main thread asks the engine.
    fn wake(&mut self, machine: &mut Machine, wake: Wake) {
        let now = machine.now();
        match self.engine.wake(Ns::new(now), wake) {
            Action::None => {}
            Action::Look => {
                let free = self.todo.back().map_or(now, |(at, _, _)| *at);
                self.begin_look(free.max(now));
            }
            Action::StartPolling => {
                self.poller = Poller::Starts(now.saturating_add(self.costs.wakeup));
            }
            Action::StopPolling => {
                self.decides = Some(match self.poller {
                    Poller::Polls(since) => self.next_look(since, now),
                    _ => now,
                });
            }
        }
        self.plan();
    }

    /// When the main thread runs next because of the engine's deadline.
    fn plan(&mut self) {
        let deadline = self.engine.next_deadline();
        self.main = deadline.map(|at| at.get().saturating_add(self.costs.wakeup));
    }

    /// When the look ends that sees what is there at `now`.
    fn next_look(&self, since: u64, now: u64) -> u64 {
        match self.costs.read {
            0 => now,
            read => since + (now - since).div_ceil(read) * read,
        }
    }

    /// Who is on the engine, by LoGA's own reading of the registers.
    fn occupant(&mut self, machine: &Machine) -> Occupant {
        let sample = |sampler: &mut Sampler| sampler.sample(&machine.registers()).ok();
        self.sampler
            .as_mut()
            .and_then(sample)
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
        self.poller = Poller::Polls(now);
        self.last = self.occupant(machine);
        self.unseen = None;
        self.end_drain();
        self.accountant
            .begin(&mut self.slots, Ns::new(now), self.last);
        self.watch(now);
    }

    /// Samples of who waits begin.
    fn watch(&mut self, now: u64) {
        if !self.waiting.is_wanted() {
            return;
        }
        let clients: Vec<_> = self.kept.iter().map(|kept| kept.state.id).collect();
        let kept_of = |slot: usize| {
            let entity = self.entities.of(self.owner[slot]?);
            let kept = self.kept.iter().find(|kept| kept.entity == entity)?;
            // CAST: a slot is the number of a channel.
            Some((kept.state.id, Chid::from_bits(slot as u32)))
        };
        let channels: Vec<_> = (0..self.owner.len()).filter_map(kept_of).collect();
        self.waiting.begin(now, &clients, &channels);
    }

    /// The polling phase has ended: books it and decides.
    fn decide(&mut self, machine: &mut Machine) {
        let now = machine.now();
        self.see(now);
        let totals = match self.poller {
            Poller::Polls(since) => {
                self.ledger.cpu += now - since;
                if let Some(trace) = &mut machine.board.trace {
                    trace.span(Row::Phases, "polls", since, now);
                }
                self.accountant.end(&mut self.slots, Ns::new(now))
            }
            // It never began.
            _ => {
                self.end_drain();
                self.accountant
                    .begin(&mut self.slots, Ns::new(now), Occupant::Idle);
                self.accountant.end(&mut self.slots, Ns::new(now))
            }
        };
        self.poller = Poller::Sleeps;
        self.waiting.end();
        self.decides = None;
        self.kept.retain(|kept| !kept.gone);
        let (mut totals, mut states) = self.settle(totals);
        let apart = self.charge_apart(&mut totals, &mut states);
        let before = self.engine.start_vtime();
        let fallbacks = self.engine.stats().fallbacks;
        self.engine.decide(&totals, &mut states);
        self.ledger.decisions += 1;
        self.check(&totals, &states, before, fallbacks);
        self.book(machine, &totals, &states, &apart);
        self.drive_gates(machine, &states);
        self.begin_drain(now);
        self.plan();
    }

    /// Closes and opens gates, one after the other.
    fn drive_gates(&mut self, machine: &mut Machine, states: &[ClientState]) {
        let mut at = machine.now();
        for (kept, state) in self.kept.iter_mut().zip(states) {
            kept.state = *state;
            let gate = &mut self.gates[kept.entity];
            match (gate.since, state.held) {
                (None, true) => {
                    gate.since = Some(at);
                    self.ledger.holds += 1;
                }
                (Some(since), false) => {
                    gate.since = None;
                    gate.held += at - since;
                    if let Some(trace) = &mut machine.board.trace {
                        for client in &self.entities.get(kept.entity).members {
                            trace.span(Row::Held(*client), "held back", since, at);
                        }
                    }
                }
                _ => continue,
            }
            at += self.costs.revoke;
            self.ledger.cpu += self.costs.revoke;
            self.todo.push_back((at, kept.entity, state.held));
        }
    }

    /// The next gate is closed or open.
    fn move_gate(&mut self, machine: &mut Machine) {
        let Some((_, entity, close)) = self.todo.pop_front() else {
            return;
        };
        self.gates[entity].closed = close;
        for client in &self.entities.get(entity).members {
            if close {
                self.unmapped[*client] = true;
            } else if std::mem::take(&mut self.asleep[*client]) {
                machine.order(Order::Wake {
                    client: *client,
                    at: machine.now().saturating_add(self.costs.wakeup),
                });
            }
        }
    }
}
