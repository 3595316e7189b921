// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Pages that go from one user to another, and programs that have no channel for a moment: what
//! was measured is booked to whoever had the page then.
//!
//! The driver gives the lowest page that is free, so who frees one and who gets it can be arranged.

use super::programs::{first, keep_busy, open, DEPTH, LIFE};
use super::{model, Program, BETWEEN, ENFORCING, IN_BURSTS, USER};
use crate::caller::Caller;
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{clear, for_user, limit, set};
use crate::stage::{Stage, FINE, LAZY};
use crate::truth::Truth;
use loga::uapi;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

crate::ktap::tests![
    page_that_is_handed_on_is_booked_to_who_had_it: timed,
    page_that_is_handed_on_in_bursts_is_booked_to_who_had_it: timed,
    limit_holds_for_pages_that_are_handed_on: timed,
    program_without_a_channel_for_a_moment_is_charged: timed,
];

/// The user that gets the pages.
const BEARER: u32 = USER + 1;
/// Time of a measurement: at either end some rounds are partly in it.
const WINDOW: Duration = Duration::from_secs(8);
/// Percent by which charges may differ from what was used.
pub(super) const OFF: f64 = 2.0;

/// A user's part of the window, in percent.
#[derive(Clone, Copy, Debug)]
struct Part {
    used: f64,
    charged: f64,
}

/// GPU time that LoGA has charged to users, in ns.
pub(super) fn charged<const N: usize>(calls: &Calls, users: [u32; N]) -> Result<[u64; N], String> {
    let totals = calls.totals(uapi::SUBJECT_USER, 0);
    let totals = totals.map_err(|errno| errno.to_string())?;
    Ok(users.map(|uid| {
        let own = totals.iter().find(|total| total.id == u64::from(uid));
        own.map_or(0, |total| total.gpu_time_ns)
    }))
}

fn caller_of(uid: u32) -> Result<Caller, String> {
    let mut caller = Caller::new()?;
    caller.ask(&format!("become {uid}"))?;
    Ok(caller)
}

/// A process of the first user runs for `burst` and ends; one of the bearer takes its page, runs for
/// `bears`, and keeps the page until the next one has its own. So it goes on for the window. Returns what
/// both users had.
fn hand_on(stage: &Stage, burst: Duration, bears: Duration) -> Result<[Part; 2], String> {
    let calls = Calls::open()?;
    let mut pids = [BTreeSet::new(), BTreeSet::new()];
    let mut bearer: Option<Caller> = None;
    Truth::reset()?;
    let (since, before) = (Instant::now(), charged(&calls, [USER, BEARER])?);
    while since.elapsed() < WINDOW {
        let mut heavy = caller_of(USER)?;
        let mut next = caller_of(BEARER)?;
        pids[0].insert(heavy.pid());
        pids[1].insert(next.pid());
        heavy.ask("open 1")?;
        heavy.ask(&format!("run 1000 {}", burst.as_millis()))?;
        heavy.kill()?;
        next.ask("open 1")?;
        if !bears.is_zero() {
            next.ask(&format!("run 1000 {}", bears.as_millis()))?;
        }
        // The one of the last round has kept the other page that is low.
        drop(bearer.replace(next));
    }
    drop(bearer);
    // What was measured last is booked.
    std::thread::sleep(BETWEEN);
    let after = charged(&calls, [USER, BEARER])?;
    let truth = Truth::read()?;
    // An open device keeps the module.
    drop(calls);
    let parts = [0, 1].map(|user| Part {
        used: 100.0
            * pids[user]
                .iter()
                .map(|pid| truth.ran_share(*pid))
                .sum::<f64>(),
        charged: 100.0 * (after[user] - before[user]) as f64 / truth.window_ns as f64,
    });
    println!("# {} rounds: {parts:.1?}", pids[0].len());
    ensure!(pids[0].len() > 16, "{} rounds", pids[0].len());
    stage.check_no_fallback()?;
    Ok(parts)
}

/// Checks that each user is charged what it used.
fn check(loga: &str, burst: Duration, bears: Duration) -> Verdict {
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), loga)?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    stage.wait_until_measured(other.pid())?;
    for part in hand_on(&stage, burst, bears)? {
        within(
            "percent used and not charged",
            (part.used - part.charged).abs(),
            ..=OFF,
        )?;
    }
    drop(other);
    stage.teardown()
}

fn page_that_is_handed_on_is_booked_to_who_had_it() -> Verdict {
    check(ENFORCING, Duration::from_millis(5), Duration::ZERO)?;
    check(
        ENFORCING,
        Duration::from_millis(30),
        Duration::from_millis(1),
    )
}

fn page_that_is_handed_on_in_bursts_is_booked_to_who_had_it() -> Verdict {
    check(
        IN_BURSTS,
        Duration::from_millis(30),
        Duration::from_millis(1),
    )
}

fn limit_holds_for_pages_that_are_handed_on() -> Verdict {
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), ENFORCING)?;
    set(for_user(USER), limit(10))?;
    let parts = hand_on(&stage, Duration::from_millis(5), Duration::ZERO)?;
    within("percent with a limit of 10", parts[0].used, ..=11.0)?;
    set(for_user(USER), clear)?;
    stage.teardown()
}

/// Each burst is that of a fresh channel; between two of them there is none.
pub(super) fn flicker() -> Result<(), String> {
    const BURST: Duration = Duration::from_millis(25);
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let (_client, mut channels) = open(1, DEPTH)?;
        let channel = first(&mut channels)?;
        keep_busy(channel, BURST);
        while channel.completed() != channel.sequence() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

// Regression: what it did in a non-polling phase was charged to nobody, as the engine parked.
fn program_without_a_channel_for_a_moment_is_charged() -> Verdict {
    for program in ["flicker", "respawn"] {
        let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), IN_BURSTS)?;
        let mut hostile = Program::start(program)?;
        std::thread::sleep(BETWEEN);
        let calls = Calls::open()?;
        Truth::reset()?;
        let before = charged(&calls, [USER, BEARER])?;
        std::thread::sleep(WINDOW / 2);
        let after = charged(&calls, [USER, BEARER])?;
        let truth = Truth::read()?;
        ensure!(
            hostile.runs()?,
            "{program} ended before the figures were taken"
        );
        drop((hostile, calls));
        let used = 100.0 * truth.pids().map(|pid| truth.ran_share(pid)).sum::<f64>();
        let charged = 100.0 * (after[0] - before[0]) as f64 / truth.window_ns as f64;
        println!("# {program}: used {used:.1} %, charged {charged:.1} %");
        within(
            "percent used and not charged",
            (used - charged).abs(),
            ..=OFF,
        )?;
        stage.teardown()?;
    }
    Ok(())
}
