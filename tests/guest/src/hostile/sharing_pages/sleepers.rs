// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Ten thousand threads that wait for one throttled page, and all go on at once, several times.

use super::super::blocking::costs;
use super::super::bystander::{Bystander, Longest};
use super::super::ownership::{keep_busy, open, ready, LIFE};
use super::super::{dispatcher, model, Program};
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
/// How often they wait and go on.
const ROUNDS: u32 = 4;
/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// TIMEOUT: for the threads to begin, and for all of them to go on.
const ALL: Duration = Duration::from_secs(60);
/// Bytes of the stack of a thread.
const STACK: usize = 32 << 10;
/// Within this many us all have gone on, unless they wait for turns, too. The time of a thread that
/// nobody wakes is over up to 2 s later.
const ALL_GO_ON: u64 = 1_000_000;
/// After the last thread has begun to store: it sleeps by then.
const ASLEEP: Duration = Duration::from_millis(500);

/// How long a bystander makes calls while they go on, and before.
const WATCH: Duration = Duration::from_secs(2);

static STARTED: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// The round. What threads wait for that do not wait for a page.
static ROUND: AtomicU32 = AtomicU32::new(0);

/// Waits while the round is this one, or wakes so many that wait for it.
fn futex(operation: libc::c_int, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: the word lives as long as the process; no time is passed.
    unsafe { libc::syscall(libc::SYS_futex, ROUND.as_ptr(), operation, value, none) };
}

/// Waits until a counter has this value.
fn wait_for(counter: &AtomicU32, wanted: u32) {
    while counter.load(Ordering::Acquire) < wanted {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The next round begins: all that wait for it go on.
fn next_round() {
    ROUND.fetch_add(1, Ordering::Release);
    futex(libc::FUTEX_WAKE, SLEEPERS);
}

/// Waits until a round has begun.
fn wait_for_round(wanted: u32) {
    loop {
        let round = ROUND.load(Ordering::Acquire);
        if round >= wanted {
            break;
        }
        futex(libc::FUTEX_WAIT, round);
    }
}

/// Starts threads that store to a word, once in each round, or do nothing but wait for the next one.
fn start(word: Option<usize>) -> std::io::Result<()> {
    for _ in 0..SLEEPERS {
        let builder = std::thread::Builder::new().stack_size(STACK);
        builder.spawn(move || {
            for round in 0..ROUNDS {
                STARTED.fetch_add(1, Ordering::Release);
                if let Some(word) = word {
                    // SAFETY: the page stays mapped as long as the process lives, and the word is in
                    // a slot that no channel has.
                    unsafe { std::ptr::without_provenance_mut::<u32>(word).write_volatile(0) };
                    DONE.fetch_add(1, Ordering::Release);
                    wait_for_round(round + 1);
                } else {
                    wait_for_round(round + 1);
                    DONE.fetch_add(1, Ordering::Release);
                }
            }
            std::thread::sleep(LIFE);
        })?;
    }
    Ok(())
}

/// With each line that it gets, a round begins: its threads store to its page, once each, or with
/// `sleepers futex` wait for a futex, which it wakes at the next line. Prints how many have gone on when
/// all have begun, and when all have gone on, in ns.
fn sleepers(words: &[String]) -> Result<(), String> {
    let by_futex = !words.is_empty();
    let (client, mut channels) = open(1, 4)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let page = ready(&client, channel)?
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let word = (!by_futex).then_some(page.address() + LAST_SLOT);
    std::thread::spawn(move || {
        let line = || stdin().read_line(&mut String::new());
        let _ = line();
        if let Err(error) = start(word) {
            println!("a thread of {SLEEPERS}: {error}");
            sys::exit_now(1);
        }
        for round in 0..ROUNDS {
            wait_for(&STARTED, (round + 1) * SLEEPERS);
            println!("{}", DONE.load(Ordering::Acquire) - round * SLEEPERS);
            if by_futex {
                let _ = line();
                next_round();
            }
            wait_for(&DONE, (round + 1) * SLEEPERS);
            println!("{}", Monotonic.now_ns());
            if !by_futex {
                let _ = line();
                next_round();
            }
        }
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
        let watcher = scope.spawn(|| bystander.watch(WATCH));
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
    let bystander = Bystander::open()?;
    let mut longest = Longest::default();
    for _ in 0..ROUNDS {
        program.line(ALL)?;
        let (_, of_round) = watch_release(&bystander, || program.send("wake"))?;
        longest = longest.max(of_round);
        program.line(ALL)?;
    }
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
    println!("# beside a throttled hog: {alone}");
    let (mut asleep, mut released) = (Longest::default(), Longest::default());
    let mut slowest = 0;
    for round in 0..ROUNDS {
        if round != 0 {
            throttle(&stage, owner)?;
        }
        program.send("go")?;
        let passed = number(&program.line(ALL)?)?;
        ensure!(passed == 0, "{passed} threads passed the gate");
        std::thread::sleep(ASLEEP);
        asleep = asleep.max(bystander.watch(Duration::from_secs(1))?);
        let (since, longest) = watch_release(&bystander, || set(for_process(owner), limit(100)))?;
        released = released.max(longest);
        let all = number(&program.line(ALL)?)?;
        slowest = slowest.max(all.saturating_sub(since) / 1000);
    }
    println!("# beside {SLEEPERS} sleepers: {asleep}");
    println!("# while they go on: {released}; as many that a futex wakes: {by_futex}");
    let woken = costs("restore_ns")?.into_iter().max().unwrap_or(0);
    println!("# waking them took {} us at most", woken / 1000);
    println!(
        "# {SLEEPERS} threads, {ROUNDS} times: all have stored {slowest} us after the limit was taken \
         back, at most"
    );
    alone.check()?;
    asleep.check()?;
    released.check()?;
    ensure!(
        slowest < ALL_GO_ON || dispatcher().is_some(),
        "the last thread has stored after {slowest} us: it was not woken, its time was over"
    );
    drop((program, bystander));
    setrlimit(Resource::Nproc, before).map_err(|errno| errno.to_string())?;
    check_nothing_left(&stage)?;
    stage.teardown()
}
