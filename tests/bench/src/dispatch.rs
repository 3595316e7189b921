// SPDX-License-Identifier: GPL-2.0

//! What it costs to decide on each submission, and what an important client gains by it.

use crate::costs;
use crate::figure::Findings;
use crate::load::{Load, Pattern};
use crate::stage::{Stage, EXACT, FINE};
use crate::submission;
use crate::window::Window;
use rustix::process::{setpriority_process, Pid};
use std::time::Duration;
use throttle::statistics::Frames;

/// Lengths of kernels, in us.
const LENGTHS_US: [u64; 4] = [33, 100, 1000, 5000];
/// Frames of four kernels of 500 us, one every 10 ms.
const FRAMES: &str = "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 10000";
/// A client that is alone pauses for so long between its kernels that the end of each has been read.
const PAUSE_US: u64 = 500;
/// What they run beside: kernels of 3 ms, each waited for.
const BOMB_US: f64 = 3000.0;
/// Nice value of the important client.
const NICE: i32 = -10;

/// One client alone, two alike, then frames beside long kernels.
pub(crate) fn dispatch(findings: &mut Findings) -> Result<(), String> {
    store(findings)?;
    submission::parts(findings)?;
    for length_us in LENGTHS_US {
        for dispatch in ["none", "prio"] {
            two_alike(findings, length_us, dispatch)?;
        }
    }
    let alone = frames(findings, "none", false)?;
    frames(findings, "none", true)?;
    let first = frames(findings, "prio", true)?;
    let most = 1.3 * alone.p99_us + BOMB_US;
    let name = "frames beside kernels of 3 ms, prio: 99 %";
    findings.check(name, first.p99_us, "us", 0.0..=most);
    Ok(())
}

/// What a store costs that nobody else delays: by how much longer a client that is alone and pauses
/// takes for each kernel.
fn store(findings: &mut Findings) -> Result<(), String> {
    let mut cycles_us = [0.0; 2];
    for (dispatch, cycle_us) in ["none", "prio"].into_iter().zip(&mut cycles_us) {
        let loga = format!("policy=none dispatch={dispatch} {EXACT}");
        let stage = Stage::set(FINE, &loga)?;
        let window = Window::of(&[Pattern::new(PAUSE_US, PAUSE_US)], 2.0)?;
        // CAST: some thousands.
        *cycle_us = 1000.0 * window.length_ms() / window.commands(0) as f64;
        findings.record(
            &format!("alone, {dispatch}: time per kernel"),
            *cycle_us,
            "us",
        );
        stage.teardown()?;
    }
    let [none, prio] = cycles_us;
    findings.record("alone: a store that is decided on", prio - none, "us");
    Ok(())
}

/// Two clients that wait for each of their kernels.
fn two_alike(findings: &mut Findings, length_us: u64, dispatch: &str) -> Result<(), String> {
    let loga = format!("policy=none dispatch={dispatch} {EXACT}");
    let stage = Stage::set(FINE, &loga)?;
    let loads = [Pattern::new(length_us, 0); 2];
    let window = Window::of(&loads, 2.0)?;
    let what = format!("two of {length_us} us, {dispatch}");
    let kernels: u64 = (0..2).map(|load| window.commands(load)).sum();
    // CAST: some thousands.
    let cycle_us = 1000.0 * window.length_ms() / kernels as f64;
    findings.record(&format!("{what}: time per kernel"), cycle_us, "us");
    let busy: f64 = (0..2).map(|load| window.busy_share(load)).sum();
    findings.record(&format!("{what}: utilisation"), busy, "%");
    let threads = 100.0 * window.threads_ms / window.length_ms();
    findings.record(&format!("{what}: threads of LoGA, of a core"), threads, "%");
    if dispatch == "prio" {
        for cost in ["enter", "close"] {
            costs::note_last(findings, &format!("{what}: {cost}"), &format!("{cost}_ns"))?;
        }
    }
    if (dispatch, length_us) == ("prio", 33) {
        // A thread that looks once in a millisecond sees one end of a kernel in each.
        let name = "kernels of 33 us, prio, over a look each ms";
        findings.check(name, 1000.0 / cycle_us, "times", 10.0..=f64::MAX);
    }
    stage.teardown()
}

/// Frames of an important client, beside long kernels of another or alone.
fn frames(findings: &mut Findings, dispatch: &str, beside: bool) -> Result<Frames, String> {
    let stage = Stage::set(FINE, &format!("policy=none dispatch={dispatch} {EXACT}"))?;
    let bomb = beside.then(|| Load::start("--kernel-us 3000 --wait block"));
    let bomb = bomb.transpose()?;
    if let Some(bomb) = &bomb {
        stage.wait_until_measured(bomb.pid())?;
    }
    let load = Load::start(&format!("{FRAMES} --wait block"))?;
    let pid = i32::try_from(load.pid()).ok().and_then(Pid::from_raw);
    setpriority_process(pid, NICE).map_err(|error| format!("nice {NICE}: {error}"))?;
    std::thread::sleep(Duration::from_secs(4));
    let frames = load.stop()?.summary.frames.ok_or("no frames")?;
    let what = match beside {
        true => format!("frames beside kernels of 3 ms, {dispatch}"),
        false => "frames alone".to_owned(),
    };
    findings.record(&format!("{what}: mean"), frames.mean_us, "us");
    findings.record(&format!("{what}: 95 %"), frames.p95_us, "us");
    findings.record(&format!("{what}: longest"), frames.max_us, "us");
    if let Some(bomb) = bomb {
        let kernels = bomb.stop()?.summary.kernels;
        // CAST: some hundreds.
        findings.record(&format!("{what}: kernels of 3 ms"), kernels as f64, "");
    }
    stage.teardown()?;
    Ok(frames)
}
