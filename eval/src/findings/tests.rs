// SPDX-License-Identifier: GPL-2.0

//! Numbers like the paper's make its findings hold; broken ones do not.

use super::*;
use crate::results::Origin;

fn series(name: &str, points: &[(&str, f64)]) -> Series {
    let point = |(name, mean): &(&str, f64)| Point::of(*name, &[*mean]).unwrap();
    Series::new(name, points.iter().map(point).collect())
}

fn line(name: &str, panel: Option<&str>, points: &[(f64, f64)]) -> Series {
    let point = |(at, mean): &(f64, f64)| Point::of(*at, &[*mean]).unwrap();
    Series {
        panel: panel.map(str::to_owned),
        ..Series::new(name, points.iter().map(point).collect())
    }
}

fn experiment(figure: &str, series: Vec<Series>) -> Experiment {
    Experiment {
        series,
        ..Experiment::new(figure, Origin::Simulator, "paper")
    }
}

/// Numbers as the paper describes them.
fn as_in_the_paper() -> Vec<Experiment> {
    let mean = GEOMETRIC_MEAN;
    let eight = [
        ("heartwall", [(1.0, 1.01), (18.0, 1.1), (20.0, 1.2)], 1.0),
        ("lavaMD", [(1.0, 0.95), (18.0, 1.0), (20.0, 1.1)], 1.0),
        ("dwt2d", [(1.0, 1.2), (18.0, 1.1), (20.0, 1.15)], 1.0),
        ("mummergpu", [(1.0, 1.2), (18.0, 0.99), (20.0, 0.98)], 1.0),
    ];
    let eight = eight.iter().flat_map(|(panel, sampling, event)| {
        let event = sampling.map(|(at, _)| (at, *event));
        let panel = Some(*panel);
        [
            line("sampling", panel, sampling),
            line("event", panel, &event),
        ]
    });
    let eleven = |values: [f64; 3]| [("bfs", values[0]), ("lud", values[1]), ("nn", values[2])];
    vec![
        experiment(
            "7a",
            vec![
                series("event", &[("nn", 1.0), ("bfs", 0.99), (mean, 0.995)]),
                series("sampling", &[("nn", 1.234), ("bfs", 1.05), (mean, 1.114)]),
            ],
        ),
        experiment(
            "7b",
            vec![
                series("event", &[(mean, 1.007)]),
                series("sampling", &[(mean, 1.076)]),
            ],
        ),
        experiment("8", eight.collect()),
        experiment(
            "9",
            vec![line("event", None, &[(100.0, 95.0), (1000.0, 941.0)])],
        ),
        experiment(
            "10",
            vec![line("event", None, &[(10.0, 9.8), (100.0, 98.0)])],
        ),
        experiment(
            "11",
            vec![
                series("none", &eleven([1.2, 1.2, 1.2])),
                series("fair", &eleven([2.0, 2.0, 2.0])),
                series("event", &eleven([1.9, 1.8, 1.7])),
                series("sampling", &eleven([1.5, 1.1, 1.7])),
                series("event-cl", &eleven([1.5, 1.3, 1.7])),
            ],
        ),
        experiment(
            "5.6",
            vec![
                series("event", &[("event", 17.0)]),
                series("sampling", &[("sampling", 0.1)]),
            ],
        ),
    ]
}

/// How a number is broken.
type Change = fn(f64) -> f64;

fn verdicts(all: &[Experiment]) -> Vec<Judged> {
    judge(&all.iter().collect::<Vec<_>>())
}

#[test]
fn numbers_of_the_paper_make_every_finding_hold() {
    let judged = verdicts(&as_in_the_paper());
    assert_eq!(judged.len(), all().count());
    for one in judged {
        assert_eq!(one.verdict, Verdict::Holds, "{one:?}");
    }
}

#[test]
fn every_finding_differs_for_some_broken_number() {
    // Each changes the numbers of one series; together they break every rule.
    let breaks: &[(&str, &str, Change)] = &[
        ("7a", "event", |mean| mean + 0.02),
        ("7a", "sampling", |_| 1.0),
        ("7b", "event", |mean| mean - 0.02),
        ("7b", "sampling", |mean| mean + 0.1),
        ("7b", "sampling", |_| 1.0),
        ("8", "event", |mean| mean + 0.03),
        ("8", "sampling", |_| 1.005),
        ("9", "event", |mean| mean * 0.9),
        (
            "9",
            "event",
            |mean| if mean > 500.0 { mean * 1.05 } else { mean },
        ),
        ("10", "event", |mean| mean * 1.06),
        ("11", "event", |_| 3.0),
        ("11", "sampling", |_| 2.01),
        ("11", "event-cl", |_| 0.5),
        ("5.6", "event", |mean| mean - 1.0),
        ("5.6", "sampling", |_| 1.5),
    ];
    let mut broken: Vec<&str> = Vec::new();
    for (figure, name, change) in breaks {
        let mut all = as_in_the_paper();
        let one = all.iter_mut().find(|one| one.figure == *figure).unwrap();
        let series = one.series.iter_mut().filter(|series| series.name == *name);
        for point in series.flat_map(|series| &mut series.points) {
            point.mean = change(point.mean);
        }
        let differs = verdicts(&all);
        let differs = differs.iter().filter(|one| one.verdict == Verdict::Differs);
        let found: Vec<_> = differs.map(|one| one.finding.rule).collect();
        assert!(!found.is_empty(), "{figure} {name}");
        broken.extend(found);
    }
    for finding in all() {
        assert!(broken.contains(&finding.rule), "{finding:?}");
    }
}

#[test]
fn finding_without_its_series_is_untested() {
    let mut all = as_in_the_paper();
    for one in &mut all {
        one.series.retain(|series| series.name != "sampling");
    }
    for one in verdicts(&all) {
        let needs = one.ours.contains("sampling");
        assert_eq!(one.verdict == Verdict::Untested, needs, "{one:?}");
    }
    let nothing = all.iter().filter(|one| one.figure == "9").cloned();
    assert!(verdicts(&nothing.collect::<Vec<_>>())
        .iter()
        .all(|one| one.finding.figure == "9"));
}

#[test]
fn places_agree_until_one_point_is_off_by_more_than_the_limit() {
    let real = experiment(
        "10",
        vec![line("event", None, &[(10.0, 10.0), (20.0, 20.0)])],
    );
    let mut simulated = real.clone();
    simulated.series[0].points[1].mean = 21.9;
    let within = agreement(&simulated, &real);
    assert!(within.agrees());
    assert_eq!(within.worst().unwrap().at, At::Value(20.0));
    simulated.series[0].points[1].mean = 22.1;
    assert!(!agreement(&simulated, &real).agrees());
    simulated.series[0].name = "other".to_owned();
    assert!(!agreement(&simulated, &real).agrees(), "nothing to compare");
}
