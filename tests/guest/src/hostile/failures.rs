// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Programs that make LoGA fail while it takes a mapping over: their mappings are charged and
//! throttled all the same, or refused.

use super::ownership::{keep_busy, open, prepare_file, ready, LIFE};
use super::{model, Program};
use crate::busy::pin;
use crate::caller::Caller;
use crate::cgroups::Cgroup;
use crate::kernel_log::KernelLog;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{for_process, limit, set};
use crate::stage::{client_of, Stage, LAZY};
use crate::truth::{shares, Truth};
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::wait;
use std::fs;
use std::fs::File;
use std::io::{stdin, Read, Write};
use std::time::Duration;
use throttle::error::Error;
use throttle::rm::ReadyToMap;
use throttle::sys::{Mapping, Visibility};
use throttle::{rm, sys};

crate::ktap::tests![
    mappings_of_a_full_cgroup_are_charged_or_refused: timed,
    mapping_of_a_process_that_exits_is_charged_to_its_mapper,
    mapping_made_while_the_card_does_not_answer_is_throttled: timed,
    mapping_that_runs_free_is_counted_and_named_once,
];

/// See [`super::PROGRAMS`].
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[
    ("fills-its-cgroup", fills_its_cgroup),
    ("exits-meanwhile", exits_meanwhile),
];

/// Memory that a program may still allocate.
const LEFT: u64 = 128 << 10;
/// Mappings in a round, if none is refused: a client may have 512.
const MAPPINGS: usize = 500;
/// Times that the program fills its cgroup. Each time the want of memory meets another allocation.
const ROUNDS: usize = 60;
/// Processes that exit while a child of theirs maps, and the times at which they do.
const EXITS: u32 = 2000;
const SPREAD: u32 = 1000;
const STEP_NS: u64 = 100;

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// Waits for a line.
fn wait_for_a_line() -> Result<(), String> {
    stdin().read_line(&mut String::new()).map_err(text)?;
    Ok(())
}

/// Maps until it is refused; the last mapping, and how many there were.
fn fill(
    ready: &ReadyToMap,
    again: impl Fn() -> Result<ReadyToMap, String>,
    files: bool,
    mappings: &mut Vec<(Mapping, Option<ReadyToMap>)>,
) -> Result<bool, String> {
    while mappings.len() < MAPPINGS {
        let own = match files.then(&again) {
            Some(Err(_)) => return Ok(true),
            own => own.and_then(Result::ok),
        };
        match own.as_ref().unwrap_or(ready).map(Visibility::Shared) {
            Ok(mapping) => mappings.push((mapping, own)),
            Err(Error::Call { source, .. })
                if source.raw_os_error() == Some(Errno::ENOMEM as i32) =>
            {
                return Ok(true)
            }
            Err(error) => return Err(text(error)),
        }
    }
    Ok(false)
}

/// Maps its page until its memory cgroup is full, over and over, and submits through the last
/// mapping that it got.
fn fills_its_cgroup(_: &[String]) -> Result<(), String> {
    let (client, mut channels) = open(1, 4)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.unmap_userd();
    let own = ready(&client, channel)?;
    let mut mappings = Vec::with_capacity(MAPPINGS);
    let mut shifts = Vec::with_capacity(ROUNDS);
    let again = || ready(&client, channel);
    // All that the program itself needs is there after this.
    for files in [false, true] {
        fill(&own, again, files, &mut mappings)?;
        mappings.clear();
    }
    println!("filled");
    wait_for_a_line()?;
    let mut refused = 0;
    for round in 0..ROUNDS {
        mappings.clear();
        // Shifts what comes after it.
        shifts.extend(File::open("/dev/null"));
        refused += u32::from(fill(&own, again, round % 2 != 0, &mut mappings)?);
    }
    let last = mappings.pop();
    mappings.clear();
    shifts.clear();
    println!("{refused}");
    wait_for_a_line()?;
    let (page, _file) = last.ok_or("no mapping")?;
    channel.use_userd(page, own.linear);
    keep_busy(channel, LIFE);
    Ok(())
}

/// Each of some processes opens the file through which a page is mapped, sleeps, and exits as soon as
/// it wakes: it interrupts a child on its processor, which maps meanwhile, each time at another
/// instruction. By the control file, nobody has allocated the page: the opener is to pay.
fn exits_meanwhile(_: &[String]) -> Result<(), String> {
    pin(0, 1).map_err(text)?;
    // SAFETY: Sets how late timers of this process may be, to 1 ns.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    for turn in 0..EXITS {
        let fork = || sys::fork().map_err(text);
        let (mut hears, mut says) = pipe()?;
        if fork()?.is_some() {
            drop(says);
            // Until the child has mapped.
            let mut said = Vec::new();
            hears.read_to_end(&mut said).map_err(text)?;
            ensure!(said == [1], "the child has not mapped: {said:?}");
            wait().map_err(text)?;
            continue;
        }
        let file = rm::open_node(&rm::gpu_path(0)).map_err(text)?;
        let (mut starts, mut start) = pipe()?;
        if fork()?.is_some() {
            starts.read_exact(&mut [0]).map_err(text)?;
            std::thread::sleep(Duration::from_nanos(u64::from(turn % SPREAD) * STEP_NS));
            sys::exit_now(0);
        }
        let (client, mut channels) = open(1, 4)?;
        let channel = channels.first_mut().ok_or("no channel")?;
        channel.unmap_userd();
        let second = rm::open_node(rm::CTL_PATH).map_err(text)?;
        let own = prepare_file(file, &second, &client, channel)?;
        let lowest = libc::sched_param { sched_priority: 0 };
        // SAFETY: The structure lives during the call.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const lowest) };
        start.write_all(&[0]).map_err(text)?;
        let mapped = own.map(Visibility::Shared);
        says.write_all(&[u8::from(mapped.is_ok())]).map_err(text)?;
        sys::exit_now(0);
    }
    println!("done");
    Ok(())
}

/// A pipe: the end to read from, and that to write to.
fn pipe() -> Result<(File, File), String> {
    let (from, to) = nix::unistd::pipe().map_err(text)?;
    Ok((from.into(), to.into()))
}

fn mappings_of_a_full_cgroup_are_charged_or_refused() -> Verdict {
    const LOG: &str = "/proc/sys/kernel/printk";
    let stage = Stage::set(&model(LAZY), "enforce=1 accounting=sparse randomize=1")?;
    let cgroup = Cgroup::make("full")?;
    let write = |path: &std::path::Path, text: &str| {
        fs::write(path, text).map_err(|error| format!("{}={text}: {error}", path.display()))
    };
    let root = cgroup.path().parent().ok_or("no root")?;
    write(&root.join("cgroup.subtree_control"), "+memory")?;
    let file = |name: &str| cgroup.path().join(name);
    let mut program = Program::start("fills-its-cgroup")?;
    cgroup.add_process(program.pid())?;
    program.line(Duration::from_secs(60))?;
    // The kernel finds nothing to kill, as for a child that shares its parent's memory.
    let score = format!("/proc/{}/oom_score_adj", program.pid());
    write(score.as_ref(), "-1000")?;
    // It lists all processes at each failure.
    let level = fs::read_to_string(LOG).map_err(text)?;
    write(LOG.as_ref(), "1")?;
    // Takes back what is charged ahead of its use.
    write(&file("memory.max"), "0")?;
    let used = fs::read_to_string(file("memory.current")).map_err(text)?;
    let used: u64 = used.trim().parse().map_err(text)?;
    write(&file("memory.max"), &(used + LEFT).to_string())?;
    program.send("go")?;
    let refused = program.line(Duration::from_secs(120));
    write(&file("memory.max"), "max")?;
    write(LOG.as_ref(), level.split_whitespace().next().unwrap_or("7"))?;
    let refused: usize = refused?.parse().map_err(text)?;
    let stat = stage.stat()?;
    println!(
        "# {refused} of {ROUNDS} rounds ended with a refusal; {} mappings and {} files are not managed",
        stat.unmanaged_mappings, stat.unmanaged_files
    );
    ensure!(refused == ROUNDS, "the cgroup was not full");
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    program.send("go")?;
    std::thread::sleep(Duration::from_millis(700));
    Truth::reset()?;
    let during = stage.stat_during(Duration::from_secs(6))?;
    let truth = Truth::read()?;
    let used = 100.0 * truth.ran_share(program.pid());
    let share = client_of(&during, program.pid()).and_then(|client| client.share);
    let charged = 100.0 * share.unwrap_or(0.0);
    println!("# used {used:.1} %, charged {charged:.1} %");
    let left_free = stat.unmanaged_mappings + stat.unmanaged_files;
    ensure!(left_free == 0, "{left_free} mappings or files run free");
    within(
        "percent used and not charged",
        (used - charged).abs(),
        ..=2.0,
    )?;
    drop((program, other));
    stage.teardown()?;
    within("percent used", used, ..=52.0)
}

fn mapping_of_a_process_that_exits_is_charged_to_its_mapper() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let done = Program::start("exits-meanwhile")?.finish()?;
    ensure!(done.trim() == "done", "it said {done:?}");
    let stat = stage.stat()?;
    let free = stat.unmanaged_mappings;
    println!("# {free} of {EXITS} mappings are not managed");
    ensure!(free == 0, "{free} mappings run free");
    stage.teardown()
}

fn mapping_made_while_the_card_does_not_answer_is_throttled() -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let mut hog = Caller::with_channels(1)?;
    hog.check_work()?;
    hog.ask("unmap")?;
    stage.set_lost(true)?;
    hog.ask("map")?;
    stage.set_lost(false)?;
    set(for_process(hog.pid()), limit(10))?;
    hog.send("run 1000 4000")?;
    let [share] = shares([hog.pid()], 1500, 2000)?;
    hog.answer(crate::caller::SOON)?;
    let stat = stage.stat()?;
    ensure!(
        stat.unmanaged_mappings == 0,
        "{} mappings are not managed",
        stat.unmanaged_mappings
    );
    within("percent with a limit of 10", share, 5.0..=12.5)?;
    drop(hog);
    stage.teardown()
}

fn mapping_that_runs_free_is_counted_and_named_once() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let (client, channels) = open(1, 4)?;
    let before = ready(&client, channels.first().ok_or("no channel")?)?;
    stage.add_loga("enforce=1")?;
    let mut log = KernelLog::from_now()?;
    for count in 1..=2 {
        drop(before.map(Visibility::Shared).map_err(text)?);
        let free = stage.stat()?.unmanaged_mappings;
        ensure!(free == count, "{free} mappings are counted, not {count}");
    }
    let name = format!("process {} may", std::process::id());
    let lines = log.with(&[&name, "opened while LoGA was not attached"])?;
    ensure!(lines.len() == 1, "{} lines name it", lines.len());
    drop((before, channels, client));
    stage.teardown()
}
