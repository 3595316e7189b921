// SPDX-License-Identifier: GPL-2.0

//! Scenarios of streams: what files may say, and what `loga-sim place` prints, against figures
//! worked out by hand.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Two programs of one kernel of 30 ms, at 10 and at 20 ms, on GPUs of these speeds.
fn two(speeds_pct: &[u32], place: &str, stream: &str) -> String {
    let gpu = |pct: &u32| format!("[[gpu]]\nnode = \"a\"\nspeed_pct = {pct}\n");
    let gpus: String = speeds_pct.iter().map(gpu).collect();
    format!(
        "[place]\n{place}\n[[node]]\nname = \"a\"\n{gpus}[[stream]]\nname = \"one\"\nnode = \"a\"\n\
         gap_us = 10_000\ncount = 2\n{stream}\n[[stream.phase]]\nkernel_us = 30_000\n"
    )
}

fn place(text: &str, more: &[&str]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("streams.toml");
    std::fs::write(&path, text).unwrap();
    let program = env!("CARGO_BIN_EXE_loga-sim");
    let mut command = Command::new(program);
    command.arg("place").arg(&path).args(more).output().unwrap()
}

fn report(text: &str, more: &[&str]) -> Value {
    let out = place(text, &[more, &["--json"]].concat());
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{error}");
    serde_json::from_slice(&out.stdout).unwrap()
}

const GMIN: &str = "policy = \"gmin\"";

fn near(value: &Value, to: f64) -> bool {
    // Five microseconds pass before a program that waits sees the end.
    value
        .as_f64()
        .is_some_and(|value| (value - to).abs() < 0.02)
}

#[test]
fn programs_on_one_gpu_take_turns_and_on_two_they_do_not() {
    // The second comes at 20 ms and waits until 40 for the first.
    let one = report(&two(&[100], GMIN, ""), &[]);
    let stream = &one["streams"][0];
    assert!(near(&stream["mean_ms"], 40.0), "{one}");
    assert!(near(&stream["p95_ms"], 50.0));
    assert!(near(&stream["p99_ms"], 50.0));
    assert!(near(&stream["slowdown"], 40.0 / 30.0));
    assert_eq!(one["gpus"][0]["programs"], 2);
    assert_eq!(one["jain"], 1.0);
    let both = report(&two(&[100, 100], GMIN, ""), &[]);
    assert!(near(&both["streams"][0]["mean_ms"], 30.0), "{both}");
    assert_eq!(both["gpus"][1]["programs"], 1);
}

#[test]
fn other_policy_is_compared_and_a_slow_gpu_takes_longer() {
    // By turn, 60 ms and 30 ms; by count over speed, 30 and 50 ms on the fast one.
    let text = two(&[50, 100], "policy = \"gwtmin\"", "");
    let report = report(&text, &["--against", "grr"]);
    let stream = &report["streams"][0];
    assert_eq!(report["against"], "grr");
    let weighted = stream["mean_ms"].as_f64().unwrap();
    assert!(near(&stream["speedup"], 45.0 / weighted), "{report}");
    assert_eq!(report["speedup"], stream["speedup"]);
    let printed = place(&text, &["--against", "mbf"]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("placed by gwtmin, 1 seeds"));
    assert!(printed.contains("over mbf"));
}

#[test]
fn packed_gpus_and_history_are_settings() {
    let packed = two(&[100], GMIN, "fill_pct = 50").replace("[[gpu]]", "[[gpu]]\npacked = true");
    assert!(near(&report(&packed, &[])["streams"][0]["mean_ms"], 30.0));
    // `guf` chooses as `gwtmin` as long as nothing is learnt; then light programs count little.
    let many = |place: &str| {
        let text = two(&[100, 47, 47], place, "").replace("count = 2", "count = 40");
        let light = "[[stream]]\nname = \"light\"\nnode = \"a\"\ngap_us = 7000\ncount = 60\n\
                     [[stream.phase]]\ncpu_us = 50_000\nkernel_us = 1000\n";
        report(&(text + light), &[])["gpus"].clone()
    };
    let learns = many("policy = \"guf\"");
    let never = many("policy = \"guf\"\nhistory = false");
    assert_eq!(never, many("policy = \"gwtmin\"\nhistory = false"));
    assert_ne!(learns, never);
}

#[test]
fn what_makes_no_sense_is_refused_with_file_line_and_what_is_allowed() {
    let good = two(&[100], GMIN, "");
    let cases = [
        (
            "\"gmin\"",
            "\"first\"",
            ":2:10: unknown placement policy \"first\", want one of wait, grr",
        ),
        (
            "\"gmin\"",
            "\"gmin\"\nsignal_ms = 0",
            ":3:13: signal_ms = 0, want more than 0",
        ),
        ("\"gmin\"", "\"gmin\"\nage = 0", ":3:1: unknown field `age`"),
        (
            "speed_pct = 100",
            "speed_pct = 101",
            ":7:13: speed_pct = 101 is out of range, want 1 to 100",
        ),
        (
            "node = \"a\"\nspeed",
            "node = \"b\"\nspeed",
            ":6:8: no node \"b\", want one of a",
        ),
        (
            "count = 2",
            "count = 3000",
            ":12:9: count = 3000 is out of range, want 1 to 2048",
        ),
        (
            "count = 2",
            "count = 2\nweight = 0",
            ":13:10: weight = 0 is out of range, want 1 to 10000",
        ),
        (
            "[[node]]",
            "[[node]]\nname = \"a\"\n[[node]]",
            ":6:8: a second node \"a\", want another name",
        ),
        (
            "speed_pct = 100",
            "packed = true\n[policy]\nname = \"event\"",
            "a packed GPU with policy event",
        ),
        (
            "kernel_us = 30_000",
            "",
            "a phase without work, want at least one of cpu_us",
        ),
    ];
    for (from, to, said) in cases {
        assert!(good.contains(from), "{from}");
        let out = place(&good.replacen(from, to, 1), &[]);
        let error = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{to}: {error}");
        assert!(error.contains(said), "{to}: {error}");
    }
    let other = place(&good, &["--against", "second"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("gmin, gwtmin, rtf, guf, dtf, mbf"));
}

#[test]
fn example_runs_and_wait_beats_turns() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/streams.toml");
    let report = report(
        &std::fs::read_to_string(path).unwrap(),
        &["--against", "grr"],
    );
    assert_eq!(report["streams"][0]["programs"], 300);
    assert!(report["speedup"].as_f64().unwrap() > 1.05, "{report}");
    let gpus = report["gpus"].as_array().unwrap();
    let programs = |at: usize| gpus[at]["programs"].as_u64().unwrap();
    assert_eq!((0..4).map(programs).sum::<u64>(), 1200);
    assert!(programs(0) < programs(1), "{report}");
    assert!(programs(2) < programs(3), "{report}");
}
