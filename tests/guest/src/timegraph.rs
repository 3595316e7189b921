// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Figures of TimeGraph with real processes, in reduced form: a game beside programs that
//! always want more, three engines, a player.
//!
//! The stand-ins are those of the simulator (`eval/src/systems/timegraph/standins.rs`) without time
//! on processors, which sleeps instead: all processes share those of the machine.

use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::over;
use crate::specs::{prio, reserve, set, specs};
use crate::stage::{Stage, EXACT, FINE};
use crate::sysfs;
use loga::uapi;
use std::time::{Duration, Instant};
use throttle::statistics::Frames;

crate::ktap::tests![
    game_keeps_its_frames_beside_an_engine_and_a_bomb: timed slow,
    game_keeps_its_frames_beside_five_bombs_that_share_a_reserve: timed slow,
    engines_with_reserves_get_what_they_are_promised: timed slow,
    player_keeps_its_frames_beside_five_bombs: timed slow,
];

/// A game: 50 frames per second alone, 80 % of the GPU.
const GAME: &str =
    "--kernel-us 1000 --jitter 50 --kernels-per-frame 16 --depth 16 --sleep-us 4000 --wait block";
/// Another benchmark beside it: 100 frames per second alone, 40 % of the GPU.
const LIGHT_ENGINE: &str =
    "--kernel-us 1000 --jitter 5 --kernels-per-frame 4 --depth 4 --sleep-us 6000 --wait block";
/// A rendering benchmark: 200 frames per second alone, 80 % of the GPU.
const ENGINE: &str =
    "--kernel-us 1000 --jitter 5 --kernels-per-frame 4 --depth 4 --sleep-us 1000 --wait block";
/// A player: 24 frames per second, 7 % of the GPU.
const PLAYER: &str = "--kernel-us 1000 --jitter 20 --kernels-per-frame 3 --depth 3 \
                      --cycle-us 41667 --deadline-us 41667 --wait block";
/// A program that always wants more.
const BOMB: &str = "--kernel-us 5000 --jitter 5 --wait block";
/// For so long the frames of a program are counted, and what one frame is then in frames a second.
const WINDOW: Duration = Duration::from_millis(2_500);
const FRAME: f64 = 0.4;
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
    std::thread::sleep(WINDOW);
    let lasted = begin.elapsed();
    let frames = load.stop()?.summary.frames.ok_or("no frames")?;
    // CAST: some hundreds.
    let rate = frames.count as f64 / lasted.as_secs_f64();
    Ok((frames, rate))
}

/// What the only reserve was charged so far.
fn charged() -> Result<Duration, String> {
    let listed = specs()?;
    let mut reserves = listed
        .iter()
        .filter(|one| one.spec.kind != uapi::RESERVE_NONE);
    let own = reserves.next().ok_or("no reserve")?;
    Ok(Duration::from_nanos(own.used_ns))
}

/// Frames of the game of the highest priority, and what another program with this reserve of 2.5 ms
/// in 25 ms is charged meanwhile, in percent of the time.
fn beside_a_reserve(other: &Load, kind: u32) -> Result<(f64, f64), String> {
    set(reserve(other.pid(), kind, 2_500, 25_000))?;
    let (begin, before) = (Instant::now(), charged()?);
    let (_, rate) = frames(GAME, |pid| Some(prio(pid, 30, uapi::MODE_HT)))?;
    let used = charged()?.saturating_sub(before);
    Ok((
        rate,
        used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0,
    ))
}

/// Figures 7 and 8.
fn game_keeps_its_frames_beside_an_engine_and_a_bomb() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=none {EXACT}"))?;
    let (_, alone) = frames(GAME, |_| None)?;
    // With the criteria of the simulator for what priority gives.
    for (name, line, times) in [("engine", LIGHT_ENGINE, 1.1), ("bomb", BOMB, 3.0)] {
        let other = Load::start(line)?;
        stage.wait_until_measured(other.pid())?;
        let (_, none) = frames(GAME, |_| None)?;
        sysfs::write("dispatch", "prio")?;
        let first = |pid| Some(prio(pid, 30, uapi::MODE_HT));
        let (_, by_priority) = frames(GAME, first)?;
        let (with_pe, pe) = beside_a_reserve(&other, uapi::RESERVE_PE)?;
        let (with_ae, ae) = beside_a_reserve(&other, uapi::RESERVE_AE)?;
        sysfs::write("dispatch", "none")?;
        let rates = [alone, none, by_priority, with_pe, with_ae];
        println!("# {name}: frames a second {rates:.1?}, charged {pe:.2}, {ae:.2} %");
        // Frames at both ends of a window are seen or not.
        let gain = (by_priority + FRAME) / (none - FRAME);
        within(&format!("{name}: by priority to none"), gain, times..)?;
        let kept = with_pe / alone;
        within(&format!("{name}: with PE to alone"), kept, 0.90..)?;
        // One capacity and one command of 5 ms more than 10 % of 2.5 s.
        within(&format!("{name}: percent charged, PE"), pe, ..10.4)?;
        within(&format!("{name}: percent charged, AE"), ae, ..10.4)?;
        ensure!(ae < pe + 0.4, "{name}: AE {ae}, PE {pe}");
        Load::stop_all(vec![other])?;
    }
    stage.teardown()
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
