// SPDX-License-Identifier: GPL-2.0

//! [tool] Experiments of the TimeGraph paper with engaged scheduling: what it measured, what the
//! simulator gives, and whether that is what it should be.
//!
//! The paper's programs are stand-ins ([`standins`]), so its numbers and ours are not of the same
//! kind: compared are ratios within one figure. Source: Kato and others, TimeGraph, USENIX ATC 2011,
//! section 6; its bars are plotted only, so numbers are those of its text.

mod games;
mod rates;
mod response;
mod standins;
pub mod tasks;
mod trial;

use crate::outcome::Error;
use crate::report::text::table;
use serde::Serialize;
use std::fmt::Write;

/// What a value has to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// From the first to the second.
    Within(f64, f64),
    /// Nothing: it is reported only.
    Any,
}

impl Criterion {
    /// Whether a value is what it has to be; nothing if it may be anything.
    pub fn holds(self, value: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(value >= least),
            Self::AtMost(most) => Some(value <= most),
            Self::Within(least, most) => Some((least..=most).contains(&value)),
            Self::Any => None,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least:.2}"),
            Self::AtMost(most) => format!("<= {most:.2}"),
            Self::Within(least, most) => format!("{least:.2} to {most:.2}"),
            Self::Any => "-".to_owned(),
        }
    }
}

/// One number of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// What it is.
    pub what: String,
    /// What the paper says of it.
    pub paper: &'static str,
    /// What it is here.
    pub ours: f64,
    /// What it is a number of.
    pub unit: &'static str,
    /// What it has to be here.
    pub criterion: Criterion,
    /// Whether it is.
    pub holds: Option<bool>,
}

impl Line {
    /// A number, judged by its criterion.
    fn new(
        what: impl Into<String>,
        paper: &'static str,
        ours: f64,
        unit: &'static str,
        criterion: Criterion,
    ) -> Self {
        Self {
            what: what.into(),
            paper,
            ours,
            unit,
            criterion,
            holds: criterion.holds(ours),
        }
    }
}

/// A figure of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its name here.
    pub name: &'static str,
    /// What is done in it.
    pub about: &'static str,
    /// Simulated time of each run.
    pub seconds: u64,
    /// Seeds, each a run.
    pub seeds: u64,
    /// Its numbers: means over the seeds.
    pub lines: Vec<Line>,
}

impl Figure {
    /// Lines that are not what they have to be.
    pub fn failed(&self) -> usize {
        let failed = |line: &&Line| line.holds == Some(false);
        self.lines.iter().filter(failed).count()
    }
}

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Time of each run.
    pub seconds: u64,
    /// Seeds, each a run.
    pub seeds: u64,
}

impl Length {
    /// What the documents report.
    pub const WHOLE: Self = Self {
        seconds: 10,
        seeds: 3,
    };
}

/// Makes the lines of a figure.
type Make = fn(Length) -> Result<Vec<Line>, Error>;

/// The figures, with what is done in them.
const FIGURES: &[(&str, &str, Make)] = &[
    (
        "timegraph-7",
        "a game (HT) above an engine (PRT); then the engine has 2.5 of 25 ms",
        games::game_and_engine,
    ),
    (
        "timegraph-8",
        "a game (HT) above a bomb of 5 ms commands (PRT); then the bomb has 2.5 of 25 ms",
        games::game_and_bomb,
    ),
    (
        "timegraph-9",
        "a game (HT) above five bombs (PRT); then each has 0.5 of 25 ms, or all share 2.5",
        games::game_and_bombs,
    ),
    (
        "timegraph-10",
        "a game and an engine (PRT) share 90 % of the GPU by reserves, period 25 ms",
        games::divided,
    ),
    (
        "timegraph-11",
        "an engine above five bombs, which share 2.5 of 25 ms",
        rates::steady,
    ),
    (
        "timegraph-12",
        "three engines: no scheduler, three priorities, then 15/25, 5/50 and 5/100 ms",
        rates::three_engines,
    ),
    (
        "timegraph-13",
        "a player at 24 frames per second (10 of 40 ms) and five bombs (5 of 40 ms)",
        rates::player,
    ),
    (
        "timegraph-14",
        "what commands were expected to take, beside what they took; no scheduler",
        response::forecasts,
    ),
    (
        "timegraph-15",
        "a game alone: what scheduling costs it; and protected beside five bombs",
        response::overhead,
    ),
    (
        "timegraph-16",
        "queued kernels under PRT: completions seen at once, or at a tick of 1 ms",
        response::tick,
    ),
];

/// Names of the figures.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIGURES.iter().map(|(name, ..)| *name)
}

/// The figure of this name, if there is one.
pub fn figure(name: &str, length: Length) -> Option<Result<Figure, Error>> {
    let (name, about, make) = FIGURES.iter().find(|(known, ..)| *known == name)?;
    Some(make(length).map(|lines| Figure {
        name,
        about,
        seconds: length.seconds,
        seeds: length.seeds,
        lines,
    }))
}

/// A figure as a table.
pub fn text(figure: &Figure) -> String {
    let mut text = format!(
        "{}: {}\n{} runs of {} s\n\n",
        figure.name, figure.about, figure.seeds, figure.seconds
    );
    let mut lines = table(["", "paper", "ours", "", "criterion", "verdict"]);
    for line in &figure.lines {
        let verdict = match line.holds {
            None => "",
            Some(true) => "met",
            Some(false) => "NOT MET",
        };
        lines.add_row([
            line.what.as_str(),
            line.paper,
            &format!("{:.2}", line.ours),
            line.unit,
            &line.criterion.text(),
            verdict,
        ]);
    }
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", lines.trim_fmt());
    text
}
