// SPDX-License-Identifier: GPL-2.0

//! [tool] Programs that want their turn and do little or nothing with it: a policy holds others back
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

/// What a client with kernels of [`HOG_US`] gets beside programs, and what all get, in percent.
fn measure(policy: &str, enforce: bool, programs: &[&str]) -> Result<[f64; 2], String> {
    let enforce = u8::from(enforce);
    let loga = format!("policy={policy} enforce={enforce} dispatch=prio {EXACT}");
    let stage = Stage::set(&model(FINE), &loga)?;
    let victim = Load::start(&format!("--kernel-us {HOG_US} --wait block"))?;
    stage.wait_until_measured(victim.pid())?;
    let started = programs.iter().map(|program| Program::start(program));
    let mut hostile = started.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(SETTLE);
    Truth::reset()?;
    std::thread::sleep(WINDOW);
    let truth = Truth::read()?;
    for (one, program) in hostile.iter_mut().zip(programs) {
        ensure!(one.runs()?, "{program} has ended");
    }
    let got = 100.0 * truth.ran_share(victim.pid());
    let all = truth.pids().map(|pid| 100.0 * truth.ran_share(pid)).sum();
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
