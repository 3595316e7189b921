// SPDX-License-Identifier: GPL-2.0

//! The GPUs and their programs.

use super::known::{cheapest, newcomer, History, Record, Signals};
use super::mbf;
use super::program::{Arrival, Chooser, Knows, Placed, PoolGpu, Rule};
use crate::oracle;
use crate::outcome::Error;
use crate::run::outcome;
use crate::scenario::{Client, Costs, Gpu as Card, Phase, Scenario};
use crate::world::{Control, Host, World};
use loga::placement::{self, remaining, Bound, Demand, Newcomer, PPM};
use loga::units::Ns;
use loga_model::gpu::{CE0, GR};

/// Simulated time after the last arrival by which all programs have ended.
const LAST: u64 = 1_000_000_000_000;

/// The pool, the programs, the rule and the seed.
pub(super) type Asked<'a> = (&'a [PoolGpu], &'a [Arrival], Rule, u64);

/// A program on its GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resident {
    pub(super) placed: Placed,
    /// What was assumed when it was placed: of this GPU.
    pub(super) assumed: Demand,
    /// What it has used in all, at the last look.
    used: Record,
    /// What it has used of late.
    fading: Record,
    /// Whether what is known of it counts.
    settled: bool,
    /// Whether it was there at the last look.
    seen: bool,
}

/// The GPUs and their programs.
pub(super) struct Pool<'a, C> {
    places: &'a [PoolGpu],
    arrivals: &'a [Arrival],
    rule: Rule,
    pub(super) worlds: Vec<World<C>>,
    now: u64,
    /// When it looks next at what programs use.
    looks: u64,
    /// The programs that are there, by GPU.
    present: Vec<Vec<usize>>,
    /// Those that have arrived.
    pub(super) placed: Vec<Resident>,
    pub(super) history: History,
    /// The GPU that was chosen last, by node if only its GPUs are open.
    last: Vec<Option<usize>>,
    stuck: bool,
}

impl<'a, C: Control> Pool<'a, C> {
    /// Runs all programs; `control` makes the scheduler of a GPU.
    pub(super) fn run(
        asked: Asked<'a>,
        control: impl Fn(usize, &[&Client]) -> Result<C, Error>,
    ) -> Result<Vec<Placed>, Error> {
        let (_, arrivals, _, seed) = asked;
        let mut pool = Self::new(asked, control)?;
        for (number, arrival) in arrivals.iter().enumerate() {
            pool.advance(arrival.client.arrive.get());
            pool.place(number);
        }
        let last = pool.now.saturating_add(LAST);
        while let Some(number) = pool.present.iter().flatten().next() {
            if pool.stuck || pool.now > last {
                return Err(Error::Unfinished(arrivals[*number].client.name.clone()));
            }
            pool.advance(pool.looks);
        }
        pool.check(seed)?;
        Ok(pool.placed.iter().map(|one| one.placed).collect())
    }

    pub(super) fn new(
        (places, arrivals, rule, seed): Asked<'a>,
        control: impl Fn(usize, &[&Client]) -> Result<C, Error>,
    ) -> Result<Self, Error> {
        let scenario = Scenario::new(Ns::ZERO, Costs::default());
        let card: Card = scenario.gpus[0];
        let world = |(gpu, place): (usize, &PoolGpu)| {
            let card = Card {
                packed: place.packed,
                ..card
            };
            let clients: Vec<_> = arrivals.iter().map(|one| on(&one.client, place)).collect();
            let clients: Vec<_> = clients.iter().collect();
            let wakeup = scenario.costs.wakeup.0.get();
            let control = control(gpu, &clients)?;
            Ok(World::awaiting(
                &Host::of(&card),
                &clients,
                wakeup,
                seed,
                control,
            ))
        };
        let nodes = places.iter().map(|place| place.node + 1).max().unwrap_or(0);
        Ok(Self {
            places,
            arrivals,
            rule,
            worlds: places
                .iter()
                .enumerate()
                .map(world)
                .collect::<Result<_, Error>>()?,
            now: 0,
            looks: rule.signal.get(),
            present: vec![Vec::new(); places.len()],
            placed: Vec::new(),
            history: History::default(),
            last: vec![None; nodes],
            stuck: false,
        })
    }

    /// Lets all GPUs run up to then.
    pub(super) fn advance(&mut self, to: u64) {
        while self.looks <= to {
            self.go(self.looks);
            self.publish();
            self.looks = self.looks.saturating_add(self.rule.signal.get().max(1));
        }
        self.go(to);
    }

    fn go(&mut self, to: u64) {
        self.now = to;
        for gpu in 0..self.worlds.len() {
            self.stuck |= self.worlds[gpu].run(to, &mut None);
            let present = std::mem::take(&mut self.present[gpu]);
            let (left, gone) = present
                .into_iter()
                .partition(|number| self.worlds[gpu].gone(*number).is_none());
            self.present[gpu] = left;
            let gone: Vec<usize> = gone;
            gone.into_iter().for_each(|number| self.leave(number));
        }
    }

    /// A program has ended.
    fn leave(&mut self, number: usize) {
        let gpu = self.placed[number].placed.gpu;
        let arrival = &self.arrivals[number];
        let gone = self.worlds[gpu].gone(number).unwrap_or(self.now);
        let run = self.used(number, gone).at(speed(&self.places[gpu]));
        let held = self.worlds[gpu].held(number);
        let placed = &mut self.placed[number].placed;
        placed.completion = gone - arrival.client.arrive.get();
        placed.held = held;
        if arrival.client.repeat.is_some() && self.rule.learns {
            self.history.learn(arrival.application, run);
        }
    }

    /// What a program has used up to now, which is at most `to`.
    pub(super) fn used(&self, number: usize, to: u64) -> Record {
        let world = &self.worlds[self.placed[number].placed.gpu];
        let [compute, copy] = [GR, CE0].map(|engine| world.machine.board.usage(number, engine));
        let used = compute.run + compute.switch + copy.run + copy.switch;
        let pending = world.pending(number) + world.blocked(number);
        let waited = pending.saturating_sub(used);
        let there = to.saturating_sub(self.arrivals[number].client.arrive.get());
        // CAST: times in a run are exact in a double.
        Record {
            time: there.saturating_sub(waited) as f64,
            compute: (compute.run + compute.switch) as f64,
            copy: (copy.run + copy.switch) as f64,
            kernels: compute.commands as f64,
        }
    }

    /// Looks at what programs use.
    fn publish(&mut self) {
        // CAST: times in a run are exact in a double.
        let fade = (-(self.rule.signal.get() as f64) / self.rule.window.get() as f64).exp();
        let numbers: Vec<usize> = self.present.iter().flatten().copied().collect();
        for number in numbers {
            let used = self.used(number, self.now);
            let there = self.now - self.arrivals[number].client.arrive.get();
            let one = &mut self.placed[number];
            one.fading = one.fading.faded(fade, used.minus(one.used));
            one.used = used;
            one.settled = there >= self.rule.settles.get();
            one.seen = true;
        }
    }

    /// A program, by what is known of its application.
    fn newcomer(&self, number: usize) -> Newcomer {
        let arrival = &self.arrivals[number];
        let truth = arrival.known || self.rule.knows == Knows::Truth;
        let mean = match truth {
            true => Some(Record::of(&arrival.client)),
            false => self.history.mean(arrival.application),
        };
        newcomer(mean, arrival.client.weight)
    }

    /// A program that is there, by what is known of it.
    pub(super) fn bound(&self, number: usize, gpu: &Signals) -> Option<Bound> {
        let (one, newcomer) = (&self.placed[number], self.newcomer(number));
        if !one.seen && !self.rule.claims {
            return None;
        }
        let demand = match self.rule.knows {
            Knows::History => newcomer.demand,
            Knows::Truth => placement::on(&gpu.gpu(), &newcomer),
            Knows::Use if one.settled => one.fading.demand(newcomer.demand.weight),
            Knows::Use => one.assumed,
        };
        let elapsed = Ns::new(self.now - self.arrivals[number].client.arrive.get());
        let left = |time: Ns| {
            let whole = loga::fair::mul_div(time.get(), PPM, gpu.speed);
            remaining(Ns::new(whole), elapsed)
        };
        Some(Bound {
            demand,
            left: newcomer.time.map(left),
        })
    }

    /// What these programs ask of the fastest GPU, with what their kernels use.
    fn loads(&self, numbers: &[usize]) -> Vec<mbf::Load> {
        let known = numbers
            .iter()
            .filter(|number| self.rule.claims || self.placed[**number].seen);
        let load = |number: &usize| mbf::Load {
            demand: self.newcomer(*number).demand,
            footprint: self.arrivals[*number].client.footprint,
        };
        known.map(load).collect()
    }

    /// Chooses a GPU for a program that arrives now.
    pub(super) fn place(&mut self, number: usize) {
        let (arrival, newcomer) = (&self.arrivals[number], self.newcomer(number));
        let signals = |(place, present): (&PoolGpu, &Vec<usize>)| {
            let empty = Signals {
                open: !self.rule.within || place.node == arrival.node,
                local: place.node == arrival.node,
                speed: place.speed,
                bound: Vec::new(),
            };
            let bound = present.iter().filter_map(|one| self.bound(*one, &empty));
            Signals {
                bound: bound.collect(),
                ..empty
            }
        };
        let signals: Vec<_> = self.places.iter().zip(&self.present).map(signals).collect();
        let gpus: Vec<_> = signals.iter().map(Signals::gpu).collect();
        let turn = if self.rule.within { arrival.node } else { 0 };
        let chosen = arrival.gpu.or_else(|| match self.rule.chooser {
            Chooser::Policy(policy) => {
                let cost = |at| policy.cost(&gpus, at, &newcomer, self.last[turn]);
                let costs = (0..gpus.len()).map(cost).collect();
                cheapest(&gpus, costs, 1).first().copied()
            }
            Chooser::Mbf => {
                let loads: Vec<_> = self.present.iter().map(|all| self.loads(all)).collect();
                mbf::choose(&gpus, &loads, &newcomer, arrival.client.footprint)
            }
        });
        let gpu = chosen.unwrap_or(0);
        self.last[turn] = Some(gpu);
        self.placed.push(Resident {
            placed: Placed {
                gpu,
                completion: 0,
                held: 0,
                expected: placement::expected(&gpus[gpu], &newcomer),
            },
            assumed: placement::on(&gpus[gpu], &newcomer),
            used: Record::default(),
            fading: Record::default(),
            settled: false,
            seen: false,
        });
        self.present[gpu].push(number);
        self.worlds[gpu].admit(number);
    }

    /// Whether the run counts.
    fn check(&self, seed: u64) -> Result<(), Error> {
        let numbers: Vec<_> = (0..self.arrivals.len()).collect();
        for (gpu, world) in self.worlds.iter().enumerate() {
            let violations = oracle::check(&outcome(world, &numbers, self.stuck));
            if !violations.is_empty() {
                return Err(Error::Oracle {
                    gpu,
                    seed,
                    violations,
                });
            }
        }
        Ok(())
    }
}

/// A speed as a number.
fn speed(place: &PoolGpu) -> f64 {
    // CAST: at most a million.
    place.speed as f64 / PPM as f64
}

/// What a program does on this GPU.
fn on(client: &Client, place: &PoolGpu) -> Client {
    let times = 1.0 / speed(place);
    let phase = |phase: &Phase| Phase {
        copy: phase.copy.map(|copy| copy.times(times)),
        kernel: phase.kernel.map(|kernel| kernel.times(times)),
        ..*phase
    };
    Client {
        gpu: 0,
        phases: client.phases.iter().map(phase).collect(),
        ..client.clone()
    }
}
