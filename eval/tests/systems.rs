// SPDX-License-Identifier: GPL-2.0

//! Figures of TimeGraph, Pegasus and Strings, and random sets of reserves, in reduced form.

use loga_eval::systems::timegraph::tasks::{self, Settings};
use loga_eval::systems::{self, Criterion, Figure, Length};
use std::process::Command;

const SHORT: Length = Length::QUICK;

/// Lines of a figure that are not what they should be.
fn unmet(name: &str) -> Vec<String> {
    unmet_in(name, SHORT)
}

/// The same with runs of this length.
fn unmet_in(name: &str, length: Length) -> Vec<String> {
    let figure = systems::figure(name, length).unwrap().unwrap();
    let unmet = figure.lines.iter().filter(|line| line.holds == Some(false));
    unmet
        .map(|line| format!("{}: {}", line.what, line.ours))
        .collect()
}

#[test]
fn figures_meet_their_criteria() {
    let costs = COSTS.iter().map(|(name, _)| *name);
    let not_met = [
        "pegasus-4",
        "pegasus-6",
        "pegasus-7",
        "pegasus-table-2",
        "strings-10",
        "strings-11",
        "strings-12",
        "strings-13",
        "strings-14",
        "gvim-1",
    ];
    let not_met: Vec<_> = costs.chain(not_met).collect();
    for name in systems::names().filter(|name| !not_met.contains(name)) {
        assert_eq!(unmet(name), [""; 0], "{name}");
    }
}

/// Figures that miss a criterion by what a submission costs in the module, by when ends are read or
/// by the floor, and the lines that do.
const COSTS: &[(&str, &[&str])] = &[
    ("timegraph-7", &["priority, of alone"]),
    (
        "timegraph-8",
        &[
            "PE, of alone",
            "AE, of alone",
            "CBS, of alone",
            "bomb's part under",
        ],
    ),
    ("timegraph-9", &["0.5/25 ms each, of alone"]),
    ("timegraph-10", &["PE/PE: ", "PE/AE: "]),
    (
        "timegraph-11",
        &["deviation, reserve", "the same over the mean, reserve"],
    ),
    (
        "timegraph-12",
        &[
            "priority, high of alone",
            "high's part of 60 %",
            "medium's part of 10 %",
            "kernels of a frame stored at once: high of alone",
        ],
    ),
    (
        "timegraph-15",
        &[
            "shield beside five bombs, of alone",
            "the same with a linger of 4.5 ms, of alone",
        ],
    ),
    ("timegraph-16", &["33 us"]),
    (
        "pegasus-8",
        &["priority: one kernel", "protected, linger 0.2 ms"],
    ),
];

#[test]
fn figures_miss_nothing_but_what_submissions_cost() {
    for (name, known) in COSTS {
        let unmet = unmet(name);
        let is_known = |line: &&String| known.iter().any(|begin| line.starts_with(begin));
        let others: Vec<_> = unmet.iter().filter(|line| !is_known(line)).collect();
        assert!(others.is_empty(), "{name}: {unmet:?}");
        assert!(!unmet.is_empty(), "{name}: {unmet:?}");
    }
}

#[test]
fn figure_1_depends_on_the_priority_of_the_processor_only_where_both_programs_spin_on_it() {
    let figure = systems::figure("timegraph-1", SHORT).unwrap().unwrap();
    let lost = |at: usize| figure.lines[at].ours;
    // Alone, and four lines beside each of the others: apart, on one processor, gained, spinning.
    assert_eq!(figure.lines.len(), 9);
    for first in [1, 5] {
        let [apart, shared, spinning] = [0, 1, 3].map(|at| lost(first + at));
        assert!(shared > 0.9 * apart, "{apart}, {shared}");
        assert!(spinning < 0.5 * shared, "{shared}, {spinning}");
    }
}

#[test]
fn engines_that_store_a_frame_at_once_get_what_they_get_on_the_model_of_a_gpu() {
    // `engines_with_reserves_get_what_they_are_promised`, see docs/engaged-figures.md: the first two
    // take turns, the last has next to nothing; with reserves 57.6, 9.6 and 4.7 %.
    let figure = systems::figure("timegraph-12", SHORT).unwrap().unwrap();
    let ours = |what: &str| {
        let mut lines = figure.lines.iter();
        lines
            .find(|line| line.what == what)
            .map(|line| line.ours)
            .unwrap()
    };
    let ordered =
        ["high", "medium", "low"].map(|name| ours(&format!("the same: {name}'s part by priority")));
    assert!(ordered[0] >= ordered[1], "{ordered:?}");
    assert!(ordered[1] > 40.0, "{ordered:?}");
    assert!(ordered[2] < 1.0, "{ordered:?}");
    for (what, module) in [
        ("high's part of 60 %", 57.6),
        ("medium's part of 10 %", 9.6),
        ("low's part of 5 %", 4.7),
    ] {
        let part = ours(&format!("the same: {what}"));
        assert!((part - module).abs() <= 1.0, "{what}: {part}, {module}");
    }
}

#[test]
fn figure_4_gains_where_the_processor_follows_the_turn_and_runs_vary_by_a_turn_as_before() {
    let unmet = unmet_in("pegasus-4", Length::WHOLE);
    assert!(unmet.len() == 1, "{unmet:?}");
    assert!(
        unmet[0].starts_with("the same, the processor follows"),
        "{unmet:?}"
    );
}

#[test]
fn table_2_is_met_by_policies_and_not_by_the_scans_that_they_see_clients_by() {
    let unmet = unmet("pegasus-table-2");
    let begins = [
        "the same, with the books of a scan",
        "credit, ",
        "the same, the module",
    ];
    let known = |line: &String| begins.iter().any(|begin| line.starts_with(begin));
    assert!(unmet.iter().all(known), "{unmet:?}");
    assert!(unmet
        .iter()
        .any(|line| line.starts_with("credit, 32 clients")));
}

#[test]
fn figure_6_meets_targets_at_the_cost_of_those_without_as_large_ones() {
    let unmet = unmet("pegasus-6");
    assert!(unmet.len() == 1, "{unmet:?}");
    assert!(
        unmet[0].starts_with("least part of one without a scheduler"),
        "{unmet:?}"
    );
}

#[test]
fn figure_7_favours_a_guest_alone_on_its_gpu_where_others_sleep_and_cosched_no_more_than_augc() {
    let figure = systems::figure("pegasus-7", Length::WHOLE)
        .unwrap()
        .unwrap();
    let judged = figure.lines.iter().filter_map(|line| line.holds);
    let judged: Vec<_> = judged.collect();
    assert_eq!(judged[..4], [true, false, true, false]);
    // Where processors are what all wait for, turns change next to nothing.
    let long = figure.lines[figure.lines.len() - 4..].iter();
    let off: Vec<_> = long.map(|line| (line.ours - 1.0).abs()).collect();
    assert!(off.iter().all(|off| *off < 0.03), "{off:?}");
}

#[test]
fn figure_10_of_strings_gains_most_with_programs_that_are_on_the_gpu_the_most() {
    let unmet = unmet("strings-10");
    assert!(unmet.len() == 1, "{unmet:?}");
    assert!(
        unmet[0].starts_with("pairs that gain less than I, K and W"),
        "{unmet:?}"
    );
}

#[test]
fn figure_11_shares_fairly_what_is_always_wanted_and_not_what_pauses() {
    let unmet = unmet("strings-11");
    let begins = [
        "pairs whose index over fair shares",
        "timeslice-eng: least",
        "event: least",
        "maxmin: least part",
        "maxmin: least index over fair shares of pairs",
    ];
    let known = |line: &String| begins.iter().any(|begin| line.starts_with(begin));
    assert!(unmet.iter().all(known), "{unmet:?}");
    // Two clients that always want the GPU share it equally under each policy.
    assert!(!unmet.iter().any(|line| line.contains("always want")));
    assert!(unmet.iter().any(|line| line.starts_with(begins[1])));
}

#[test]
fn figures_12_and_13_gain_nothing_from_the_least_served_first_where_few_compete() {
    for name in ["strings-12", "strings-13"] {
        let unmet = unmet(name);
        assert!(unmet.len() == 1, "{name}: {unmet:?}");
        assert!(unmet[0].starts_with("las over maxmin"), "{name}: {unmet:?}");
    }
}

#[test]
fn table_1_of_gvim_is_by_credits_and_turns_that_drain_lose_some_of_the_gpu() {
    // In three seconds, the turn at the end is one of a few.
    let length = Length {
        seconds: Length::WHOLE.seconds,
        ..SHORT
    };
    let unmet = unmet_in("gvim-1", length);
    let drains = |line: &String| {
        let name = line.starts_with("credit") || line.starts_with("timeslice-eng");
        name && line.contains("all rates over")
    };
    assert!(unmet.iter().all(drains), "{unmet:?}");
}

#[test]
fn figure_14_gains_little_by_history_where_programs_are_alike() {
    let unmet = unmet("strings-14");
    let begins = ["rtf over gwtmin", "guf over gwtmin"];
    let known = |line: &String| begins.iter().any(|begin| line.starts_with(begin));
    assert!(unmet.iter().all(known), "{unmet:?}");
    assert!(unmet.iter().any(|line| line.starts_with(begins[1])));
}

#[test]
fn packing_gains_nothing_with_kernels_that_fill_the_gpu_and_no_way_beats_programs_alone() {
    let figure = systems::figure("strings-9", SHORT).unwrap().unwrap();
    let ours = |what: &str| {
        let line = figure.lines.iter().find(|line| line.what == what).unwrap();
        line.ours
    };
    let filled = ours("packed, kernels that fill the GPU: gmin over gmin in turn");
    let half = ours("packed, kernels of half the GPU: gmin over gmin in turn");
    assert!((0.97..1.03).contains(&filled), "{filled}");
    assert!(half > filled, "{half}");
    let alone = ours("each program alone on the fastest GPU");
    for way in ["gwtmin", "wait", "packed, kernels of half the GPU: gwtmin"] {
        assert!(ours(way) < alone, "{way}");
    }
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
    let lines = systems::figure("timegraph-13", SHORT).unwrap().unwrap();
    let mut figure = Figure { ..lines };
    assert!(!systems::text(&figure).contains("NOT MET"));
    assert_eq!(figure.failed(), 0);
    figure.lines[1].holds = Some(false);
    assert!(systems::text(&figure).contains("NOT MET"));
    assert_eq!(figure.failed(), 1);
}

#[test]
fn sets_that_are_admitted_miss_no_deadline() {
    // Also with deadlines before the end of their period, of which fewer are admitted.
    for (early_pct, admitted) in [(0, 40), (40, 10)] {
        let settings = Settings {
            sets: 150,
            seconds: 4,
            seed: 2,
            early_pct,
        };
        let report = tasks::run(settings).unwrap();
        assert!(report.admitted.sets > admitted);
        assert!(report.admitted.jobs > 3_000);
        assert_eq!((report.admitted.missed, report.admitted.promised), (0, 0));
        assert!(report.admitted.worst_pct <= 100.0);
        // The simulation can show a miss: the sum of the promises is no test.
        assert!(report.by_sum_only.broken > report.by_sum_only.sets / 4);
    }
}

#[test]
fn command_prints_a_figure_and_names_the_others() {
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_loga-sim");
        Command::new(program).args(arguments).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&run(&["paper", "timegraph-15"]).stdout);
    assert!(printed.contains("lost under PRT"));
    assert!(printed.contains("met"));
    let json = text(&run(&["paper", "timegraph-15", "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["lines"][1]["holds"], true);
    let refused = run(&["paper", "timegraph-17"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("timegraph-16, pegasus-3"));
    let turns = text(&run(&["paper", "pegasus-5"]).stdout);
    assert!(turns.contains("1024 to 256"));
    assert!(!turns.contains("NOT MET"));
    let seeds = ["paper", "placing-long", "--quick", "--seeds", "2"];
    assert!(text(&run(&seeds).stdout).contains("\n2 runs of 10 light programs"));
    let sets = text(&run(&["admission", "--sets", "20", "--seconds", "1"]).stdout);
    assert!(sets.contains("by the sum only"));
}
