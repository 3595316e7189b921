// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Table 1 and figure 7 of the GViM paper: four guests of unequal credits on one GPU, and what
//! the way of a guest's calls to the GPU costs.
//!
//! The paper has two GPUs, two guests on each of which nothing more is said, and times per
//! iteration. What is compared here are parts of the sum of all rates, and one GPU takes all four
//! guests, as processes. Credits are weights: 256 is 100.
//!
//! Figure 7 compares the calls of three programs of the CUDA SDK in a guest with those on the host.
//! What decides is how many calls there are for how much work, and the cost of one: at most 0.07 ms
//! more for all but two kinds of calls (figure 5). Lengths of kernels are derived: 1.8 ms of
//! BlackScholes from table 1; the rest from operations and bytes at 90 Gflop/s, 70 GB/s on the card
//! and 1.5 GB/s to it, which are assumed. Source: Gupta and others, GViM, HPCVirt 2009, sections 4.1
//! and 5.1, table 1, figures 5 and 7.

use super::figure::{Criterion, Experiment, Length, Line, Lines};
use super::trial::{as_loaded, Trial};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Micros, Phase, Policy, Span};
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};
use Criterion::{Any, AtLeast, AtMost, Within};

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[
    (
        "gvim-1",
        "four clients that always want the GPU, with credits 512, 256, 256 and 256",
        table,
    ),
    (
        "gvim-7",
        "three programs whose calls go through the ring of a guest, against native ones",
        calls,
    ),
];

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
        kind => Policy::paper(kind),
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

/// What a call of a guest takes longer than on the host, in microseconds.
const CALL_US: u64 = 70;

/// A program of figure 7: the copies and the kernels of a round, each waited for.
struct Program {
    name: &'static str,
    copies: (u64, u64),
    kernels: (u64, u64),
    /// How much longer its calls took in a guest, in percent, by the paper, and what it may be here.
    paper: &'static str,
    criterion: Criterion,
}

const PROGRAMS: [Program; 3] = [
    // 2048^3 multiplications and additions; three matrices of 16 MB.
    Program {
        name: "MM[2K]",
        copies: (3, 11_200),
        kernels: (1, 191_000),
        paper: "-3",
        criterion: AtMost(1.0),
    },
    // Five arrays of a million numbers.
    Program {
        name: "BS[1m,512]",
        copies: (5, 2_800),
        kernels: (512, 1_800),
        paper: "6",
        criterion: Within(3.0, 9.0),
    },
    // 2^24 numbers there and back: six passes over all of them, and one that does eleven in one.
    Program {
        name: "FWT[64]",
        copies: (2, 44_700),
        kernels: (7, 1_900),
        paper: "12",
        criterion: Any,
    },
];

impl Program {
    /// Time of a round under a scheduler.
    fn round_ms(&self, policy: Policy, length: Length) -> Result<f64, Error> {
        let phase = |copy: Option<u64>, kernel: Option<u64>, repeat| Phase {
            copy: copy.map(Span::us),
            kernel: kernel.map(Span::us),
            repeat,
            ..Phase::new(Span::us(0), Span::us(1))
        };
        let phases = vec![
            phase(Some(self.copies.1), None, self.copies.0),
            phase(None, Some(self.kernels.1), self.kernels.0),
        ];
        let client = Client::new(self.name, phases);
        let trial = Trial::new(policy, vec![client], Vec::new(), length)?;
        Ok(trial.round_ms(self.name))
    }
}

/// Figure 7.
fn calls(length: Length) -> Lines {
    let mut lines = Vec::new();
    for program in &PROGRAMS {
        let native = program.round_ms(Policy::paper(Kind::Hardware), length)?;
        let longer = |policy| {
            let round = program.round_ms(policy, length)?;
            Ok::<_, Error>(100.0 * (round / native - 1.0))
        };
        let guest = Policy {
            call: Micros(Ns::from_us(CALL_US)),
            ..Policy::paper(Kind::GvimRr)
        };
        let what = |what: &str| format!("{}: {what}", program.name);
        // CAST: a small number.
        let cost = CALL_US as f64 / 1e3;
        lines.extend([
            Line::new(
                what("calls in a guest longer by"),
                program.paper,
                longer(guest)?,
                "%",
                program.criterion,
            ),
            Line::new(
                what("under maxmin longer by"),
                "-",
                longer(as_loaded(PolicyKind::MaxMin))?,
                "%",
                AtMost(0.5),
            ),
            Line::new(
                what("further calls of a round that the paper's percentage would take"),
                "-",
                program.paper.parse::<f64>().map_or(0.0, |percent| {
                    let calls = program.copies.0 + program.kernels.0;
                    // CAST: a small number.
                    (percent / 100.0 * native / cost - calls as f64).max(0.0)
                }),
                "calls",
                Any,
            ),
        ]);
    }
    Ok(lines)
}
