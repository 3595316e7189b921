// SPDX-License-Identifier: GPL-2.0

//! What the paper found, and whether results show the same: calculated from their numbers each
//! time, with a stated rule for each finding.
//!
//! A rule says when direction and size are the same; it was written down from the paper's words
//! before there were results, and is not fitted to them.

mod agreement;
mod overhead;
mod quality;
mod scheduling;

pub use agreement::{agreement, Agreement, Pair, LIMIT};

use crate::results::{At, Experiment, Point, Series, FIGURES, GEOMETRIC_MEAN};

/// From which part on a change against no scheduling counts as one.
const CHANGE: f64 = 0.02;

/// A finding of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// Figure or section it belongs to.
    pub figure: &'static str,
    /// What the paper says.
    pub claim: &'static str,
    /// The paper's number; empty where it says it in words only.
    pub paper: &'static str,
    /// When it holds here.
    pub rule: &'static str,
    judge: fn(&Results) -> Result<Evidence, String>,
}

/// What results say of a finding.
struct Evidence {
    holds: bool,
    ours: String,
}

fn evidence(holds: bool, ours: String) -> Result<Evidence, String> {
    Ok(Evidence { holds, ours })
}

/// Whether a finding holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Its rule is met.
    Holds,
    /// It is not.
    Differs,
    /// There are no numbers to judge it by.
    Untested,
}

/// A finding and what came out.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Which one.
    pub finding: Finding,
    /// Whether it holds.
    pub verdict: Verdict,
    /// The numbers it was judged by, or which are missing.
    pub ours: String,
}

/// The results of one place with one setting.
struct Results<'a> {
    all: &'a [&'a Experiment],
}

/// All findings, in the order of the figures.
pub fn all() -> impl Iterator<Item = &'static Finding> {
    let parts = || [overhead::FINDINGS, quality::FINDINGS, scheduling::FINDINGS];
    let of = move |figure| {
        let all = parts().into_iter().flatten();
        all.filter(move |finding: &&Finding| finding.figure == figure)
    };
    FIGURES.iter().flat_map(move |figure| of(*figure))
}

/// Judges the findings by the results of one place with one setting; nothing about figures that
/// are not among them.
pub fn judge(results: &[&Experiment]) -> Vec<Judged> {
    let results = Results { all: results };
    let there = |finding: &&Finding| results.all.iter().any(|one| one.figure == finding.figure);
    let judged = all().filter(there).map(|finding| {
        let (verdict, ours) = match (finding.judge)(&results) {
            Ok(Evidence { holds: true, ours }) => (Verdict::Holds, ours),
            Ok(Evidence { holds: false, ours }) => (Verdict::Differs, ours),
            Err(missing) => (Verdict::Untested, missing),
        };
        Judged {
            finding: *finding,
            verdict,
            ours,
        }
    });
    judged.collect()
}

impl<'a> Results<'a> {
    fn figure(&self, number: &str) -> Result<&'a Experiment, String> {
        let mut all = self.all.iter();
        let found = all.find(|one| one.figure == number).copied();
        found.ok_or_else(|| format!("Figure {number} was not run"))
    }

    fn series(&self, figure: &str, name: &str) -> Result<&'a Series, String> {
        self.panel(figure, name, None)
    }

    fn panel(&self, figure: &str, name: &str, panel: Option<&str>) -> Result<&'a Series, String> {
        let found = self.figure(figure)?.series(name, panel);
        found.ok_or_else(|| match panel {
            Some(panel) => format!("{panel} was not run with {name}"),
            None => format!("{name} was not run"),
        })
    }

    /// Mean of a point in percent above 1.
    fn increase(&self, figure: &str, name: &str, at: &str) -> Result<f64, String> {
        let series = self.series(figure, name)?;
        Ok(increase(point(series, &At::from(at))?))
    }
}

fn point<'a>(series: &'a Series, at: &At) -> Result<&'a Point, String> {
    let found = series.point(at);
    found.ok_or_else(|| format!("{at} was not run with {}", series.name))
}

/// How much a ratio is above 1, in percent.
fn increase(point: &Point) -> f64 {
    100.0 * (point.mean - 1.0)
}

/// The points of a series without the mean of them.
fn applications(series: &Series) -> impl Iterator<Item = (&str, &Point)> + Clone {
    series.points.iter().filter_map(|point| match &point.at {
        At::Name(name) if name != GEOMETRIC_MEAN => Some((&**name, point)),
        _ => None,
    })
}

/// Whether a number has the sign of the paper's and is between half and twice as large.
fn same_size(ours: f64, paper: f64) -> bool {
    (0.5..=2.0).contains(&(ours / paper))
}

/// Names, or that there are none.
fn list(names: &[&str]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

/// Whether a policy moves a turnaround to the other side of that without scheduling than the
/// optimum, by enough to count.
pub fn moves_away(turnaround: f64, none: f64, fair: f64) -> bool {
    let change = turnaround - none;
    change.abs() >= CHANGE * none && change * (fair - none) < 0.0
}

#[cfg(test)]
mod tests;
