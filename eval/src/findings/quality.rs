// SPDX-License-Identifier: GPL-2.0

//! Section 5.4: how well GPU time is measured; section 5.6: what measuring takes.

use super::{evidence, point, Evidence, Finding, Results};
use crate::results::{At, Series};

pub(super) const FINDINGS: &[Finding] = &[
    Finding {
        figure: "9",
        claim: "Kernel lengths are measured well",
        paper: "off by up to 6 %",
        rule: "no length is off by more than 6 %",
        judge: |results| errors(results, "9", |off| off.iter().all(|off| off.abs() <= 6.0)),
    },
    Finding {
        figure: "9",
        claim: "The error is an underestimate of some percent, from two registers that do not \
                change together",
        paper: "up to -6 %",
        rule: "the largest error is below zero, between half and twice the paper's",
        judge: |results| {
            let most = |one: f64, other: &f64| if other.abs() > one.abs() { *other } else { one };
            let most = |off: &[f64]| off.iter().fold(0.0, most);
            errors(results, "9", |off| super::same_size(most(off), -6.0))
        },
    },
    Finding {
        figure: "9",
        claim: "The relative error does not depend on the kernel length",
        paper: "",
        rule: "smallest and largest error within 2 points of each other",
        judge: |results| {
            let width = |[least, most]: [f64; 2]| most - least;
            errors(results, "9", |off| width(extremes(off)) <= 2.0)
        },
    },
    Finding {
        figure: "10",
        claim: "The measured load is close to the intended one in all cases",
        paper: "within 2.5 %",
        rule: "every load within 2.5 % of what was intended",
        judge: |results| errors(results, "10", |off| off.iter().all(|off| off.abs() <= 2.5)),
    },
    Finding {
        figure: "5.6",
        claim: "Polling keeps one core busy for a sixth of the time",
        paper: "16.7 % expected",
        rule: "within 0.5 points of 16.7 %",
        judge: |results| cpu(results, 16.7, 0.5),
    },
    Finding {
        figure: "5.6",
        claim: "Decisions add little to it",
        paper: "17 % measured",
        rule: "within 0.5 points of 17 %",
        judge: |results| cpu(results, 17.0, 0.5),
    },
    Finding {
        figure: "5.6",
        claim: "NEON's CPU time cannot be told from the background",
        paper: "about 0 %",
        rule: "sampling at most 1 %",
        judge: |results| {
            let series = results.series("5.6", "sampling")?;
            let ours = point(series, &At::from("sampling"))?.mean;
            evidence(ours <= 1.0, format!("{ours:.1} %"))
        },
    },
];

/// Judges how much each measured point is off what was intended, in percent.
fn errors(
    results: &Results,
    figure: &str,
    holds: impl Fn(&[f64]) -> bool,
) -> Result<Evidence, String> {
    let series: &Series = results.series(figure, "event")?;
    let off = series.points.iter().filter_map(|point| match point.at {
        At::Value(intended) => Some(100.0 * (point.mean / intended - 1.0)),
        At::Name(_) => None,
    });
    let off: Vec<_> = off.collect();
    if off.is_empty() {
        return Err("no point has a value".to_owned());
    }
    evidence(holds(&off), span(&off))
}

fn extremes(off: &[f64]) -> [f64; 2] {
    let least = off.iter().copied().fold(f64::INFINITY, f64::min);
    [least, off.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

fn span(off: &[f64]) -> String {
    let [least, most] = extremes(off).map(|one| format!("{one:+.2}"));
    if least == most {
        format!("{least} %")
    } else {
        format!("{least} to {most} %")
    }
}

fn cpu(results: &Results, want: f64, within: f64) -> Result<Evidence, String> {
    let ours = point(results.series("5.6", "event")?, &At::from("event"))?.mean;
    evidence((ours - want).abs() <= within, format!("{ours:.2} %"))
}
