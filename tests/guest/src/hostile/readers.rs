// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A crowd that reads: totals, shares and the usage of files, which LoGA answers with locks
//! held for which opens and mappings wait.
//!
//! The crowd has the lowest priority and the bystander an ordinary one: it gets a processor at once,
//! and what its calls take is the wait for locks. Those have a queue in the order of arrival, in which
//! such a priority counts nothing.

use super::bystander::Bystander;
use super::{model, Program};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::stage::{Stage, LAZY};
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::AsRawFd;
use std::time::Duration;
use std::{fs, io};
use throttle::{rm, sys};

crate::ktap::tests![crowd_that_reads_totals_keeps_nobody_waiting: timed];

/// The program of this file.
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[("readers", |_| readers())];

/// Processes of the crowd.
const CROWD: u32 = 1_000;
/// How long the bystander is watched.
const WATCH: Duration = Duration::from_millis(1500);
/// TIMEOUT: until the crowd is there.
const GATHERED: Duration = Duration::from_secs(120);

fn crowd_that_reads_totals_keeps_nobody_waiting() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let bystander = Bystander::open()?;
    let alone = bystander.watch_of_ordinary_priority(WATCH)?;
    let mut crowd = Program::start("readers")?;
    let there = crowd.line(GATHERED)?;
    std::thread::sleep(Duration::from_millis(500));
    let beside = bystander.watch_of_ordinary_priority(WATCH)?;
    println!("# {alone}\n# beside {} that read: {beside}", there.trim());
    beside.check()?;
    drop((bystander, crowd));
    stage.teardown()
}

/// Forks processes that read without a pause; prints their number once they are there.
fn readers() -> Result<(), String> {
    let node = rm::open_node(&rm::gpu_path(0)).map_err(|error| error.to_string())?;
    let usage = format!("/proc/self/fdinfo/{}", node.as_raw_fd());
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: changes the calling process; the parameter lives until the end of the call.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) };
    ensure!(set == 0, "SCHED_IDLE: {}", Errno::last());
    for _ in 0..CROWD {
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            // A reader that fails leaves, which shows in how many there are at the end.
            let failed = read_on(&usage);
            eprintln!("reader: {failed:?}");
            sys::exit_now(1);
        }
    }
    println!("{CROWD}");
    std::thread::sleep(super::ownership::LIFE);
    Ok(())
}

/// Reads until something fails.
fn read_on(usage: &str) -> Result<(), String> {
    let calls = Calls::open()?;
    let text = |error: io::Error| error.to_string();
    loop {
        let totals = calls.totals(uapi::SUBJECT_USER, 0);
        totals.map_err(|errno| errno.to_string())?;
        fs::read(usage).map_err(text)?;
        calls.shares().map_err(|errno| errno.to_string())?;
        fs::read(usage).map_err(text)?;
    }
}
