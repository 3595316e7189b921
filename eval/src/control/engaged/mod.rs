// SPDX-License-Identifier: GPL-2.0

//! LoGA that decides on each submission: the module's [`Decider`], with threads, pages and a completion thread
//! around it.
//!
//! A client's page has an entry while its window is open, or until it is revoked if the client
//! passed without a decision; stores through it cost nothing. Any other store to the compute engine
//! faults: the decider is asked `decide_us` later. If it passes, it reaches the GPU `enter_us` after
//! that. Else the thread sleeps; `grant_us` after it is woken it stores again, which faults again. So
//! all that a client stores in a window is one submission, and a thread that does not get its
//! processor in time does not use its grant. Copies pass at once, and so do protected clients, as
//! many as the module lets pass.
//!
//! The completion thread ([`actions`]) does what the decider says: it takes entries away (`close_us`), and
//! reads rings and channels (`look_us` for a pass); it runs `rouse_us` after it has to. With `tick_us`, it
//! reads whether commands have ended that often only.
//!
//! A client has one thread, one page and one channel for kernels, which never waits for a semaphore.

mod actions;
mod completion;
mod members;
#[cfg(test)]
mod tests;

use crate::scenario::{Client, Policy, Shared};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use completion::CompletionThread;
use loga::engaged::{
    self, Counters, Decider, Outcome, Record, Store, Submissions, Wakes, RECORDS, SPECS,
    WAIT_QUEUES,
};
use loga::error::Error;
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use loga::Vectors;
use loga_model::gpu::GR;
use members::{Member, Thread};
use std::collections::VecDeque;

/// Pages that a client can store to through one window, as in the module.
const MAX_OPEN: usize = 4;

/// Pages of protected clients that are not stopped, as in the module.
const MAX_PROTECTED: usize = 16;

/// Costs in ns.
#[derive(Clone, Copy, Debug)]
struct Times {
    decide: u64,
    enter: u64,
    grant: u64,
    rouse: u64,
    close: u64,
    look: u64,
    tick: u64,
}

/// A page with an entry in the window that is open.
#[derive(Clone, Copy, Debug)]
struct Opened {
    client: usize,
    /// What the client had submitted before.
    before: u64,
}

/// LoGA that decides on each submission.
pub struct Engaged {
    decider: Decider<Vectors>,
    costs: Times,
    members: Vec<Member>,
    opening: Vec<Opened>,
    /// Clients whose threads sleep, by wait queue.
    sleepers: Vec<VecDeque<usize>>,
    completion_thread: CompletionThread,
    ledger: Ledger,
}

impl Engaged {
    /// With the costs of the scenario, and all its reserves. They are not tested for whether they
    /// can be kept together.
    ///
    /// # Errors
    ///
    /// More priorities, modes and reserves than the module has room for.
    pub fn new(
        dispatcher: DispatcherKind,
        policy: &Policy,
        clients: &[&Client],
        shared: &[Shared],
    ) -> Result<Self, Error> {
        let vacant = || engaged::Client::vacant(vec![Record::default(); RECORDS]);
        let places = (0..WAIT_QUEUES).map(|_| vacant());
        let submissions = Submissions::new(dispatcher, places.collect(), vec![None; SPECS + 1]);
        let (specs, members) = members::specs_and_members(clients, shared)?;
        let mut decider = Decider::default();
        // No thread sleeps yet.
        let _ = decider.replace(Ns::ZERO, &mut Some(submissions));
        decider.set_linger(policy.linger.0, policy.linger_adapts);
        let _ = decider.set_specs(Ns::ZERO, &specs, &specs.bounds());
        Ok(Self {
            decider,
            costs: Times {
                decide: policy.decide.0.get(),
                enter: policy.enter.0.get(),
                grant: policy.grant.0.get(),
                rouse: policy.rouse.0.get(),
                close: policy.close.0.get(),
                look: policy.look.0.get(),
                tick: policy.tick.0.get(),
            },
            members,
            opening: Vec::new(),
            sleepers: vec![VecDeque::new(); WAIT_QUEUES],
            completion_thread: CompletionThread::default(),
            ledger: Ledger::default(),
        })
    }

    /// Sums of what was decided.
    pub fn counters(&self) -> Counters {
        let submissions = self.decider.submissions();
        submissions.map_or_else(Counters::default, Submissions::counters)
    }

    /// The thread of a client is no longer asleep at its wait queue, if it was.
    pub(super) fn wakes_up(&mut self, machine: &mut Machine, client: usize) {
        let (member, now) = (&mut self.members[client], machine.now());
        if let Some(at) = member.at.filter(|_| member.thread == Thread::Sleeps) {
            member.wake(now);
            let outcome = self.decider.wakes_up(Ns::new(now), at, false);
            self.carry_out(machine, &outcome);
        }
    }

    /// A store that faulted is decided on.
    fn decide(&mut self, machine: &mut Machine, client: usize, at: usize) -> Verdict {
        let (member, now) = (&mut self.members[client], Ns::new(machine.now()));
        let (store, outcome) = self.decider.store(now, at, member.prio);
        let passes = match store {
            Store::Undecided => {
                member.entry = true;
                true
            }
            Store::Joins if self.opening.len() == MAX_OPEN => false,
            Store::Joins | Store::Opens => {
                self.opening.push(Opened {
                    client,
                    before: machine.board.work(client).submitted,
                });
                true
            }
            Store::Waits => false,
        };
        if passes {
            self.carry_out(machine, &outcome);
            self.members[client].thread = Thread::Enters;
            return self.compute(self.costs.enter);
        }
        self.members[client].sleep(now.get());
        self.decider.sleeps(at);
        self.sleepers[at].push_back(client);
        self.ledger.throttles += 1;
        self.carry_out(machine, &outcome);
        Verdict::Blocked
    }

    /// A store that passes gets its entry.
    fn enter(&mut self, machine: &mut Machine, client: usize, at: usize) -> Verdict {
        let mut opening = self.opening.iter();
        let is_open = opening.any(|opened| opened.client == client);
        if is_open {
            self.members[client].entry = true;
            let outcome = self.decider.entered(Ns::new(machine.now()), at, true);
            self.carry_out(machine, &outcome);
        }
        let member = &mut self.members[client];
        if member.entry {
            member.thread = Thread::Runs;
            return Verdict::Now;
        }
        // The window has been closed meanwhile.
        member.thread = Thread::Faults;
        self.compute(self.costs.decide)
    }

    /// A thread takes this time in a fault.
    fn compute(&mut self, time: u64) -> Verdict {
        self.ledger.in_clients += time;
        Verdict::Computes(time)
    }

    /// A client came or went: the first protected ones pass.
    fn protect(&mut self, machine: &mut Machine, client: usize) {
        if !self.members[client].protected {
            return;
        }
        let mut count = 0;
        for member in &mut self.members {
            let may = member.protected && member.at.is_some() && count < MAX_PROTECTED;
            count += usize::from(may);
            member.passes = may;
        }
        let now = Ns::new(machine.now());
        let outcome = self.decider.set_protected(now, count > 0, |_| false);
        self.carry_out(machine, &outcome);
    }

    /// The client at a wait queue was charged; nothing is said of those that share one.
    pub(super) fn charge(&mut self, at: usize, used: Ns) {
        let mut there = self
            .members
            .iter_mut()
            .filter(|member| member.at == Some(at));
        if let (Some(one), None) = (there.next(), there.next()) {
            one.charged = Some(one.charged.unwrap_or(0).saturating_add(used.get()));
        }
    }

    /// Does what follows from something that a client did.
    fn carry_out(&mut self, machine: &mut Machine, outcome: &Outcome) {
        self.wake_threads(machine, &outcome.wakes);
        let at = machine.now().saturating_add(self.costs.rouse);
        self.completion_thread.wake(at, outcome.next);
    }

    /// Wakes the threads of which decisions say so.
    fn wake_threads(&mut self, machine: &mut Machine, wakes: &Wakes) {
        let at = machine.now().saturating_add(self.costs.grant);
        let one = wakes.one.iter().map(|queue| (queue, 1));
        let all = wakes.all.iter().map(|queue| (queue, usize::MAX));
        for (queue, most) in one.chain(all) {
            let asleep = &mut self.sleepers[queue];
            for client in asleep.drain(..most.min(asleep.len())) {
                machine.order(Order::Wake { client, at });
            }
        }
    }
}

impl Control for Engaged {
    fn come(&mut self, machine: &mut Machine, client: usize) {
        let now = Ns::new(machine.now());
        let member = &mut self.members[client];
        let (at, outcome) = self.decider.join(now, member.user, member.spec);
        member.at = at;
        self.carry_out(machine, &outcome);
        self.protect(machine, client);
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        let now = Ns::new(machine.now());
        let member = &mut self.members[client];
        let (at, slept) = (member.at.take(), member.thread == Thread::Sleeps);
        member.wake(now.get());
        member.entry = false;
        let Some(at) = at else {
            return;
        };
        self.sleepers[at].retain(|other| *other != client);
        if slept {
            let outcome = self.decider.wakes_up(now, at, true);
            self.carry_out(machine, &outcome);
        }
        let (had_turn, outcome) = self.decider.leave(now, at);
        if had_turn {
            self.forget_window();
        }
        self.opening.retain(|opened| opened.client != client);
        self.carry_out(machine, &outcome);
        self.protect(machine, client);
    }

    fn submit(&mut self, machine: &mut Machine, client: usize, engine: usize, _: u64) -> Verdict {
        self.wakes_up(machine, client);
        let member = &mut self.members[client];
        let Some(at) = member.at.filter(|_| engine == GR && !member.passes) else {
            return Verdict::Now;
        };
        match member.thread {
            Thread::Enters => self.enter(machine, client, at),
            Thread::Faults => self.decide(machine, client, at),
            Thread::Runs | Thread::Sleeps if member.entry => Verdict::Now,
            Thread::Runs | Thread::Sleeps => {
                member.thread = Thread::Faults;
                self.ledger.faults += 1;
                self.compute(self.costs.decide)
            }
        }
    }

    fn next(&self) -> Option<u64> {
        self.completion_thread.next()
    }

    fn act(&mut self, machine: &mut Machine) {
        self.watch(machine);
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let member = &self.members[client];
        Booked {
            measured: member.charged,
            throttled: member.waited_up_to(machine.now()),
            ..Booked::default()
        }
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        Ledger {
            decisions: self.counters().grants,
            misses: self.decider.sums().1,
            ..self.ledger.clone()
        }
    }
}
