// SPDX-License-Identifier: GPL-2.0

//! Weights, limits, policies, six GPUs, pauses, sampling.

use super::{at_least, at_most, checked, plain, CHECKED};
use crate::table::Table;

/// Six GPUs, pauses, sampling.
pub(super) fn pauses() -> Table {
    let mut rows = vec![checked(
        "gpus",
        "error of two clients: a GPU by itself; the first of six on one poller",
        "{+2 first of 1, poller=per-gpu: error of client 0}, \
         {+2 first of 1, poller=per-gpu: error of client 1}; \
         {+2 first of 6, poller=shared: error of client 0}, \
         {+2 first of 6, poller=shared: error of client 1} points",
        "within 2",
        &[(-2.0, 2.0); 4],
    )];
    for (ratio, most) in [(5, 17.17), (20, 5.26), (100, 1.49)] {
        rows.push(checked(
            "burst",
            &format!("CPU time of LoGA's threads at 1:{ratio}, mix of the demo"),
            &format!("{{2 demo, burst 1:{ratio}: CPU time}} % of a core"),
            &format!("at most {most}"),
            &[at_most(100.0 / f64::from(1 + ratio) + 0.5)],
        ));
        rows.push(checked(
            "burst",
            &format!("error of a share over 2 s, 95 % of 10 windows, 1:{ratio}"),
            &format!("{{2 demo, burst 1:{ratio}: error of the share, 95 % of 10 windows}} points"),
            "",
            &[],
        ));
    }
    for (scenario, mix, about) in [
        ("sparse-demo", "demo", "mix of the demo"),
        ("sparse-small", "ten of 10/1000", "ten of 10 us / 1000 us"),
    ] {
        rows.push(checked(
            scenario,
            &format!(
                "CPU time of sparse accounting, {about}; error of a share over 2 s, 95 % of 20 windows"
            ),
            &format!(
                "{{2 {mix}: CPU time, sparse}} % of a core, \
                 {{2 {mix}, sparse: error of the share, 95 % of 20 windows}} points"
            ),
            "at most 1, 1",
            &[at_most(1.0), at_most(1.0)],
        ));
    }
    Table {
        name: "pauses",
        head: CHECKED,
        rows,
    }
}

/// Weights and limits.
pub(super) fn weights() -> Table {
    let mut rows = Vec::new();
    for (phases, seconds, about) in [
        (
            "the paper's",
            10,
            "weights of 1:1, 1:3, 1:9, two kernels queued, the paper's phases, 10 s: error",
        ),
        (
            "our",
            2,
            "the same, phases that grow with active clients, 2 s",
        ),
    ] {
        let error = |times: u32| {
            format!("{{+2 weights of 1:{times}, {phases} phases, {seconds} s: error}}")
        };
        let measured = format!("{}, {}, {} points", error(1), error(3), error(9));
        rows.push(checked(
            "shares",
            about,
            &measured,
            "within 1",
            &[(-1.0, 1.0); 3],
        ));
    }
    for (limit, most) in [(20, 21.0), (50, 52.5)] {
        rows.push(checked(
            "shares",
            &format!("limit of {limit} %, kernels of 200 and 1000 us"),
            &format!(
                "{{1 limit of {limit} %, kernels of 200 us}}, \
                 {{1 limit of {limit} %, kernels of 1000 us}} %"
            ),
            &format!("at most {most}"),
            &[at_most(most); 2],
        ));
    }
    Table {
        name: "weights",
        head: CHECKED,
        rows,
    }
}

/// Policies that use the time differently.
pub(super) fn policies() -> Table {
    let shares = |mix: &str, policy: &str| {
        format!(
            "{{1 {mix}, {policy}: share of client 0}}, 3 x \
             {{1 {mix}, {policy}: share of client [123]}} %"
        )
    };
    let row = |figure: &str, measured: &str, wanted: &str, limits: &[(f64, f64)]| {
        checked("policies", figure, measured, wanted, limits)
    };
    let mix = "200/0 and 3 of 100/900";
    let timeslices = "the same with timeslices";
    let used = |mix: &str, policy: &str| format!("{{1 {mix}, {policy}: utilisation}} %");
    let rows = vec![
        row(
            "`maxmin`, 200/0 (two queued) and three of 100/900, switch after each command",
            &shares(mix, "maxmin"),
            "at least 60, 9",
            &[at_least(60.0), at_least(9.0)],
        ),
        row(
            "the same: utilisation; with `event`, `none`",
            &format!(
                "{}; {}, {}",
                used(mix, "maxmin"),
                used(mix, "event"),
                used(mix, "none")
            ),
            "at least 90",
            &[at_least(90.0)],
        ),
        row(
            "`maxmin`, the same mix with timeslices; with `event`, `none`",
            &format!(
                "{}; {}; {}",
                shares(timeslices, "maxmin"),
                shares(timeslices, "event"),
                shares(timeslices, "none")
            ),
            "",
            &[],
        ),
        row(
            "the same: utilisation; with `event`, `none`",
            &format!(
                "{}; {}, {}",
                used(timeslices, "maxmin"),
                used(timeslices, "event"),
                used(timeslices, "none")
            ),
            "at least 90",
            &[at_least(90.0)],
        ),
        row(
            "mix of the demo: utilisation with `maxmin`; with `event`",
            &format!("{}; {}", used("demo", "maxmin"), used("demo", "event")),
            "at least 90",
            &[at_least(90.0)],
        ),
    ];
    Table {
        name: "policies",
        head: CHECKED,
        rows,
    }
}

/// Cost and error of sparse accounting.
pub(super) fn sparse() -> Table {
    let mut rows = Vec::new();
    for (scenario, mix, about, alone) in [
        (
            "sparse-demo",
            "demo",
            "1000/0 and three of 200/800",
            "1000/0 alone",
        ),
        (
            "sparse-small",
            "ten of 10/1000",
            "ten of 10/1000",
            "10/1000 alone",
        ),
    ] {
        let cells = [
            about.to_owned(),
            format!("{{0 {mix}: samples per second}}"),
            format!("{{2 {mix}: CPU time, sparse}}"),
            format!("{{2 {mix}, sparse: error of the share, 95 % of 20 windows}}"),
            format!("{{2 {mix}, sparse: mean error of that client}}"),
            format!("{{2 {mix}, sparse: its stated bound}}"),
            format!("{{0 {mix}, sparse: shares within their bound}} %"),
        ];
        rows.push(plain(scenario, cells.into()));
        let cost = format!("{{2 {mix}, the first alone: CPU time, sparse}}");
        let mut cells = vec![alone.to_owned(), String::new(), cost];
        cells.resize(7, String::new());
        rows.push(plain(scenario, cells));
    }
    Table {
        name: "sparse",
        head: &[
            "mix",
            "samples/s",
            "CPU %",
            "95 % error, 20 windows",
            "mean error of that client",
            "stated bound",
            "within it",
        ],
        rows,
    }
}
