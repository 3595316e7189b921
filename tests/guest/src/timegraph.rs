// SPDX-License-Identifier: GPL-2.0

//! [tool] Figures of TimeGraph with real processes, in reduced form: a game beside programs that
//! always want more, three engines, a player.
//!
//! The stand-ins are those of the simulator (`eval/src/systems/timegraph/standins.rs`) without time
//! on processors, which sleeps instead: all processes share those of the machine.

use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::over;
use crate::specs::{prio, reserve, set};
use crate::stage::{Stage, EXACT, FINE};
use crate::sysfs;
use loga::uapi;
use std::time::{Duration, Instant};
use throttle::statistics::Frames;

crate::ktap::tests![
    game_keeps_its_frames_beside_five_bombs_that_share_a_reserve: timed slow,
    engines_with_reserves_get_what_they_are_promised: timed slow,
    player_keeps_its_frames_beside_five_bombs: timed slow,
];

/// A game: 50 frames per second alone, 80 % of the GPU.
const GAME: &str =
    "--kernel-us 1000 --jitter 50 --kernels-per-frame 16 --depth 16 --sleep-us 4000 --wait block";
/// A rendering benchmark: 200 frames per second alone, 80 % of the GPU.
const ENGINE: &str =
    "--kernel-us 1000 --jitter 5 --kernels-per-frame 4 --depth 4 --sleep-us 1000 --wait block";
/// A player: 24 frames per second, 7 % of the GPU.
const PLAYER: &str = "--kernel-us 1000 --jitter 20 --kernels-per-frame 3 --depth 3 \
                      --cycle-us 41667 --deadline-us 41667 --wait block";
/// A program that always wants more.
const BOMB: &str = "--kernel-us 5000 --jitter 5 --wait block";
/// The user of the bombs.
const BOMBS: u32 = 1001;

/// Five bombs of one user.
fn bombs(stage: &Stage) -> Result<Vec<Load>, String> {
    let bombs: Vec<Load> = (0..5)
        .map(|_| Load::start_as(BOMBS, BOMB))
        .collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&bombs)?;
    Ok(bombs)
}

/// A PE reserve that the bombs share.
fn of_bombs(capacity_us: u64, period_us: u64) -> uapi::Spec {
    uapi::Spec {
        subject: uapi::SUBJECT_USER,
        ..reserve(BOMBS, uapi::RESERVE_PE, capacity_us, period_us)
    }
}

/// Frames of a program in some seconds, and how many there were in each; `spec` is set for it.
fn frames(line: &str, spec: impl Fn(u32) -> Option<uapi::Spec>) -> Result<(Frames, f64), String> {
    let load = Load::start(line)?;
    spec(load.pid()).map_or(Ok(()), set)?;
    let begin = Instant::now();
    std::thread::sleep(Duration::from_millis(2_500));
    let lasted = begin.elapsed();
    let frames = load.stop()?.summary.frames.ok_or("no frames")?;
    // CAST: some hundreds.
    let rate = frames.count as f64 / lasted.as_secs_f64();
    Ok((frames, rate))
}

/// Figure 9.
fn game_keeps_its_frames_beside_five_bombs_that_share_a_reserve() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=none {EXACT}"))?;
    let (_, alone) = frames(GAME, |_| None)?;
    let bombs = bombs(&stage)?;
    let (_, none) = frames(GAME, |_| None)?;
    sysfs::write("dispatch", "prio")?;
    let first = |pid| Some(prio(pid, 30, uapi::MODE_HT));
    let (_, by_priority) = frames(GAME, first)?;
    set(of_bombs(2_500, 25_000))?;
    let (_, with_reserve) = frames(GAME, first)?;
    let rates = [alone, none, by_priority, with_reserve];
    println!("# frames a second {rates:.1?}");
    within("frames a second alone", alone, 45.0..55.0)?;
    within("without to alone", none / alone, ..0.25)?;
    within("by priority to alone", by_priority / alone, 0.80..)?;
    within("with a reserve to alone", with_reserve / alone, 0.90..)?;
    Load::stop_all(bombs)?;
    stage.teardown()
}

/// Figure 12.
fn engines_with_reserves_get_what_they_are_promised() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=prio {EXACT}"))?;
    let loads = [ENGINE; 3].map(Load::start);
    let loads: Vec<Load> = loads.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&loads)?;
    let pids = [loads[0].pid(), loads[1].pid(), loads[2].pid()];
    for (pid, level) in pids.iter().zip([30, 20, 10]) {
        set(prio(*pid, level, uapi::MODE_PRT))?;
    }
    // The kernels of a frame pass as one submission, so that the first waits for a frame of the
    // second at most: it never has less, and nearly as much where they take turns (1.07 to 2.2
    // times as much was seen).
    let [first, second, third] = [&loads[0], &loads[1], &loads[2]];
    over([first, second, third], 500, 4_000, |ordered| {
        within("percent of the first engine", ordered[0], 45.0..)?;
        ensure!(ordered[0] > 0.99 * ordered[1], "{ordered:?}");
        ensure!(ordered[1] > 10.0 * ordered[2], "{ordered:?}");
        Ok(())
    })?;
    for ((pid, level), (capacity, period)) in
        pids.iter()
            .zip([30, 20, 10])
            .zip([(15_000, 25_000), (5_000, 50_000), (5_000, 100_000)])
    {
        set(uapi::Spec {
            prio: level,
            ..reserve(*pid, uapi::RESERVE_PE, capacity, period)
        })?;
    }
    // What a reserve is charged is more than its kernels take: some 60 us for a submission.
    over([first, second, third], 500, 3_000, |regulated| {
        for (part, promised) in regulated.iter().zip([60.0, 10.0, 5.0]) {
            ensure!(
                *part <= promised + 0.5 && *part > 0.85 * promised,
                "{regulated:?}"
            );
        }
        Ok(())
    })?;
    Load::stop_all(loads)?;
    stage.teardown()
}

/// Figure 13.
fn player_keeps_its_frames_beside_five_bombs() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=none {EXACT}"))?;
    let bombs = bombs(&stage)?;
    let (without, _) = frames(PLAYER, |_| None)?;
    sysfs::write("dispatch", "prio")?;
    set(of_bombs(5_000, 40_000))?;
    let (with, _) = frames(PLAYER, |pid| {
        let own = reserve(pid, uapi::RESERVE_PE, 10_000, 40_000);
        Some(uapi::Spec { prio: 30, ..own })
    })?;
    println!("# {without:?}, with reserves {with:?}");
    ensure!(without.late * 5 > without.count, "{without:?}");
    ensure!(with.count > 50 && with.late == 0, "{with:?}");
    Load::stop_all(bombs)?;
    stage.teardown()
}
