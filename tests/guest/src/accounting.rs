// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of attribution: which client is charged, and when the poller stops.

use crate::busy::Busy;
use crate::caller::Caller;
use crate::ktap::{ensure, Verdict};
use crate::limits::{within, within_points};
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, FINE, LAZY};
use crate::throttling::throttled_hog;
use crate::truth::Truth;
use loga_cli::stat::Stat;
use std::time::Duration;

crate::ktap::tests![
    poller_without_open_files_does_not_run,
    attribution_of_one_to_three_matches_the_model: timed,
    attribution_of_many_short_kernels_matches_the_model: timed slow,
    poller_beside_a_busy_thread_watches_on_and_lets_it_run: timed slow,
    attribution_by_channel_table_matches_the_model: timed,
    copies_are_not_charged_as_compute: timed,
    frames_last_as_long_as_their_kernels: timed,
    exit_in_the_middle_of_a_kernel_ends_the_client,
    channel_destroyed_leaves_the_others,
    costs_are_told_during_polling_phases: timed,
    device_lost_lets_all_clients_run,
    device_lost_charges_nobody,
];

/// What a throttle that waits in the driver adds to its command line.
const WAIT: &str = "--wait block --channels 2";

/// Time of a comparison. Reading either side takes some ten milliseconds in which loads may stand
/// still: of one second that is 1.7 points now and then.
const WINDOW: Duration = Duration::from_secs(4);

/// Runs loads for a while and compares LoGA's shares with the model's.
fn compare(stage: &Stage, loads: &[Load], points: f64) -> Result<Stat, String> {
    stage.wait_until_all_measured(loads)?;
    compare_during(stage, loads, points, WINDOW)
}

fn compare_during(
    stage: &Stage,
    loads: &[Load],
    points: f64,
    time: Duration,
) -> Result<Stat, String> {
    Truth::reset()?;
    let stat = stage.stat_during(time)?;
    let truth = Truth::read()?;
    let mut sum = 0.0;
    let mut worst: Verdict = Ok(());
    for load in loads {
        let client = client_of(&stat, load.pid()).ok_or("a client is missing")?;
        let share = client.share.ok_or("no phases")?;
        let real = truth.ran_share(load.pid());
        let line = format!(
            "pid {}: LoGA {:.2} %, model {:.2} % ({:.2} % without switches)",
            load.pid(),
            share * 100.0,
            real * 100.0,
            truth.busy_share(load.pid()) * 100.0
        );
        println!("# {line}");
        worst = worst.and(within_points("points off the model's", share, real, points));
        sum += share;
    }
    let idle = stat.idle.unwrap_or(0.0);
    println!(
        "# idle: LoGA {:.2} %, model {:.2} %; {} decisions, polled {} ms of {} ms",
        idle * 100.0,
        truth.idle_ns as f64 / truth.window_ns.max(1) as f64 * 100.0,
        stat.decisions,
        stat.polled_ns / 1_000_000,
        stat.span_ns / 1_000_000,
    );
    worst?;
    let unknown = stat.unknown.unwrap_or(0.0);
    within("share of nobody known", unknown, ..0.01)?;
    within("sum of the shares", sum, ..=1.01)?;
    Ok(stat)
}

fn poller_without_open_files_does_not_run() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let before = stage.stat()?;
    std::thread::sleep(Duration::from_secs(1));
    let after = stage.stat()?;
    ensure!(
        after.polls == before.polls && after.span_ns == before.span_ns,
        "{} polls without an open file",
        after.polls - before.polls
    );
    let load = Load::start(&format!("--kernel-us 500 {WAIT}"))?;
    stage.wait_until_measured(load.pid())?;
    let pid = load.pid();
    load.stop()?;
    stage.wait_until_gone(pid)?;
    // The current phase may end after the last channel was freed.
    std::thread::sleep(Duration::from_millis(200));
    let before = stage.stat()?;
    ensure!(before.polls > 0, "never polled");
    std::thread::sleep(Duration::from_secs(1));
    let after = stage.stat()?;
    ensure!(
        after.polls == before.polls,
        "{} polls after the last file was closed",
        after.polls - before.polls
    );
    stage.teardown()
}

fn attribution_of_one_to_three_matches_the_model() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} accounting=burst"))?;
    let loads = [
        Load::start(&format!("--kernel-us 250 {WAIT}"))?,
        Load::start(&format!("--kernel-us 750 {WAIT}"))?,
    ];
    compare(&stage, &loads, 2.0)?;
    let stat = stage.stat()?;
    let gpu_time = |load: &Load| client_of(&stat, load.pid()).map_or(0, |c| c.gpu_time_ns);
    let ratio = gpu_time(&loads[1]) as f64 / gpu_time(&loads[0]).max(1) as f64;
    within("long to short", ratio, 2.5..=3.5)?;
    ensure!(
        stat.revokes == 0 && stat.clients.iter().all(|client| client.throttled_ns == 0),
        "a client was throttled without enforcement"
    );
    for load in loads {
        let report = load.stop()?;
        ensure!(report.summary.kernels > 0, "no kernel completed");
    }
    stage.teardown()
}

fn attribution_of_many_short_kernels_matches_the_model() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} poll_always=1"))?;
    let loads = [
        Load::start(&format!("--kernel-us 50 --sleep-us 300 {WAIT}"))?,
        Load::start(&format!("--kernel-us 100 --sleep-us 300 {WAIT}"))?,
        Load::start(&format!("--kernel-us 200 --sleep-us 300 {WAIT}"))?,
    ];
    compare(&stage, &loads, 1.0)?;
    drop(loads);
    stage.teardown()
}

fn poller_beside_a_busy_thread_watches_on_and_lets_it_run() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} poll_always=1"))?;
    let loads = [
        Load::start(&format!("--kernel-us 300 {WAIT}"))?,
        Load::start(&format!("--kernel-us 100 --sleep-us 500 {WAIT}"))?,
    ];
    // A pause would hand the machine's time to the other processor.
    let busy = Busy::on(1, || {});
    let stat = compare(&stage, &loads, 3.0)?;
    let rounds = busy.rounds();
    drop(busy);
    let polled = stat.polled_ns as f64 / stat.span_ns.max(1) as f64;
    println!("# polled {:.1} % of the time", polled * 100.0);
    // An ordinary thread cannot preempt the poller for long, and is not starved either.
    within("part of the time polled", polled, 0.85..)?;
    within("rounds of the busy thread", rounds, 10_001..)?;
    drop(loads);
    stage.teardown()
}

fn attribution_by_channel_table_matches_the_model() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EXACT} poll_always=1 source=channel-table"))?;
    let loads = [
        Load::start(&format!("--kernel-us 400 {WAIT}"))?,
        Load::start(&format!("--kernel-us 200 --sleep-us 600 {WAIT}"))?,
    ];
    compare(&stage, &loads, 2.0)?;
    ensure!(stage.stat()?.source == "channel-table", "other source");
    drop(loads);
    stage.teardown()
}

fn costs_are_told_during_polling_phases() -> Verdict {
    let stage = Stage::set(LAZY, "poll_ms=50 ratio=1 randomize=0 accounting=burst")?;
    let load = Load::start(&format!("--kernel-us 500 {WAIT}"))?;
    stage.wait_until_measured(load.pid())?;
    let before = stage.stat()?;
    for _ in 0..20 {
        let path = "/sys/kernel/debug/loga/costs";
        let costs = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        ensure!(costs.contains("gpu0 samples "), "{costs}");
        std::thread::sleep(Duration::from_millis(30));
    }
    let after = stage.stat()?;
    ensure!(
        after.polled_ns > before.polled_ns && after.span_ns > after.polled_ns,
        "no phase ended meanwhile"
    );
    load.stop()?;
    stage.teardown()
}

fn copies_are_not_charged_as_compute() -> Verdict {
    let stage = Stage::set(LAZY, "poll_always=1")?;
    let load = Load::start(&format!("--kernel-us 500 --engine copy {WAIT}"))?;
    stage.wait_for_client(load.pid(), Duration::from_secs(5), "a client", |_| true)?;
    let stat = stage.stat_during(Duration::from_millis(300))?;
    let client = client_of(&stat, load.pid()).ok_or("no client")?;
    ensure!(
        client.gpu_time_ns == 0,
        "{} ns of compute charged for copies",
        client.gpu_time_ns
    );
    let report = load.stop()?;
    within("copies", report.summary.kernels, 101..)?;
    stage.teardown()
}

fn frames_last_as_long_as_their_kernels() -> Verdict {
    let stage = Stage::set(EXACT, "")?;
    // Four kernels of 500 us every 5 ms.
    let frame = "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 5000";
    for (deadline_us, late) in [(2500, false), (1900, true)] {
        let load = Load::start(&format!("{frame} --deadline-us {deadline_us} {WAIT}"))?;
        std::thread::sleep(Duration::from_millis(500));
        let frames = load.stop()?.summary.frames.ok_or("no frames")?;
        println!("# {frames:?}");
        within("frames", frames.count, 90..=101)?;
        within("median us", frames.median_us, 2000.0..2300.0)?;
        // A tick of the machine may come between.
        let wanted = if late { frames.count } else { 0 };
        within(
            "frames late abs diff wanted",
            frames.late.abs_diff(wanted),
            ..=3,
        )?;
    }
    stage.teardown()
}

fn exit_in_the_middle_of_a_kernel_ends_the_client() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(2)?;
    let other = Load::start(&format!("--kernel-us 200 {WAIT}"))?;
    caller.ask("launch 300000")?;
    std::thread::sleep(Duration::from_millis(50));
    caller.send("quit")?;
    caller.wait()?;
    stage.wait_until_gone(caller.pid())?;
    // The GPU cannot preempt: the kernel runs to its end, then the other client runs alone.
    std::thread::sleep(Duration::from_millis(500));
    let stat = stage.stat_during(Duration::from_millis(500))?;
    let share = client_of(&stat, other.pid())
        .and_then(|client| client.share)
        .ok_or("no share")?;
    within("share of the other one", share, 0.5..)?;
    other.stop()?;
    stage.teardown()
}

fn channel_destroyed_leaves_the_others() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(3)?;
    let channels = |stage: &Stage| -> Result<u32, String> {
        Ok(stage.client(puppet_pid(stage)?)?.map_or(0, |c| c.channels))
    };
    let before = channels(&stage)?;
    ensure!(before == 3, "{before} channels, not 3");
    let decisions = stage.stat()?.decisions;
    caller.ask("destroy 2")?;
    let client = stage.wait_for_client(
        caller.pid(),
        Duration::from_secs(2),
        "left with 2 channels",
        |client| client.channels == 2,
    )?;
    ensure!(client.channels == 2, "{} channels", client.channels);
    std::thread::sleep(Duration::from_millis(100));
    ensure!(
        stage.stat()?.decisions > decisions,
        "no decision after the destruction"
    );
    let run = caller.ask("run 200 300")?;
    within("kernels in 300 ms", run[0], 51..)?;
    drop(caller);
    stage.teardown()
}

/// The only client's process.
fn puppet_pid(stage: &Stage) -> Result<u32, String> {
    let stat = stage.stat()?;
    let [client] = &stat.clients[..] else {
        return Err(format!("{} clients", stat.clients.len()));
    };
    u32::try_from(client.pid).map_err(|error| error.to_string())
}

fn device_lost_lets_all_clients_run() -> Verdict {
    let stage = Stage::set(LAZY, crate::stage::LONG_PHASES)?;
    let (mut hog, light) = throttled_hog(&stage, 20000)?;
    stage.set_lost(true)?;
    let released = stage.wait_for_client(hog.pid(), Duration::from_secs(3), "released", |client| {
        client.state != "throttled"
    });
    let stat = stage.stat()?;
    std::thread::sleep(Duration::from_millis(500));
    let later = stage.stat()?;
    hog.kill()?;
    drop(light);
    stage.set_lost(false)?;
    released?;
    ensure!(stat.lost || later.lost, "LoGA does not say that it is lost");
    let throttled: Vec<i32> = later
        .clients
        .iter()
        .filter(|client| client.state == "throttled")
        .map(|client| client.pid)
        .collect();
    ensure!(throttled.is_empty(), "still throttled: {throttled:?}");
    stage.teardown()
}

fn device_lost_charges_nobody() -> Verdict {
    for accounting in ["sparse", "burst"] {
        let stage = Stage::set(LAZY, &format!("accounting={accounting}"))?;
        let load = Load::start("--kernel-us 1000 --depth 4 --wait block")?;
        stage.wait_until_measured(load.pid())?;
        stage.set_lost(true)?;
        // The period in which it is lost.
        std::thread::sleep(Duration::from_millis(200));
        let charged = || {
            let client = stage.client(load.pid())?.ok_or("no client")?;
            Ok::<u64, String>(client.gpu_time_ns)
        };
        let before = charged()?;
        std::thread::sleep(Duration::from_secs(1));
        let after = charged()?;
        let lost = stage.stat()?.lost;
        drop(load);
        stage.set_lost(false)?;
        ensure!(lost, "LoGA does not say that it is lost");
        ensure!(
            before > 0 && after == before,
            "{accounting}: {before} ns are charged when it is lost, and {after} a second later"
        );
        stage.teardown()?;
    }
    Ok(())
}
