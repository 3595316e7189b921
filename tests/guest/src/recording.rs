// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of recordings of real clients.

use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules;
use crate::modules::LOGA;
use crate::stage::{Stage, FINE, PAPER};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

crate::ktap::tests![recording_has_what_clients_got_also_over_a_gap];

/// The recording.
const FILE: &str = "/run/recording.jsonl";

fn run(words: &[&str]) -> Result<String, String> {
    let output = Command::new("loga").args(words).output();
    let output = output.map_err(|error| format!("loga: {error}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loga {words:?}: {complaint}");
    String::from_utf8(output.stdout).map_err(|error| error.to_string())
}

/// A client until it is gone: its number, and its GPU time as LoGA has charged it.
fn let_run(stage: &Stage, kernel_us: u32) -> Result<(u32, u64), String> {
    let load = Load::start(&format!("--kernel-us {kernel_us} --wait block"))?;
    let pid = load.pid();
    stage.wait_until_measured(pid)?;
    sleep(Duration::from_secs(1));
    drop(load);
    stage.wait_until_gone(pid)?;
    let totals = run(&["totals", "--by", "user", "--json"])?;
    let totals: Value = serde_json::from_str(&totals).map_err(|error| error.to_string())?;
    let got = totals["totals"][0]["gpu_time_ns"].as_u64();
    Ok((pid, got.ok_or_else(|| format!("no total: {totals}"))?))
}

fn recording_has_what_clients_got_also_over_a_gap() -> Verdict {
    let stage = Stage::set(FINE, PAPER)?;
    let _ = fs::remove_file(FILE);
    let child = Command::new("loga")
        .args(["record", "--interval", "200", FILE])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.map_err(|error| format!("loga record: {error}"))?;
    sleep(Duration::from_millis(500));
    let (first, before) = let_run(&stage, 300)?;
    modules::set(LOGA, "attach", "0").map_err(|errno| format!("attach=0: {errno}"))?;
    sleep(Duration::from_millis(700));
    modules::set(LOGA, "attach", "1").map_err(|errno| format!("attach=1: {errno}"))?;
    sleep(Duration::from_millis(700));
    let (second, both) = let_run(&stage, 500)?;
    // The total of their user goes on after the gap.
    let after = both.checked_sub(before).ok_or("a total that went back")?;
    // CAST: a process id is positive.
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGTERM).map_err(|errno| errno.to_string())?;
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    ensure!(output.status.success(), "loga record: {output:?}");
    let text = fs::read_to_string(FILE).map_err(|error| error.to_string())?;
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")))
        .collect::<Result<_, _>>()?;
    for kind in ["start", "gap", "resume", "end"] {
        let count = lines.iter().filter(|line| line.get(kind).is_some()).count();
        ensure!(count == 1, "{count} lines {kind}: {text}");
    }
    // What clients got in samples, and in their exits after the last one.
    let got = |pid: u32| {
        let samples = lines
            .iter()
            .filter_map(|line| line["sample"]["clients"].as_array());
        let clients = samples.flatten().filter(|client| client["pid"] == pid);
        let in_samples: u64 = clients
            .filter_map(|client| client["gpu_time_ns"].as_u64())
            .sum();
        let events = lines.iter().filter_map(|line| line.get("event"));
        let exits = events.filter(|event| event["event"] == "exited" && event["pid"] == pid);
        in_samples
            + exits
                .filter_map(|event| event["rest_ns"].as_u64())
                .sum::<u64>()
    };
    for (pid, total) in [(first, before), (second, after)] {
        let recorded = got(pid);
        ensure!(
            recorded == total && total > 500_000_000,
            "{pid}: {recorded}, charged {total}"
        );
    }
    let csv = run(&["export", FILE, "--format", "csv"])?;
    ensure!(csv.lines().count() > 5, "{csv}");
    let trace = run(&["export", FILE, "--format", "perfetto"])?;
    let trace: Value = serde_json::from_str(&trace).map_err(|error| error.to_string())?;
    ensure!(
        trace["traceEvents"]
            .as_array()
            .is_some_and(|all| all.len() > 10),
        "{trace}"
    );
    run(&["report", FILE, "--out", "/run/recording.html"])?;
    let page = fs::read_to_string("/run/recording.html").map_err(|error| error.to_string())?;
    ensure!(
        page.contains("<svg") && page.contains(&first.to_string()),
        "no picture: {page}"
    );
    // To be looked at.
    let _ = fs::create_dir_all("/out");
    let _ = fs::copy("/run/recording.html", "/out/recording.html");
    stage.teardown()
}
