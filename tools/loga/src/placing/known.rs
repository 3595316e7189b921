// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What earlier runs say of a program and of the GPUs.
//!
//! A cost is moved by it by at most a factor of two against the cost without: who runs a program can
//! make its history say anything. As soon as the program is a client, what it wants by measurement
//! counts, and of its claim what is left: nothing that was learned counts beside it.

use super::{Pool, PoolGpu, Wish};
use crate::control::Snapshot;
use crate::history::ask::{Answer, Heard};
use crate::history::record::{OnModel, Record, RUNS};
use loga::fair::mul_div;
use loga::placement::{remaining, Bound, Demand, Newcomer, PPM};
use loga::units::Ns;

/// Most that history moves a figure or a cost by, in either direction.
pub(super) const FACTOR: u64 = 2;

/// What is used of the history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Runs that are kept of the program.
    pub runs: u32,
    /// Whether what it wants is known from them.
    pub want: bool,
    /// Whether what it copies is known from them.
    pub copy: bool,
    /// Whether how long its commands last is known from them.
    pub command: bool,
    /// Whether how long it takes is known from them.
    pub time: bool,
    /// Whether the mean time of all programs of the user is taken for how long it takes.
    pub typical: bool,
    /// Whether speeds of GPUs are known from them.
    pub speeds: bool,
    /// Why nothing is known of the program.
    pub why_not: Option<String>,
}

/// A program and the speeds of GPUs as they would be without history.
#[derive(Clone, Debug)]
pub(crate) struct Without {
    /// The program.
    newcomer: Newcomer,
    /// Speeds by position.
    speeds: Vec<u64>,
}

/// A number within a factor of two of another.
pub(super) fn near(value: u64, default: u64) -> u64 {
    value.clamp(default.div_ceil(FACTOR), default.saturating_mul(FACTOR))
}

impl Pool {
    /// The wish with what earlier runs say of the program; what they say of the GPUs and of programs
    /// on them is noted here. `given` says that speeds were given, which then count.
    pub fn learn(&mut self, snapshots: &[Snapshot], wish: &Wish, given: bool) -> Wish {
        let mut wish = wish.clone();
        let answer = match &wish.heard {
            Heard::NotAsked => return wish,
            Heard::Silent(why) => {
                wish.used.why_not = Some(why.clone());
                return wish;
            }
            Heard::Answer(answer) => answer.clone(),
        };
        let speeds = self.places.iter().map(|place| place.speed).collect();
        let none = Record::default();
        let record = answer.record.as_ref().unwrap_or(&none);
        wish.used.runs = record.runs();
        if !given {
            wish.used.speeds = correct(&mut self.places, record);
        }
        self.note_running(snapshots, &answer);
        let before = wish.newcomer;
        let uses = self.fastest(record, |model| {
            Some((model.want.known()?, model.copy.known()))
        });
        let time = self.fastest(record, |model| model.time.known());
        let command = self.fastest(record, |model| model.command.known());
        if let Some((_, speed, ns)) = command.filter(|_| !wish.command_given) {
            let fast = mul_div(ns, speed, PPM);
            wish.newcomer.demand.run = Ns::new(near(fast, before.demand.run.get()));
            wish.used.command = true;
        }
        if let Some((_, speed, (want, copy))) = uses {
            let demand = Demand {
                want,
                copy: copy.unwrap_or(0),
                ..before.demand
            };
            let demand = super::on_fastest(demand, speed);
            if !before.known {
                wish.newcomer.demand.want = near(demand.want, before.demand.want).min(PPM);
                wish.newcomer.known = true;
                wish.used.want = true;
            }
            // Nothing is assumed of copies that it could be held near to; the cost is.
            wish.newcomer.demand.copy = demand.copy;
            wish.used.copy = copy.is_some();
        }
        let typical = answer.typical_ns;
        if let Some((model, speed, time)) = time {
            let used = model.gpu.known().unwrap_or(time).min(time);
            let rest = time.saturating_sub(used);
            let fast = rest.saturating_add(mul_div(used, speed, PPM)).max(1);
            wish.newcomer.time = Some(Ns::new(typical.map_or(fast, |typical| near(fast, typical))));
            wish.used.time = true;
        } else if let Some(typical) = typical {
            wish.newcomer.time = Some(Ns::new(typical));
            wish.used.typical = true;
        }
        if !wish.used.want && !wish.used.time && !wish.used.command {
            wish.used.why_not = Some(why_not(record));
        }
        wish.without = Some(Without {
            newcomer: Newcomer {
                // The same policy decides; what it would have to know is assumed.
                known: wish.newcomer.known,
                time: wish.newcomer.time.map(|time| typical.map_or(time, Ns::new)),
                ..before
            },
            speeds,
        });
        wish
    }

    /// The fastest GPU on whose model this is known, with its speed.
    fn fastest<'a, T>(
        &self,
        record: &'a Record,
        known: impl Fn(&OnModel) -> Option<T>,
    ) -> Option<(&'a OnModel, u64, T)> {
        let found = self.places.iter().filter_map(|place| {
            let model = record.on(place.chip)?;
            Some((model, place.speed, known(model)?))
        });
        let here = found.max_by_key(|(_, speed, _)| *speed);
        // A model that this machine no longer has counts as the fastest one.
        let elsewhere = || {
            let mut models = record.models.iter();
            models.find_map(|model| Some((model, PPM, known(model)?)))
        };
        here.or_else(elsewhere)
    }

    /// Programs of the caller that run and whose time is known end when that is over.
    fn note_running(&mut self, snapshots: &[Snapshot], answer: &Answer) {
        for (place, snapshot) in self.places.iter_mut().zip(snapshots) {
            for (bound, client) in place.bound.iter_mut().zip(&snapshot.clients) {
                let id = (snapshot.gpu, client.id);
                let mut running = answer.running.iter();
                if let Some(one) = running.find(|one| (one.gpu, one.client) == id) {
                    let there = snapshot.info.now_ns.saturating_sub(client.since_ns);
                    let elapsed = Ns::new(there.saturating_sub(client.waited_ns));
                    let left = Some(remaining(Ns::new(one.time_ns), elapsed));
                    *bound = Bound { left, ..*bound };
                }
            }
        }
    }

    /// Speeds as they would be without history.
    pub(super) fn gpus_without(&self, without: &Without) -> Vec<loga::placement::Gpu<'_>> {
        let mut gpus = self.gpus();
        for (gpu, speed) in gpus.iter_mut().zip(&without.speeds) {
            gpu.speed = *speed;
        }
        gpus
    }
}

impl Without {
    /// The program.
    pub(super) fn newcomer(&self) -> &Newcomer {
        &self.newcomer
    }
}

/// Corrects speeds by the GPU time that the program took on each model: half the time is twice the
/// speed. GPUs whose models it is not known on stay as they are.
fn correct(places: &mut [PoolGpu], record: &Record) -> bool {
    let known = |place: &PoolGpu| record.on(place.chip)?.gpu.known().filter(|time| *time > 0);
    let times: Vec<Option<u64>> = places.iter().map(known).collect();
    let Some(least) = times.iter().flatten().copied().min() else {
        return false;
    };
    for (place, time) in places.iter_mut().zip(&times) {
        if let Some(time) = time {
            place.speed = mul_div(least, PPM, *time).max(1);
        }
    }
    times.iter().flatten().any(|time| *time != least)
}

fn why_not(record: &Record) -> String {
    match record.runs() {
        0 => "no run of it is kept".to_string(),
        runs if runs < RUNS => format!("{runs} runs of it are kept, {RUNS} are needed"),
        runs => format!("the {runs} runs of it that are kept differ too much, or waited unseen"),
    }
}
