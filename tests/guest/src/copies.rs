// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the copy engine: what LoGA says of copies, compared with the model's log.

use crate::ktap::{ensure, Verdict};
use crate::limits::{within, within_points};
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, FINE, LAZY};
use crate::truth::Truth;
use loga_cli::device::Device;
use loga_cli::stat::{Client, Stat};
use std::time::Duration;

crate::ktap::tests![
    copies_polled_in_bursts_match_the_model: timed slow,
    copies_sampled_sparsely_match_the_model: timed,
    copies_of_a_throttled_client_match_the_model: timed slow,
    maxmin_divides_the_copy_engine_between_those_that_copy: timed slow,
    copies_of_a_killed_client_stay_in_the_totals,
    copies_without_compute_are_neither_idle_nor_unknown,
];

/// What a throttle that waits in the driver adds to its command line.
const WAIT: &str = "--wait block --channels 2";

/// TIMEOUT: for a process to start, and to be found on the copy engine.
const LIMIT: Duration = Duration::from_secs(20);

fn copier(kernel_us: u64, sleep_us: u64) -> Result<Load, String> {
    Load::start(&format!(
        "--engine copy --kernel-us {kernel_us} --sleep-us {sleep_us} {WAIT}"
    ))
}

fn copied(client: &Client) -> bool {
    client.copy_time_ns > Some(0)
}

/// What LoGA says of the next seconds, and the model's account of both engines.
fn during(stage: &Stage, time: Duration) -> Result<(Stat, [Truth; 2]), String> {
    Truth::reset()?;
    let stat = stage.stat_during(time)?;
    Ok((stat, Truth::of_engines(0)?))
}

/// Compares what a process had of both engines; within two points.
fn compare(stat: &Stat, truths: &[Truth; 2], pid: u32) -> Verdict {
    let client = client_of(stat, pid).ok_or("a client is missing")?;
    let copied_ns = client.copy_time_ns.ok_or("copies are not measured")?;
    // Scaled to all phases, also for a client that is throttled in some.
    let said = [client.gpu_time_ns, copied_ns];
    let said = said.map(|ns| ns as f64 / stat.span_ns.max(1) as f64);
    let real = [&truths[0], &truths[1]].map(|truth| truth.ran_share(pid));
    let line = format!(
        "pid {pid}: LoGA {:.2} % computing, {:.2} % copying; model {:.2} %, {:.2} %",
        said[0] * 100.0,
        said[1] * 100.0,
        real[0] * 100.0,
        real[1] * 100.0
    );
    println!("# {line}");
    for engine in 0..2 {
        within_points("points off the model's", said[engine], real[engine], 2.0)?;
        ensure!(real[engine] > 0.0 || said[engine] == 0.0, "{line}");
    }
    Ok(())
}

/// Compares all, and then fails if one is off.
fn compare_all(stat: &Stat, truths: &[Truth; 2], loads: &[Load]) -> Verdict {
    let compared = loads.iter().map(|load| compare(stat, truths, load.pid()));
    let all: Vec<Verdict> = compared.collect();
    all.into_iter().collect()
}

/// Two clients copy, one computes beside them in commands of 300 us, after each of which it sleeps;
/// each is measured on both engines.
fn three_beside_each_other(accounting: &str, sleep_us: u64, time: Duration) -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} accounting={accounting}"))?;
    let loads = [
        copier(250, 0)?,
        copier(500, 0)?,
        Load::start(&format!("--kernel-us 300 --sleep-us {sleep_us} {WAIT}"))?,
    ];
    for load in &loads[..2] {
        stage.wait_for_client(load.pid(), LIMIT, "copying", copied)?;
    }
    stage.wait_until_measured(loads[2].pid())?;
    let (stat, truths) = during(&stage, time)?;
    ensure!(stat.copies, "copies are not measured");
    compare_all(&stat, &truths, &loads)?;
    compare_rest(&stat, &truths)?;
    drop(loads);
    stage.teardown()
}

/// Compares the time for which the copy engine was idle.
fn compare_rest(stat: &Stat, truths: &[Truth; 2]) -> Verdict {
    let copy_idle = stat.copy_idle.ok_or("no idle time of the copy engine")?;
    let real = truths[1].idle_ns as f64 / truths[1].window_ns.max(1) as f64;
    within_points("idle points off the model's", copy_idle, real, 2.0)?;
    ensure!(stat.copy_unknown == Some(0.0), "{:?}", stat.copy_unknown);
    Ok(())
}

fn copies_polled_in_bursts_match_the_model() -> Verdict {
    // While the GPU is polled, threads that wake up wait for a processor, of which the poller has
    // one: a client that sleeps is then measured at 39 instead of 45 %, until LoGA corrects it. What
    // the correction misses varies by a point from one span of 4 s to the next.
    three_beside_each_other("burst", 0, Duration::from_secs(16))
}

fn copies_sampled_sparsely_match_the_model() -> Verdict {
    three_beside_each_other("sparse", 300, Duration::from_secs(8))
}

// The hardware takes the copies of both in turn: one fifth and four fifths.
fn maxmin_divides_the_copy_engine_between_those_that_copy() -> Verdict {
    let stage = Stage::set(FINE, "policy=maxmin enforce=1 randomize=1")?;
    let loads = [
        copier(250, 0)?,
        copier(1000, 0)?,
        Load::start(&format!("--kernel-us 300 {WAIT}"))?,
    ];
    for load in &loads[..2] {
        stage.wait_for_client(load.pid(), LIMIT, "copying", copied)?;
    }
    stage.wait_until_measured(loads[2].pid())?;
    std::thread::sleep(Duration::from_secs(1));
    let (_, truths) = during(&stage, Duration::from_secs(8))?;
    let copied = [&loads[0], &loads[1]].map(|load| truths[1].ran_share(load.pid()) * 100.0);
    let computed = truths[0].ran_share(loads[2].pid()) * 100.0;
    println!("# {copied:.1?} % copying, {computed:.1} % computing");
    // None is further ahead than two steps of two periods of 110 ms, at half of the engine.
    within("points between them", copied[1] - copied[0], -5.5..=5.5)?;
    for percent in copied {
        within("percent of the copy engine", percent, 40.0..)?;
    }
    // It wants nothing of that engine.
    within("percent of the one that computes", computed, 85.0..)?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

/// A user computes in one process and copies in another. It is throttled as a whole, and what it
/// had submitted before is charged as it runs.
fn copies_of_a_throttled_client_match_the_model() -> Verdict {
    let parameters = "policy=event enforce=1 group_by=user accounting=burst";
    let stage = Stage::set(FINE, &format!("{EXACT} {parameters}"))?;
    let loads = [
        Load::start_as(1000, &format!("--kernel-us 900 {WAIT}"))?,
        Load::start_as(
            1000,
            &format!("--engine copy --kernel-us 400 --depth 4 {WAIT}"),
        )?,
        Load::start_as(1001, &format!("--kernel-us 200 {WAIT}"))?,
    ];
    stage.wait_for_client(loads[1].pid(), LIMIT, "copying", copied)?;
    stage.wait_until_throttled(loads[1].pid())?;
    let (stat, truths) = during(&stage, Duration::from_secs(32))?;
    let client = client_of(&stat, loads[1].pid()).ok_or("a client is missing")?;
    within("times throttled", client.throttled_count, 6..)?;
    let throttled = client.throttled_ns as f64 / stat.span_ns.max(1) as f64;
    println!("# throttled for {:.1} % of the time", throttled * 100.0);
    compare_all(&stat, &truths, &loads)?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn copies_of_a_killed_client_stay_in_the_totals() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let load = Load::start_as(1000, &format!("--engine copy --kernel-us 500 {WAIT}"))?;
    let pid = load.pid();
    let before = stage.wait_for_client(pid, LIMIT, "copying", copied)?;
    // Killed.
    drop(load);
    stage.wait_until_gone(pid)?;
    let device = Device::open().map_err(|error| error.to_string())?;
    let totals = device
        .totals(0, loga::uapi::SUBJECT_USER, false)
        .map_err(|error| error.to_string())?;
    let total = totals.iter().find(|total| total.id == 1000);
    let total = total.ok_or("no total of the user")?;
    println!("# {:?}, then {total:?}", before.copy_time_ns);
    ensure!(Some(total.copy_time_ns) >= before.copy_time_ns, "{total:?}");
    ensure!(total.gpu_time_ns == 0, "{total:?}");
    // It keeps the module loaded.
    drop(device);
    stage.teardown()
}

fn copies_without_compute_are_neither_idle_nor_unknown() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let load = copier(500, 0)?;
    let client = stage.wait_for_client(load.pid(), LIMIT, "copying", copied)?;
    ensure!(client.gpu_time_ns == 0, "{client:?}");
    ensure!(client.state == "running", "{client:?}");
    let stat = stage.stat_during(Duration::from_secs(1))?;
    ensure!(stat.idle > Some(0.99), "compute {:?} idle", stat.idle);
    ensure!(stat.copy_busy > Some(0.5), "copies {:?}", stat.copy_busy);
    let client = client_of(&stat, load.pid()).ok_or("no client")?;
    ensure!(client.copy_2s > Some(0.3), "{client:?}");
    load.stop()?;
    stage.teardown()
}
