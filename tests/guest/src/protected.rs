// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of protected clients: their stores are not stopped, those of others wait for them.

use crate::caller::Caller;
use crate::calls::Calls;
use crate::dispatch::counters;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::specs::{cleared, prio, set, EDF};
use crate::stage::{Stage, EXACT, FINE, LAZY};
use crate::truth;
use loga::uapi;
use std::time::{Duration, Instant};

crate::ktap::tests![
    frames_of_a_protected_client_wait_for_one_submission_of_another: timed,
    linger_that_adapts_follows_the_pauses: timed,
    protected_client_is_stopped_no_more_than_without_dispatch: timed,
    client_beside_protected_work_without_end_passes_once_a_second: timed,
    protection_that_ends_has_its_stores_decided_on_again,
];

fn frames_of_a_protected_client_wait_for_one_submission_of_another() -> Verdict {
    let mut all = Vec::new();
    for linger in [0, 5_000] {
        let stage = Stage::set(FINE, &format!("{EDF} linger_us={linger} {EXACT}"))?;
        let bombs = ["--kernel-us 3000 --wait block"; 3].map(Load::start);
        let bombs: Vec<Load> = bombs.into_iter().collect::<Result<_, _>>()?;
        stage.wait_until_all_measured(&bombs)?;
        set(uapi::Spec {
            subject: uapi::SUBJECT_USER,
            id: 1000,
            ..prio(0, 39, uapi::MODE_PROTECTED)
        })?;
        // A frame takes 2 ms of every 6.
        let frames = "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 6000 --wait block";
        let frames = Load::start_as(1000, frames)?;
        stage.wait_until_measured(frames.pid())?;
        let pids = [frames.pid(), bombs[0].pid(), bombs[1].pid(), bombs[2].pid()];
        let shares = truth::shares(pids, 500, 3_000)?;
        let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
        println!("# linger {linger}: {frames:?}, {shares:.1?}");
        Load::stop_all(bombs)?;
        stage.teardown()?;
        all.push((frames, shares));
    }
    let [(frames, shares), (lingers, few)] = all.as_slice() else {
        return Err("not two runs".to_string());
    };
    ensure!(frames.p95_us < 2_040.0 + 3_000.0 + 500.0, "{frames:?}");
    let bombs = |shares: &[f64; 4]| shares[1..].iter().sum::<f64>();
    within("percent of the bombs with shares", bombs(shares), 20.0..)?;
    // With a linger longer than the pauses the bombs have what the floor gives.
    within("lingers mean us", lingers.mean_us, ..2_300.0)?;
    within("percent of the bombs of few", bombs(few), 0.2..6.0)?;
    Ok(())
}

/// A protected client beside three with kernels of 3 ms: its mean turnaround in us, and what the
/// others use in percent.
fn beside_bombs(linger: &str, load: &str) -> Result<(f64, f64), String> {
    let stage = Stage::set(FINE, &format!("{EDF} {linger} {EXACT}"))?;
    let bombs = ["--kernel-us 3000 --wait block"; 3].map(Load::start);
    let bombs: Vec<Load> = bombs.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&bombs)?;
    let load = Load::start(&format!("{load} --wait block"))?;
    set(prio(load.pid(), 39, uapi::MODE_PROTECTED))?;
    stage.wait_until_measured(load.pid())?;
    let pids = [load.pid(), bombs[0].pid(), bombs[1].pid(), bombs[2].pid()];
    let shares = truth::shares(pids, 500, 2_000)?;
    let summary = load.stop()?.summary;
    println!("# {linger}: {summary:?}, {shares:.1?}");
    Load::stop_all(bombs)?;
    stage.teardown()?;
    Ok((summary.turnaround_mean_us, shares[1..].iter().sum()))
}

fn linger_that_adapts_follows_the_pauses() -> Verdict {
    let adapts = "linger_us=5000 linger_adapts=1";
    let short = "--kernel-us 900 --sleep-us 100";
    let [at_once, kept] = [
        beside_bombs("linger_us=0", short)?,
        beside_bombs(adapts, short)?,
    ];
    within("at once 0", at_once.0, 2_000.0..)?;
    within("kept 0", kept.0, ..1_300.0)?;
    // They are longer than the linger: to wait for their end would be in vain.
    let long = "--kernel-us 500 --sleep-us 8000";
    let [set, kept] = [
        beside_bombs("linger_us=5000", long)?,
        beside_bombs(adapts, long)?,
    ];
    within("set 1", set.1, ..70.0)?;
    within("kept 1", kept.1, 80.0..)?;
    Ok(())
}

fn protected_client_is_stopped_no_more_than_without_dispatch() -> Verdict {
    let mut means = [0.0; 2];
    for (mean, dispatch) in means.iter_mut().zip(["none", "edf"]) {
        let stage = Stage::set(FINE, &format!("policy=none dispatch={dispatch} {EXACT}"))?;
        // Between its processor and the next one a kernel differs by 4 us, which is not LoGA's.
        let load = Load::start_on(0, "--kernel-us 100 --wait block")?;
        set(prio(load.pid(), 39, uapi::MODE_PROTECTED))?;
        std::thread::sleep(Duration::from_secs(3));
        let summary = load.stop()?.summary;
        *mean = summary.turnaround_mean_us;
        println!("# {dispatch}: {summary:?}");
        stage.teardown()?;
    }
    within("edf to none", means[1] / means[0], ..1.005)?;
    Ok(())
}

fn client_beside_protected_work_without_end_passes_once_a_second() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let hog = Load::start("--kernel-us 2000 --depth 4 --wait block")?;
    stage.wait_until_measured(hog.pid())?;
    set(prio(hog.pid(), 39, uapi::MODE_PROTECTED))?;
    let mut other = Caller::with_channels(1)?;
    // The first waits for as long.
    for _ in 0..4 {
        let took_us = other.ask("store 100")?[0];
        println!("# {took_us} us");
        within("us of a store", took_us, 900_000..1_200_000)?;
    }
    // What the hog had submitted before it was protected keeps the turn from no client.
    let counters = counters()?;
    ensure!(counters[3] == 0, "all had to pass: {counters:?}");
    // It has nothing to wait for when the hog is gone.
    other.send("store 100")?;
    drop(hog);
    other.answer(Duration::from_secs(1))?;
    let took_us = other.ask("store 100")?[0];
    within("us of a store", took_us, ..20_000)?;
    drop(other);
    stage.teardown()
}

fn protection_that_ends_has_its_stores_decided_on_again() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut caller = Caller::with_channels(1)?;
    let mut other = Caller::with_channels(1)?;
    let free = prio(caller.pid(), 39, uapi::MODE_PROTECTED);
    for clear in [true, false] {
        other.ask("store 1000")?;
        set(free)?;
        caller.ask("store 1000")?;
        // It does not wait for the kernel of the other.
        other.ask("launch 300000")?;
        let begin = Instant::now();
        caller.ask("launch 1000")?;
        let took = begin.elapsed();
        ensure!(took < Duration::from_millis(50), "{took:?}");
        std::thread::sleep(Duration::from_millis(500));
        if clear {
            let (result, refusal) = Calls::open()?.set_spec(&cleared(caller.pid()));
            ensure!(result.is_ok(), "{refusal}");
        } else {
            set(prio(caller.pid(), 39, uapi::MODE_PRT))?;
        }
        other.ask("launch 300000")?;
        std::thread::sleep(Duration::from_millis(5));
        let begin = Instant::now();
        caller.ask("launch 1000")?;
        let took = begin.elapsed();
        println!("# then {took:?}");
        ensure!(took > Duration::from_millis(150), "{took:?}");
    }
    drop((caller, other));
    stage.teardown()
}
