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

/// What a client with kernels of [`HOG_US`] gets beside a program, in percent.
fn victim_beside(policy: &str, program: &str) -> Result<f64, String> {
    let loga = format!("policy={policy} enforce=1 dispatch=prio {EXACT}");
    let stage = Stage::set(&model(FINE), &loga)?;
    let victim = Load::start(&format!("--kernel-us {HOG_US} --wait block"))?;
    stage.wait_until_measured(victim.pid())?;
    let mut hostile = Program::start(program)?;
    std::thread::sleep(SETTLE);
    Truth::reset()?;
    std::thread::sleep(WINDOW);
    let got = 100.0 * Truth::read()?.ran_share(victim.pid());
    ensure!(hostile.runs()?, "{program} has ended");
    drop((hostile, victim));
    println!("# {policy}: the victim got {got:.1} % beside {program}");
    stage.check_no_fallback()?;
    stage.teardown()?;
    Ok(got)
}

pub(super) fn client_that_uses_no_turn_takes_no_more_than_a_hog() -> Verdict {
    // At both ends of the window, one is ahead by two periods and a command.
    let ahead = (2 * PERIOD + Duration::from_micros(HOG_US)).div_duration_f64(WINDOW) * 100.0;
    // `event` stops a client for another that wants little, with a dispatcher or without.
    for (policy, programs) in [
        ("event", ["stores", "stores-anew"].as_slice()),
        ("maxmin", ["stores", "stores-anew", "tiny"].as_slice()),
    ] {
        let least = victim_beside(policy, "plain-turns")? - ahead;
        for program in programs {
            let got = victim_beside(policy, program)?;
            within(&format!("percent beside {program}"), got, least..)?;
        }
    }
    Ok(())
}
