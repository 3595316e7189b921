// SPDX-License-Identifier: GPL-2.0

//! What a snapshot says of programs and GPUs, as the simulator knows those of its own: a program by
//! what it used in a time.

use super::file::{Client, File, Gpu, History, Model};
use crate::arrivals::{newcomer, Record, Signals};
use loga::fair::mul_div;
use loga::placement::{remaining, Bound, Demand, Newcomer, PPM};
use loga::units::{Ns, Weight};

/// A hundredth, in millionths.
const PERCENT: u64 = PPM / 100;
/// Any time: means have none.
const TIME: f64 = 1e9;
/// Most that history moves a figure or a cost by, in either direction.
const FACTOR: u64 = 2;

/// The program, and what is known of all GPUs.
pub(super) struct Known {
    pub(super) program: Newcomer,
    pub(super) gpus: Vec<Signals>,
}

impl Known {
    /// Without what earlier runs say.
    pub(super) fn without_history(file: &File) -> Self {
        let program = assumed(file);
        let speeds = given_speeds(file).unwrap_or_else(|| vec![PPM; file.gpus().count()]);
        Self {
            program,
            gpus: signals(file, &speeds),
        }
    }

    /// With it.
    pub(super) fn with_history(file: &File, history: &History) -> Self {
        let speeds = given_speeds(file).unwrap_or_else(|| measured_speeds(file, history));
        Self {
            program: program(file, history, &speeds),
            gpus: signals(file, &speeds),
        }
    }
}

/// A number within a factor of two of another.
pub(super) fn near(value: u64, other: u64) -> u64 {
    value.clamp(other.div_ceil(FACTOR), other.saturating_mul(FACTOR))
}

/// The program by what was given, and what is assumed of any.
fn assumed(file: &File) -> Newcomer {
    let program = &file.program;
    let unknown = newcomer(None, program.weight());
    let want = program.want_pct();
    let demand = Demand {
        want: want.map_or(unknown.demand.want, |want| want * PERCENT),
        run: program.command_us().map_or(unknown.demand.run, Ns::from_us),
        ..unknown.demand
    };
    Newcomer {
        demand,
        known: want.is_some(),
        time: None,
    }
}

/// The program by its runs, where they tell more.
fn program(file: &File, history: &History, speeds: &[u64]) -> Newcomer {
    let before = assumed(file);
    let mut program = before;
    let uses = fastest(file, history, speeds, |model| {
        Some((model.want_ppm?, model.copy_ppm.unwrap_or(0)))
    });
    if let Some((_, speed, (want, copy))) = uses {
        let (want, copy) = on_fastest(want, copy, speed);
        if !before.known {
            program.demand.want = near(want, before.demand.want).min(PPM);
            program.known = true;
        }
        program.demand.copy = copy;
    }
    let command = fastest(file, history, speeds, |model| model.command_ns);
    if let Some((_, speed, ns)) = command.filter(|_| file.program.command_us().is_none()) {
        let run = near(mul_div(ns, speed, PPM), before.demand.run.get());
        program.demand.run = Ns::new(run);
    }
    let time = fastest(file, history, speeds, |model| model.time_ns);
    let time = time.map(|(model, speed, time)| {
        // CAST: times of runs are exact in a double.
        let alone = Record {
            time: time as f64,
            compute: model.gpu_ns.unwrap_or(time).min(time) as f64,
            ..Record::default()
        };
        // CAST: saturates.
        (alone.at(speed_of(speed)).time.round() as u64).max(1)
    });
    program.time = match (time, history.typical_ns) {
        (Some(time), Some(typical)) => Some(near(time, typical)),
        (time, typical) => time.or(typical),
    }
    .map(Ns::new);
    program
}

/// The parts of the time for which a program that used the engines for these on a GPU would on the
/// fastest one.
fn on_fastest(want: u64, copy: u64, speed: u64) -> (u64, u64) {
    if want.saturating_add(copy) >= PPM {
        // It does nothing else, on any GPU.
        return (want, copy);
    }
    // CAST: at most a million.
    let part = |of: u64| TIME * of as f64 / PPM as f64;
    let alone = Record {
        time: TIME,
        compute: part(want),
        copy: part(copy),
        ..Record::default()
    };
    let there = alone.at(speed_of(speed)).demand(Weight::DEFAULT);
    (there.want, there.copy)
}

/// The program as it would be without history where the same policy decides.
pub(super) fn unlearnt(file: &File, history: &History, learnt: &Newcomer) -> Newcomer {
    Newcomer {
        known: learnt.known,
        time: learnt
            .time
            .map(|time| history.typical_ns.map_or(time, Ns::new)),
        ..assumed(file)
    }
}

/// The model of the fastest GPU for which something is known, with its speed; of several, that of
/// the last. A model that is not there counts as the fastest.
fn fastest<'a, T>(
    file: &File,
    history: &'a History,
    speeds: &[u64],
    known: impl Fn(&Model) -> Option<T>,
) -> Option<(&'a Model, u64, T)> {
    let of = |chip: u32| {
        let model = history.models.iter().find(|model| model.chip == chip)?;
        Some((model, known(model)?))
    };
    let there = file.gpus().zip(speeds).filter_map(|(gpu, speed)| {
        let (model, value) = of(gpu.chip)?;
        Some((model, *speed, value))
    });
    let elsewhere = || {
        let mut models = history.models.iter();
        models.find_map(|model| Some((model, PPM, known(model)?)))
    };
    there.max_by_key(|(_, speed, _)| *speed).or_else(elsewhere)
}

/// A speed as a number.
fn speed_of(speed: u64) -> f64 {
    // CAST: at most a million.
    speed as f64 / PPM as f64
}

/// Speeds that were given, in millionths of the fastest one's.
fn given_speeds(file: &File) -> Option<Vec<u64>> {
    let given: Option<Vec<f64>> = file.gpus().map(Gpu::speed).collect();
    let given = given?;
    let most = given.iter().copied().fold(0.0, f64::max);
    // CAST: at most a million.
    let part = |speed: &f64| ((speed / most * PPM as f64).round() as u64).max(1);
    Some(given.iter().map(part).collect())
}

/// Speeds by the GPU time that the program took on each model.
fn measured_speeds(file: &File, history: &History) -> Vec<u64> {
    let time = |gpu: &Gpu| {
        let mut models = history.models.iter();
        let model = models.find(|model| model.chip == gpu.chip)?;
        model.gpu_ns.filter(|time| *time > 0)
    };
    let times: Vec<_> = file.gpus().map(time).collect();
    let least = times.iter().flatten().min();
    let speed = |time: &Option<u64>| match (least, time) {
        (Some(least), Some(time)) => mul_div(*least, PPM, *time).max(1),
        _ => PPM,
    };
    times.iter().map(speed).collect()
}

fn signals(file: &File, speeds: &[u64]) -> Vec<Signals> {
    let one = |(gpu, speed): (&Gpu, &u64)| Signals {
        open: closed(file, gpu).is_none(),
        local: true,
        speed: *speed,
        bound: bound(gpu),
    };
    file.gpus().zip(speeds).map(one).collect()
}

/// Why a GPU may not be chosen.
pub(super) fn closed(file: &File, gpu: &Gpu) -> Option<String> {
    let lost = gpu.lost.then_some("lost");
    let out = lost.or_else(|| file.left_out(gpu.index()));
    let full = || {
        let (free, needed) = (gpu.free_mib?, file.program.memory_mib?);
        (free < needed).then(|| format!("only {free} MiB free"))
    };
    out.map(str::to_owned).or_else(full)
}

/// The programs of a GPU: clients that are seen, others, and claims.
fn bound(gpu: &Gpu) -> Vec<Bound> {
    let seen: Vec<Seen> = gpu.clients().iter().map(Seen::of).collect();
    let sum = |of: fn(&Demand) -> u64| seen.iter().map(|one| of(&one.demand)).sum::<u64>();
    let [want, copy] = [gpu.want_pct, gpu.copy_pct].map(|pct| u64::from(pct) * PERCENT);
    let want = want.saturating_sub(sum(|one| one.want));
    let copy = copy.saturating_sub(sum(|one| one.copy));
    let copy = if copy < PERCENT { 0 } else { copy };
    // CAST: a length.
    let wanting = seen.iter().filter(|one| one.wants).count() as u64;
    let others = gpu.wanting().saturating_sub(wanting);
    let (claims, claimed_pct) = gpu.claimed();
    let mut bound: Vec<Bound> = seen.iter().map(Seen::bound).collect();
    if others == 0 && copy > 0 {
        // One that only copies.
        bound.push(unseen(0, copy));
    }
    let mut alike = |count: u64, want: u64, copy: u64| {
        for _ in 0..count {
            let want = (want / count).clamp(PERCENT, PPM);
            bound.push(unseen(want, copy / count));
        }
    };
    alike(others, want, copy);
    // A whole GPU at most for each.
    let programs = claims.max(claimed_pct.div_ceil(100));
    alike(programs, claimed_pct * PERCENT, 0);
    bound
}

/// A program of which only this is known.
fn unseen(want: u64, copy: u64) -> Bound {
    let demand = Demand {
        want,
        copy: copy.min(PPM),
        ..newcomer(None, Weight::DEFAULT).demand
    };
    Bound { demand, left: None }
}

/// A client that the caller sees.
struct Seen {
    demand: Demand,
    /// Whether it wants 1 % or more.
    wants: bool,
    left: Option<Ns>,
}

impl Seen {
    fn of(client: &Client) -> Self {
        let [busy, waited, copy] = client.parts();
        let time = PPM.saturating_sub(waited);
        // CAST: at most a million, and counts and times that are exact in a double.
        let [busy, time] = [busy, time].map(|part| part as f64);
        let (runs, measured) = (client.runs as f64, client.measured_ns as f64);
        let used = Record {
            time,
            compute: busy,
            copy: 0.0,
            kernels: if measured > 0.0 {
                busy * runs / measured
            } else {
                0.0
            },
        };
        let demand = Demand {
            // Of all the time: how long it waits for copies is not known.
            copy,
            ..used.demand(client.weight())
        };
        let wants = time <= 0.0 || busy * 100.0 >= time;
        let alone = Ns::new(client.there_ns.saturating_sub(client.waited_ns));
        let left = |whole: u64| remaining(Ns::new(whole), alone);
        Self {
            demand,
            wants,
            left: client.time_ns.map(left),
        }
    }

    /// As a program that is bound: what it does for less than 1 % of the time does not count.
    fn bound(&self) -> Bound {
        let copies = self.demand.copy >= PERCENT;
        let demand = Demand {
            want: if self.wants { self.demand.want } else { 0 },
            copy: if copies { self.demand.copy } else { 0 },
            ..self.demand
        };
        Bound {
            demand,
            left: self.left,
        }
    }
}
