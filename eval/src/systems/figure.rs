// SPDX-License-Identifier: GPL-2.0

//! A figure of a paper: its numbers, ours, and what ours have to be.

use crate::outcome::Error;
use crate::report::text::table;
use loga_results::stats::Spread;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
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

    /// Whether all values from the first to the second are what they have to be.
    pub fn holds_from(self, least: f64, most: f64) -> Option<bool> {
        Some(self.holds(least)? && self.holds(most)?)
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
    /// Half of the interval in which the mean is with 95 %, if it was made seed by seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// Whether it is: over the whole interval, if there is one.
    pub holds: Option<bool>,
    /// The mechanism if it is not, as far as the figure isolates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
    /// The same, whether it is needed or not.
    #[serde(skip)]
    reason: Option<&'static str>,
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
            within: None,
            holds: criterion.holds(ours),
            why: None,
            reason: None,
        }
    }

    /// The mean of the same number from several seeds, judged by where it is with 95 %.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub(super) fn of_seeds(seeds: &[Self]) -> Self {
        // PANIC: there is a line for each seed, of which there is one at least.
        let first = seeds.first().expect("a seed").clone();
        let (mean, within) = interval(seeds.iter().map(|line| line.ours));
        let line = Self {
            ours: mean,
            within: Some(within),
            holds: first.criterion.holds_from(mean - within, mean + within),
            ..first
        };
        Self {
            why: line.reason.filter(|_| line.holds == Some(false)),
            ..line
        }
    }

    /// The number, with its interval if there is one.
    pub(super) fn number(&self) -> String {
        match self.within {
            Some(within) => format!("{:.2} ± {within:.2}", self.ours),
            None => format!("{:.2}", self.ours),
        }
    }

    /// With the reason, if it is not what it has to be.
    #[must_use]
    pub(super) fn unless_met(self, why: &'static str) -> Self {
        Self {
            why: (self.holds == Some(false)).then_some(why),
            reason: Some(why),
            ..self
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
    /// How much is simulated in each run.
    pub each: String,
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
    /// The first of them.
    pub first: u64,
    /// The same of figures that are made seed by seed.
    pub one_by_one: u64,
}

impl Length {
    /// What the documents report.
    pub const WHOLE: Self = Self {
        seconds: 10,
        seeds: 3,
        first: 1,
        one_by_one: 10,
    };
    /// Enough to see that a figure can be made.
    pub const QUICK: Self = Self {
        seconds: 3,
        seeds: 1,
        first: 1,
        one_by_one: 1,
    };

    /// The same with so many seeds.
    #[must_use]
    pub const fn with_seeds(self, seeds: u64) -> Self {
        Self {
            seeds,
            one_by_one: seeds,
            ..self
        }
    }

    /// The seeds.
    pub(super) fn each_seed(self) -> std::ops::Range<u64> {
        self.first..self.first.saturating_add(self.seeds)
    }
}

/// The mean of these values, and how far from it that of many more would be at most, with 95 %: by
/// Student's distribution, if they are normal.
fn interval(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count();
    let (least, most) = values
        .clone()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
            (least.min(one), most.max(one))
        });
    if count < 2 || least == most {
        return (values.clone().next().unwrap_or(f64::NAN), 0.0);
    }
    // CAST: a number of runs.
    let count = count as f64;
    let quantile = StudentsT::new(0.0, 1.0, count - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(0.975));
    let spread = Spread::of(values);
    let mean = spread.map_or(f64::NAN, |spread| spread.mean);
    let deviation = spread.map_or(f64::NAN, |spread| spread.deviation);
    (mean, quantile * deviation / count.sqrt())
}

/// The lines of a figure, or why there are none.
pub(super) type Lines = Result<Vec<Line>, Error>;

/// A figure that can be made: its name, what is done in it, and how.
pub(super) type Experiment = (&'static str, &'static str, fn(Length) -> Lines);

/// A figure as a table.
pub fn text(figure: &Figure) -> String {
    let mut text = format!(
        "{}: {}\n{} runs of {}\n\n",
        figure.name, figure.about, figure.seeds, figure.each
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
            &line.number(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[f64], criterion: Criterion) -> Line {
        let line = |ours: &f64| Line::new("x", "-", *ours, "", criterion).unless_met("because");
        Line::of_seeds(&values.iter().map(line).collect::<Vec<_>>())
    }

    #[test]
    fn interval_of_four_values_is_that_of_the_tables() {
        // Deviation 2, 3.182 of it over the root of 4.
        let (mean, within) = interval([4.0, 6.0, 8.0, 10.0].into_iter());
        assert_eq!(mean, 7.0);
        let wanted = 3.182_446 * (20.0f64 / 3.0).sqrt() / 2.0;
        assert!((within - wanted).abs() < 1e-5, "{within}");
        assert_eq!(interval([3.0].into_iter()), (3.0, 0.0));
        let infinite = interval([f64::INFINITY; 3].into_iter());
        assert_eq!(infinite, (f64::INFINITY, 0.0));
    }

    #[test]
    fn criterion_has_to_hold_over_the_whole_interval() {
        let values = [4.0, 6.0, 8.0, 10.0];
        assert_eq!(lines(&values, Criterion::AtLeast(2.8)).holds, Some(true));
        // The mean is above it, and the interval is not.
        let line = lines(&values, Criterion::AtLeast(3.0));
        assert_eq!((line.holds, line.why), (Some(false), Some("because")));
        assert_eq!(lines(&values, Criterion::AtMost(11.0)).holds, Some(false));
        assert_eq!(
            lines(&values, Criterion::Within(2.0, 12.0)).holds,
            Some(true)
        );
        assert_eq!(
            lines(&values, Criterion::Within(2.0, 11.0)).holds,
            Some(false)
        );
        assert_eq!(lines(&values, Criterion::Any).holds, None);
        let values = [4.0, f64::NAN, 8.0];
        assert_eq!(lines(&values, Criterion::AtMost(100.0)).holds, Some(false));
    }

    #[test]
    fn one_bad_seed_of_four_does_not_make_a_good_mean_bad() {
        let line = lines(&[4.9, 5.2, 5.2, 5.3], Criterion::AtLeast(4.8));
        assert_eq!((line.holds, line.why), (Some(true), None));
        assert_eq!(line.number(), "5.15 ± 0.28");
    }
}
