// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that want their turn and do little or nothing with it: a policy holds others back
//! for them no longer than for a hog.

use super::super::{model, Program};
use super::programs::HOG_US;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE};
use crate::truth::Truth;
use std::time::Duration;

/// Time until shares have settled, and time of a measurement.
const SETTLE: Duration = Duration::from_millis(1500);
const WINDOW: Duration = Duration::from_secs(4);
/// Length of a period with few clients.
const PERIOD: Duration = Duration::from_millis(50);

/// The stage of a test here.
fn set(policy: &str, enforce: bool) -> Result<Stage, String> {
    let enforce = u8::from(enforce);
    let loga = format!("policy={policy} enforce={enforce} dispatch=prio {EXACT}");
    Stage::set(&model(FINE), &loga)
}

/// A client with kernels of [`HOG_US`], after it has been measured for the first time.
fn victim(stage: &Stage) -> Result<Load, String> {
    let victim = Load::start(&format!("--kernel-us {HOG_US} --wait block"))?;
    stage.wait_until_measured(victim.pid())?;
    Ok(victim)
}

/// What the victim gets from now on, and what all get, in percent.
fn shares(victim: &Load, window: Duration) -> Result<[f64; 2], String> {
    Truth::reset()?;
    std::thread::sleep(window);
    let truth = Truth::read()?;
    let all = truth.pids().map(|pid| 100.0 * truth.ran_share(pid)).sum();
    Ok([100.0 * truth.ran_share(victim.pid()), all])
}

/// What the victim gets beside programs, and what all get, in percent.
fn measure(policy: &str, enforce: bool, programs: &[&str]) -> Result<[f64; 2], String> {
    let stage = set(policy, enforce)?;
    let victim = victim(&stage)?;
    let started = programs.iter().map(|program| Program::start(program));
    let mut hostile = started.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(SETTLE);
    let [got, all] = shares(&victim, WINDOW)?;
    for (one, program) in hostile.iter_mut().zip(programs) {
        ensure!(one.runs()?, "{program} has ended");
    }
    drop((hostile, victim));
    let programs = programs.join(", ");
    println!(
        "# {policy}, enforce={enforce}: the victim got {got:.1} %, all {all:.1}, beside {programs}"
    );
    stage.check_no_fallback()?;
    stage.teardown()?;
    Ok([got, all])
}

pub(super) fn client_that_uses_no_turn_takes_no_more_than_a_hog() -> Verdict {
    // At both ends of the window, one is ahead by two periods and a command.
    let ahead = (2 * PERIOD + Duration::from_micros(HOG_US)).div_duration_f64(WINDOW) * 100.0;
    // `event` stops a client for another that wants little, with a dispatcher or without.
    for (policy, programs) in [
        ("event", ["stores", "stores-anew"].as_slice()),
        ("maxmin", ["stores", "stores-anew", "tiny"].as_slice()),
    ] {
        let [beside_a_hog, _] = measure(policy, true, &["plain-turns"])?;
        let least = beside_a_hog - ahead;
        for program in programs {
            let [got, _] = measure(policy, true, &[program])?;
            within(&format!("percent beside {program}"), got, least..)?;
        }
    }
    Ok(())
}

pub(super) fn clients_of_short_kernels_cost_a_tenth_at_most() -> Verdict {
    // As `policies/maxmin.rs` has it: a tenth, and what is lost in a period.
    let most = 10.0 + 100.0 * PERIOD.div_duration_f64(WINDOW);
    for programs in [
        ["tiny"; 4].as_slice(),
        &["tiny", "tiny", "stores", "stores"],
    ] {
        let [_, free] = measure("maxmin", false, programs)?;
        let [_, held_back] = measure("maxmin", true, programs)?;
        within("percent that all get", held_back, free - most..)?;
    }
    Ok(())
}

/// While they were alone, the GPU idled for most of the time: LoGA has to learn anew how much of it
/// idles while nobody is throttled, which takes some `FORGET` periods (`gpu/dispatching.rs`).
pub(super) fn newcomer_is_soon_held_back_no_more_than_others() -> Verdict {
    const PROGRAMS: [&str; 4] = ["tiny"; 4];
    let of_all = |enforce: bool| -> Result<f64, String> {
        let stage = set("maxmin", enforce)?;
        let started = PROGRAMS.iter().map(|program| Program::start(program));
        let mut hostile = started.collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(2 * SETTLE);
        let victim = victim(&stage)?;
        let [got, all] = shares(&victim, WINDOW)?;
        for one in &mut hostile {
            ensure!(one.runs()?, "a program has ended");
        }
        println!("# enforce={enforce}: the newcomer got {got:.1} %, all {all:.1}");
        drop((hostile, victim));
        stage.check_no_fallback()?;
        stage.teardown()?;
        Ok(all)
    };
    // As before, and what eight periods may lose.
    let most = 10.0 + 9.0 * 100.0 * PERIOD.div_duration_f64(WINDOW);
    let free = of_all(false)?;
    within("percent that all get", of_all(true)?, free - most..)
}
