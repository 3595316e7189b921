// SPDX-License-Identifier: GPL-2.0

//! `loga-sim place --snapshot`: a choice worked out by hand, and what files may say.

use serde_json::Value;
use std::process::{Command, Output};

/// One client that wants half of a GPU and waits for half of the time, one that is idle, two that
/// are not seen, and a claim.
const FILE: &str = "\
version = 1
policy = \"guf\"
count = 1
claims_made = 5

[program]
weight = 100
want_pct = 30

[[gpu]]
gpu = 0
pci = \"0000:01:00.0\"
chip = 240
lost = false
wanting = 1
want_pct = 50
copy_pct = 0
claims = 0
claimed_pct = 0

[[gpu.client]]
weight = 100
idle = false
busy_ppm = 250000
waited_ppm = 500000
copy_ppm = 0
measured_ns = 3000000
runs = 2
there_ns = 4000000000
waited_ns = 1000000000

[[gpu.client]]
weight = 100
idle = false
busy_ppm = 9999
waited_ppm = 0
copy_ppm = 0
measured_ns = 0
runs = 0
there_ns = 4000000000
waited_ns = 0

[[gpu]]
gpu = 1
pci = \"0000:02:00.0\"
chip = 240
lost = false
wanting = 2
want_pct = 10
copy_pct = 0
claims = 1
claimed_pct = 35
";

fn place(text: &str, more: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("choice.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loga-sim"));
    let command = command.args(["place", "--snapshot"]).arg(&path).args(more);
    command.output().unwrap()
}

fn choice(text: &str, more: &[&str]) -> Value {
    let out = place(text, &[more, &["--json"]].concat());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{error}");
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn use_is_that_of_the_time_without_waits_and_what_is_not_seen_counts() {
    let guf = choice(FILE, &[]);
    assert_eq!(guf["decided_by"], "guf");
    // 0.25 of the half for which it did not wait, the idle one nothing; twice 5 % and 35 %.
    assert_eq!(guf["gpus"][0]["cost"], 0.8);
    assert_eq!(guf["gpus"][1]["cost"], 0.75);
    assert_eq!(guf["chosen"], serde_json::json!([1]));
    let gmin = choice(FILE, &["--policy", "gmin"]);
    assert_eq!(
        [&gmin["gpus"][0]["cost"], &gmin["gpus"][1]["cost"]],
        [2.0, 3.0]
    );
    assert_eq!(gmin["chosen"], serde_json::json!([0]));
    // Five claims: the turn is GPU 1's.
    let grr = choice(FILE, &["--policy", "grr"]);
    assert_eq!(grr["chosen"], serde_json::json!([1]));
    // Kernels of 1.5 ms of one that runs half of the time: 0.375 ms for each of its own of 0.5 ms
    // that run for 30 % of the time, 1.225 in all, and it is slowed down by 0.3 / 1.5 * 0.5 * 0.25.
    let wait = choice(FILE, &["--policy", "wait"]);
    assert_eq!(wait["gpus"][0]["slowdown"], 1.225);
    assert_eq!(wait["gpus"][0]["cost"], 1.25);
}

#[test]
fn gpus_that_may_not_be_chosen_are_left_out_and_none_is_an_error() {
    let lost = FILE.replacen("lost = false", "lost = true", 1);
    let other = choice(&lost, &["--policy", "gmin"]);
    assert_eq!(other["gpus"][0]["why_not"], "lost");
    assert_eq!(other["chosen"], serde_json::json!([1]));
    let none = lost.replacen("count = 1", "count = 1\nvisible = [0]", 1);
    let out = place(&none, &[]);
    assert_eq!(out.status.code(), Some(1));
    let printed = String::from_utf8(out.stdout).unwrap();
    assert!(printed.contains("not in visible"), "{printed}");
    let error = String::from_utf8(out.stderr).unwrap();
    assert!(error.contains("fewer than 1 GPUs"), "{error}");
}

#[test]
fn policy_that_has_to_know_more_is_replaced() {
    let rtf = choice(FILE, &["--policy", "rtf"]);
    assert_eq!(rtf["decided_by"], "gwtmin");
    let history = "[program.history]\ntypical_ns = 8000000000\n\n[[gpu]]";
    let known = FILE.replacen("[[gpu]]", history, 1);
    let rtf = choice(&known, &["--policy", "rtf"]);
    assert_eq!(rtf["decided_by"], "rtf");
}

#[test]
fn what_makes_no_sense_is_refused_with_file_line_and_what_is_allowed() {
    let cases = [
        (
            "version = 1",
            "version = 2",
            ":1:11: version = 2 is out of range, want 1 to 1",
        ),
        (
            "\"guf\"",
            "\"first\"",
            ":2:10: unknown placement policy \"first\", want one of wait, grr",
        ),
        (
            "count = 1",
            "count = 0",
            ":3:9: count = 0 is out of range, want 1 to 256",
        ),
        (
            "count = 1",
            "count = 1\namong = [0, 7]",
            ":4:9: among has GPU 7, want some of 0, 1",
        ),
        (
            "weight = 100",
            "weight = 0",
            ":7:10: weight = 0 is out of range, want 1 to 10000",
        ),
        (
            "want_pct = 30",
            "want_pct = 101",
            ":8:12: want_pct = 101 is out of range, want 1 to 100",
        ),
        (
            "want_pct = 30",
            "wants = 30",
            ":8:1: unknown field `wants`, expected one of `weight`",
        ),
        (
            "gpu = 1\n",
            "gpu = 0\n",
            ":44:7: a second GPU 0, want another number",
        ),
        (
            "lost = false",
            "lost = false\nspeed = 0.5",
            "without speed beside one with it",
        ),
        (
            "lost = false",
            "lost = 1",
            ":14:8: invalid type: integer `1`, expected a boolean",
        ),
        (
            "busy_ppm = 250000",
            "busy_ppm = 1000001",
            ":24:12: busy_ppm = 1000001 is out of range",
        ),
        (
            "runs = 2",
            "runs = -2",
            ":28:8: invalid value: integer `-2`",
        ),
        ("runs = 2", "", ":21:1: missing field `runs`"),
    ];
    for (from, to, said) in cases {
        assert!(FILE.contains(from), "{from}");
        let out = place(&FILE.replacen(from, to, 1), &[]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{to}: {error}");
        assert!(error.contains(said), "{to}: {error}");
        assert!(error.contains("choice.toml"), "{to}: {error}");
    }
    let out = place(FILE, &["--policy", "first"]);
    assert_eq!(out.status.code(), Some(2));
}
