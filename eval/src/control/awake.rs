// SPDX-License-Identifier: GPL-2.0

//! Baselines `ps` and `las-epoch`: of all clients, one computes and one copies at a time.
//!
//! There are two places, one for a client that computes and one for a client that copies; if no
//! client wants one of them, another that wants the other engine has it. A client with a place may
//! submit. It has its place until the epoch of `turn_ms` ends, or until it has nothing under way
//! while another waits. The client that has waited longest is next under `ps`; under `las-epoch` the
//! one with the least `CGS = 0.8 GS + 0.2 CGS'`, with its time on the engines in the last epoch `GS`
//! and the `CGS'` before it. What a client has submitted runs to its end; the rest of its commands
//! wait.
//!
//! Good for: both engines busy, by clients that are in different phases. Bad for: kernels that fill
//! less than half of a packed GPU, of which more than two could run; `las-epoch`: a long program
//! starves beside short ones that keep coming. The ways of Strings. Source: Sengupta and others,
//! Strings, SC 2014, section IV.B; it gives no epoch (100 ms is assumed), and does not say how many
//! run under its LAS (the same two are assumed), nor when a client without work gives way (at once
//! is assumed).

use super::SHORTEST;
use crate::scenario::{Client, Policy};
use crate::world::{Booked, Control, Ledger, Machine, Order, Verdict};
use loga::units::Ns;
use loga_model::gpu::{CE0, ENGINES, GR};

/// An epoch, if the scenario gives none.
const EPOCH: Ns = Ns::from_ms(100);
/// What the last epoch counts in a client's service.
const LAST: f64 = 0.8;

/// A client.
#[derive(Clone, Copy, Debug, Default)]
struct One {
    present: bool,
    /// Commands under way.
    under_way: u32,
    /// Since when it waits, and for which engine.
    waits: Option<(u64, usize)>,
    /// Whether it has been woken and has submitted nothing yet.
    woken: bool,
    throttled: u64,
    /// Time on the engines up to the last epoch, and the service that fades.
    used: u64,
    service: f64,
}

/// Two clients at a time may submit.
pub struct Awake {
    clients: Vec<One>,
    /// Which has the place of each engine.
    places: [Option<usize>; ENGINES],
    epoch: u64,
    ends: u64,
    /// Whether the least served is next.
    least: bool,
    wakeup: u64,
    ledger: Ledger,
}

impl Awake {
    /// With the epoch of the scenario.
    pub fn new(clients: &[&Client], policy: &Policy, least: bool, wakeup: u64) -> Self {
        let epoch = policy.turn.map_or(EPOCH, |turn| turn.0).get().max(SHORTEST);
        Self {
            clients: vec![One::default(); clients.len()],
            places: [None; ENGINES],
            epoch,
            ends: epoch,
            least,
            wakeup,
            ledger: Ledger::default(),
        }
    }

    fn has_place(&self, client: usize) -> bool {
        self.places.contains(&Some(client))
    }

    /// Whether the place of an engine can be had.
    fn is_free(&self, place: usize) -> bool {
        self.places[place].is_none_or(|client| {
            let one = &self.clients[client];
            one.under_way == 0 && !one.woken
        })
    }

    /// A place for a client that wants this engine: its own, or the other.
    fn place(&self, engine: usize) -> Option<usize> {
        [engine, GR + CE0 - engine]
            .into_iter()
            .find(|place| self.is_free(*place))
    }

    /// Of the clients that wait for this engine, or for any, the next.
    fn next_of(&self, engine: Option<usize>) -> Option<usize> {
        let waits = self.clients.iter().enumerate().filter_map(|(at, one)| {
            let (since, wants) = one.waits?;
            engine
                .is_none_or(|engine| engine == wants)
                .then_some((at, since))
        });
        let key = |(at, since): &(usize, u64)| match self.least {
            true => (self.clients[*at].service, *since, *at),
            false => (0.0, *since, *at),
        };
        let least = waits.min_by(|one, other| {
            let ((a, b, c), (d, e, f)) = (key(one), key(other));
            a.total_cmp(&d).then((b, c).cmp(&(e, f)))
        });
        least.map(|(at, _)| at)
    }

    /// Gives places that can be had to clients that wait.
    fn pass_on(&mut self, machine: &mut Machine) {
        for place in [GR, CE0] {
            if !self.is_free(place) {
                continue;
            }
            // Those that want this engine, then those that compute, then those that copy.
            let next = [Some(place), Some(GR), None]
                .into_iter()
                .find_map(|engine| self.next_of(engine));
            let Some(client) = next else {
                return;
            };
            let (now, one) = (machine.now(), &mut self.clients[client]);
            let since = one.waits.take().map_or(now, |waits| waits.0);
            one.throttled += now - since;
            one.woken = true;
            self.places[place] = Some(client);
            self.ledger.decisions += 1;
            let at = now.saturating_add(self.wakeup);
            machine.order(Order::Wake { client, at });
        }
    }

    /// Counts what the clients have used in this epoch.
    fn count(&mut self, machine: &Machine) {
        for (client, one) in self.clients.iter_mut().enumerate() {
            let usage = [GR, CE0].map(|engine| machine.board.usage(client, engine));
            let used = usage.iter().map(|usage| usage.run + usage.switch).sum();
            // CAST: times in a run are exact in a double.
            let last = (used - one.used) as f64;
            one.service = LAST * last + (1.0 - LAST) * one.service;
            one.used = used;
        }
    }
}

impl Control for Awake {
    fn come(&mut self, machine: &mut Machine, client: usize) {
        if !self.clients.iter().any(|one| one.present) {
            self.ends = machine.now().saturating_add(self.epoch);
        }
        self.clients[client].present = true;
    }

    fn gone(&mut self, machine: &mut Machine, client: usize) {
        let one = &mut self.clients[client];
        (one.present, one.waits, one.woken) = (false, None, false);
        for place in &mut self.places {
            *place = place.filter(|other| *other != client);
        }
        self.pass_on(machine);
    }

    fn submit(&mut self, machine: &mut Machine, client: usize, engine: usize, _: u64) -> Verdict {
        if !self.has_place(client) {
            let Some(place) = self.place(engine) else {
                self.clients[client].waits = Some((machine.now(), engine));
                self.ledger.throttles += 1;
                return Verdict::Blocked;
            };
            self.places[place] = Some(client);
        }
        let one = &mut self.clients[client];
        one.woken = false;
        one.under_way += 1;
        Verdict::Now
    }

    fn ended(&mut self, machine: &mut Machine, client: usize, _: usize) {
        self.clients[client].under_way -= 1;
        self.pass_on(machine);
    }

    fn next(&self) -> Option<u64> {
        let any = self.clients.iter().any(|one| one.present);
        any.then_some(self.ends)
    }

    fn act(&mut self, machine: &mut Machine) {
        self.ends = machine.now().saturating_add(self.epoch);
        self.count(machine);
        if self.clients.iter().any(|one| one.waits.is_some()) {
            let woken = |client: &usize| self.clients[*client].woken;
            self.places = self.places.map(|place| place.filter(woken));
            self.pass_on(machine);
        }
    }

    fn booked(&self, machine: &Machine, client: usize) -> Booked {
        let one = &self.clients[client];
        let still = one.waits.map_or(0, |(since, _)| machine.now() - since);
        Booked {
            throttled: one.throttled + still,
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
    use crate::scenario::{Client, Costs, Footprint, Gpu, Kind, Phase, Policy, Scenario, Span};
    use loga::units::Ns;

    fn kernels() -> Phase {
        Phase::new(Span::us(0), Span::us(1_000))
    }

    fn copies() -> Phase {
        Phase {
            copy: Some(Span::us(1_000)),
            kernel: None,
            ..kernels()
        }
    }

    /// Clients with kernels that use this part of a packed GPU.
    fn run(kind: Kind, phases: Vec<Phase>, fill: f64) -> GpuOutcome {
        let client = |(number, phase): (usize, Phase)| Client {
            footprint: Footprint {
                fill,
                ..Footprint::default()
            },
            ..Client::new(&number.to_string(), vec![phase])
        };
        let scenario = Scenario::new(Ns::from_ms(5_000), Costs::default());
        let scenario = Scenario {
            policy: Policy::paper(kind),
            gpus: vec![Gpu {
                packed: true,
                ..scenario.gpus[0]
            }],
            clients: phases.into_iter().enumerate().map(client).collect(),
            ..scenario
        };
        run_gpu(&scenario, 0, 1, &mut None).unwrap()
    }

    /// Percent of the time that each client's commands take alone.
    fn used_pct(outcome: &GpuOutcome) -> Vec<f64> {
        let used = outcome.clients.iter();
        let used = used.map(|one| outcome.percent(one.compute.run + one.copy.run));
        used.collect()
    }

    #[test]
    fn one_computes_while_one_copies_and_those_of_a_phase_take_turns() {
        for kind in [Kind::Ps, Kind::LasEpoch] {
            let outcome = run(kind, vec![kernels(), kernels(), copies()], 1.0);
            let used = used_pct(&outcome);
            // The copying one has its engine for itself. Each kernel begins 5 us after the last.
            assert!((99.0..=100.0).contains(&used[2]), "{kind:?}: {used:?}");
            assert!((48.5..=50.5).contains(&used[0]), "{kind:?}: {used:?}");
            assert!((48.5..=50.5).contains(&used[1]), "{kind:?}: {used:?}");
        }
    }

    #[test]
    fn two_of_three_compute_at_a_time_if_none_copies() {
        let outcome = run(Kind::Ps, vec![kernels(); 3], 0.5);
        let used = used_pct(&outcome);
        assert!(
            used.iter().all(|one| (65.0..=67.0).contains(one)),
            "{used:?}"
        );
        // All four at the same time would have a half each, as two at a time have.
        let four = used_pct(&run(Kind::Hardware, vec![kernels(); 4], 0.5));
        assert!(four.iter().all(|one| (one - 50.0).abs() < 0.1), "{four:?}");
    }

    #[test]
    fn least_served_is_next_under_las_epoch_and_waits_its_turn_under_ps() {
        let light = Phase::new(Span::us(5_000), Span::us(1_000));
        let rounds = |kind| {
            let outcome = run(
                kind,
                vec![kernels(), kernels(), kernels(), kernels(), light],
                1.0,
            );
            outcome.clients[4].got.rounds.mean().unwrap() / 1e6
        };
        // Two kernels at a time take 2 ms. It waits for one that runs, which is up to 2 ms, and takes
        // 2 ms beside the other; or it waits for two others before it.
        let (least, turn) = (rounds(Kind::LasEpoch), rounds(Kind::Ps));
        assert!((7.0..9.1).contains(&least), "{least}");
        assert!(turn > least + 1.0, "{turn} after {least}");
    }

    #[test]
    fn queued_kernels_give_way_at_the_end_of_an_epoch() {
        let queued = Phase {
            depth: 4,
            repeat: 100_000,
            ..kernels()
        };
        let used = used_pct(&run(Kind::Ps, vec![queued; 3], 1.0));
        assert!(
            used.iter().all(|one| (32.0..=34.5).contains(one)),
            "{used:?}"
        );
    }
}
