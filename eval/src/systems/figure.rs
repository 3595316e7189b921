// SPDX-License-Identifier: GPL-2.0

//! A figure of a paper: its numbers, ours, and what ours have to be.

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

    pub(super) fn text(self) -> String {
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
    /// The mechanism if it is not, as far as the figure isolates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

impl Line {
    /// A number, judged by its criterion.
    pub(super) fn new(
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
            why: None,
        }
    }

    /// With the reason, if it is not what it has to be.
    #[must_use]
    pub(super) fn unless_met(self, why: &'static str) -> Self {
        let why = (self.holds == Some(false)).then_some(why);
        Self { why, ..self }
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
    /// Lines that have to be something.
    pub fn judged(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| line.holds.is_some())
            .count()
    }

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

/// The lines of a figure, or why there are none.
pub(super) type Lines = Result<Vec<Line>, Error>;

/// A figure that can be made: its name, what is done in it, and how.
pub(super) type Experiment = (&'static str, &'static str, fn(Length) -> Lines);

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
    for line in &figure.lines {
        if let Some(why) = line.why {
            let _ = writeln!(text, "\nNot met: {}. {why}", line.what);
        }
    }
    text
}
