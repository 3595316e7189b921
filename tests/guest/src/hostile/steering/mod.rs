// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that run outside polling phases, or steer when LoGA polls and decides.
//!
//! What each program does is said in `programs`.

mod programs;

pub(super) use programs::PROGRAMS;

use programs::thread;

use super::ownership::check_gain;
use super::{model, Program};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, FINE};
use crate::truth::Truth;
use procfs::process::Process;
use std::time::Duration;

crate::ktap::tests![
    const QUICK;
    dodging_by_the_flag_gains_nothing: timed,
    churn_forces_few_decisions: timed slow,
    deep_queue_is_paid: timed slow,
];

crate::ktap::tests![
    const ALL;
    dodging_by_the_flag_gains_nothing: timed,
    dodging_by_counters_gains_nothing: timed,
    dodging_by_the_thread_gains_nothing: timed,
    dodging_bursts_is_charged: timed,
    deep_queue_is_paid: timed slow,
    spinning_beside_the_poller_gains_nothing: timed,
    bomb_of_threads_gains_nothing: timed,
    churn_forces_few_decisions: timed slow,
    churn_of_a_second_channel_forces_none: timed,
    many_channels_do_not_lengthen_phases: timed,
];

/// Length of a hostile kernel.
const KERNEL: Duration = Duration::from_millis(1);
/// Commands in the ring of a `deep` program at most.
const DEEPEST: u32 = 16_384;
/// Channels of a dodger and of its victim, as many as CUDA makes.
const CHANNELS: u64 = 12;
/// How long a dodger submits after a change that it took for a decision: less than most
/// non-polling phases of the default parameters, less its own command.
const AFTER_DECISION: Duration = Duration::from_millis(12);

/// The victim: always wants the GPU.
const VICTIM: &str = "--kernel-us 100 --depth 4 --wait block --channels 12";
/// Parameters of LoGA.
const ENFORCE: &str = "enforce=1";
/// The same with accounting by the poller.
const BURST: &str = "enforce=1 accounting=burst";
/// Time until shares have settled, and time of a measurement.
const SETTLE: Duration = Duration::from_millis(1500);
const WINDOW: Duration = Duration::from_secs(4);
/// The same with burst accounting, under which the plain hog got 48.3 to 49.5 % of 4 s: a difference
/// of two such figures is over a point now and then.
const BURST_WINDOW: Duration = Duration::from_secs(16);
/// Points by which LoGA's charge may differ from the model's log.
const CHARGE: f64 = 2.0;

/// Whether a thread runs, and how long it has.
#[derive(Clone, Copy, Debug)]
struct Running {
    now: bool,
    ticks: u64,
}

impl Running {
    fn of(pid: i32) -> Result<Self, String> {
        let stat = Process::new(pid).and_then(|process| process.stat());
        let stat = stat.map_err(|error| error.to_string())?;
        Ok(Running {
            now: stat.state == 'R',
            ticks: stat.utime + stat.stime,
        })
    }
}

/// What a program got next to the victim, in percent of the window.
#[derive(Clone, Copy, Debug)]
struct Got {
    /// By the model's own log.
    real: f64,
    /// By what LoGA charged.
    charged: f64,
    /// By the model's own log, the victim.
    victim: f64,
}

/// The victim, once LoGA has measured it.
fn victim(stage: &Stage) -> Result<Load, String> {
    let victim = Load::start(VICTIM)?;
    stage.wait_until_measured(victim.pid())?;
    Ok(victim)
}

/// A program that runs for `ms`, once it is a client.
fn client(stage: &Stage, words: &str, ms: u128) -> Result<Program, String> {
    let program = Program::start(&format!("{words} {ms}"))?;
    stage.wait_for_client(program.pid(), Duration::from_secs(10), "a client", |_| true)?;
    Ok(program)
}

/// Runs a program next to the victim for a window, with these parameters of LoGA.
fn beside_victim(loga: &str, words: &str) -> Result<Got, String> {
    let window = if loga == BURST { BURST_WINDOW } else { WINDOW };
    beside_victim_for(loga, words, window)
}

/// As [`beside_victim`], with a window of this length.
fn beside_victim_for(loga: &str, words: &str, window: Duration) -> Result<Got, String> {
    let stage = Stage::set(&model(FINE), &format!("{loga} {EXACT}"))?;
    let victim = victim(&stage)?;
    let ms = (SETTLE + window).as_millis() + 2_000;
    let program = client(&stage, words, ms)?;
    std::thread::sleep(SETTLE);
    let got = during(&stage, words, &program, &victim, window)?;
    drop((program, victim));
    stage.check_no_fallback()?;
    stage.teardown()?;
    Ok(got)
}

/// Compares both sides for a while.
fn during(
    stage: &Stage,
    words: &str,
    program: &Program,
    victim: &Load,
    window: Duration,
) -> Result<Got, String> {
    Truth::reset()?;
    let stat = stage.stat_during(window)?;
    let truth = Truth::read()?;
    let client = client_of(&stat, program.pid()).ok_or("the program is no client")?;
    let got = Got {
        real: 100.0 * truth.ran_share(program.pid()),
        charged: 100.0 * client.gpu_time_ns as f64 / stat.span_ns.max(1) as f64,
        victim: 100.0 * truth.ran_share(victim.pid()),
    };
    println!(
        "# {words}: {:.1} % by the model's log, charged {:.1} %, victim {:.1} %, throttled {} times, found out {}; unknown {:.1} %, accounting {}",
        got.real,
        got.charged,
        got.victim,
        client.throttled_count,
        client.evasions,
        100.0 * stat.unknown.unwrap_or(0.0),
        stat.accounting,
    );
    Ok(got)
}

/// Checks that a program gets no more than the plain hog, and is charged what it gets.
fn gains_nothing(loga: &str, words: &str) -> Verdict {
    let plain = beside_victim(loga, "hog")?;
    let got = beside_victim(loga, words)?;
    check_gain(words, (got.real, got.victim), (plain.real, plain.victim))?;
    ensure!(
        (got.real - got.charged).abs() <= CHARGE,
        "{words} got {:.1} % and was charged {:.1} %",
        got.real,
        got.charged
    );
    Ok(())
}

fn dodging_by_the_flag_gains_nothing() -> Verdict {
    gains_nothing(ENFORCE, "dodge flag")
}

fn dodging_by_counters_gains_nothing() -> Verdict {
    gains_nothing(ENFORCE, "dodge counters")
}

fn dodging_by_the_thread_gains_nothing() -> Verdict {
    gains_nothing(ENFORCE, "dodge thread")
}

fn dodging_bursts_is_charged() -> Verdict {
    gains_nothing(BURST, "dodge thread")
}

fn spinning_beside_the_poller_gains_nothing() -> Verdict {
    gains_nothing(BURST, "spin 1")
}

fn bomb_of_threads_gains_nothing() -> Verdict {
    gains_nothing(ENFORCE, "bomb 1500")
}

/// Work of three seconds in one store: in the long run it gets no more than the hog.
fn deep_queue_is_paid() -> Verdict {
    const QUEUED: u32 = 3_000;
    // Three seconds of work that cannot be stopped, at the beginning, and a lead of some periods
    // at the end: 150 ms were seen.
    let long = Duration::from_secs(30);
    let plain = beside_victim_for(ENFORCE, "hog", long)?;
    let stage = Stage::set(&model(FINE), &format!("{ENFORCE} {EXACT}"))?;
    let victim = victim(&stage)?;
    let words = format!("deep {QUEUED}");
    let program = client(&stage, &words, 40_000)?;
    let got = during(&stage, &words, &program, &victim, long)?;
    drop((program, victim));
    stage.teardown()?;
    check_gain(&words, (got.real, got.victim), (plain.real, plain.victim))
}

/// Decisions and processor time of both threads in a second, while a program runs.
fn costs_of(words: &str) -> Result<(f64, f64), String> {
    const WINDOW: Duration = Duration::from_secs(2);
    let stage = Stage::set(&model(FINE), &format!("{BURST} {EXACT}"))?;
    let victim = victim(&stage)?;
    let threads = [thread("loga-poll")?, thread("loga-main")?];
    let ticks = || -> Result<u64, String> {
        let each = threads.map(|pid| Running::of(pid).map(|running| running.ticks));
        each.into_iter().sum()
    };
    let mut figures = Vec::new();
    for words in ["hog", words] {
        let _program = client(&stage, words, 10_000)?;
        std::thread::sleep(Duration::from_millis(500));
        let before = ticks()?;
        let stat = stage.stat_during(WINDOW)?;
        let cpu = (ticks()? - before) as f64 / WINDOW.as_secs_f64();
        let decisions = stat.decisions as f64 / WINDOW.as_secs_f64();
        println!("# {words}: {decisions:.1} decisions/s, {cpu:.1} % of a processor");
        figures.push((decisions, cpu));
    }
    drop(victim);
    stage.teardown()?;
    figures.pop().ok_or_else(|| "no figures".into())
}

/// One forced decision in `poll_ms * ratio` = 5 ms at most, plus the regular ones.
fn churn_forces_few_decisions() -> Verdict {
    let (decisions, cpu) = costs_of("churn 1")?;
    within("decisions a second", decisions, ..=240.0)?;
    within("percent of a processor", cpu, ..=40.0)?;
    Ok(())
}

fn churn_of_a_second_channel_forces_none() -> Verdict {
    let (decisions, cpu) = costs_of("churn 9")?;
    within("decisions a second", decisions, ..=40.0)?;
    within("percent of a processor", cpu, ..=30.0)?;
    Ok(())
}

fn many_channels_do_not_lengthen_phases() -> Verdict {
    let stage = Stage::set(
        &model(FINE),
        "policy=event enforce=1 scale=channels accounting=burst randomize=0",
    )?;
    let victim = Load::start(VICTIM)?;
    let program = Program::start("many 256 15000")?;
    stage.wait_for_client(
        program.pid(),
        Duration::from_secs(20),
        "with channels",
        |client| client.channels >= 256,
    )?;
    std::thread::sleep(Duration::from_secs(2));
    let stat = stage.stat()?;
    println!(
        "# 256 channels: phases of {:.1} and {:.1} ms",
        stat.last_poll_ns as f64 / 1e6,
        stat.last_nonpoll_ns as f64 / 1e6
    );
    // A client counts as 16 channels at most, the victim has twelve.
    within("last poll ns", stat.last_poll_ns, ..=35_000_000)?;
    drop((program, victim));
    stage.teardown()
}
