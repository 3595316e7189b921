// SPDX-License-Identifier: GPL-2.0

//! `[double]` One GPU, its clients and their scheduler, event by event.
//!
//! The GPU is the state machine of the model, [`loga_model::gpu`], not a copy of it, but for a
//! [`packed`] one, which the model does not have. [`board`] surrounds it, [`actor`] is a client,
//! [`Control`] schedules. GPUs share nothing but processors, so each is a world of its own; those
//! that do share some run together: see `eval/src/together.rs`. A world knows all clients from the start; which of them come
//! to it may be decided while it runs: see [`World::admit`].
//!
//! What is due at the same time happens in this order: the GPU, ends of commands, clients by
//! number, the scheduler; and again, until nothing is left to do at that time.

mod actor;
mod board;
mod control;
mod cpu;
mod got;
mod latency;
mod machine;
mod packed;
mod thread;
mod trace;

pub use actor::Times;
pub use board::{Board, Usage, Work};
pub use control::{Booked, Control, Ledger, Verdict};
pub use cpu::Cpus;
pub use got::Got;
pub use latency::Latency;
pub use machine::{Channels, Host, Machine, Order, Registers};
pub use trace::{Row, Trace};

use crate::scenario::{Client, Wait};
use actor::{Actor, Doing, Want};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Steps at one and the same time; beyond it, the scenario stands still.
pub(crate) const STEPS_MAX: u32 = 1_000_000;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Alarm {
    Step,
    Come,
    Leave,
}

/// One GPU, its clients and their scheduler.
pub struct World<C> {
    /// The GPU.
    pub machine: Machine,
    /// The scheduler.
    pub control: C,
    actors: Vec<Actor>,
    timers: BinaryHeap<Reverse<(u64, u32, Alarm)>>,
    /// From the interrupt at the end of a command until the thread that waits for it runs.
    wakeup: u64,
    until: Option<usize>,
    /// Clients that may still do something.
    left: usize,
    pub(crate) stuck: bool,
}

impl<C: Control> World<C> {
    /// A world at time zero. The run ends at the end of the client `until`.
    pub fn new(
        host: &Host,
        clients: &[&Client],
        until: Option<usize>,
        wakeup: u64,
        seed: u64,
        control: C,
    ) -> Self {
        let mut world = Self::awaiting(host, clients, wakeup, seed, control);
        world.until = until;
        (0..clients.len()).for_each(|client| world.admit(client));
        world
    }

    /// A world at time zero to which no client comes before it is admitted.
    pub fn awaiting(host: &Host, clients: &[&Client], wakeup: u64, seed: u64, control: C) -> Self {
        let actors: Vec<_> = (0..)
            .zip(clients)
            .map(|(number, client)| Actor::new(client, seed, number))
            .collect();
        Self {
            machine: Machine::new(host, clients),
            control,
            left: actors.len(),
            actors,
            timers: BinaryHeap::new(),
            wakeup,
            until: None,
            stuck: false,
        }
    }

    /// Lets a client come at its time, which has not passed.
    pub fn admit(&mut self, client: usize) {
        let Client { arrive, leave, .. } = *self.actors[client].definition();
        // CAST: at most 4096 clients.
        let number = client as u32;
        let come = (arrive.get(), number, Alarm::Come);
        self.timers.push(Reverse(come));
        if let Some(leave) = leave {
            let leave = (leave.get(), number, Alarm::Leave);
            self.timers.push(Reverse(leave));
        }
    }

    /// When a client went, if it has gone.
    pub fn gone(&self, client: usize) -> Option<u64> {
        self.actors[client].gone
    }

    /// Time for which a client has had commands that had not ended.
    pub fn pending(&self, client: usize) -> u64 {
        self.actors[client].pending_up_to(self.machine.now())
    }

    /// Time for which a client's thread has slept because it was throttled.
    pub fn blocked(&self, client: usize) -> u64 {
        self.actors[client].blocked_up_to(self.machine.now())
    }

    /// The longest time for which a command of a client was held back.
    pub fn held(&self, client: usize) -> u64 {
        let actor = &self.actors[client];
        actor.longest_held(actor.gone.unwrap_or(self.machine.now()))
    }

    /// Runs up to `end`, or until no client has anything left to do, and writes the trace if there
    /// is one. True if it stood still.
    pub fn run(&mut self, end: u64, trace: &mut Option<Trace>) -> bool {
        self.machine.board.trace = trace.take();
        let stuck = self.run_on(end);
        *trace = self.machine.board.trace.take();
        stuck
    }

    fn run_on(&mut self, end: u64) -> bool {
        while let Some(next) = self.next().filter(|next| *next < end) {
            self.machine.board.now = next.max(self.machine.board.now);
            self.due();
            let over = self
                .until
                .is_some_and(|at| self.actors[at].doing == Doing::Gone);
            if over || self.left == 0 || self.stuck {
                return self.stuck;
            }
        }
        self.end(end);
        false
    }

    /// The run is over.
    pub(crate) fn end(&mut self, end: u64) {
        self.machine.board.now = end;
        self.control.observe(&mut self.machine);
    }

    /// What each client got done.
    pub fn got(&self) -> Vec<Got> {
        let now = self.machine.now();
        self.actors
            .iter()
            .map(|actor| Got::of(actor, now))
            .collect()
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<u64> {
        let timer = self.timers.peek().map(|Reverse((at, _, _))| *at);
        let earlier = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let own = earlier(self.machine.due, self.machine.cpus.next());
        earlier(earlier(own, timer), self.control.next())
    }

    /// Lets everything happen that is due now.
    fn due(&mut self) {
        let now = self.machine.now();
        if self.machine.due.is_some_and(|due| due <= now) {
            self.machine.advance();
        }
        for _ in 0..STEPS_MAX {
            if !self.machine.board.ended.is_empty() {
                self.end_commands();
            } else if let Some((client, alarm)) = self.alarm(now) {
                self.ring(client, alarm);
            } else if self.machine.cpus.next().is_some_and(|next| next <= now) {
                self.pass_cpus(now);
            } else if self.machine.rung || self.machine.due.is_some_and(|due| due <= now) {
                self.machine.advance();
            } else if self.control.next().is_some_and(|next| next <= now) {
                self.control.observe(&mut self.machine);
                self.control.act(&mut self.machine);
                self.obey();
            } else {
                self.control.observe(&mut self.machine);
                return;
            }
        }
        self.stuck = true;
    }

    /// The next timer that is due.
    fn alarm(&mut self, now: u64) -> Option<(usize, Alarm)> {
        let Reverse((at, client, alarm)) = *self.timers.peek()?;
        if at > now {
            return None;
        }
        self.timers.pop();
        // CAST: u32 fits usize on every supported target.
        Some((client as usize, alarm))
    }

    /// Sets the timer of a client.
    fn set(&mut self, client: usize, at: u64) {
        // CAST: at most 4096 clients.
        let timer = (at, client as u32, Alarm::Step);
        self.timers.push(Reverse(timer));
    }

    /// A timer is due.
    fn ring(&mut self, client: usize, alarm: Alarm) {
        let now = self.machine.now();
        match (alarm, self.actors[client].doing) {
            (_, Doing::Gone) => {}
            (Alarm::Come, _) => {
                let depth = self.actors[client].definition().deepest();
                self.actors[client].come(now);
                self.machine.open(client, depth);
                self.control.come(&mut self.machine, client);
                self.obey();
                self.resume(client);
            }
            (Alarm::Leave, doing) => {
                let actor = &mut self.actors[client];
                actor.leaves = true;
                if doing == Doing::Blocked {
                    actor.blocked += now - actor.blocked_since;
                }
                if actor.under_way == 0 && doing != Doing::Enters {
                    self.leave(client);
                } else if doing == Doing::Blocked {
                    self.actors[client].doing = Doing::Waits;
                }
            }
            (Alarm::Step, Doing::Enters) => {
                if let Some((engine, length)) = self.actors[client].pending.take() {
                    self.machine.submit(client, engine, length);
                    self.actors[client].begins(now);
                }
                self.actors[client].doing = Doing::Computes;
                self.resume(client);
            }
            (Alarm::Step, Doing::Wakes) => {
                let actor = &mut self.actors[client];
                actor.blocked += now - actor.blocked_since;
                actor.doing = Doing::Retries;
                self.resume(client);
            }
            (Alarm::Step, _) => self.resume(client),
        }
    }

    /// Lets a client go on until it has to wait for something.
    fn go(&mut self, client: usize) {
        let now = self.machine.now();
        for _ in 0..STEPS_MAX {
            let actor = &mut self.actors[client];
            if actor.leaves {
                if actor.under_way == 0 {
                    self.leave(client);
                } else {
                    self.wait(client);
                }
                return;
            }
            match actor.step(now) {
                Want::Compute(length) => {
                    actor.doing = Doing::Computes;
                    if self.machine.cpus.is_bound(client) {
                        return self.machine.cpus.compute(client, length, now);
                    }
                    return self.set(client, now.saturating_add(length));
                }
                Want::Until(at) => {
                    actor.doing = Doing::Computes;
                    self.sleep(client);
                    return self.set(client, at);
                }
                Want::Wait => return self.wait(client),
                Want::Leave => return self.leave(client),
                Want::Submit { engine, length } => {
                    if !self.enter(client, engine, length) {
                        return;
                    }
                }
            }
        }
        self.stuck = true;
    }

    /// Submits a command, if the scheduler lets it pass at once. Otherwise it is pending.
    fn enter(&mut self, client: usize, engine: usize, length: u64) -> bool {
        let now = self.machine.now();
        let verdict = self
            .control
            .submit(&mut self.machine, client, engine, length);
        let actor = &mut self.actors[client];
        let passed = match verdict {
            Verdict::Now => {
                self.machine.submit(client, engine, length);
                actor.begins(now);
                true
            }
            Verdict::Accepted => {
                actor.begins(now);
                true
            }
            Verdict::After(delay) => {
                actor.pending = Some((engine, length));
                actor.doing = Doing::Enters;
                self.set(client, now.saturating_add(delay));
                false
            }
            Verdict::Again(delay) => {
                actor.pending = Some((engine, length));
                actor.doing = Doing::Wakes;
                actor.blocked_since = now;
                self.sleep(client);
                self.set(client, now.saturating_add(delay));
                false
            }
            Verdict::Computes(time) => {
                actor.pending = Some((engine, length));
                actor.doing = Doing::Retries;
                if self.machine.cpus.is_bound(client) {
                    self.machine.cpus.compute(client, time, now);
                } else {
                    self.set(client, now.saturating_add(time));
                }
                false
            }
            Verdict::Blocked => {
                actor.pending = Some((engine, length));
                actor.hold(now);
                if !self.machine.throttled_spins {
                    self.sleep(client);
                }
                false
            }
        };
        self.obey();
        passed
    }

    /// Deals with the commands that ended.
    fn end_commands(&mut self) {
        let ended = std::mem::take(&mut self.machine.board.ended);
        for chid in &ended {
            let client = self.machine.board.owner(*chid);
            let engine = self.machine.engine(client, *chid);
            self.control.ended(&mut self.machine, client, engine);
            let actor = &mut self.actors[client];
            actor.ends(self.machine.board.now);
            match (actor.doing, actor.definition().wait) {
                // Without its processor it sees the end when it has it again.
                (Doing::Waits, Wait::Spin) => self.resume(client),
                (Doing::Waits, Wait::Block) => {
                    actor.doing = Doing::Stirs;
                    let at = self.machine.now().saturating_add(self.wakeup);
                    self.set(client, at);
                }
                _ => {}
            }
        }
        // Keeps what was allocated, unless commands without length ended meanwhile.
        if self.machine.board.ended.is_empty() {
            self.machine.board.ended = ended;
            self.machine.board.ended.clear();
        }
        self.obey();
    }

    /// A client goes.
    fn leave(&mut self, client: usize) {
        let actor = &mut self.actors[client];
        let came = actor.doing != Doing::Absent;
        actor.doing = Doing::Gone;
        actor.pending = None;
        actor.gone = Some(self.machine.board.now);
        self.left -= 1;
        self.sleep(client);
        if came {
            self.control.gone(&mut self.machine, client);
            self.machine.close(client);
        }
        self.obey();
    }

    /// Does what the scheduler asked for.
    fn obey(&mut self) {
        // Keeps what was allocated.
        let mut orders = std::mem::take(&mut self.machine.orders);
        for order in orders.drain(..) {
            match order {
                Order::Wake { client, at } => {
                    if self.actors[client].doing == Doing::Blocked {
                        self.actors[client].doing = Doing::Wakes;
                        self.set(client, at);
                    }
                }
                Order::Launch {
                    client,
                    engine,
                    length,
                } => self.machine.submit(client, engine, length),
            }
        }
        self.machine.orders = orders;
    }
}
