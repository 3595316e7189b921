// SPDX-License-Identifier: GPL-2.0

//! [tool] Ten thousand threads that wait for one throttled page, and all go on at once.

use super::super::blocking::costs;
use super::super::bystander::{Bystander, Longest};
use super::super::ownership::{keep_busy, open, ready, LIFE};
use super::super::{model, Program};
use super::{check_nothing_left, throttle};
use crate::ktap::{ensure, Verdict};
use crate::sharing::{for_process, limit, set};
use crate::stage::{Stage, FINE, LAZY};
use nix::libc;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use std::fs;
use std::io::stdin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use throttle::clock::{Clock, Monotonic};
use throttle::sys;
use throttle::sys::Visibility;

crate::ktap::tests![
    ten_thousand_sleepers_go_on_and_delay_nobody: timed,
];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[("sleepers", sleepers)];

/// Threads that wait.
const SLEEPERS: u32 = 10_000;
/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// TIMEOUT: for the threads to begin, and for all of them to go on.
const ALL: Duration = Duration::from_secs(60);
/// Bytes of the stack of a thread.
const STACK: usize = 32 << 10;
/// After the last thread has begun to store: it sleeps by then.
const ASLEEP: Duration = Duration::from_millis(500);

static STARTED: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// What threads wait for that do not wait for a page.
static FUTEX: AtomicU32 = AtomicU32::new(0);

/// Waits for the futex, or wakes so many that wait for it.
fn futex(operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the process; no time is passed.
    unsafe { libc::syscall(libc::SYS_futex, FUTEX.as_ptr(), operation, value, none) };
}

/// Waits until a counter has this value.
fn wait_for(counter: &AtomicU32, wanted: u32) {
    while counter.load(Ordering::Acquire) < wanted {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// When it gets a line: starts threads that store to its page, once each, or with `sleepers futex` wait
/// for a futex, which it wakes at the next line. Prints when all have begun, and when all have gone on,
/// in ns.
fn sleepers(words: &[String]) -> Result<(), String> {
    let by_futex = !words.is_empty();
    let (client, mut channels) = open(1, 4)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let page = ready(&client, channel)?
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let slot = page.address() + LAST_SLOT;
    std::thread::spawn(move || {
        let _ = stdin().read_line(&mut String::new());
        for number in 0..SLEEPERS {
            let builder = std::thread::Builder::new().stack_size(STACK);
            let started = builder.spawn(move || {
                STARTED.fetch_add(1, Ordering::Release);
                if by_futex {
                    futex(libc::FUTEX_WAIT, 0);
                } else {
                    // SAFETY: the page stays mapped as long as the process lives, and the word is in
                    // a slot that no channel has.
                    unsafe { std::ptr::without_provenance_mut::<u32>(slot).write_volatile(0) };
                }
                DONE.fetch_add(1, Ordering::Release);
                std::thread::sleep(LIFE);
            });
            if let Err(error) = started {
                println!("thread {number}: {error}");
                sys::exit_now(1);
            }
        }
        wait_for(&STARTED, SLEEPERS);
        println!("{}", DONE.load(Ordering::Acquire));
        if by_futex {
            let _ = stdin().read_line(&mut String::new());
            futex(libc::FUTEX_WAKE, SLEEPERS);
        }
        wait_for(&DONE, SLEEPERS);
        println!("{}", Monotonic.now_ns());
    });
    keep_busy(channel, LIFE);
    drop(page);
    Ok(())
}

/// Lets this process and its children have as many threads as the test wants.
fn make_room() -> Result<(), String> {
    let many = (2 * SLEEPERS).to_string();
    for file in ["threads-max", "pid_max"] {
        let path = format!("/proc/sys/kernel/{file}");
        fs::write(&path, &many).map_err(|error| format!("{path}: {error}"))?;
    }
    let wanted = Rlimit {
        current: None,
        maximum: None,
    };
    setrlimit(Resource::Nproc, wanted).map_err(|errno| errno.to_string())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?}: no number"))
}

/// The longest calls of a bystander while `release` lets the threads go on, and when it did.
fn watch_release(
    bystander: &Bystander,
    release: impl FnOnce() -> Result<(), String>,
) -> Result<(u64, Longest), String> {
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| bystander.watch(Duration::from_secs(3)));
        std::thread::sleep(ASLEEP);
        let since = Monotonic.now_ns();
        let released = release();
        let longest = watcher.join().map_err(|_| "it panicked".to_string())?;
        released.and(longest.map(|longest| (since, longest)))
    })
}

/// The longest calls of a bystander while as many threads go on that wait for a futex, without LoGA.
fn woken_by_futex() -> Result<Longest, String> {
    let stage = Stage::without_loga(&model(&format!("{LAZY} {FINE}")))?;
    let mut program = Program::start("sleepers futex")?;
    program.send("go")?;
    program.line(ALL)?;
    let bystander = Bystander::open()?;
    let (_, longest) = watch_release(&bystander, || program.send("wake"))?;
    program.line(ALL)?;
    drop((program, bystander));
    stage.teardown()?;
    Ok(longest)
}

fn ten_thousand_sleepers_go_on_and_delay_nobody() -> Verdict {
    let before = getrlimit(Resource::Nproc);
    make_room()?;
    let by_futex = woken_by_futex()?;
    // Else the watcher may stand still while the emulator runs thousands of threads on the other
    // processor.
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), "enforce=1")?;
    let mut program = Program::start("sleepers")?;
    let owner = program.pid();
    stage.wait_until_measured(owner)?;
    throttle(&stage, owner)?;
    let bystander = Bystander::open()?;
    let alone = bystander.watch(Duration::from_secs(1))?;
    program.send("go")?;
    let passed = number(&program.line(ALL)?)?;
    ensure!(passed == 0, "{passed} threads passed the gate");
    std::thread::sleep(ASLEEP);
    let asleep = bystander.watch(Duration::from_secs(1))?;
    let (since, released) = watch_release(&bystander, || set(for_process(owner), limit(100)))?;
    let all = number(&program.line(ALL)?)?;
    println!("# beside a throttled hog: {alone}");
    println!("# beside {SLEEPERS} sleepers: {asleep}");
    println!("# while they go on: {released}; as many that a futex wakes: {by_futex}");
    let woken = costs("restore_ns")?.into_iter().max().unwrap_or(0);
    println!("# waking them took {} us at most", woken / 1000);
    println!(
        "# {SLEEPERS} threads: all have stored {} us after the limit was taken back",
        all.saturating_sub(since) / 1000
    );
    alone.check()?;
    asleep.check()?;
    released.check_beyond(&by_futex)?;
    drop((program, bystander));
    setrlimit(Resource::Nproc, before).map_err(|errno| errno.to_string())?;
    check_nothing_left(&stage)?;
    stage.teardown()
}
