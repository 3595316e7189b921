// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Random system calls: LoGA passes every call and its answer on unchanged.
//!
//! [`mod@sequence`] makes the calls of one process, [`system`] hands them to the kernel. A single
//! process is compared, call by call, with the same seed on a driver without LoGA; many at a time
//! are not, but must leave nothing behind. A failing test names its seed: `loga-guest hostile
//! sequence SEED CALLS FIRST` prints the calls from number FIRST on.
//!
//! Submission pages are stored to by the kernel, for a call. With a dispatcher that is refused (LoGA
//! lets no kernel code wait for a turn), and the program stores itself, see [`own_store`]: these
//! stores are decided on.

mod own_store;
mod sequence;
mod system;

use super::{dispatcher, model, Program, USER};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{Stage, LAZY};
use sequence::Sequence;
use std::time::{Duration, Instant};
use throttle::random::Random;

/// Calls covered by one digest.
const BLOCK: u64 = 100;

/// TIMEOUT: until LoGA drops the clients of processes that have ended.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// The programs of this folder.
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[
    ("sequence", |words| sequence(words, Stores::Kernel)),
    ("sequence-storing", |words| sequence(words, Stores::Own)),
    ("crowd-of-calls", |words| crowd(words, Stores::Kernel)),
    ("crowd-of-calls-storing", |words| crowd(words, Stores::Own)),
];

/// Who stores to submission pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stores {
    /// The kernel, in a call of the program.
    Kernel,
    /// The program.
    Own,
}

/// The program of this name that fits the dispatcher of the tests.
pub(super) fn fitting(name: &str) -> String {
    match dispatcher() {
        None => name.to_owned(),
        Some(_) => format!("{name}-storing"),
    }
}

// Tests that a short run can afford.
crate::ktap::tests![
    const QUICK;
    random_calls_get_the_drivers_own_answers,
    random_calls_of_many_processes_leave_nothing,
];

// The same, for long.
crate::ktap::tests![
    const LONG;
    many_random_calls_get_the_drivers_own_answers,
    random_calls_of_many_processes_for_long_leave_nothing,
];

/// A number among the arguments of a program.
pub(super) fn number(arguments: &[String], at: usize) -> Result<u64, String> {
    let word = arguments.get(at).ok_or("an argument is missing")?;
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// `sequence SEED CALLS [FIRST]`: prints a digest for each [`BLOCK`] of calls, or the calls from the
/// one with number `FIRST` on in words.
fn sequence(arguments: &[String], stores: Stores) -> Result<(), String> {
    let (seed, calls) = (number(arguments, 0)?, number(arguments, 1)?);
    let first = number(arguments, 2).ok();
    let mut sequence = Sequence::new(seed, false, stores)?;
    let mut digest = 0u64;
    let mut done = 0;
    for call in 0..calls {
        let answer = sequence.step();
        done += u64::from(answer.result.is_ok());
        digest = digest.rotate_left(7) ^ answer.digest();
        if first.is_some_and(|first| call >= first) {
            let words: Vec<String> = answer.bytes.chunks(4).take(16).map(hex).collect();
            println!(
                "{call} {}: {:?} {}",
                answer.what,
                answer.result,
                words.join(" ")
            );
        }
        if first.is_none() && (call + 1) % BLOCK == 0 {
            println!("{digest:016x}");
        }
    }
    if first.is_none() {
        println!("done {done}");
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .rev()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// `crowd-of-calls SEED PROCESSES CALLS`: many processes at a time, and `/dev/loga` among the calls.
fn crowd(arguments: &[String], stores: Stores) -> Result<(), String> {
    let (seed, processes, calls) = (
        number(arguments, 0)?,
        number(arguments, 1)?,
        number(arguments, 2)?,
    );
    let mut children = Vec::new();
    for process in 0..processes {
        let seed = Random::new(seed.wrapping_mul(1000).wrapping_add(process)).next_u64();
        match throttle::sys::fork().map_err(|error| error.to_string())? {
            Some(pid) => children.push(nix::unistd::Pid::from_raw(pid)),
            None => {
                let mut random = Random::new(seed);
                // Some end early, with all files open.
                let calls = random.around(calls, 50);
                let ended = Sequence::new(seed, true, stores).map(|mut sequence| {
                    for _ in 0..calls {
                        sequence.step();
                    }
                });
                throttle::sys::exit_now(i32::from(ended.is_err()));
            }
        }
    }
    let mut random = Random::new(seed);
    let mut killed = 0;
    for child in children {
        if random.next_u64() % 8 == 0 {
            std::thread::sleep(Duration::from_millis(random.next_u64() % 50));
            killed += u64::from(nix::sys::signal::kill(child, nix::sys::signal::SIGKILL).is_ok());
        }
        let status = nix::sys::wait::waitpid(child, None).map_err(|errno| errno.to_string())?;
        if matches!(status, nix::sys::wait::WaitStatus::Exited(_, code) if code != 0) {
            return Err(format!("a process ended with {status:?}"));
        }
    }
    println!("killed {killed}");
    Ok(())
}

/// What a sequence prints with LoGA, or without it.
fn run(with_loga: bool, uid: u32, words: &str) -> Result<Vec<String>, String> {
    let stage = Stage::without_loga(&model(LAZY))?;
    if with_loga {
        stage.add_loga("")?;
    }
    let text = Program::start_as(uid, &format!("{} {words}", fitting("sequence")))?.finish()?;
    stage.teardown()?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// The first call of a sequence with another answer the second time, in words.
fn first_difference(seed: u64, uid: u32, calls: u64, block: u64, with_loga: bool) -> Verdict {
    let words = format!(
        "{seed} {} {}",
        calls.min((block + 1) * BLOCK),
        block * BLOCK
    );
    let (without, other) = (run(false, uid, &words)?, run(with_loga, uid, &words)?);
    let name = if with_loga { "with LoGA" } else { "and again" };
    let different = without.iter().zip(&other).find(|(one, other)| one != other);
    let Some((without, other)) = different else {
        return Err(format!(
            "seed {seed}, calls {words}: {name} another answer, but not twice"
        ));
    };
    Err(format!(
        "seed {seed}, user {uid}\nwithout LoGA: {without}\n{name}: {other}"
    ))
}

/// The first block that differs.
fn differs(one: &[String], other: &[String]) -> Option<u64> {
    let lines = one.iter().zip(other);
    // CAST: some thousand lines.
    lines
        .into_iter()
        .position(|(one, other)| one != other)
        .map(|block| block as u64)
}

/// Compares one seed; the calls made with LoGA, and how many of them did something.
fn compare(seed: u64, uid: u32, calls: u64, is_first: bool) -> Result<u64, String> {
    let words = format!("{seed} {calls}");
    let without = run(false, uid, &words)?;
    if is_first {
        let again = run(false, uid, &words)?;
        if let Some(block) = differs(&without, &again) {
            first_difference(seed, uid, calls, block, false)?;
        }
    }
    let with = run(true, uid, &words)?;
    if let Some(block) = differs(&without, &with) {
        first_difference(seed, uid, calls, block, true)?;
    }
    ensure!(
        without.len() == with.len(),
        "seed {seed}: {} and {} lines",
        without.len(),
        with.len()
    );
    let done = with.last().and_then(|line| line.strip_prefix("done "));
    done.and_then(|done| done.parse().ok())
        .ok_or_else(|| format!("seed {seed}: no end"))
}

/// Compares some seeds, with so many calls of each.
pub(super) fn answers(seeds: std::ops::Range<u64>, calls: u64) -> Verdict {
    let (mut made, mut done) = (0, 0);
    let first = seeds.start;
    for seed in seeds {
        let uid = if seed % 2 == 0 { 0 } else { USER };
        done += compare(seed, uid, calls, seed == first)?;
        made += calls;
    }
    println!(
        "# {made} calls with LoGA, dispatcher {:?}, {done} of them did what was asked, 0 differences",
        dispatcher()
    );
    ensure!(
        done * 5 > made,
        "{done} of {made} calls did something: too few"
    );
    ensure!(
        done * 20 < made * 19,
        "{done} of {made} calls did something: too few are refused"
    );
    Ok(())
}

fn random_calls_get_the_drivers_own_answers() -> Verdict {
    answers(1..3, 10_000)
}

fn many_random_calls_get_the_drivers_own_answers() -> Verdict {
    answers(10..20, 34_000)
}

/// Waits until LoGA has no client and no channel.
pub(super) fn wait_until_empty(stage: &Stage) -> Verdict {
    let since = Instant::now();
    loop {
        let stat = stage.stat()?;
        if stat.clients.is_empty() {
            return Ok(());
        }
        if since.elapsed() > FORGOTTEN {
            return Err(format!("left behind: {:?}", stat.clients));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn crowds(seeds: std::ops::Range<u64>, processes: u64, calls: u64) -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=maxmin enforce=1 poll_ms=1")?;
    let mut made = 0;
    for seed in seeds {
        let load = Load::start("--kernel-us 200 --channels 1 --wait block")?;
        let name = fitting("crowd-of-calls");
        let user = Program::start(&format!("{name} {seed} {processes} {calls}"))?;
        let root = Program::start_as(0, &format!("{name} {} 2 {calls}", seed + 1_000_000))?;
        user.finish()
            .map_err(|error| format!("seed {seed}: {error}"))?;
        root.finish()
            .map_err(|error| format!("seed {seed}: {error}"))?;
        made += (processes + 2) * calls;
        let instance = load.stop()?;
        ensure!(
            instance.summary.kernels > 0,
            "seed {seed}: the load ran nothing meanwhile"
        );
        wait_until_empty(&stage).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    println!(
        "# about {made} calls of many processes, dispatcher {:?}",
        dispatcher()
    );
    stage.teardown()
}

fn random_calls_of_many_processes_leave_nothing() -> Verdict {
    crowds(1..2, 8, 1_000)
}

fn random_calls_of_many_processes_for_long_leave_nothing() -> Verdict {
    crowds(10..16, 16, 5_000)
}
