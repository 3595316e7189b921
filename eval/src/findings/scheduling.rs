// SPDX-License-Identifier: GPL-2.0

//! Section 5.5: how close to the fair optimum schedulers bring applications beside throttles.

use super::{applications, evidence, list, moves_away, Evidence, Finding, Results};

/// Ratios that differ by less than this part of the optimum are taken for equal.
const EQUAL: f64 = 0.01;
/// How close LoGA-CL has to be to NEON to be similar.
const SIMILAR: f64 = 0.1;

/// Applications for which the paper says that NEON slowed down the wrong side.
const WRONG: [&str; 5] = ["dwt2d", "gaussian", "lavaMD", "lud", "srad_v1"];
/// Applications for which it says that NEON saw less imbalance than LoGA.
const LESS: [&str; 6] = [
    "bfs",
    "cfd",
    "hotspot",
    "hotspot3D",
    "hybridsort",
    "particlefilter",
];

pub(super) const FINDINGS: &[Finding] = &[
    Finding {
        figure: "11",
        claim: "LoGA brings the turnaround time of all applications closer to the optimum",
        paper: "all",
        rule: "no application further from the optimum than without scheduling (by 1 % of it)",
        judge: |results| {
            let all = all(results, &["event"])?;
            let worse = |one: &&One| one.far(one.policies[0]) > one.far(one.none) + EQUAL;
            let worse: Vec<_> = all.iter().filter(worse).map(|one| one.name).collect();
            evidence(worse.is_empty(), all_but(all.len(), &worse))
        },
    },
    Finding {
        figure: "11",
        claim: "LoGA mostly stays below the optimum, which the calculation overestimates",
        paper: "most",
        rule: "below the optimum for more than half of the applications",
        judge: |results| {
            let all = all(results, &["event"])?;
            most(&all, |one| one.policies[0] <= one.fair * (1.0 + EQUAL))
        },
    },
    Finding {
        figure: "11",
        claim: "LoGA is at least as close to the optimum as NEON",
        paper: "most",
        rule: "for more than half of the applications no further from it (by 1 % of it)",
        judge: |results| {
            let all = all(results, &["event", "sampling"])?;
            most(&all, |one| {
                one.far(one.policies[0]) <= one.far(one.policies[1]) + EQUAL
            })
        },
    },
    Finding {
        figure: "11",
        claim:
            "NEON saw less imbalance than LoGA for bfs, cfd, hotspot (\"hotpot\" in the paper), \
                hotspot3D, hybridsort and particlefilter",
        paper: "6 applications",
        rule: "for more than half of them it changes the turnaround less",
        judge: |results| {
            let all = all(results, &["event", "sampling"])?;
            let named: Vec<_> = all
                .into_iter()
                .filter(|one| LESS.contains(&one.name))
                .collect();
            most(&named, |one| {
                let change = |policy: f64| (policy - one.none).abs();
                change(one.policies[1]) < change(one.policies[0])
            })
        },
    },
    Finding {
        figure: "11",
        claim: "NEON slowed down the wrong side for dwt2d, gaussian, lavaMD, lud and srad_v1",
        paper: "5 applications",
        rule: "for more than half of them it moves away from the optimum by 2 % or more",
        judge: |results| {
            let all = all(results, &["sampling"])?;
            let named: Vec<_> = all
                .into_iter()
                .filter(|one| WRONG.contains(&one.name))
                .collect();
            most(&named, |one| one.wrong(one.policies[0]))
        },
    },
    Finding {
        figure: "11",
        claim: "LoGA-CL is similar to NEON in many cases",
        paper: "many",
        rule: "within 10 % of NEON for at least a third of the applications",
        judge: |results| {
            let all = all(results, &["event-cl", "sampling"])?;
            let similar = |one: &&One| (one.policies[0] / one.policies[1] - 1.0).abs() <= SIMILAR;
            let similar = all.iter().filter(similar).count();
            evidence(
                3 * similar >= all.len(),
                format!("{similar} of {}", all.len()),
            )
        },
    },
    Finding {
        figure: "11",
        claim: "LoGA-CL slows down the wrong side less often than NEON",
        paper: "",
        rule: "for fewer applications it moves away from the optimum by 2 % or more",
        judge: |results| {
            let all = all(results, &["event-cl", "sampling"])?;
            let wrong = |at: usize| {
                let wrong = all.iter().filter(|one| one.wrong(one.policies[at]));
                wrong.map(|one| one.name).collect::<Vec<_>>()
            };
            let (ours, neon) = (wrong(0), wrong(1));
            evidence(
                ours.len() < neon.len(),
                format!("LoGA-CL: {}; NEON: {}", list(&ours), list(&neon)),
            )
        },
    },
];

/// An application of Figure 11: its normalised turnaround times.
struct One<'a> {
    name: &'a str,
    none: f64,
    fair: f64,
    /// With the policies that were asked for.
    policies: Vec<f64>,
}

impl One<'_> {
    /// How far a turnaround is from the optimum, in parts of it.
    fn far(&self, turnaround: f64) -> f64 {
        (turnaround - self.fair).abs() / self.fair
    }

    /// Whether a turnaround is on the other side of no scheduling than the optimum.
    fn wrong(&self, turnaround: f64) -> bool {
        moves_away(turnaround, self.none, self.fair)
    }
}

/// The applications that were run with all of these.
fn all<'a>(results: &Results<'a>, policies: &[&str]) -> Result<Vec<One<'a>>, String> {
    let (none, fair) = (results.series("11", "none")?, results.series("11", "fair")?);
    let series = policies.iter().map(|policy| results.series("11", policy));
    let series: Vec<_> = series.collect::<Result<_, _>>()?;
    let mut all = Vec::new();
    for (name, point) in applications(none) {
        let fair = fair.point(&point.at);
        let policies = series.iter().map(|one| Some(one.point(&point.at)?.mean));
        let policies: Option<Vec<_>> = policies.collect();
        if let (Some(fair), Some(policies)) = (fair, policies) {
            all.push(One {
                name,
                none: point.mean,
                fair: fair.mean,
                policies,
            });
        }
    }
    if all.is_empty() {
        return Err(format!("no application was run with {}", list(policies)));
    }
    Ok(all)
}

/// Whether something is so for more than half of these.
fn most(all: &[One], so: impl Fn(&One) -> bool) -> Result<Evidence, String> {
    if all.is_empty() {
        return Err("none of these applications was run".to_owned());
    }
    let not: Vec<_> = all
        .iter()
        .filter(|one| !so(one))
        .map(|one| one.name)
        .collect();
    let count = all.len() - not.len();
    evidence(2 * count > all.len(), all_but(all.len(), &not))
}

/// For how many of them something is so, and for which it is not.
fn all_but(all: usize, not: &[&str]) -> String {
    let count = all - not.len();
    if not.is_empty() {
        format!("{count} of {all}")
    } else {
        format!("{count} of {all}; not: {}", list(not))
    }
}
