// SPDX-License-Identifier: GPL-2.0

//! `[tool]` System calls that have a submission page as their buffer, or find their arguments there.
//!
//! With the driver alone, some succeed and some are refused. With LoGA each has the same answer while
//! its owner is not throttled, and fails at once otherwise, where it does not fail anyway.

mod calls;

use self::calls::{ask, fd, Means, BYTES, CALLS};
use super::super::bystander::{Bystander, LIMIT, PLACE};
use super::super::ownership::{keep_busy, open, ready, LIFE};
use super::super::{dispatcher, model, Program};
use super::{check_nothing_left, throttle, Mapped, SOON};
use crate::ktap::{ensure, Verdict};
use crate::stage::{Stage, LAZY};
use nix::libc;
use std::io::stdin;
use std::time::{Duration, Instant};
use throttle::sys;
use throttle::sys::Visibility;

crate::ktap::tests![
    system_calls_on_a_throttled_page_fail_at_once: timed,
];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("buffers", |_| buffers()),
    ("busy-buffers", |_| busy_buffers()),
];

/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// How often each call is made.
const TIMES: u32 = 20;

/// A program with a hog's channel, and a second mapping of its page.
fn with_means(
    act: impl FnOnce(Means) -> Result<(), String> + Send + 'static,
) -> Result<(), String> {
    let (client, mut channels) = open(1, 4)?;
    let page = ready(&client, &channels[0])?
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let address = page.address() + LAST_SLOT;
    Mapped::own(page.address()).tell();
    std::thread::spawn(move || {
        let done = Means::make(address).and_then(act);
        if let Err(reason) = &done {
            println!("error {reason}");
        }
        drop(page);
        // The hog may be inactive.
        sys::exit_now(done.is_err().into());
    });
    keep_busy(&mut channels[0], LIFE);
    Ok(())
}

/// For each line that it gets: makes every call, and prints a line for each, and an empty one.
fn buffers() -> Result<(), String> {
    with_means(|means| {
        let mut line = String::new();
        while matches!(stdin().read_line(&mut line), Ok(1..)) {
            for (name, call) in CALLS {
                let (mut longest, mut outcomes) = (Duration::ZERO, Vec::new());
                for _ in 0..TIMES {
                    let since = Instant::now();
                    let outcome = call(&means);
                    longest = longest.max(since.elapsed());
                    let word = match outcome {
                        Ok(_) => "success".to_owned(),
                        Err(errno) => format!("{errno:?}"),
                    };
                    if !outcomes.contains(&word) {
                        outcomes.push(word);
                    }
                    drain(&means);
                }
                println!("{name}: {} {}", longest.as_micros(), outcomes.join(" "));
            }
            println!();
        }
        Ok(())
    })
}

/// Empties what calls have filled.
fn drain(means: &Means) {
    for file in [fd(&means.pipe.0), fd(&means.full.0)] {
        let mut room = [0_usize; 512];
        let room = room.as_mut_ptr().expose_provenance();
        while matches!(ask(libc::SYS_read, &[file, room, 4096]), Ok(1..)) {}
    }
    let mut room = [0; BYTES];
    let _ = means.pair.1.set_nonblocking(true);
    while means.pair.1.recv(&mut room).is_ok() {}
}

/// Makes every call over and over; another process of its, with the same pipe, socket and file, tells
/// how long its own calls take.
fn busy_buffers() -> Result<(), String> {
    with_means(|means| {
        let forked = sys::fork().map_err(|error| error.to_string())?;
        if forked.is_none() {
            let mut longest = Duration::ZERO;
            let since = Instant::now();
            while since.elapsed() < BUSY {
                for call in [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_sendto] {
                    let file = match call {
                        libc::SYS_write => fd(&means.pipe.1),
                        libc::SYS_pwrite64 => fd(&means.file),
                        _ => fd(&means.pair.0),
                    };
                    let nowait = if call == libc::SYS_sendto {
                        libc::MSG_DONTWAIT as usize
                    } else {
                        0
                    };
                    let begin = Instant::now();
                    // A full pipe is an answer, too.
                    let _ = ask(call, &[file, means.heap(), BYTES, nowait]);
                    longest = longest.max(begin.elapsed());
                }
                drain(&means);
                std::thread::sleep(Duration::from_micros(300));
            }
            println!("{}", longest.as_micros());
            sys::exit_now(0);
        }
        let since = Instant::now();
        while since.elapsed() < BUSY {
            for (_, call) in CALLS {
                let _ = call(&means);
            }
            drain(&means);
            std::thread::sleep(Duration::from_micros(500));
        }
        nix::sys::wait::wait()
            .map(drop)
            .map_err(|errno| errno.to_string())
    })
}

/// How long `busy-buffers` makes its calls, and how long others are watched meanwhile.
const BUSY: Duration = Duration::from_secs(3);
const WATCH: Duration = Duration::from_secs(2);

/// A call, what it answered, and how long it took at most in microseconds.
type Answer = (String, Vec<String>, u64);

/// Has the program make all calls.
fn answers(program: &mut Program) -> Result<Vec<Answer>, String> {
    program.send("go")?;
    let mut answers = Vec::new();
    loop {
        let line = program.line(SOON)?;
        if line.is_empty() {
            ensure!(answers.len() == CALLS.len(), "{} calls", answers.len());
            return Ok(answers);
        }
        let (name, rest) = line.rsplit_once(": ").ok_or(line.clone())?;
        let mut words = rest.split(' ');
        let longest = words.next().and_then(|word| word.parse().ok());
        let outcomes = words.map(str::to_owned).collect();
        answers.push((name.to_owned(), outcomes, longest.ok_or(line.clone())?));
    }
}

/// Starts the program; its page.
fn start() -> Result<(Program, Mapped), String> {
    let mut program = Program::start("buffers")?;
    let line = program.line(SOON)?;
    let at = Mapped::parse(&line).ok_or(line)?;
    Ok((program, at))
}

fn system_calls_on_a_throttled_page_fail_at_once() -> Verdict {
    let stage = Stage::without_loga(&model(LAZY))?;
    let (mut program, _) = start()?;
    let alone = answers(&mut program)?;
    drop(program);
    stage.teardown()?;
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let (mut program, at) = start()?;
    stage.wait_until_measured(program.pid())?;
    let free = answers(&mut program)?;
    throttle(&stage, program.pid())?;
    at.wait_for_entry(false, super::REVOKED)?;
    let before = stage.client(program.pid())?.ok_or("no client")?;
    let throttled = answers(&mut program)?;
    let after = stage.client(program.pid())?.ok_or("no client")?;
    ensure!(
        after.state == "throttled" && after.throttled_count == before.throttled_count,
        "it was not throttled all the time"
    );
    ensure!(!at.has_entry()?, "a call has made an entry");
    for (index, (name, alone, _)) in alone.iter().enumerate() {
        let (_, free, _) = &free[index];
        let (_, outcomes, longest) = &throttled[index];
        println!("# {name}: {alone:?}, throttled {outcomes:?} within {longest} us");
        // The kernel never stores for a process that waits for its turn.
        let stopped = |outcome: &String| matches!(outcome.as_str(), "EFAULT" | "EIO");
        let decided = dispatcher().is_some() && free.iter().all(stopped);
        ensure!(
            alone == free || decided,
            "{name}: {alone:?}, with LoGA {free:?}"
        );
        ensure!(outcomes.len() == 1, "{name}: {outcomes:?}");
        let outcome = outcomes.first().map_or("", String::as_str);
        let refused = outcome == "EFAULT" || outcomes == alone && outcome != "success";
        let by_debugger = name.contains("/proc") && outcome == "EIO";
        let without_access = name.contains("lock") && outcomes == alone;
        ensure!(
            refused || by_debugger || without_access,
            "{name}: {outcomes:?} on a throttled page"
        );
        ensure!(
            u128::from(*longest) <= LIMIT.as_micros(),
            "{name} took {longest} us"
        );
    }
    drop(program);
    check_nothing_left(&stage)?;
    let mut busy = Program::start("busy-buffers")?;
    busy.line(SOON)?;
    stage.wait_until_measured(busy.pid())?;
    throttle(&stage, busy.pid())?;
    let longest = Bystander::open()?.watch(WATCH)?;
    let own: u128 = busy.line(SOON)?.parse().map_err(|_| "no number")?;
    println!(
        "# {longest}; calls of a process with the same pipe, socket and file {own} us at most"
    );
    longest.check()?;
    ensure!(own <= LIMIT.as_micros(), "a call took {own} us beside them");
    drop(busy);
    check_nothing_left(&stage)?;
    let _ = std::fs::remove_dir_all(PLACE);
    stage.teardown()
}
