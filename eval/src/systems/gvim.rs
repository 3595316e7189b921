// SPDX-License-Identifier: GPL-2.0

//! [tool] Table 1 of the GViM paper: four guests of unequal credits on one GPU.
//!
//! The paper has two GPUs, two guests on each of which nothing more is said, and times per
//! iteration. What is compared here are parts of the sum of all rates, and one GPU takes all four
//! guests, as processes. Credits are weights: 256 is 100. Source: Gupta and others, GViM, HPCVirt
//! 2009, section 4.1 and table 1.

use super::figure::{Criterion, Experiment, Length, Line, Lines};
use super::trial::{as_loaded, Trial};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Phase, Policy, Span};
use loga::policies::PolicyKind;
use loga::units::Weight;
use Criterion::{Any, AtLeast, AtMost, Within};

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[(
    "gvim-1",
    "four clients that always want the GPU, with credits 512, 256, 256 and 256",
    table,
)];

/// The clients and their weights.
const GUESTS: [(&str, u32); 4] = [("Dom1", 200), ("Dom2", 100), ("Dom3", 100), ("Dom4", 100)];
/// What the weights ask for, in percent, and what equal turns give.
const BY_WEIGHT: [f64; 4] = [40.0, 20.0, 20.0, 20.0];
const EQUAL: [f64; 4] = [25.0; 4];
/// Short kernels, and kernels as long as a turn of `gvim-rr`.
const KERNELS_US: [u64; 2] = [1_000, 30_000];

/// How the GPU is shared: by name, what each should have, how many points from it at most, and the
/// paper's part of the first guest and its weighted index of fairness.
struct Sharing {
    kind: Kind,
    wanted: [f64; 4],
    within: f64,
    paper: [&'static str; 2],
}

const fn policy(kind: PolicyKind) -> Sharing {
    Sharing {
        kind: Kind::Loga(kind),
        wanted: BY_WEIGHT,
        within: 1.0,
        paper: ["-", "-"],
    }
}

const SHARINGS: [Sharing; 5] = [
    Sharing {
        kind: Kind::GvimRr,
        wanted: EQUAL,
        within: 1.5,
        paper: ["25.8", "0.945"],
    },
    Sharing {
        kind: Kind::GvimXc,
        wanted: BY_WEIGHT,
        within: 4.0,
        paper: ["36.4", "0.996"],
    },
    policy(PolicyKind::Credit),
    policy(PolicyKind::MaxMin),
    policy(PolicyKind::TimesliceEngaged),
];

/// How many times as long turns are, by weights, to see what each turn costs.
const LONGER: u32 = 5;
/// Why turns lose some of the GPU.
const DRAINS: &str =
    "At the end of a turn all clients are held until a scan finds no channel with work, and scans \
     are 1 ms apart: the GPU is idle for up to that long in each turn of 30 ms. The last line has \
     turns five times as long. gvim-rr does not wait for what runs at the end of a turn, and that is \
     what it errs by where kernels are long.";

/// What the clients got.
struct Got {
    /// Of the sum of their rates, in percent.
    parts: [f64; 4],
    /// Kernels per second of all together.
    rate: f64,
}

fn run(kind: Kind, kernel_us: u64, times: u32, length: Length) -> Result<Got, Error> {
    let guest = |(name, weight): (&str, u32)| Client {
        weight: Weight::new(times * weight).unwrap_or_default(),
        ..Client::new(name, vec![Phase::new(Span::us(0), Span::us(kernel_us))])
    };
    let policy = match kind {
        Kind::Loga(kind) => as_loaded(kind),
        kind => Policy::of(kind),
    };
    let trial = Trial::new(policy, GUESTS.map(guest).into(), Vec::new(), length)?;
    let rates = GUESTS.map(|(name, _)| trial.kernels(name));
    let rate = rates.iter().sum();
    Ok(Got {
        parts: rates.map(|one| 100.0 * one / rate),
        rate,
    })
}

/// The greatest distance from what is wanted, in points.
fn farthest(parts: [f64; 4], wanted: [f64; 4]) -> f64 {
    let distances = parts
        .iter()
        .zip(wanted)
        .map(|(part, wanted)| (part - wanted).abs());
    distances.fold(0.0, f64::max)
}

/// Jain's index of parts over weights.
fn index(parts: [f64; 4]) -> f64 {
    let over = [0, 1, 2, 3].map(|at: usize| parts[at] / BY_WEIGHT[at]);
    let squares: f64 = over.iter().map(|one| one * one).sum();
    over.iter().sum::<f64>().powi(2) / (4.0 * squares)
}

/// Table 1.
fn table(length: Length) -> Lines {
    let mut lines = Vec::new();
    for (kernel_us, long) in KERNELS_US.into_iter().zip([false, true]) {
        let rr = run(Kind::GvimRr, kernel_us, 1, length)?.rate;
        for sharing in &SHARINGS {
            let Got { parts, rate } = run(sharing.kind, kernel_us, 1, length)?;
            let what = |what: &str| {
                format!(
                    "{}, kernels of {} ms: {what}",
                    sharing.kind.name(),
                    kernel_us / 1000
                )
            };
            let [part, paper_index] = sharing.paper;
            // Its error is what the paper measured: work that outlives its turn is not charged.
            let errs = long && sharing.kind == Kind::GvimXc;
            lines.extend([
                Line::new(what("part of the client of 512"), part, parts[0], "%", Any),
                match errs {
                    false => Line::new(
                        what("farthest of a client from its part"),
                        "-",
                        farthest(parts, sharing.wanted),
                        "points",
                        AtMost(sharing.within),
                    ),
                    true => Line::new(
                        what("its error, as kernels outlive turns"),
                        "3.6",
                        farthest(parts, sharing.wanted),
                        "points",
                        AtLeast(3.6),
                    ),
                },
                Line::new(
                    what("index of parts over credits"),
                    paper_index,
                    index(parts),
                    "",
                    Any,
                ),
                Line::new(
                    what("all rates over those under gvim-rr"),
                    if sharing.kind == Kind::GvimXc {
                        "1.000"
                    } else {
                        "-"
                    },
                    rate / rr,
                    "times",
                    Within(0.99, 1.01),
                )
                .unless_met(DRAINS),
            ]);
        }
    }
    let kernel_us = KERNELS_US[0];
    let turns = Kind::Loga(PolicyKind::TimesliceEngaged);
    let rate = |kind, times| run(kind, kernel_us, times, length).map(|got| got.rate);
    lines.push(Line::new(
        "timeslice-eng, kernels of 1 ms, turns five times as long: rates over those under gvim-rr",
        "-",
        rate(turns, LONGER)? / rate(Kind::GvimRr, 1)?,
        "times",
        Any,
    ));
    Ok(lines)
}
