// SPDX-License-Identifier: GPL-2.0

//! Accounting, enforcing and their costs.

use super::{at_least, at_most, checked, CHECKED};
use crate::table::{Row, Table};

/// Accounting while polled always: its error.
pub(super) fn polled() -> Table {
    let rows = vec![
        checked(
            "kernel-length",
            "mean kernel length, 100 to 1000 us back to back, polled always: error",
            "{+2 error of the mean length, kernels of # us} %",
            "within 1 %",
            &[(-1.0, 1.0)],
        ),
        checked(
            "load",
            "load, 100 to 1000 us in cycles of 1000 us, polled always: error",
            "{+2 error of the load, # us in 1000 us} points",
            "within 0.5",
            &[(-0.5, 0.5)],
        ),
    ];
    Table {
        name: "polled",
        head: CHECKED,
        rows,
    }
}

/// Accounting as the module does without parameters: its error.
pub(super) fn duty() -> Table {
    let rows = vec![
        checked(
            "duty",
            "share of each client over 10 s, mix of the demo: error",
            "{+2 demo: error of the share of client #} points",
            "within 2",
            &[(-2.0, 2.0)],
        ),
        checked(
            "duty",
            "the same, ten clients of 10 us / 1000 us",
            "{+2 ten of 10/1000: error of the share of client #} points",
            "within 2",
            &[(-2.0, 2.0)],
        ),
    ];
    Table {
        name: "duty",
        head: CHECKED,
        rows,
    }
}

/// Enforcing: shares.
pub(super) fn enforcing() -> Table {
    let shares = |mix: &str, how: &str| {
        format!(
            "{{1 {mix}, {how}: share of client 0}}, then 3 x \
             {{1 {mix}, {how}: share of client [123]}} %"
        )
    };
    let commands = |mix: &str, how: &str| {
        format!(
            "{{1 {mix}, {how}: share of client 0, without switches}}, then 3 x \
             {{1 {mix}, {how}: share of client [123], without switches}} %"
        )
    };
    let mut rows = Vec::new();
    for (mix, about, wanted, limits) in [
        (
            "1000 and 3 of 100",
            "1000 us back to back against three of 100 us",
            "23 to 28 % each",
            [(23.0, 28.0), (23.0, 28.0)],
        ),
        (
            "demo",
            "mix of the demo",
            "27 ± 3, 3 x 16.8 ± 1.5 %",
            [(24.0, 30.0), (15.3, 18.3)],
        ),
    ] {
        let mut row = |figure: &str, measured: String, wanted: &str, limits: &[(f64, f64)]| {
            rows.push(checked("enforce", figure, &measured, wanted, limits));
        };
        row(
            &format!("{about}, enforcing"),
            shares(mix, "enforced"),
            wanted,
            &limits,
        );
        row(
            "the same by commands alone",
            commands(mix, "enforced"),
            "",
            &[],
        );
        row("without enforcement", shares(mix, "free"), "", &[]);
        row("the same by commands alone", commands(mix, "free"), "", &[]);
    }
    rows.push(checked(
        "enforce",
        "periods observed",
        "{0 1000 and 3 of 100, enforced: periods}, {0 demo, enforced: periods}",
        "at least 20",
        &[at_least(20.0), at_least(20.0)],
    ));
    Table {
        name: "enforcing",
        head: CHECKED,
        rows,
    }
}

/// What clients lose by accounting.
pub(super) fn overhead() -> Table {
    let kernels = slow_down("overhead", "kernels", at_most(0.5), "at most +0.5 %");
    let copies = slow_down("copies", "copies", (-0.5, 0.5), "within 0.5 %");
    Table {
        name: "overhead",
        head: CHECKED,
        rows: kernels.into_iter().chain(copies).collect(),
    }
}

fn slow_down(scenario: &'static str, of: &str, limit: (f64, f64), wanted: &str) -> [Row; 4] {
    [
        checked(
            scenario,
            &format!("turnaround of {of} of 1000 us, with LoGA accounting against without"),
            &format!("{{+2 {of} of 1000 us: slow-down}} %"),
            wanted,
            &[limit],
        ),
        checked(
            scenario,
            "the same against a busy thread in the place of the poller",
            &format!("{{+2 {of} of 1000 us: slow-down beyond the busy thread}} %"),
            "",
            &[],
        ),
        checked(
            scenario,
            &format!("the same two for {of} of 100 us"),
            &format!(
                "{{+2 {of} of 100 us: slow-down}} %; \
                 {{+2 {of} of 100 us: slow-down beyond the busy thread}} %"
            ),
            "",
            &[],
        ),
        checked(
            scenario,
            &format!("turnaround of {of} of 1000 and 100 us without either"),
            &format!(
                "{{1 {of} of 1000 us without LoGA: turnaround}} us; \
                 {{1 {of} of 100 us without LoGA: turnaround}} us"
            ),
            "",
            &[],
        ),
    ]
}

/// Costs of polling and throttling, and memory.
pub(super) fn costs() -> Table {
    let row = |figure: &str, measured: &str, wanted: &str, limits: &[(f64, f64)]| {
        checked("costs", figure, measured, wanted, limits)
    };
    let rows = vec![
        row(
            "polls in 1 s, before a GPU file is opened and after the last is closed",
            "{0 polls in 1 s before a GPU file is opened}, \
             {0 polls in 1 s after the last GPU file is closed}",
            "0",
            &[(0.0, 0.0), (0.0, 0.0)],
        ),
        row(
            "register reads per poll, each eighth of which reads the copy engine too",
            "{3 register reads per poll}",
            "1.125 to 1.135",
            &[(1.125, 1.135)],
        ),
        row(
            "poll iteration, everything else asleep; two clients at work",
            "{0 poll iteration, processes asleep}, {0 poll iteration, two clients at work} ns",
            "",
            &[],
        ),
        row(
            "revoke of a client with 12 channels: mean, p99",
            "{1/1000 revoke, 12 channels: mean}, {1/1000 revoke, 12 channels: p99} us \
             ({0 revoke, 12 channels: samples} times)",
            "",
            &[],
        ),
        row(
            "restore of a client with 12 channels: mean, p99",
            "{1/1000 restore, 12 channels: mean}, {1/1000 restore, 12 channels: p99} us \
             ({0 restore, 12 channels: samples} times)",
            "",
            &[],
        ),
        row(
            "memory per client, per channel",
            "{0 memory per client}, {0 memory per channel} bytes",
            "",
            &[],
        ),
    ];
    Table {
        name: "costs",
        head: CHECKED,
        rows,
    }
}
