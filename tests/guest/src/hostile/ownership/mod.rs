// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that try to hide from LoGA which process owns a running channel: each must be
//! charged what it used, and get no more than a plain hog.
//!
//! What each program does is said in `programs`.

mod forging;
pub(super) mod handing;
pub(super) mod moving;
mod programs;

pub(super) use programs::{keep_busy, open, prepare_file, prepare_through, ready, LIFE, PROGRAMS};

use super::{branch, dispatcher, model, Dispatcher, Program, USER};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::{refuse, within};
use crate::load::Load;
use crate::stage::{client_of, Stage, FINE, LAZY};
use crate::truth::Truth;
use loga::uapi;
use programs::REFUSED;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

crate::ktap::tests![
    sibling_slot_of_a_mapped_page_is_charged: timed slow,
    decoy_that_maps_and_ends_changes_no_owner: timed,
    scapegoat_that_maps_too_is_not_charged: timed,
    relay_of_fresh_processes_owes_what_they_used: timed,
    queue_without_a_mapping_is_charged: timed slow,
    channels_of_one_burst_are_charged: timed,
    second_control_file_changes_no_owner: timed,
    forged_free_changes_no_owner: timed,
    mapping_outlives_its_process_and_is_throttled: timed,
    processes_of_one_burst_are_charged: timed,
    queue_of_an_ended_process_is_charged: timed,
    disabled_queue_of_an_ended_process_is_charged: timed,
    channels_of_a_group_are_charged: timed,
    hogs_polled_in_bursts_are_charged: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[
    TESTS[0], TESTS[3], TESTS[4], TESTS[5], TESTS[8], TESTS[11], TESTS[12], TESTS[13],
];

/// Time of a measurement.
pub(super) const WINDOW: Duration = Duration::from_millis(6000);
/// The same for a program that queues 60 ms at once: at either end of the window it is ahead by up
/// to two periods and that.
const LONG_WINDOW: Duration = Duration::from_millis(24_000);

/// The same with a dispatcher, where a gain of a point is judged by what the victim loses: that is
/// within two thirds of a point of it in [`LONG_WINDOW`] at either end.
fn long_window() -> Duration {
    LONG_WINDOW * if dispatcher().is_some() { 2 } else { 1 }
}

/// Between the starts of two programs.
const BETWEEN: Duration = Duration::from_millis(200);
/// Before a measurement.
const WARM_UP: Duration = Duration::from_millis(700);
/// Parameters of LoGA.
const ENFORCING: &str = "enforce=1 accounting=sparse randomize=1";
/// The same with the policy to which it does not matter how many processes want the GPU.
const BY_EVENT: &str = "enforce=1 policy=event accounting=sparse randomize=1";
/// The same, polled in bursts.
const IN_BURSTS: &str = "enforce=1 accounting=burst randomize=1";

/// Shares of the GPU in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// By the model's log, of the hostile process and its children.
    pub(super) used: f64,
    /// By the model's log, of the victim.
    victim: f64,
    /// What LoGA charged to all clients but the victim.
    charged: f64,
    /// What LoGA charged to no client.
    unknown: f64,
}

/// Runs a program next to a client of 100 us kernels, and returns what each side saw.
pub(super) fn measure(program: &str, window: Duration) -> Result<Figures, String> {
    measure_with(ENFORCING, program, window)
}

/// As [`measure`], with these parameters of LoGA.
fn measure_with(parameters: &str, program: &str, window: Duration) -> Result<Figures, String> {
    measure_all(parameters, &[(USER, program)], window)
}

/// As [`measure`], of several programs of these users, each started when the one before has begun.
fn measure_all(
    parameters: &str,
    programs: &[(u32, &str)],
    window: Duration,
) -> Result<Figures, String> {
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), parameters)?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let mut hostile = Vec::new();
    for (uid, program) in programs {
        if !hostile.is_empty() {
            std::thread::sleep(BETWEEN);
        }
        hostile.push(Program::start_as(*uid, program)?);
    }
    let program = programs.last().map_or("nothing", |(_, words)| *words);
    std::thread::sleep(WARM_UP);
    Truth::reset()?;
    let stat = stage.stat_during(window)?;
    let truth = Truth::read()?;
    for hostile in &mut hostile {
        ensure!(
            hostile.runs()?,
            "{program} ended before the figures were taken"
        );
    }
    let share = |stat: &loga_cli::stat::Stat, pid| {
        client_of(stat, pid)
            .and_then(|client| client.share)
            .unwrap_or(0.0)
    };
    let all: f64 = stat
        .clients
        .iter()
        .filter_map(|client| client.share)
        .sum::<f64>();
    let used: f64 = truth
        .pids()
        .filter(|pid| *pid != other.pid())
        .map(|pid| truth.ran_share(pid))
        .sum();
    let figures = Figures {
        used: 100.0 * used,
        victim: 100.0 * truth.ran_share(other.pid()),
        charged: 100.0 * (all - share(&stat, other.pid())),
        unknown: 100.0 * stat.unknown.unwrap_or(0.0),
    };
    println!(
        "# {program}: used {:.1} %, charged {:.1} %, unknown {:.1} %; the other {:.1} % (charged {:.1} %)",
        figures.used,
        figures.charged,
        figures.unknown,
        figures.victim,
        100.0 * share(&stat, other.pid())
    );
    drop(hostile);
    drop(other);
    stage.teardown()?;
    Ok(figures)
}

/// What the plain hog gets.
pub(super) fn baseline() -> Result<Figures, String> {
    baseline_with(ENFORCING)
}

/// As [`baseline`], with these parameters of LoGA; measured once for each dispatcher.
fn baseline_with(parameters: &'static str) -> Result<Figures, String> {
    type Known = BTreeMap<(Option<Dispatcher>, &'static str), Figures>;
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match known.entry((dispatcher(), parameters)) {
        Entry::Occupied(figures) => Ok(*figures.get()),
        Entry::Vacant(vacant) => Ok(*vacant.insert(measure_with(parameters, "plain", WINDOW)?)),
    }
}

/// Checks that a program is charged what it used, and gets no more than the plain hog.
pub(super) fn check(program: &str) -> Verdict {
    check_for(program, WINDOW)
}

/// As [`check`], of several programs of these users that work together.
pub(super) fn check_all(programs: &[(u32, &str)]) -> Verdict {
    let figures = measure_all(ENFORCING, programs, WINDOW)?;
    check_figures("all together", &figures, &baseline()?)
}

/// As [`check`], with a measurement of `window`.
fn check_for(program: &str, window: Duration) -> Verdict {
    check_figures(program, &measure(program, window)?, &baseline()?)
}

fn check_figures(program: &str, figures: &Figures, plain: &Figures) -> Verdict {
    check_charge(figures)?;
    check_gain(
        program,
        (figures.used, figures.victim),
        (plain.used, plain.victim),
    )
}

/// Checks that a program gains at most a point on the plain hog; of each, its share and that of the
/// victim beside it. With a dispatcher the engine is idle for some time before each submission, and a
/// program of longer ones saves that: what it gains there is what its victim loses.
pub(super) fn check_gain(program: &str, got: (f64, f64), plain: (f64, f64)) -> Verdict {
    let (gain, loss) = (got.0 - plain.0, plain.1 - got.1);
    let taken = match dispatcher() {
        None => gain,
        Some(_) => gain.min(loss),
    };
    if taken <= 1.0 {
        return Ok(());
    }
    refuse(format!(
        "{program} got {:.1} % and the victim {:.1} %, the plain hog {:.1} and {:.1} %",
        got.0, got.1, plain.0, plain.1
    ))
}

fn check_charge(figures: &Figures) -> Verdict {
    within("percent of nobody known", figures.unknown, ..0.5)?;
    within(
        "percent used and not charged",
        (figures.used - figures.charged).abs(),
        ..=2.0,
    )
}

fn sibling_slot_of_a_mapped_page_is_charged() -> Verdict {
    check("sibling")
}

fn decoy_that_maps_and_ends_changes_no_owner() -> Verdict {
    check("decoy")
}

fn scapegoat_that_maps_too_is_not_charged() -> Verdict {
    check("scapegoat")
}

fn relay_of_fresh_processes_owes_what_they_used() -> Verdict {
    if branch() != 340 {
        return check("relay");
    }
    // On that driver only the process that allocated the channel can map its page.
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), ENFORCING)?;
    let ended = Program::start("relay")?.finish();
    ensure!(
        ended.as_ref().is_err_and(|reason| reason.contains(REFUSED)),
        "a child has mapped the page of its parent, or failed before: {ended:?}"
    );
    stage.teardown()
}

fn queue_without_a_mapping_is_charged() -> Verdict {
    check_for("unmap", long_window())
}

fn channels_of_one_burst_are_charged() -> Verdict {
    check("recycle")
}

fn second_control_file_changes_no_owner() -> Verdict {
    check("ctl2")
}

fn forged_free_changes_no_owner() -> Verdict {
    check("forge")
}

fn mapping_outlives_its_process_and_is_throttled() -> Verdict {
    check("orphan")
}

fn processes_of_one_burst_are_charged() -> Verdict {
    check_totals("respawn", "process")
}

fn queue_of_an_ended_process_is_charged() -> Verdict {
    // With a dispatcher, the queue of the last process still runs when the next one wants its turn:
    // under `maxmin` these are two processes beside one.
    let by_process = match dispatcher() {
        None => ENFORCING,
        Some(_) => BY_EVENT,
    };
    check_totals_with(by_process, "bequest", "process")?;
    check_totals("bequest", "user")
}

fn disabled_queue_of_an_ended_process_is_charged() -> Verdict {
    check_totals("sleeper", "user")
}

fn channels_of_a_group_are_charged() -> Verdict {
    check("group")
}

fn hogs_polled_in_bursts_are_charged() -> Verdict {
    for program in ["plain", "group"] {
        check_charge(&measure_with(IN_BURSTS, program, LONG_WINDOW)?)?;
    }
    Ok(())
}

/// As [`check`], of a program whose clients come and go, several at a time: what they are charged is
/// in the totals of their user.
pub(super) fn check_totals(program: &str, group_by: &str) -> Verdict {
    check_totals_with(ENFORCING, program, group_by)
}

/// As [`check_totals`], with these parameters of LoGA.
fn check_totals_with(parameters: &'static str, program: &str, group_by: &str) -> Verdict {
    let plain = baseline_with(parameters)?;
    let parameters = format!("{parameters} group_by={group_by}");
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), &parameters)?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let mut hostile = Program::start(program)?;
    std::thread::sleep(WARM_UP);
    let calls = Calls::open()?;
    let charged = || -> Result<u64, String> {
        let totals = calls.totals(uapi::SUBJECT_USER, 0);
        let totals = totals.map_err(|errno| errno.to_string())?;
        let own = totals.iter().find(|total| total.id == u64::from(USER));
        Ok(own.map_or(0, |total| total.gpu_time_ns))
    };
    Truth::reset()?;
    let before = charged()?;
    std::thread::sleep(long_window());
    let charged = charged()? - before;
    let truth = Truth::read()?;
    ensure!(
        hostile.runs()?,
        "{program} ended before the figures were taken"
    );
    let charged = 100.0 * charged as f64 / truth.window_ns as f64;
    let pids = truth.pids().filter(|pid| *pid != other.pid());
    let used = 100.0 * pids.map(|pid| truth.ran_share(pid)).sum::<f64>();
    let victim = 100.0 * truth.ran_share(other.pid());
    println!(
        "# {program}: used {used:.1} %, charged {charged:.1} %, the other {victim:.1} %; the plain hog {:.1} %, the other {:.1} %",
        plain.used, plain.victim
    );
    within(
        "percent used and not charged",
        (used - charged).abs(),
        ..=2.0,
    )?;
    check_gain(program, (used, victim), (plain.used, plain.victim))?;
    // An open device keeps the module.
    drop((hostile, other, calls));
    stage.teardown()
}
