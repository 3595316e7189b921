// SPDX-License-Identifier: GPL-2.0

//! Streams of programs, and how much sooner they end under one rule than under another.

use super::App;
use crate::arrivals::{run_under, Arrival, Incoming, PoolGpu, Rule};
use crate::outcome::Error;
use crate::scenario::{Kind, Policy, Span};
use crate::systems::figure::{Criterion, Length, Line};
use loga::placement::PPM;

/// A stream of one application to one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub app: App,
    /// Mean time from one arrival to the next, in ns.
    pub gap: f64,
    pub node: usize,
}

impl Stream {
    /// A stream of which `part` loads this GPU so much.
    pub(super) fn loading(app: App, place: PoolGpu, load: f64, part: f64, node: usize) -> Self {
        let [_, gpu, _] = app.times();
        // CAST: at most a million.
        let speed = place.speed as f64 / PPM as f64;
        Self {
            app,
            gap: part * gpu / speed / load,
            node,
        }
    }
}

/// What kernels of programs in one context are assumed to use of the compute units: all, or half.
pub(super) const FILLS: [f64; 2] = [1.0, 0.5];

/// How programs are placed, and what the GPUs do with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub rule: Rule,
    /// The scheduler on each GPU.
    pub policy: Policy,
    /// The part of the compute units that kernels use, if all programs of a GPU share one context.
    pub packed: Option<f64>,
}

impl From<Rule> for Way {
    /// GPUs without a scheduler that take programs in turn.
    fn from(rule: Rule) -> Self {
        Self {
            rule,
            policy: Policy::paper(Kind::Hardware),
            packed: None,
        }
    }
}

impl Way {
    /// These ways on packed GPUs, for each of [`FILLS`].
    pub(super) fn packed(ways: &[Self]) -> impl Iterator<Item = Self> + '_ {
        FILLS.into_iter().flat_map(|fill| {
            ways.iter().map(move |way| Self {
                packed: Some(fill),
                ..*way
            })
        })
    }

    fn places(&self, places: &[PoolGpu]) -> Vec<PoolGpu> {
        let place = |place: &PoolGpu| PoolGpu {
            packed: self.packed.is_some(),
            ..*place
        };
        places.iter().map(place).collect()
    }

    fn streams(&self, streams: &[Stream]) -> Vec<Stream> {
        let fill = self.packed.unwrap_or(1.0);
        let stream = |stream: &Stream| Stream {
            app: stream.app.filling(fill),
            ..*stream
        };
        streams.iter().map(stream).collect()
    }
}

/// Lines of packed GPUs, with the paper's numbers for them: the values of [`Way::packed`].
pub(super) fn packed_lines(names: &[(&str, &'static str)], values: &[f64]) -> Vec<Line> {
    let fills = ["kernels that fill the GPU", "kernels of half the GPU"];
    let both = fills.iter().zip(values.chunks(names.len()));
    let lines = both.flat_map(|(fill, values)| {
        let line = move |((name, paper), value): (&(&str, &'static str), &f64)| {
            Line::new(
                format!("packed, {fill}: {name}"),
                paper,
                *value,
                "times",
                Criterion::Any,
            )
        };
        names.iter().zip(values).map(line)
    });
    lines.collect()
}

/// All programs of some streams in the order of their arrivals.
fn arrivals(streams: &[Stream], count: u64, seed: u64) -> Vec<Arrival> {
    let incoming = |stream: &Stream| Incoming {
        client: stream.app.client(),
        node: stream.node,
        gap: Span::Exponential(stream.gap),
        count,
        known: false,
    };
    let incoming: Vec<_> = streams.iter().map(incoming).collect();
    crate::arrivals::arrivals(&incoming, seed)
}

/// What became of the programs of some streams.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Mean completion time of each stream, in ns.
    pub means: Vec<f64>,
    /// What it would be if each program were alone on its GPU.
    pub alone: Vec<f64>,
    /// The longest time for which a scheduler held a command of any program back, in ns.
    pub held: u64,
}

impl Ended {
    /// Mean completion time of each stream over that of programs alone on their GPUs.
    pub(super) fn slowdowns(&self) -> impl Iterator<Item = f64> + '_ {
        let both = self.means.iter().zip(&self.alone);
        both.map(|(mean, alone)| mean / alone)
    }
}

/// What becomes of the programs, for each seed.
pub(super) fn ended(
    places: &[PoolGpu],
    streams: &[Stream],
    way: &Way,
    length: Length,
) -> Result<Vec<Ended>, Error> {
    let count = super::programs(length);
    let (places, streams) = (&way.places(places)[..], &way.streams(streams)[..]);
    let shortened = streams.first().map_or(1, |stream| stream.app.shortened);
    let one = |seed: u64| {
        let arrivals = arrivals(streams, count, seed);
        let rule = way.rule.shortened(shortened);
        let placed = run_under(places, &arrivals, rule, &way.policy, seed)?;
        let (mut means, mut alone) = (vec![0.0; streams.len()], vec![0.0; streams.len()]);
        for (arrival, placed) in arrivals.iter().zip(&placed) {
            // CAST: times in a run and counts are exact in a double.
            means[arrival.application] += placed.completion as f64 / count as f64;
        }
        // What it would take, on the GPU on which it ran.
        for (arrival, placed) in arrivals.iter().zip(&placed) {
            let [time, gpu, _] = streams[arrival.application].app.times();
            // CAST: at most a million, and counts.
            let speed = places[placed.gpu].speed as f64 / PPM as f64;
            alone[arrival.application] += (time - gpu + gpu / speed) / count as f64;
        }
        let held = placed.iter().map(|one| one.held).max().unwrap_or(0);
        Ok(Ended { means, alone, held })
    };
    length.each_seed().map(one).collect()
}

/// Mean completion time of each stream, in ns, for each seed.
pub(super) fn completions(
    places: &[PoolGpu],
    streams: &[Stream],
    way: impl Into<Way>,
    length: Length,
) -> Result<Vec<Vec<f64>>, Error> {
    let ended = ended(places, streams, &way.into(), length)?;
    Ok(ended.into_iter().map(|one| one.means).collect())
}

/// How many times as long the streams take under the first as under the second: the mean over the
/// streams and seeds.
pub(super) fn speedup(baseline: &[Vec<f64>], under: &[Vec<f64>]) -> f64 {
    let ratios: Vec<f64> = baseline
        .iter()
        .flatten()
        .zip(under.iter().flatten())
        .map(|(baseline, under)| baseline / under)
        .collect();
    mean(&ratios)
}

/// How many times as long the streams take in these runs as if each program were alone on the
/// fastest GPU: no policy gains more.
pub(super) fn bound(baseline: &[Vec<f64>], streams: &[Stream]) -> f64 {
    let alone: Vec<f64> = streams.iter().map(|stream| stream.app.times()[0]).collect();
    speedup(baseline, &vec![alone; baseline.len()])
}

/// Their mean.
pub(super) fn mean(of: &[f64]) -> f64 {
    // CAST: a count.
    of.iter().sum::<f64>() / of.len() as f64
}
