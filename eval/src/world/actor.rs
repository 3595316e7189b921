// SPDX-License-Identifier: GPL-2.0

//! A client as a state machine: what it does next, and what it has got done.

use super::latency::Latency;
use crate::scenario::Client;
use loga_model::gpu::{CE0, GR};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Distance of the streams of two seeds; the library mixes what it is given.
const SEEDS_APART: u64 = 1 << 32;

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It has not come yet.
    Absent,
    /// It computes or pauses until its timer, or until it has had its processor for long enough.
    Computes,
    /// Its command is on the way to the GPU until its timer.
    Enters,
    /// It sleeps until the scheduler wakes it.
    Blocked,
    /// It is being woken, to try again.
    Wakes,
    /// It tries again as soon as it has its processor.
    Retries,
    /// It waits for commands to end.
    Waits,
    /// An interrupt wakes it from waiting.
    Stirs,
    /// It has gone.
    Gone,
}

/// Where in its phases a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Cpu,
    Copy,
    Kernel,
    Launched,
    Repeat,
}

/// What a client wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// To compute for so long.
    Compute(u64),
    /// To pause until then.
    Until(u64),
    /// To submit a command.
    Submit { engine: usize, length: u64 },
    /// To wait for the end of a command.
    Wait,
    /// To go.
    Leave,
}

/// Mean, deviation and extremes of times, without keeping them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// How many.
    pub count: u64,
    mean: f64,
    squares: f64,
    /// The longest, in ns.
    pub longest: u64,
}

impl Times {
    /// Adds one.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        // CAST: lengths below a hundred days are exact in a double.
        let off = ns as f64 - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (ns as f64 - self.mean);
        self.longest = self.longest.max(ns);
    }

    /// Their mean in ns, if there are any.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Their standard deviation in ns.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // CAST: a count.
        (self.squares / (self.count - 1) as f64).sqrt()
    }
}

/// A client.
pub(super) struct Actor {
    definition: Client,
    random: Pcg64Mcg,
    pub(super) doing: Doing,
    stage: Stage,
    phase: usize,
    /// Repetitions of the phase that are done.
    done: u64,
    /// Commands that have not ended.
    pub(super) under_way: u32,
    /// Since when it has had some.
    since: u64,
    /// Time for which it had some, up to then.
    pending_for: u64,
    /// The command that could not be submitted yet.
    pub(super) pending: Option<(usize, u64)>,
    /// When this round of its phases began.
    began: u64,
    /// Since when it is blocked.
    pub(super) blocked_since: u64,
    /// Time it was blocked.
    pub(super) blocked: u64,
    /// Since when a command of it is held back, and for how long one was at most.
    held_since: Option<u64>,
    held: u64,
    /// Time from one round's beginning to its end.
    pub(super) rounds: Times,
    /// The same times, by how long they were.
    pub(super) latency: Latency,
    /// Rounds that ended after their deadline.
    late: u64,
    /// When it had done all it was to do.
    pub(super) finished: Option<u64>,
    /// Whether it shall go.
    pub(super) leaves: bool,
    /// When it went.
    pub(super) gone: Option<u64>,
}

impl Actor {
    /// A client that has not come yet. `number` tells its random numbers from those of others.
    pub(super) fn new(definition: &Client, seed: u64, number: u64) -> Self {
        Self {
            definition: definition.clone(),
            random: Pcg64Mcg::seed_from_u64(seed.wrapping_mul(SEEDS_APART).wrapping_add(number)),
            doing: Doing::Absent,
            stage: Stage::Cpu,
            phase: 0,
            done: 0,
            under_way: 0,
            since: 0,
            pending_for: 0,
            pending: None,
            began: 0,
            blocked_since: 0,
            blocked: 0,
            held_since: None,
            held: 0,
            rounds: Times::default(),
            latency: Latency::default(),
            late: 0,
            finished: None,
            leaves: false,
            gone: None,
        }
    }

    /// What it was made from.
    pub(super) fn definition(&self) -> &Client {
        &self.definition
    }

    /// Begins.
    pub(super) fn come(&mut self, now: u64) {
        self.began = now;
        self.doing = Doing::Computes;
    }

    /// One of its commands is under way from now on.
    pub(super) fn begins(&mut self, now: u64) {
        self.held = self.longest_held(now);
        self.held_since = None;
        if self.under_way == 0 {
            self.since = now;
        }
        self.under_way += 1;
    }

    /// The scheduler does not let its command pass.
    pub(super) fn hold(&mut self, now: u64) {
        self.doing = Doing::Blocked;
        self.blocked_since = now;
        self.held_since.get_or_insert(now);
    }

    /// Time for which it slept because it was throttled.
    pub(super) fn blocked_up_to(&self, now: u64) -> u64 {
        match self.doing {
            Doing::Blocked => self.blocked + (now - self.blocked_since),
            _ => self.blocked,
        }
    }

    /// The longest time for which a command of it was held back, tries in vain included.
    pub(super) fn longest_held(&self, now: u64) -> u64 {
        let still = self.held_since.map_or(0, |since| now - since);
        self.held.max(still)
    }

    /// One of its commands has ended.
    pub(super) fn ends(&mut self, now: u64) {
        self.under_way -= 1;
        if self.under_way == 0 {
            self.pending_for += now - self.since;
        }
    }

    /// Time for which it has had commands that had not ended.
    pub(super) fn pending_up_to(&self, now: u64) -> u64 {
        match self.under_way {
            0 => self.pending_for,
            _ => self.pending_for + (now - self.since),
        }
    }

    /// Goes on as far as it can and says what it wants then.
    pub(super) fn step(&mut self, now: u64) -> Want {
        loop {
            let phase = self.definition.phases[self.phase];
            if let Some(until) = self.away(now) {
                return Want::Until(until);
            }
            match self.stage {
                Stage::Cpu => {
                    self.stage = Stage::Copy;
                    let length = phase.cpu.draw(&mut self.random);
                    if length > 0 {
                        return Want::Compute(length);
                    }
                }
                Stage::Copy => {
                    let Some(copy) = phase.copy else {
                        self.stage = Stage::Kernel;
                        continue;
                    };
                    if self.under_way > 0 {
                        return Want::Wait;
                    }
                    self.stage = Stage::Kernel;
                    let length = copy.draw(&mut self.random);
                    return Want::Submit {
                        engine: CE0,
                        length,
                    };
                }
                Stage::Kernel => {
                    let Some(kernel) = phase.kernel else {
                        self.stage = Stage::Launched;
                        continue;
                    };
                    // A copy has to end first.
                    let room = if phase.copy.is_some() { 1 } else { phase.depth };
                    if self.under_way >= room {
                        return Want::Wait;
                    }
                    self.stage = Stage::Launched;
                    let length = kernel.draw(&mut self.random);
                    return Want::Submit { engine: GR, length };
                }
                Stage::Launched => {
                    if self.under_way > 0 && (phase.depth == 1 || phase.kernel.is_none()) {
                        return Want::Wait;
                    }
                    self.stage = Stage::Repeat;
                }
                Stage::Repeat => {
                    if self.done + 1 < phase.repeat {
                        self.done += 1;
                        self.stage = Stage::Cpu;
                        continue;
                    }
                    if self.under_way > 0 {
                        return Want::Wait;
                    }
                    self.done = 0;
                    self.stage = Stage::Cpu;
                    self.phase += 1;
                    if self.phase == self.definition.phases.len() {
                        if let Some(want) = self.end_round(now) {
                            return want;
                        }
                    }
                }
            }
        }
    }

    /// Whether this round has not ended by its deadline.
    fn is_late(&self, now: u64) -> bool {
        let deadline = self
            .definition
            .deadline
            .map_or(u64::MAX, |deadline| deadline.get());
        now.saturating_sub(self.began) > deadline
    }

    /// Rounds that missed their deadline, with the one that has not ended.
    pub(super) fn missed(&self, now: u64) -> u64 {
        let runs = ![Doing::Absent, Doing::Gone].contains(&self.doing);
        self.late + u64::from(runs && self.is_late(now))
    }

    /// Until when it begins nothing, at the beginning of a round.
    fn away(&self, now: u64) -> Option<u64> {
        let begins = (self.stage, self.phase, self.done) == (Stage::Cpu, 0, 0);
        let (from, to) = self.definition.away.filter(|_| begins)?;
        (from.get()..to.get()).contains(&now).then_some(to.get())
    }

    /// Ends a round of all phases; says what it wants if it cannot go on at once.
    fn end_round(&mut self, now: u64) -> Option<Want> {
        self.phase = 0;
        self.rounds.add(now - self.began);
        self.latency.add(now - self.began);
        self.late += u64::from(self.is_late(now));
        if self.definition.repeat == Some(self.rounds.count) {
            self.finished = Some(now);
            return Some(Want::Leave);
        }
        let next = self
            .definition
            .cycle
            .map_or(now, |cycle| self.began.saturating_add(cycle.get()));
        // A client that is late begins at once, and counts from there.
        self.began = next.max(now);
        (next > now).then_some(Want::Until(next))
    }
}
