// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs at nice 19 that try to get past the decisions on submissions, beside the frames
//! of a client at nice -10, or with a reserve: these must wait no longer than beside a program that
//! submits one kernel after the other, and for one kernel more.
//!
//! What each program does is said in `programs`.

mod draining;
mod holding_back;
mod programs;

pub(super) use programs::PROGRAMS;

use super::{model, Dispatcher, Program};
use crate::dispatch::{counters, start_nice, FRAMES};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::specs::{reserve, set};
use crate::stage::{Stage, EXACT, FINE};
use crate::truth::Truth;
use draining::channel_that_says_it_has_work_keeps_nobody_from_running;
use holding_back::{
    client_that_uses_no_turn_takes_no_more_than_a_hog,
    clients_of_short_kernels_cost_a_tenth_at_most, newcomer_is_soon_held_back_no_more_than_others,
};
use loga::uapi;
use programs::{AROUND, KERNEL_US};
use std::sync::OnceLock;
use std::time::Duration;
use throttle::statistics::Frames;

crate::ktap::tests![
    channel_allocated_after_its_page_was_mapped_is_decided_on: timed,
    channel_allocated_in_a_page_of_copies_is_decided_on: timed,
    work_behind_a_semaphore_is_paid_by_its_client: timed,
    queue_of_a_disabled_channel_is_paid_by_its_client: timed,
    ring_that_is_kept_full_takes_no_priority_away: timed,
    ring_of_a_fresh_process_takes_no_priority_away: timed slow,
    ring_that_comes_around_is_decided_on: timed,
    many_threads_of_one_process_end_no_decisions: timed,
    index_that_a_client_writes_ends_no_decisions: timed,
    indices_of_fresh_channels_end_no_decisions: timed slow,
    disabled_queue_that_is_hidden_is_paid_by_its_client: timed,
    channel_beyond_those_that_are_noted_is_paid_by_its_client: timed,
    indices_that_a_client_writes_take_no_reserve_away: timed slow,
    channel_that_says_it_has_work_keeps_nobody_from_running: timed,
    client_that_uses_no_turn_takes_no_more_than_a_hog: timed,
    clients_of_short_kernels_cost_a_tenth_at_most: timed,
    newcomer_is_soon_held_back_no_more_than_others: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = TESTS;

/// Time with frames before they are measured: what was queued before, for three seconds at most, has
/// run.
const WARM_UP: Duration = Duration::from_millis(4500);
/// Time of a measurement: 600 frames.
const WINDOW: Duration = Duration::from_secs(6);

/// What one side and the other got.
#[derive(Clone, Debug)]
struct Got {
    /// Before any channel was freed: LoGA reads all of them again then.
    first: Frames,
    frames: Frames,
    /// Share of the GPU of the program, by the model's log, in percent.
    used: f64,
    /// Its kernels up to the end of the first frames, by the model's log.
    kernels: u64,
    /// Its submissions that have completed then, by LoGA.
    submissions: u64,
    /// Grants to all.
    grants: u64,
    fallbacks: u64,
}

/// The stage with a dispatcher.
fn set_stage(dispatcher: Dispatcher) -> Result<Stage, String> {
    let name = dispatcher.name();
    Stage::set(
        &model(FINE),
        &format!("policy=none dispatch={name} {EXACT}"),
    )
}

/// Starts frames of a client that comes before all others.
fn start_frames(dispatcher: Dispatcher) -> Result<Load, String> {
    let frames = start_nice(-10, FRAMES)?;
    if let Dispatcher::Edf = dispatcher {
        set(reserve(frames.pid(), uapi::RESERVE_CBS, 4_000, 10_000))?;
    }
    Ok(frames)
}

/// Frames beside a process; a program that gets past no decision is a plain load.
fn measure(stage: &Stage, dispatcher: Dispatcher, name: &str, pid: u32) -> Result<Got, String> {
    std::thread::sleep(Duration::from_millis(700));
    let frames = start_frames(dispatcher)?;
    std::thread::sleep(WARM_UP);
    let kernels = Truth::read()?.usage(pid).commands;
    let submissions = stage.client(pid)?.map_or(0, |client| client.submissions);
    let first = frames.stop()?.summary.frames.ok_or("no frames")?;
    let grants = counters()?;
    Truth::reset()?;
    let frames = start_frames(dispatcher)?;
    std::thread::sleep(WINDOW);
    let truth = Truth::read()?;
    let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
    let got = Got {
        first,
        frames,
        used: 100.0 * truth.ran_share(pid),
        kernels,
        submissions,
        grants: counters()?[0].saturating_sub(grants[0]),
        fallbacks: stage.stat()?.fallbacks,
    };
    println!(
        "# {name}: {:.1} % of the GPU, {} kernels, {} submissions; counters {grants:?} to {:?}",
        got.used,
        got.kernels,
        got.submissions,
        counters()?
    );
    println!("# {name}: first {:?}", got.first);
    println!("# {name}: then {:?}", got.frames);
    Ok(got)
}

/// Frames beside one kernel after the other, measured once.
fn beside_one_kernel_at_a_time(dispatcher: Dispatcher) -> Result<Got, String> {
    static PRIO: OnceLock<Result<Got, String>> = OnceLock::new();
    static EDF: OnceLock<Result<Got, String>> = OnceLock::new();
    let plain = match dispatcher {
        Dispatcher::Prio => &PRIO,
        Dispatcher::Edf => &EDF,
    };
    let plain = plain.get_or_init(|| {
        let stage = set_stage(dispatcher)?;
        let load = start_nice(19, &format!("--kernel-us {KERNEL_US} --wait block"))?;
        let got = measure(&stage, dispatcher, "one kernel at a time", load.pid())?;
        drop(load);
        stage.teardown()?;
        Ok(got)
    });
    plain.clone()
}

/// Frames beside a program.
fn beside(dispatcher: Dispatcher, program: &str) -> Result<Got, String> {
    let stage = set_stage(dispatcher)?;
    let mut hostile = Program::start(program)?;
    let got = measure(&stage, dispatcher, program, hostile.pid())?;
    ensure!(hostile.runs()?, "{program} has ended");
    drop(hostile);
    stage.teardown()?;
    Ok(got)
}

/// Checks that frames beside a program take as long as beside one kernel at a time, and one kernel
/// more, but one in a hundred.
fn check(program: &str) -> Result<Got, String> {
    check_with(Dispatcher::Prio, program)
}

fn check_with(dispatcher: Dispatcher, program: &str) -> Result<Got, String> {
    let plain = beside_one_kernel_at_a_time(dispatcher)?;
    let got = beside(dispatcher, program)?;
    // CAST: a thousand.
    let most = plain.frames.p99_us + KERNEL_US as f64;
    within("99 % of frames us", got.frames.p99_us, ..=most)?;
    Ok(got)
}

/// As [`check`], and that decisions go on.
fn check_grants(dispatcher: Dispatcher, program: &str) -> Verdict {
    let got = check_with(dispatcher, program)?;
    // Of each frame, one submission at least.
    within("grants", got.grants, got.frames.count..)?;
    within("fallbacks", got.fallbacks, ..=0)?;
    Ok(())
}

/// As [`check`], of a program that submits one kernel after the other, before any channel was freed;
/// and checks that each was a submission that was decided on.
fn check_from_the_first(program: &str) -> Verdict {
    let plain = beside_one_kernel_at_a_time(Dispatcher::Prio)?;
    let got = beside(Dispatcher::Prio, program)?;
    // CAST: a thousand.
    let most = plain.first.p99_us + KERNEL_US as f64;
    within("99 % of the first frames us", got.first.p99_us, ..=most)?;
    within(
        "kernels for each submission",
        // CAST: thousands.
        got.kernels as f64 / got.submissions.max(1) as f64,
        0.9..=1.1,
    )?;
    Ok(())
}

fn channel_allocated_after_its_page_was_mapped_is_decided_on() -> Verdict {
    check_from_the_first("late")
}

fn channel_allocated_in_a_page_of_copies_is_decided_on() -> Verdict {
    check_from_the_first("late-copy")
}

fn work_behind_a_semaphore_is_paid_by_its_client() -> Verdict {
    check("acquire").map(drop)
}

fn queue_of_a_disabled_channel_is_paid_by_its_client() -> Verdict {
    check("disabled").map(drop)
}

fn ring_that_is_kept_full_takes_no_priority_away() -> Verdict {
    check("full").map(drop)
}

fn ring_of_a_fresh_process_takes_no_priority_away() -> Verdict {
    check("full-anew").map(drop)
}

fn ring_that_comes_around_is_decided_on() -> Verdict {
    let got = beside(Dispatcher::Prio, "around")?;
    within(
        "kernels for each submission",
        // CAST: thousands.
        got.kernels as f64 / got.submissions.max(1) as f64,
        ..=1.1 * f64::from(AROUND),
    )
}

fn many_threads_of_one_process_end_no_decisions() -> Verdict {
    check_grants(Dispatcher::Prio, "threads")
}

fn index_that_a_client_writes_ends_no_decisions() -> Verdict {
    check_grants(Dispatcher::Prio, "ghost")
}

fn indices_of_fresh_channels_end_no_decisions() -> Verdict {
    check_grants(Dispatcher::Prio, "phantom")
}

fn disabled_queue_that_is_hidden_is_paid_by_its_client() -> Verdict {
    check("forged").map(drop)
}

fn channel_beyond_those_that_are_noted_is_paid_by_its_client() -> Verdict {
    check("overflow").map(drop)
}

fn indices_that_a_client_writes_take_no_reserve_away() -> Verdict {
    for program in ["ghost", "phantom"] {
        check_grants(Dispatcher::Edf, program)?;
    }
    for program in ["forged", "overflow"] {
        check_with(Dispatcher::Edf, program)?;
    }
    Ok(())
}
