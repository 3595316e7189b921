// SPDX-License-Identifier: GPL-2.0

//! Section 5.3: what accounting costs applications beside throttles.

use super::{applications, evidence, increase, same_size, Evidence, Finding, Results};
use crate::results::{At, Point, Series, GEOMETRIC_MEAN};

/// How much event accounting may cost and count as nothing, in percent.
const NOTHING: f64 = 1.0;
/// From how many percentage points on one is above the other.
const ABOVE: f64 = 2.0;
/// The same between points of Figure 8, which are of one application and scatter more.
const SCATTER: f64 = 2.0;

pub(super) const FINDINGS: &[Finding] = &[
    Finding {
        figure: "7a",
        claim: "Event accounting costs nothing measurable: turnaround decreased on average, not \
                by a significant amount",
        paper: "≤ 0 %",
        rule: "geometric mean within 1 % of no accounting",
        judge: |results| free(results, "7a"),
    },
    Finding {
        figure: "7a",
        claim: "Sampling costs clearly more",
        paper: "+11.4 %",
        rule: "geometric mean at least 2 points above that of event",
        judge: |results| dearer(results, "7a"),
    },
    Finding {
        figure: "7a",
        claim: "The size of sampling's cost, on average",
        paper: "+11.4 %",
        rule: "between half and twice the paper's",
        judge: |results| size(results, "7a", GEOMETRIC_MEAN, 11.4),
    },
    Finding {
        figure: "7a",
        claim: "Sampling's worst case is nn",
        paper: "nn, +23.4 %",
        rule: "nn has the largest increase, between half and twice the paper's",
        judge: worst,
    },
    Finding {
        figure: "7b",
        claim: "Event accounting costs next to nothing with kernels of 100 us too",
        paper: "+0.7 %",
        rule: "geometric mean within 1 % of no accounting",
        judge: |results| free(results, "7b"),
    },
    Finding {
        figure: "7b",
        claim: "Sampling costs clearly more",
        paper: "+7.6 %",
        rule: "geometric mean at least 2 points above that of event",
        judge: |results| dearer(results, "7b"),
    },
    Finding {
        figure: "7b",
        claim: "The size of sampling's cost, on average",
        paper: "+7.6 %",
        rule: "between half and twice the paper's",
        judge: |results| size(results, "7b", GEOMETRIC_MEAN, 7.6),
    },
    Finding {
        figure: "7b",
        claim: "Sampling costs less than in Figure 7a, because the GPU would idle less",
        paper: "7.6 % against 11.4 %",
        rule: "geometric mean of sampling below that in Figure 7a",
        judge: |results| {
            let [small, large] =
                ["7a", "7b"].map(|figure| results.increase(figure, "sampling", GEOMETRIC_MEAN));
            let (small, large) = (small?, large?);
            evidence(
                large < small,
                format!("{large:+.1} % against {small:+.1} %"),
            )
        },
    },
    Finding {
        figure: "8",
        claim: "Event accounting costs nothing significant, however many throttles there are",
        paper: "",
        rule: "every point of the four applications within 2 % of no accounting",
        judge: independent,
    },
    Finding {
        figure: "8",
        claim: "heartwall, like most: sampling costs more with more throttles",
        paper: "",
        rule:
            "rising straight line through the points, last point at least 2 points above the first",
        judge: |results| {
            let line = ratios(results, "heartwall", "sampling")?;
            let [first, last] = ends(&line);
            evidence(
                slope(&line) > 0.0 && last - first >= SCATTER,
                format!("{first:+.1} % with the fewest, {last:+.1} % with the most"),
            )
        },
    },
    Finding {
        figure: "8",
        claim:
            "lavaMD: with few throttles sampling is faster than no accounting, with many slower \
                than event",
        paper: "",
        rule: "first point below 0 %, last point above that of event",
        judge: |results| {
            let [first, last] = ends(&ratios(results, "lavaMD", "sampling")?);
            let [_, event] = ends(&ratios(results, "lavaMD", "event")?);
            evidence(
                first < 0.0 && last > event,
                format!("{first:+.1} %, then {last:+.1} % (event: {event:+.1} %)"),
            )
        },
    },
    Finding {
        figure: "8",
        claim: "dwt2d: sampling's cost falls first, then rises; always above event's",
        paper: "",
        rule: "a point between first and last is the lowest, and no point is below event's",
        judge: dip,
    },
    Finding {
        figure: "8",
        claim: "mummergpu: sampling's cost falls with the number of throttles, below event's \
                beyond 16",
        paper: "",
        rule: "falling straight line through the points, every point beyond 16 below event's",
        judge: fall,
    },
];

fn free(results: &Results, figure: &str) -> Result<Evidence, String> {
    let ours = results.increase(figure, "event", GEOMETRIC_MEAN)?;
    evidence(ours.abs() <= NOTHING, format!("{ours:+.2} %"))
}

fn dearer(results: &Results, figure: &str) -> Result<Evidence, String> {
    let sampling = results.increase(figure, "sampling", GEOMETRIC_MEAN)?;
    let event = results.increase(figure, "event", GEOMETRIC_MEAN)?;
    evidence(
        sampling - event >= ABOVE,
        format!("{sampling:+.1} % (event: {event:+.2} %)"),
    )
}

fn size(results: &Results, figure: &str, at: &str, paper: f64) -> Result<Evidence, String> {
    let ours = results.increase(figure, "sampling", at)?;
    evidence(same_size(ours, paper), format!("{ours:+.1} %"))
}

fn worst(results: &Results) -> Result<Evidence, String> {
    let nn = results.increase("7a", "sampling", "nn")?;
    let series = results.series("7a", "sampling")?;
    let most = applications(series).max_by(|one, other| one.1.mean.total_cmp(&other.1.mean));
    let (name, point) = most.ok_or("no application was run")?;
    evidence(
        name == "nn" && same_size(nn, 23.4),
        format!("worst: {name}, {:+.1} %; nn: {nn:+.1} %", increase(point)),
    )
}

/// The applications of Figure 8.
const PANELS: [&str; 4] = ["heartwall", "lavaMD", "dwt2d", "mummergpu"];

fn independent(results: &Results) -> Result<Evidence, String> {
    let mut most: f64 = 0.0;
    for panel in PANELS {
        for (_, ratio) in ratios(results, panel, "event")? {
            if ratio.abs() > most.abs() {
                most = ratio;
            }
        }
    }
    evidence(most.abs() <= SCATTER, format!("at most {most:+.1} %"))
}

fn dip(results: &Results) -> Result<Evidence, String> {
    let line = ratios(results, "dwt2d", "sampling")?;
    let event = ratios(results, "dwt2d", "event")?;
    let [first, last] = ends(&line);
    let least = line.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    let below = below(&line, &event);
    evidence(
        least < first && least < last && below == 0,
        format!(
            "{first:+.1} %, lowest {least:+.1} %, then {last:+.1} %; {below} of {} points below \
             event",
            line.len()
        ),
    )
}

fn fall(results: &Results) -> Result<Evidence, String> {
    let line = ratios(results, "mummergpu", "sampling")?;
    let event = ratios(results, "mummergpu", "event")?;
    let [first, last] = ends(&line);
    let beyond: Vec<_> = line.iter().copied().filter(|one| one.0 > 16.0).collect();
    if beyond.is_empty() {
        return Err("mummergpu was not run beside more than 16 throttles".to_owned());
    }
    let below = below(&beyond, &event);
    evidence(
        slope(&line) < 0.0 && below == beyond.len(),
        format!(
            "{first:+.1} %, then {last:+.1} %; below event at {} of {} points beyond 16",
            below,
            beyond.len()
        ),
    )
}

/// Number of throttles and increase in percent, of an application in Figure 8; never empty.
fn ratios(results: &Results, panel: &str, name: &str) -> Result<Vec<(f64, f64)>, String> {
    let series: &Series = results.panel("8", name, Some(panel))?;
    let ratio = |point: &Point| match point.at {
        At::Value(at) => Some((at, increase(point))),
        At::Name(_) => None,
    };
    let line: Vec<_> = series.points.iter().filter_map(ratio).collect();
    if line.len() < 2 {
        return Err(format!("{panel}: {name} has fewer than two points"));
    }
    Ok(line)
}

/// How many points of a line are below those of another with as many throttles.
fn below(line: &[(f64, f64)], than: &[(f64, f64)]) -> usize {
    let below = |one: &&(f64, f64)| than.iter().any(|other| other.0 == one.0 && one.1 < other.1);
    line.iter().filter(below).count()
}

/// First and last value of a line that is not empty.
fn ends(line: &[(f64, f64)]) -> [f64; 2] {
    [0, line.len() - 1].map(|at| line[at].1)
}

/// Slope of the straight line with the least squares.
fn slope(line: &[(f64, f64)]) -> f64 {
    // CAST: a few dozen points.
    let count = line.len() as f64;
    let x = line.iter().map(|one| one.0).sum::<f64>() / count;
    let y = line.iter().map(|one| one.1).sum::<f64>() / count;
    let across = line.iter().map(|one| (one.0 - x) * (one.1 - y));
    let along = line.iter().map(|one| (one.0 - x).powi(2));
    across.sum::<f64>() / along.sum::<f64>()
}
