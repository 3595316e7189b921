// SPDX-License-Identifier: GPL-2.0

//! LoGA that decides on each submission: the code of [`loga::engaged`], with what a kernel adds.
//!
//! A client pays `submit_us` for each submission to the compute engine (the fault), and then sleeps
//! until it is granted. `interrupt_us` after the end of a command its completion is seen, and the
//! client that is next runs; with `tick_us`, completions are looked for that often only. What a
//! command used is what the status word shows. Copies pass at once, and so do protected clients,
//! whose work is seen `interrupt_us` after it came or ended.

use crate::scenario::{Client, Policy, Promise, Shared};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use loga::engaged::{
    self, Counters, Mode, Record, Setting, Step, Submissions, BACKGROUND, RECORDS,
};
use loga::error::Error;
use loga::policies::dispatch::DispatcherKind;
use loga::units::Ns;
use loga::Vectors;
use loga_model::gpu::GR;
use std::collections::VecDeque;

/// A completion that is going to be seen.
#[derive(Clone, Copy, Debug)]
struct Completion {
    at: u64,
    client: usize,
    used: u64,
}

/// What the scheduler knows of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    setting: Setting,
    /// Its position among those present.
    at: Option<usize>,
    /// Whether it has paid for its next submission.
    paid: bool,
    /// Whether it may pass.
    granted: bool,
    /// Since when it waits.
    since: Option<u64>,
    waited: u64,
    /// Its use of the engine, up to the last command that ended.
    used: u64,
}

/// LoGA that decides on each submission.
pub struct Engaged {
    submissions: Submissions<Vectors>,
    submit: u64,
    interrupt: u64,
    tick: u64,
    places: Vec<Known>,
    completions: VecDeque<Completion>,
    /// When the channels of protected clients are scanned.
    scans: VecDeque<u64>,
    /// Whether work of theirs was there then.
    protected: bool,
    timer: Option<u64>,
    ledger: Ledger,
}

impl Engaged {
    /// With the costs of the scenario, and all its reserves. They are not tested for whether they
    /// can be kept together.
    ///
    /// # Errors
    ///
    /// More clients or reserves than there is room for.
    pub fn new(
        dispatcher: DispatcherKind,
        policy: &Policy,
        clients: &[&Client],
        shared: &[Shared],
    ) -> Result<Self, Error> {
        let own = clients
            .iter()
            .filter(|client| matches!(client.engaged.promise, Some(Promise::Own(_))));
        let room = own.count() + shared.len() + 1;
        let vacant = || engaged::Client::vacant(vec![Record::default(); RECORDS]);
        let places = clients.iter().map(|_| vacant());
        let mut submissions = Submissions::new(dispatcher, places.collect(), vec![None; room]);
        submissions.set_linger(policy.linger.0, policy.linger_adapts);
        let full = Error::Full {
            name: "reserves",
            max: room,
        };
        let mut promise = |terms| submissions.promise(Ns::ZERO, terms).ok_or(full);
        let shared: Vec<usize> = shared
            .iter()
            .map(|one| promise(one.terms))
            .collect::<Result<_, _>>()?;
        let places = clients.iter().map(|client| {
            let reserve = match client.engaged.promise {
                None => BACKGROUND,
                Some(Promise::Shared(at)) => shared[at],
                Some(Promise::Own(terms)) => promise(terms)?,
            };
            Ok(Known {
                setting: Setting {
                    prio: client.engaged.prio,
                    mode: client.engaged.mode,
                    reserve,
                },
                ..Known::default()
            })
        });
        let places = places.collect::<Result<_, _>>()?;
        Ok(Self {
            submissions,
            submit: policy.submit.0.get(),
            interrupt: policy.interrupt.0.get(),
            tick: policy.tick.0.get(),
            places,
            completions: VecDeque::new(),
            scans: VecDeque::new(),
            protected: false,
            timer: None,
            ledger: Ledger::default(),
        })
    }

    /// Sums of what was decided.
    pub fn counters(&self) -> &Counters {
        self.submissions.counters()
    }

    /// Does what follows from an event.
    fn follow(&mut self, machine: &mut Machine, step: Step) {
        self.timer = step.timer.map(Ns::get);
        if step.opened {
            for client in 0..self.places.len() {
                self.admit(machine, client);
            }
        }
        let at = step.grant.map(|grant| grant.client);
        let client = self
            .places
            .iter()
            .position(|place| place.at.is_some() && place.at == at);
        if let Some(client) = client {
            self.ledger.decisions += 1;
            self.admit(machine, client);
        }
    }

    /// Protected work has come or ended: it is seen later.
    fn scan_later(&mut self, machine: &Machine) {
        self.scans
            .push_back(machine.now().saturating_add(self.interrupt));
    }

    /// Sees whether work of protected clients is there.
    fn scan_protected(&mut self, machine: &mut Machine) {
        let works = |(client, place): (usize, &Known)| {
            place.setting.mode == Mode::Protected && machine.board.work(client).pending()
        };
        let busy = self.places.iter().enumerate().any(works);
        if busy != self.protected {
            self.protected = busy;
            let step = self.submissions.protected(Ns::new(machine.now()), busy);
            self.follow(machine, step);
        }
    }

    /// Lets a client that waits pass.
    fn admit(&mut self, machine: &mut Machine, client: usize) {
        let (place, now) = (&mut self.places[client], machine.now());
        if let Some(since) = place.since.take() {
            place.waited += now - since;
            place.granted = true;
            machine.order(Order::Wake { client, at: now });
        }
    }
}

impl Control for Engaged {
    fn come(&mut self, _: &mut Machine, client: usize) {
        let place = &mut self.places[client];
        place.at = self.submissions.join(place.setting);
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        let place = &mut self.places[client];
        place.since = None;
        if let Some(at) = place.at.take() {
            let step = self.submissions.left(Ns::new(machine.now()), at);
            self.follow(machine, step);
        }
    }

    fn submit(&mut self, machine: &mut Machine, client: usize, engine: usize, _: u64) -> Verdict {
        let place = &mut self.places[client];
        if engine != GR {
            return Verdict::Now;
        }
        if place.setting.mode == Mode::Protected {
            self.scan_later(machine);
            return Verdict::Now;
        }
        if place.granted {
            place.granted = false;
            return Verdict::Now;
        }
        if !place.paid && self.submit > 0 {
            place.paid = true;
            self.ledger.faults += 1;
            self.ledger.in_clients += self.submit;
            return Verdict::Again(self.submit);
        }
        place.paid = false;
        let Some(at) = place.at else {
            return Verdict::Now;
        };
        place.since = Some(machine.now());
        let step = self.submissions.arrive(Ns::new(machine.now()), at);
        let own = step.grant.filter(|grant| grant.client == at);
        if own.is_some() {
            self.places[client].since = None;
            self.timer = step.timer.map(Ns::get);
            self.ledger.decisions += 1;
            return Verdict::Now;
        }
        self.follow(machine, step);
        self.ledger.throttles += 1;
        Verdict::Blocked
    }

    fn ended(&mut self, machine: &mut Machine, client: usize, engine: usize) {
        if engine != GR {
            return;
        }
        let now = machine.now();
        let usage = machine.board.usage(client, GR);
        let place = &mut self.places[client];
        let used = usage.run + usage.switch - place.used;
        place.used += used;
        if place.setting.mode == Mode::Protected {
            return self.scan_later(machine);
        }
        let looked = match self.tick {
            0 => now,
            tick => now / tick * tick + tick,
        };
        self.completions.push_back(Completion {
            at: looked.saturating_add(self.interrupt),
            client,
            used,
        });
        self.ledger.cpu += self.interrupt;
    }

    fn next(&self) -> Option<u64> {
        let seen = self.completions.front().map(|completion| completion.at);
        let scan = self.scans.front().copied();
        [seen, scan, self.timer].into_iter().flatten().min()
    }

    fn act(&mut self, machine: &mut Machine) {
        let now = machine.now();
        let due = |completion: &Completion| completion.at <= now;
        while let Some(completion) = self.completions.front().copied().filter(due) {
            self.completions.pop_front();
            if let Some(at) = self.places[completion.client].at {
                let used = Ns::new(completion.used);
                let step = self.submissions.completed(Ns::new(now), at, used);
                self.follow(machine, step);
            }
        }
        while self.scans.front().is_some_and(|at| *at <= now) {
            self.scans.pop_front();
            self.scan_protected(machine);
        }
        if self.timer.is_some_and(|timer| timer <= now) {
            let step = self.submissions.timer(Ns::new(now));
            self.follow(machine, step);
        }
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let place = &self.places[client];
        let still = place.since.map_or(0, |since| machine.now() - since);
        Booked {
            measured: Some(place.used),
            throttled: place.waited + still,
            ..Booked::default()
        }
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        self.ledger.clone()
    }
}
