// SPDX-License-Identifier: GPL-2.0

//! `[double]` The contract of engaged scheduling as checks on random events, run with every dispatcher
//! of the table.

use super::DispatcherKind;
use crate::engaged::{
    Client, Kind, Mode, Prio, Record, Setting, Step, Submissions, Terms, HT_DEPTH, MAX_GRANT,
    RECORDS,
};
use crate::units::Ns;
use crate::Vectors;
use std::string::String;
use std::vec::Vec;

/// Clients of a random history.
const CLIENTS: usize = 6;
/// Events of a random history.
const EVENTS: u32 = 2_000;

/// Numbers from a seed.
struct Random(crate::random::XorShift);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        let bits = u64::from(self.0.bits16()) << 16 | u64::from(self.0.bits16());
        bits % end.max(1)
    }
}

/// What a client of the history does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Actor {
    present: bool,
    waits: bool,
    in_flight: usize,
    /// Since when it waits, and how long it has waited before.
    since: Ns,
    waited: Ns,
}

/// A random history with one engine.
struct RandomHistory {
    submissions: Submissions<Vectors>,
    actors: [Actor; CLIENTS],
    random: Random,
    now: Ns,
    timer: Option<Ns>,
    /// Whether protected work is there.
    protected: bool,
    /// Since when nothing has completed while something was in flight.
    progress: Ns,
    /// Grants, in order.
    grants: Vec<usize>,
    broken: Option<String>,
}

/// The first thing that a random history breaks, if it breaks something.
pub(super) fn run(kind: DispatcherKind, seed: u64) -> Option<String> {
    RandomHistory::of(kind, seed).broken
}

/// The grants of a random history.
pub(super) fn trace(kind: DispatcherKind, seed: u64) -> Vec<usize> {
    RandomHistory::of(kind, seed).grants
}

impl RandomHistory {
    fn of(kind: DispatcherKind, seed: u64) -> Self {
        let reserves = std::vec![None; 4];
        let vacant = || Client::vacant(std::vec![Record::default(); RECORDS]);
        let clients = (0..CLIENTS).map(|_| vacant()).collect();
        let mut history = Self {
            submissions: Submissions::new(kind, clients, reserves),
            actors: Default::default(),
            random: Random(crate::random::XorShift::new(seed)),
            now: Ns::ZERO,
            timer: None,
            protected: false,
            progress: Ns::ZERO,
            grants: Vec::new(),
            broken: None,
        };
        let adapts = history.random.below(2) == 0;
        history.submissions.set_linger(Ns::from_us(400), adapts);
        for kind in [Kind::Pe, Kind::Ae, Kind::Cbs] {
            let capacity = Ns::from_us(500 + history.random.below(2000));
            let period = Ns::from_us(5000 + history.random.below(20_000));
            let terms = Terms::new(kind, capacity, period).unwrap();
            history.submissions.promise(Ns::ZERO, terms).unwrap();
        }
        for _ in 0..EVENTS {
            history.event();
            if history.broken.is_some() {
                break;
            }
        }
        history
    }

    fn setting(&mut self) -> Setting {
        let mode = [Mode::Prt, Mode::Ht][usize::try_from(self.random.below(2)).unwrap()];
        Setting {
            prio: Prio::new(u32::try_from(self.random.below(4)).unwrap()).unwrap(),
            mode,
            reserve: usize::try_from(self.random.below(4)).unwrap(),
        }
    }

    /// Something happens, at random.
    fn event(&mut self) {
        let pause = self.random.below(1_500_000);
        let then = self.now.saturating_add(Ns::new(pause));
        // Timers are kept.
        while let Some(at) = self.timer.filter(|at| *at <= then) {
            self.now = self.now.max(at);
            let step = self.submissions.timer(self.now);
            self.follow(step);
        }
        self.now = then;
        let at = usize::try_from(self.random.below(CLIENTS as u64)).unwrap();
        let actor = self.actors[at];
        let step = match (self.random.below(40), actor) {
            (_, Actor { present: false, .. }) => {
                let setting = self.setting();
                let room = self.submissions.join(setting).is_some();
                self.expect(room, "there is no room");
                // Positions are given in order.
                let index = self.actors.iter().position(|actor| !actor.present);
                self.actors[index.unwrap()].present = true;
                return;
            }
            (0, _) => {
                self.actors[at] = Actor::default();
                self.submissions.left(self.now, at)
            }
            (1, Actor { waits: true, .. }) => {
                self.waits_no_longer(at);
                self.submissions.withdrawn(self.now, at)
            }
            (2, Actor { in_flight: 1.., .. }) => {
                self.ended(at);
                self.submissions.returned(self.now, at)
            }
            (6, _) => {
                self.protected = !self.protected;
                self.submissions.protected(self.now, self.protected)
            }
            (3..6, _) => {
                let setting = self.setting();
                self.submissions.set(self.now, at, setting)
            }
            (_, Actor { waits: false, .. }) if self.random.below(2) == 0 => {
                self.actors[at].waits = true;
                self.actors[at].since = self.now;
                self.submissions.arrive(self.now, at)
            }
            _ => {
                let holder = (0..CLIENTS).find(|at| self.actors[*at].in_flight > 0);
                let Some(holder) = holder else { return };
                self.ended(holder);
                // Sometimes a command takes very long.
                let most = if self.random.below(50) == 0 {
                    200_000
                } else {
                    2_000
                };
                let used = Ns::from_us(self.random.below(most));
                self.submissions.completed(self.now, holder, used)
            }
        };
        self.follow(step);
    }

    fn waits_no_longer(&mut self, at: usize) {
        let (now, actor) = (self.now, &mut self.actors[at]);
        if core::mem::take(&mut actor.waits) {
            let since = now.saturating_sub(actor.since);
            actor.waited = actor.waited.saturating_add(since);
        }
    }

    /// Each moment of a wait has one cause.
    fn check_waits(&mut self) {
        for at in 0..CLIENTS {
            let actor = self.actors[at];
            let still = self.now.saturating_sub(actor.since);
            let still = if actor.waits { still } else { Ns::ZERO };
            let waits = self.submissions.client(at);
            let waits = waits.map(|client| client.waits_until(self.now).total());
            let same = waits.is_none_or(|waits| waits == actor.waited.saturating_add(still));
            self.expect(same, "the causes of a wait are not all of it");
        }
    }

    fn ended(&mut self, at: usize) {
        self.actors[at].in_flight -= 1;
        self.progress = self.now;
    }

    fn expect(&mut self, holds: bool, what: &str) {
        if !holds && self.broken.is_none() {
            let actors = &self.actors;
            self.broken = Some(std::format!("at {:?}, {actors:?}: {what}", self.now));
        }
    }

    /// Checks what was answered, and does it.
    fn follow(&mut self, step: Step) {
        self.timer = step.timer;
        let broken = self.submissions.broken();
        self.expect(broken.is_none(), broken.unwrap_or_default());
        if let Some(grant) = step.grant {
            let at = grant.client;
            self.expect(self.actors[at].waits, "a grant without an arrival");
            self.expect(!self.protected, "a grant beside protected work");
            let others = (0..CLIENTS).any(|other| other != at && self.actors[other].in_flight > 0);
            self.expect(!others, "submissions of two clients are in flight");
            if self.actors.iter().all(|actor| actor.in_flight == 0) {
                self.progress = self.now;
            }
            // PE pays at the end only, so what let it start is still there.
            let index = self
                .submissions
                .client(at)
                .map(|client| client.setting().reserve);
            let reserve = index.and_then(|index| self.submissions.reserve(index));
            let pays = reserve.is_none_or(|reserve| {
                let terms = reserve.terms();
                terms.kind != Kind::Pe || !terms.hard || reserve.left(self.now) > 0
            });
            self.expect(pays, "a grant without budget");
            self.waits_no_longer(at);
            self.actors[at].in_flight += 1;
            let most = self.actors[at].in_flight <= HT_DEPTH;
            self.expect(most, "more than HT_DEPTH are in flight");
            self.grants.push(at);
        }
        let busy = self.actors.iter().any(|actor| actor.in_flight > 0);
        if step.opened {
            let late = self.now >= self.progress.saturating_add(MAX_GRANT);
            self.expect(busy && late, "opened too early");
            (0..CLIENTS).for_each(|at| self.waits_no_longer(at));
        }
        self.check_waits();
        let waits = self.actors.iter().any(|actor| actor.waits);
        if waits && !self.protected {
            let timer = self.timer.is_some_and(|timer| timer > self.now);
            self.expect(timer, "a client waits, and no timer is set for later");
        }
        let overdue = busy && self.now > self.progress.saturating_add(MAX_GRANT);
        self.expect(!(waits && overdue), "clients wait beyond MAX_GRANT");
    }
}
