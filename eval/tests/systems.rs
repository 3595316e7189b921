// SPDX-License-Identifier: GPL-2.0

//! Figures of TimeGraph and Pegasus, and random sets of reserves, in reduced form.

use loga_eval::systems::timegraph::tasks::{self, Settings};
use loga_eval::systems::{self, Criterion, Figure, Length};
use std::process::Command;

const SHORT: Length = Length {
    seconds: 3,
    seeds: 1,
};

/// Lines of a figure that are not what they should be.
fn unmet(name: &str) -> Vec<String> {
    let figure = systems::figure(name, SHORT).unwrap().unwrap();
    let unmet = figure.lines.iter().filter(|line| line.holds == Some(false));
    unmet
        .map(|line| format!("{}: {}", line.what, line.ours))
        .collect()
}

#[test]
fn figures_meet_their_criteria() {
    let not_met = ["timegraph-11", "timegraph-15", "pegasus-6"];
    for name in systems::names().filter(|name| !not_met.contains(name)) {
        assert_eq!(unmet(name), [""; 0], "{name}");
    }
}

#[test]
fn figure_15_loses_to_the_floor_what_a_long_linger_would_keep() {
    let unmet = unmet("timegraph-15");
    assert!(
        unmet.len() == 1 && unmet[0].starts_with("the same with a linger of 4.5 ms"),
        "{unmet:?}"
    );
}

#[test]
fn figure_11_is_steadier_in_time_but_not_over_a_mean_that_is_five_times_shorter() {
    let unmet = unmet("timegraph-11");
    assert!(
        unmet.len() == 1 && unmet[0].starts_with("the same over the mean, reserve"),
        "{unmet:?}"
    );
}

#[test]
fn figure_6_meets_targets_at_the_cost_of_those_without_as_large_ones() {
    let unmet = unmet("pegasus-6");
    assert!(
        unmet.len() == 1 && unmet[0].starts_with("least part of one without a scheduler"),
        "{unmet:?}"
    );
}

#[test]
fn criterion_judges_at_its_ends() {
    assert_eq!(Criterion::AtLeast(2.0).holds(2.0), Some(true));
    assert_eq!(Criterion::AtLeast(2.0).holds(1.9), Some(false));
    assert_eq!(Criterion::AtMost(2.0).holds(2.1), Some(false));
    assert_eq!(Criterion::Within(1.0, 2.0).holds(0.9), Some(false));
    assert_eq!(Criterion::Within(1.0, 2.0).holds(f64::NAN), Some(false));
    assert_eq!(Criterion::Any.holds(0.0), None);
}

#[test]
fn table_of_a_figure_says_what_is_not_met() {
    let lines = systems::figure("timegraph-16", SHORT).unwrap().unwrap();
    let mut figure = Figure { ..lines };
    assert!(!systems::text(&figure).contains("NOT MET"));
    assert_eq!(figure.failed(), 0);
    figure.lines[1].holds = Some(false);
    assert!(systems::text(&figure).contains("NOT MET"));
    assert_eq!(figure.failed(), 1);
}

#[test]
fn sets_that_are_admitted_miss_no_deadline() {
    let settings = Settings {
        sets: 150,
        seconds: 4,
        seed: 2,
    };
    let report = tasks::run(settings).unwrap();
    assert!(report.admitted.sets > 40 && report.admitted.jobs > 10_000);
    assert_eq!(report.admitted.missed, 0);
    assert!(report.admitted.worst_pct <= 100.0);
    // The simulation can show a miss: the sum of the promises is no test.
    assert!(report.by_sum_only.broken > report.by_sum_only.sets / 4);
}

#[test]
fn command_prints_a_figure_and_names_the_others() {
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_loga-sim");
        Command::new(program).args(arguments).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&run(&["paper", "timegraph-15"]).stdout);
    assert!(printed.contains("lost under PRT") && printed.contains("met"));
    let json = text(&run(&["paper", "timegraph-15", "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["lines"][1]["holds"], true);
    let refused = run(&["paper", "timegraph-17"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("timegraph-16, pegasus-3"));
    let turns = text(&run(&["paper", "pegasus-5"]).stdout);
    assert!(turns.contains("1024 to 256") && !turns.contains("NOT MET"));
    let sets = text(&run(&["admission", "--sets", "20", "--seconds", "1"]).stdout);
    assert!(sets.contains("by the sum only"));
}
