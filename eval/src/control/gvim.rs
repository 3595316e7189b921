// SPDX-License-Identifier: GPL-2.0

//! Baselines `gvim-rr` and `gvim-xc`: clients submit in turn, and what they submitted runs to its end.
//!
//! One client at a time may submit, for `turn_ms`, or, under `gvim-xc`, for so many ticks of
//! `turn_ms` as its weight is larger than the least one, rounded, at least 1 and at most 64. Its
//! turn ends then, or after three looks, one each millisecond, at which it had nothing under way and
//! had submitted nothing since the last. Commands that still run then are neither stopped nor
//! waited for, and nothing is charged for them. A client that has not submitted yet has no turns;
//! if no client waits, the next that submits has the turn at once. A submission is a call of the guest
//! through its ring, which the guest waits for: `call_us` there and back, before the client's turn is
//! asked about. Good for: equal turns of short
//! commands. Bad for: commands that are as long as a turn, which get as much as they like. The way of
//! GViM. Source: Gupta and others, GViM, HPCVirt 2009, section 4.1; it gives neither period nor tick
//! (30 ms and 10 ms are assumed), nor what becomes of an idle guest (the looks are assumed).

use super::entities::Entities;
use super::SHORTEST;
use crate::scenario::{Client, Policy};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use loga::units::Ns;

/// A period of `gvim-rr` and a tick of `gvim-xc`, if the scenario gives none.
const PERIOD: Ns = Ns::from_ms(30);
const TICK: Ns = Ns::from_ms(10);
/// From one look at an idle client to the next.
const CHECK_INTERVAL: u64 = 1_000_000;
/// Looks without work after which a turn ends.
const CHECKS: u32 = 3;
/// The most ticks of a turn.
const MOST: u64 = 64;

/// The client whose turn it is.
#[derive(Clone, Copy, Debug)]
struct Slice {
    entity: usize,
    until: u64,
    /// The next look, and how many in a row found no work.
    look: u64,
    empty: u32,
    /// Whether it has submitted something since the last look.
    worked: bool,
}

/// Clients submit in turn.
pub struct Gvim {
    entities: Entities,
    /// A period or a tick.
    tick: u64,
    /// Whether weights count.
    weighted: bool,
    /// What a call takes, and of which clients one has arrived.
    call: u64,
    arrived: Vec<bool>,
    wakeup: u64,
    turn: Option<Slice>,
    /// Which entities have submitted before.
    known: Vec<bool>,
    /// Commands under way of each entity.
    under_way: Vec<u32>,
    /// Since when a client waits.
    waits: Vec<Option<u64>>,
    throttled: Vec<u64>,
    ledger: Ledger,
}

impl Gvim {
    /// With the times of the scenario.
    pub fn new(clients: &[&Client], policy: &Policy, weighted: bool, wakeup: u64) -> Self {
        let entities = Entities::new(clients, policy.by);
        let own = if weighted { TICK } else { PERIOD };
        let tick = policy.turn.map_or(own, |turn| turn.0);
        Self {
            tick: tick.get().max(SHORTEST),
            weighted,
            call: policy.call.0.get(),
            arrived: vec![false; clients.len()],
            wakeup,
            turn: None,
            known: vec![false; entities.len()],
            under_way: vec![0; entities.len()],
            waits: vec![None; clients.len()],
            throttled: vec![0; clients.len()],
            entities,
            ledger: Ledger::default(),
        }
    }

    /// How long a turn of an entity is.
    fn length(&self, entity: usize) -> u64 {
        let weight = |entity: usize| u64::from(self.entities.get(entity).weight.get());
        if !self.weighted {
            return self.tick;
        }
        let least = self.entities.present().map(|(entity, _)| weight(entity));
        let least = least.min().unwrap_or(1).max(1);
        let ticks = (weight(entity) + least / 2) / least;
        self.tick.saturating_mul(ticks.clamp(1, MOST))
    }

    /// Begins the turn of an entity.
    fn begin(&mut self, machine: &mut Machine, entity: usize) {
        let now = machine.now();
        self.turn = Some(Slice {
            entity,
            until: now.saturating_add(self.length(entity)),
            look: now.saturating_add(CHECK_INTERVAL),
            empty: 0,
            worked: false,
        });
        self.ledger.decisions += 1;
        for client in self.entities.get(entity).members.clone() {
            if let Some(since) = self.waits[client].take() {
                self.throttled[client] += now - since;
                let at = now.saturating_add(self.wakeup);
                machine.order(Order::Wake { client, at });
            }
        }
    }

    /// The next entity's turn, if any client waits; otherwise the GPU stands by.
    fn pass_on(&mut self, machine: &mut Machine, entity: usize) {
        self.turn = None;
        if self.waits.iter().all(Option::is_none) {
            return;
        }
        let count = self.entities.len();
        let is_next = |other: &usize| self.known[*other] && self.entities.get(*other).present > 0;
        let mut others = (1..=count).map(|by| (entity + by) % count);
        if let Some(next) = others.find(is_next) {
            self.begin(machine, next);
        }
    }
}

impl Control for Gvim {
    fn come(&mut self, _: &mut Machine, client: usize) {
        self.entities.come(client);
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        self.waits[client] = None;
        let entity = self.entities.of(client);
        if self.entities.gone(client) && self.turn.is_some_and(|turn| turn.entity == entity) {
            self.pass_on(machine, entity);
        }
    }

    fn submit(&mut self, machine: &mut Machine, client: usize, _: usize, _: u64) -> Verdict {
        if self.call > 0 && !self.arrived[client] {
            self.arrived[client] = true;
            return Verdict::Again(self.call);
        }
        let entity = self.entities.of(client);
        self.known[entity] = true;
        if self.turn.is_none() {
            self.begin(machine, entity);
        }
        match &mut self.turn {
            Some(turn) if turn.entity == entity => {
                turn.worked = true;
                self.under_way[entity] += 1;
                self.arrived[client] = false;
                Verdict::Now
            }
            _ => {
                self.waits[client] = Some(machine.now());
                self.ledger.throttles += 1;
                Verdict::Blocked
            }
        }
    }

    fn ended(&mut self, _: &mut Machine, client: usize, _: usize) {
        self.under_way[self.entities.of(client)] -= 1;
    }

    fn next(&self) -> Option<u64> {
        self.turn.map(|turn| turn.until.min(turn.look))
    }

    fn act(&mut self, machine: &mut Machine) {
        let now = machine.now();
        let Some(turn) = &mut self.turn else {
            return;
        };
        let entity = turn.entity;
        if turn.look <= now {
            let works = std::mem::take(&mut turn.worked) || self.under_way[entity] > 0;
            turn.empty = if works { 0 } else { turn.empty + 1 };
            turn.look = now.saturating_add(CHECK_INTERVAL);
        }
        if turn.empty >= CHECKS || turn.until <= now {
            self.pass_on(machine, entity);
        }
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let still = self.waits[client].map_or(0, |since| machine.now() - since);
        Booked {
            throttled: self.throttled[client] + still,
            ..Booked::default()
        }
    }

    fn ledger(&self, _: &Machine) -> Ledger {
        self.ledger.clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::outcome::GpuOutcome;
    use crate::run::run_gpu;
    use crate::scenario::{Client, Costs, Kind, Phase, Policy, Scenario, Span};
    use loga::units::{Ns, Weight};

    fn client(weight: u32, phases: Vec<Phase>) -> Client {
        Client {
            weight: Weight::new(weight).unwrap(),
            ..Client::new("guest", phases)
        }
    }

    fn kernels(us: u64) -> Phase {
        Phase::new(Span::us(0), Span::us(us))
    }

    fn pause() -> Phase {
        Phase::new(Span::us(60_000_000), Span::us(1))
    }

    fn run(kind: Kind, clients: Vec<Client>) -> GpuOutcome {
        let scenario = Scenario {
            policy: Policy::paper(kind),
            clients,
            ..Scenario::new(Ns::from_ms(20_000), Costs::default())
        };
        run_gpu(&scenario, 0, 1, &mut None).unwrap()
    }

    #[test]
    fn call_through_the_ring_delays_each_kernel_that_is_waited_for() {
        let rounds = |call_us: u64| {
            let mut policy = Policy::paper(Kind::GvimRr);
            policy.call = crate::scenario::Micros(Ns::from_us(call_us));
            let scenario = Scenario {
                policy,
                clients: vec![client(100, vec![kernels(900)])],
                ..Scenario::new(Ns::from_ms(9_000), Costs::default())
            };
            let outcome = run_gpu(&scenario, 0, 1, &mut None).unwrap();
            outcome.clients[0].compute.commands
        };
        assert!(rounds(0).abs_diff(10_000) <= 1, "{}", rounds(0));
        assert!(rounds(100).abs_diff(9_000) <= 1, "{}", rounds(100));
    }

    /// Three clients that always want the GPU, of weights 300, 100 and 100, have these parts of it.
    fn have(kind: Kind, kernel_us: u64, parts: [f64; 3], within: f64) {
        let clients = [300, 100, 100].map(|weight| client(weight, vec![kernels(kernel_us)]));
        let outcome = run(kind, clients.into());
        let all: u64 = outcome.clients.iter().map(|one| one.compute.run).sum();
        for (one, part) in outcome.clients.iter().zip(parts) {
            // CAST: times in a run are exact in a double.
            let got = 100.0 * one.compute.run as f64 / all as f64;
            assert!((got - part).abs() < within, "{got} for {part}");
        }
    }

    #[test]
    fn turns_are_equal_or_by_weight_and_kernels_that_outlive_them_are_not_charged() {
        have(Kind::GvimRr, 100, [100.0 / 3.0; 3], 0.5);
        have(Kind::GvimXc, 100, [60.0, 20.0, 20.0], 0.5);
        // In three ticks, one kernel of 40 ms begins, as in one tick.
        have(Kind::GvimXc, 40_000, [100.0 / 3.0; 3], 2.0);
    }

    #[test]
    fn guest_that_never_asked_has_no_turns_and_an_idle_one_loses_its_turn_after_three_looks() {
        let idle_pct = |other: Vec<Phase>| {
            let mut clients = vec![client(100, vec![kernels(1_000)]); 2];
            clients.push(client(100, other));
            let outcome = run(Kind::GvimRr, clients);
            outcome.percent(outcome.idle)
        };
        let never = idle_pct(vec![pause()]);
        // Three milliseconds of every 63; the last kernel of a turn runs into the first of them.
        let once = idle_pct(vec![kernels(1_000), pause()]) - never;
        let turn = 100.0 * 3.0 / 63.0;
        assert!(never < 1.0, "{never}");
        assert!((turn * 0.6..turn * 1.1).contains(&once), "{once}");
    }
}
