// SPDX-License-Identifier: GPL-2.0

//! What accounting costs, and how wrong it is: burst against sparse.
//!
//! Loads run unscheduled on the ideal GPU. Lengths vary a little, as those of real
//! kernels do, unless a mix is locked to the samples on purpose. The true shares of many
//! windows of two seconds are compared with the result of each way of accounting.

mod timeline;

pub use timeline::Timeline;

use crate::ideal::Process;
use crate::report::text::table;
use crate::results::stats::{mean, quantile};
use loga::account::sparse::{bound, variance_us2, Sparse, MIN_INTERVAL};
use loga::account::{Accountant, Slot};
use loga::error::Error;
use loga::ids::Chid;
use loga::regs::Occupant;
use loga::units::Ns;
use serde::Serialize;
use std::fmt::{self, Display, Formatter, Write};

/// Length of a window.
pub const WINDOW: Ns = Ns::from_ms(2_000);
/// Cost of a sample, with the interrupt of its timer.
pub const SAMPLE_US: f64 = 3.0;
/// Cost of a sample in the virtual machine, where reading a register takes no time.
pub const READ_US: f64 = 1.6;

/// Clients of one comparison.
#[derive(Clone, Debug)]
pub struct Load {
    /// Name, in words.
    pub name: &'static str,
    /// The clients.
    pub processes: Vec<Process>,
}

/// The loads of the figures: the mix of the demo, ten small clients, two equal ones,
/// and clients in step with samples every 300 us and with multiples of them.
pub fn loads() -> Vec<Load> {
    let in_step = |list: &[(u64, u64)]| -> Vec<Process> {
        list.iter().map(|(k, s)| Process::new(*k, *s)).collect()
    };
    let of = |list: &[(u64, u64)]| {
        let mut all = in_step(list);
        all.iter_mut().for_each(|process| process.varies_pct = 10);
        all
    };
    let demo = [(1000, 0), (200, 800), (200, 800), (200, 800)];
    let load = |name, processes| Load { name, processes };
    let (short, long) = ([(60, 240), (15, 285)], [(120, 480), (30, 1170)]);
    vec![
        load("1000/0 and three of 200/800", of(&demo)),
        load("ten of 10/1000", of(&[(10, 1000); 10])),
        load("50/0 and 50/0", of(&[(50, 0); 2])),
        load("60/240 and 15/285 (in step)", in_step(&short)),
        load("120/480 and 30/1170 (in step)", in_step(&long)),
    ]
}

/// A method of accounting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// Polling phases of a length in milliseconds, and pauses that are a multiple of it.
    Burst {
        /// Length of a polling phase.
        poll_ms: u64,
        /// Length of a pause in polling phases.
        ratio: u64,
    },
    /// One sample per stratum.
    Sparse {
        /// Length of a stratum in microseconds.
        interval_us: u64,
    },
    /// Independent instants: what strata are better than.
    Uniform {
        /// Mean time between two samples in microseconds.
        interval_us: u64,
    },
    /// Equidistant instants: what must not be.
    Regular {
        /// Time between two samples in microseconds.
        interval_us: u64,
    },
}

/// Errors of one way of accounting on one load.
#[derive(Clone, Debug, Serialize)]
pub struct Accuracy {
    /// Name of the load.
    pub load: &'static str,
    /// The way, in words.
    pub way: String,
    /// Share of a core, in percent, if a sample costs [`SAMPLE_US`]; polls take all of their phase.
    pub cpu_pct: f64,
    /// The same if a sample costs [`READ_US`].
    pub cpu_cheap_pct: f64,
    /// Samples per second.
    pub samples_per_s: f64,
    /// Mean error of the worst client, in points: what is left when noise averages out.
    pub bias_pt: f64,
    /// Error that 95 % of the windows stay below, of the worst client, in points.
    pub error95_pt: f64,
    /// Mean bound that sparse accounting states for that client, in points.
    pub bound_pt: Option<f64>,
    /// Percentage of windows in which a client was within its bound, of the client for
    /// which that was most seldom.
    pub covered_pct: Option<f64>,
}

/// What one way says about one window.
struct Estimate {
    time: Vec<u64>,
    length: u64,
    bounds: Option<Vec<u64>>,
    samples: u64,
    polled: u64,
}

/// Compares a way with the truth in a number of windows, each at a random place.
pub fn measure(load: &Load, way: Method, windows: u32, seed: u64) -> Result<Accuracy, Error> {
    let room = Ns::from_ms(2_000);
    let end = Ns::from_ms(1_100).saturating_add(room);
    let timeline = Timeline::of(&load.processes, end.saturating_add(WINDOW))?;
    let mut random = Random(seed.max(1));
    let mut errors = vec![Vec::new(); timeline.clients];
    let (mut cpu, mut cheap, mut samples) = (0.0, 0.0, 0);
    let mut covered = vec![0u32; timeline.clients];
    let mut bounds = vec![0.0; timeline.clients];
    let length = WINDOW.get() as f64;
    for _ in 0..windows {
        let from = Ns::from_ms(1_000).saturating_add(Ns::new(random.below(room.get())));
        let truth = timeline.truth(from, from.saturating_add(WINDOW));
        let said = estimate(&timeline, way, from, &mut random);
        for (at, (truth, time)) in truth.iter().zip(&said.time).enumerate() {
            let share = *time as f64 / said.length.max(1) as f64;
            let error = 100.0 * (share - *truth as f64 / length);
            errors[at].push(error);
            if let Some(stated) = &said.bounds {
                let stated = 100.0 * stated[at] as f64 / length;
                bounds[at] += stated / f64::from(windows);
                covered[at] += u32::from(error.abs() <= stated);
            }
        }
        samples += said.samples;
        cpu += said.polled as f64 + said.samples as f64 * SAMPLE_US * 1e3;
        cheap += said.polled as f64 + said.samples as f64 * READ_US * 1e3;
    }
    let total = f64::from(windows) * length;
    let (worst, error95_pt) = worst(&errors);
    let is_sparse = matches!(way, Method::Sparse { .. });
    Ok(Accuracy {
        load: load.name,
        way: way.to_string(),
        cpu_pct: 100.0 * cpu / total,
        cpu_cheap_pct: 100.0 * cheap / total,
        samples_per_s: samples as f64 / total * 1e9,
        bias_pt: errors
            .iter()
            .map(|list| mean(list.iter().copied()).abs())
            .fold(0.0, f64::max),
        error95_pt,
        bound_pt: is_sparse.then(|| bounds[worst]),
        covered_pct: is_sparse.then(|| {
            let least = covered.iter().copied().min().unwrap_or(0);
            100.0 * f64::from(least) / f64::from(windows)
        }),
    })
}

/// The client with the largest error that 95 % of its windows stay below.
fn worst(errors: &[Vec<f64>]) -> (usize, f64) {
    let size = |list: &Vec<f64>| quantile(list.iter().map(|error| error.abs()), 95);
    let all = errors.iter().map(|list| size(list).unwrap_or_default());
    all.enumerate()
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .unwrap_or((0, 0.0))
}

fn estimate(timeline: &Timeline, way: Method, from: Ns, random: &mut Random) -> Estimate {
    match way {
        Method::Burst { poll_ms, ratio } => burst(timeline, from, poll_ms, ratio, random),
        Method::Sparse { interval_us } => sparse(timeline, from, interval_us, random),
        Method::Uniform { interval_us } => {
            let mean = Ns::from_us(interval_us).get();
            samples(timeline, from, random, |random| {
                // Exponential distances: instants independent of each other.
                let part = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
                (-(1.0 - part).ln() * mean as f64) as u64
            })
        }
        Method::Regular { interval_us } => {
            samples(timeline, from, random, |_| Ns::from_us(interval_us).get())
        }
    }
}

fn occupant(client: Option<usize>) -> Occupant {
    // CAST: a handful of processes.
    client.map_or(Occupant::Idle, |at| {
        Occupant::Channel(Chid::from_bits(at as u32))
    })
}

/// Polling phases at the ratio, beginning anywhere in a period.
fn burst(timeline: &Timeline, from: Ns, poll_ms: u64, ratio: u64, random: &mut Random) -> Estimate {
    let (poll, period) = (Ns::from_ms(poll_ms), Ns::from_ms(poll_ms * (1 + ratio)));
    let mut slots = vec![Slot::default(); timeline.clients];
    let mut accountant = Accountant::new();
    let mut time = vec![0; timeline.clients];
    let mut polled = 0;
    let mut begin = from.saturating_add(Ns::new(random.below(period.get())));
    let end = from.saturating_add(WINDOW);
    while begin < end {
        let until = begin.saturating_add(poll).min(end);
        accountant.begin(&mut slots, begin, occupant(timeline.at(begin)));
        for (now, client) in timeline.changes(begin, until) {
            accountant.observe(&mut slots, *now, occupant(*client));
        }
        polled += accountant.end(&mut slots, until).length.get();
        for (sum, slot) in time.iter_mut().zip(&slots) {
            *sum += slot.ran.get();
        }
        begin = begin.saturating_add(period);
    }
    Estimate {
        time,
        length: polled,
        bounds: None,
        samples: 0,
        polled,
    }
}

/// The code of the kernel module.
fn sparse(timeline: &Timeline, from: Ns, interval_us: u64, random: &mut Random) -> Estimate {
    let interval = Ns::from_us(interval_us);
    let mut slots = vec![Slot::default(); timeline.clients];
    let mut sparse = Sparse::new(random.next());
    let mut next = sparse.begin(&mut slots, from, interval);
    while next < from.saturating_add(WINDOW) {
        next = sparse.sample(&mut slots, next, occupant(timeline.at(next)));
    }
    let interval = sparse.interval();
    let bounds = slots.iter().map(|slot| {
        let variance = variance_us2(slot.runs.into(), interval);
        bound(variance, interval).get()
    });
    Estimate {
        time: slots.iter().map(|slot| slot.ran.get()).collect(),
        length: sparse.end().length.get(),
        bounds: Some(bounds.collect()),
        samples: sparse.samples(),
        polled: 0,
    }
}

/// Samples at distances that `step` draws.
fn samples(
    timeline: &Timeline,
    from: Ns,
    random: &mut Random,
    step: impl Fn(&mut Random) -> u64,
) -> Estimate {
    let mut time = vec![0; timeline.clients];
    let mut count = 0;
    let mut now = from.saturating_add(Ns::new(step(random)));
    while now < from.saturating_add(WINDOW) {
        count += 1;
        if let Some(client) = timeline.at(now) {
            time[client] += 1;
        }
        now = now.saturating_add(Ns::new(step(random)));
    }
    Estimate {
        time,
        length: count,
        bounds: None,
        samples: count,
        polled: 0,
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The ways of the curve.
pub fn ways() -> Vec<Method> {
    let mut ways: Vec<_> = [100, 50, 20, 10, 5]
        .map(|ratio| Method::Burst { poll_ms: 12, ratio })
        .into();
    let shortest = MIN_INTERVAL.get() / 1000;
    ways.extend([8, 4, 2, 1].map(|times| Method::Sparse {
        interval_us: shortest * times,
    }));
    let interval_us = shortest;
    ways.extend([
        Method::Uniform { interval_us },
        Method::Regular { interval_us },
    ]);
    ways
}

/// All methods on all loads.
pub fn all(windows: u32, seed: u64) -> Result<Vec<Accuracy>, Error> {
    let mut all = Vec::new();
    for load in loads() {
        for method in ways() {
            all.push(measure(&load, method, windows, seed)?);
        }
    }
    Ok(all)
}

/// The same as a table.
pub fn text(all: &[Accuracy], windows: u32, seed: u64) -> String {
    let mut text = format!(
        "Windows of 2 s, {windows} each, seed {seed}. CPU in percent of a core: {SAMPLE_US} us per \
         sample with its interrupt, in brackets {READ_US} us. Errors in points of share.\n"
    );
    let or_none = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    for load in all.chunk_by(|one, next| one.load == next.load) {
        let mut rows = table([
            load[0].load,
            "CPU",
            "samples/s",
            "bias",
            "95 %",
            "bound",
            "covered",
        ]);
        for one in load {
            rows.add_row([
                one.way.to_string(),
                format!("{:.2} ({:.2})", one.cpu_pct, one.cpu_cheap_pct),
                format!("{:.0}", one.samples_per_s),
                format!("{:.2}", one.bias_pt),
                format!("{:.2}", one.error95_pt),
                or_none(one.bound_pt),
                or_none(one.covered_pct),
            ]);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{}", rows.trim_fmt());
    }
    text
}

impl Display for Method {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Method::Burst { poll_ms, ratio } => write!(f, "burst {poll_ms} ms, 1 : {ratio}"),
            Method::Sparse { interval_us } => write!(f, "sparse, {interval_us} us strata"),
            Method::Uniform { interval_us } => write!(f, "independent, {interval_us} us"),
            Method::Regular { interval_us } => write!(f, "equidistant, {interval_us} us"),
        }
    }
}
