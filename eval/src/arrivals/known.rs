// SPDX-License-Identifier: GPL-2.0

//! What is known of programs and GPUs: from the history of programs, and from what they have used so
//! far.

use crate::scenario::Client;
use loga::placement::{self, Bound, Cost, Demand, Gpu, Newcomer, PPM};
use loga::units::{Ns, Weight};

/// Runs after which the history of an application counts.
const RUNS: f64 = 3.0;

/// A time and what was used in it, in ns; of several runs, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The time, without what was spent waiting for others.
    pub time: f64,
    /// On the compute engine.
    pub compute: f64,
    /// On the copy engine.
    pub copy: f64,
    /// Kernels.
    pub kernels: f64,
}

impl Record {
    /// A program alone on the fastest GPU, by its scenario.
    pub(super) fn of(client: &Client) -> Self {
        // CAST: counts that are exact in a double.
        let rounds = client.repeat.unwrap_or(1) as f64;
        let mut all = Self::default();
        for phase in &client.phases {
            let times = rounds * phase.repeat as f64;
            let mean = |span: Option<crate::scenario::Span>| span.map_or(0.0, |span| span.mean());
            let (compute, copy) = (mean(phase.kernel), mean(phase.copy));
            all.time += times * (phase.cpu.mean() + compute + copy);
            all.compute += times * compute;
            all.copy += times * copy;
            all.kernels += times * f64::from(u8::from(phase.kernel.is_some()));
        }
        all
    }

    /// A run on a GPU of this speed as it would have been on the fastest one.
    pub(crate) fn at(self, speed: f64) -> Self {
        let used = self.compute + self.copy;
        Self {
            time: self.time - used + used * speed,
            compute: self.compute * speed,
            copy: self.copy * speed,
            ..self
        }
    }

    /// What was used since then.
    pub(super) fn minus(self, then: Self) -> Self {
        then.faded(-1.0, self)
    }

    /// This, so many times, and another.
    pub(super) fn faded(self, factor: f64, other: Self) -> Self {
        Self {
            time: self.time * factor + other.time,
            compute: self.compute * factor + other.compute,
            copy: self.copy * factor + other.copy,
            kernels: self.kernels * factor + other.kernels,
        }
    }

    /// What a program of this weight asks that uses so much in this time; all there is if it has
    /// only waited.
    pub(crate) fn demand(&self, weight: Weight) -> Demand {
        // CAST: saturates.
        let part = |of: f64| (PPM as f64 * (of / self.time).min(1.0)).round() as u64;
        let run = match self.kernels > 0.0 {
            true => Ns::new((self.compute / self.kernels).round() as u64),
            false => Demand::UNKNOWN.run,
        };
        let idle = self.time <= 0.0;
        Demand {
            want: if idle { PPM } else { part(self.compute) },
            copy: if idle { 0 } else { part(self.copy) },
            run,
            weight,
        }
    }
}

/// Runs of each application that have ended, as if on the fastest GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Vec<(f64, Record)>);

impl History {
    /// A run of an application has ended.
    pub(super) fn learn(&mut self, application: usize, run: Record) {
        if self.0.len() <= application {
            self.0.resize(application + 1, Default::default());
        }
        let (runs, sum) = &mut self.0[application];
        *runs += 1.0;
        *sum = sum.faded(1.0, run);
    }

    /// The mean run of an application, if enough have ended.
    pub(super) fn mean(&self, application: usize) -> Option<Record> {
        let (runs, sum) = self.0.get(application)?;
        (*runs >= RUNS).then(|| sum.faded(1.0 / runs, Record::default()))
    }
}

/// A program by the mean of its runs, if that is known.
pub(crate) fn newcomer(mean: Option<Record>, weight: Weight) -> Newcomer {
    let Some(mean) = mean else {
        let demand = Demand {
            weight,
            ..Demand::UNKNOWN
        };
        return Newcomer {
            demand,
            ..Newcomer::UNKNOWN
        };
    };
    Newcomer {
        demand: mean.demand(weight),
        known: true,
        // CAST: saturates.
        time: Some(Ns::new(mean.time.round() as u64)),
    }
}

/// What is known of a GPU when a program comes.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    /// Whether it may be chosen.
    pub(crate) open: bool,
    /// Whether it is in the node of the program.
    pub(crate) local: bool,
    /// Its speed in millionths of the fastest GPU's.
    pub(crate) speed: u64,
    /// The programs that are bound to it.
    pub(crate) bound: Vec<Bound>,
}

impl Signals {
    /// As placement wants them.
    pub(crate) fn gpu(&self) -> Gpu<'_> {
        Gpu {
            open: self.open,
            local: self.local,
            speed: self.speed,
            bound: &self.bound,
        }
    }
}

/// The GPUs of the least of these costs, the best one first: so many, or all that have one.
pub(crate) fn cheapest(gpus: &[Gpu<'_>], mut costs: Vec<Option<Cost>>, count: usize) -> Vec<usize> {
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let Some(at) = placement::best(gpus, |at| costs[at]) else {
            break;
        };
        costs[at] = None;
        chosen.push(at);
    }
    chosen
}
