// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A channel whose client has written that it has work, without a dispatcher: policies that
//! wait until a client has drained do not wait for it.

use super::super::{model, Program};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE};
use crate::truth::shares;

/// The policies that wait so.
const POLICIES: &[&str] = &[
    "sampling",
    "timeslice",
    "timeslice-eng",
    "credit",
    "credit-slo",
    "augc",
    "cosched",
];
/// Of the share that the other client has alone, in percent.
const LEAST: f64 = 90.0;

pub(super) fn channel_that_says_it_has_work_keeps_nobody_from_running() -> Verdict {
    for policy in POLICIES {
        let loga = format!("policy={policy} enforce=1 {EXACT}");
        let stage = Stage::set(&model(FINE), &loga)?;
        let other = Load::start("--kernel-us 1000 --depth 2 --wait block")?;
        stage.wait_until_measured(other.pid())?;
        let [alone] = shares([other.pid()], 500, 1_500)?;
        let mut ghost = Program::start("ghost")?;
        let [beside] = shares([other.pid()], 1_000, 3_000)?;
        println!("# {policy}: {alone:.1} % alone, {beside:.1} beside it");
        ensure!(ghost.runs()?, "it has ended");
        drop((ghost, other));
        within(
            &format!("percent of its share alone under {policy}"),
            100.0 * beside / alone,
            LEAST..,
        )?;
        stage.check_no_fallback()?;
        stage.teardown()?;
    }
    Ok(())
}
