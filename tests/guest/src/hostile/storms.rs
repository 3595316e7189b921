// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Many processes that come and go, LoGA loaded and unloaded meanwhile, and both for long.
//!
//! No open may fail and no command may be lost. A process that gets no channel because the model's
//! card is full asks again: the refusal is the driver's own answer.

use super::fuzz::{fitting, number, wait_until_empty};
use super::memory::{caches, grown, Allocated, SLAB_NOISE_KIB};
use super::{model, Program, USER};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules;
use crate::modules::LOGA;
use crate::stage::{Stage, LAZY};
use loga::rm::class::status;
use nix::errno::Errno;
use nix::sys::wait::{waitpid, WaitStatus};
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::error::Error;
use throttle::plan::Engine;
use throttle::random::Random;
use throttle::rm::Client;
use throttle::standin::open_channels;

/// Parameters of LoGA: it throttles as often as it can.
const BUSY: &str = "policy=maxmin enforce=1 poll_ms=1";

/// TIMEOUT: for a kernel of a client among hundreds, throttled in between.
const KERNEL_LIMIT: Duration = Duration::from_secs(60);

/// TIMEOUT: for room on the card.
pub(super) const ROOM_LIMIT: Duration = Duration::from_secs(30);

/// TIMEOUT: tries to detach or unload while others have submission pages mapped.
const TRIES: u32 = 2000;

/// Pause between two of them.
const TRY_PAUSE: Duration = Duration::from_millis(5);

/// Exit statuses of a client: what went wrong with it.
const OPEN_FAILED: i32 = 10;
const COMMAND_LOST: i32 = 11;

/// The programs of this file.
pub(super) const PROGRAMS: &[(&str, super::Act)] =
    &[("crowd-of-clients", crowd), ("steady-clients", steady)];

// Tests that a short run can afford.
crate::ktap::tests![
    const QUICK;
    storm_of_clients_loses_no_command,
    loading_and_attaching_beside_clients_loses_nothing: slow,
    mixed_load_gives_everything_back,
];

// The same, for long.
crate::ktap::tests![
    const LONG;
    storms_of_500_clients_lose_no_command,
    a_hundred_loads_and_attaches_beside_clients_lose_nothing,
];

/// The failure of a client.
enum Failure {
    /// A node or an object, and why.
    Open(String),
    /// A command that did not end, in words.
    Lost(String),
}

/// Opens a client with channels; waits while the card is full.
fn open(random: &mut Random) -> Result<(Client, Vec<Channel>), Failure> {
    let since = Instant::now();
    loop {
        let count = 1 + (random.next_u64() % 3) as u32;
        let made = Client::open(0).and_then(|mut client| {
            let channels = open_channels(&mut client, count, 3, Engine::Compute)?;
            Ok((client, channels))
        });
        match made {
            Ok(made) => return Ok(made),
            Err(Error::Refused {
                status: status::INSUFFICIENT_RESOURCES,
                ..
            }) if since.elapsed() < ROOM_LIMIT => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(Failure::Open(error.to_string())),
        }
    }
}

/// Submits a kernel; waits for its end if `waits`.
fn submit(channel: &mut Channel, kernel_us: u64, waits: bool) -> Result<(), Failure> {
    let sequence = channel.prepare(kernel_us * 1000, false);
    channel.submit();
    let since = Instant::now();
    while waits && channel.completed().wrapping_sub(sequence) >= 1 << 31 {
        if since.elapsed() > KERNEL_LIMIT {
            return Err(Failure::Lost(format!(
                "kernel {sequence} of {kernel_us} us did not end"
            )));
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// One client of a storm, from its start to its end; the kernels that it waited for.
fn come_and_go(seed: u64) -> Result<u64, Failure> {
    let mut random = Random::new(seed);
    std::thread::sleep(Duration::from_micros(random.next_u64() % 300_000));
    let (client, mut channels) = open(&mut random)?;
    let mut waited = 0;
    for _ in 0..random.next_u64() % 6 {
        let at = (random.next_u64() % channels.len() as u64) as usize;
        submit(&mut channels[at], 20 + random.next_u64() % 280, true)?;
        waited += 1;
    }
    match random.next_u64() % 4 {
        // Ends in the middle of a kernel, with all files open.
        0 => {
            submit(&mut channels[0], 300, false)?;
            throttle::sys::exit_now(0)
        }
        1 => channels[0].unmap_userd(),
        2 => drop(client),
        _ => {}
    }
    Ok(waited)
}

/// `crowd-of-clients SEED PROCESSES`: prints how many processes waited for all their kernels.
fn crowd(arguments: &[String]) -> Result<(), String> {
    let (seed, processes) = (number(arguments, 0)?, number(arguments, 1)?);
    let mut children = Vec::new();
    for process in 0..processes {
        match throttle::sys::fork().map_err(|error| format!("fork: {error}"))? {
            Some(pid) => children.push(nix::unistd::Pid::from_raw(pid)),
            None => {
                let status = match come_and_go(seed.wrapping_mul(10_000).wrapping_add(process)) {
                    Ok(_) => 0,
                    Err(Failure::Open(reason)) => {
                        eprintln!("client {process}: {reason}");
                        OPEN_FAILED
                    }
                    Err(Failure::Lost(reason)) => {
                        eprintln!("client {process}: {reason}");
                        COMMAND_LOST
                    }
                };
                throttle::sys::exit_now(status)
            }
        }
    }
    let (mut well, mut failed, mut lost, mut other) = (0, 0, 0, 0);
    for child in children {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) => well += 1,
            Ok(WaitStatus::Exited(_, OPEN_FAILED)) => failed += 1,
            Ok(WaitStatus::Exited(_, COMMAND_LOST)) => lost += 1,
            _ => other += 1,
        }
    }
    println!("{well} well, {failed} opens failed, {lost} commands lost, {other} otherwise");
    Ok(())
}

/// `steady-clients SEED`: one client after the other, until standard input ends; prints their
/// number and the number of kernels that they waited for.
fn steady(arguments: &[String]) -> Result<(), String> {
    let mut random = Random::new(number(arguments, 0)?);
    let (mut clients, mut kernels) = (0, 0);
    while !has_ended() {
        let client = open(&mut random).and_then(|(client, mut channels)| {
            for _ in 0..1 + random.next_u64() % 8 {
                submit(&mut channels[0], 20 + random.next_u64() % 400, true)?;
                kernels += 1;
            }
            drop(channels);
            drop(client);
            Ok(())
        });
        if let Err(Failure::Open(reason) | Failure::Lost(reason)) = client {
            return Err(format!("after {clients} clients: {reason}"));
        }
        clients += 1;
        // Detaching needs a moment without mapped pages.
        std::thread::sleep(Duration::from_micros(random.next_u64() % 30_000));
    }
    println!("{clients} {kernels}");
    Ok(())
}

/// Whether standard input has ended.
fn has_ended() -> bool {
    use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
    use std::os::fd::AsFd;
    let input = std::io::stdin();
    let mut files = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    poll(&mut files, PollTimeout::ZERO) != Ok(0)
}

/// Ends a program of steady clients; its clients and kernels.
fn end(mut program: Program) -> Result<(u64, u64), String> {
    drop(program.child.stdin.take());
    let text = program.finish()?;
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    Ok((number(&words, 0)?, number(&words, 1)?))
}

fn storm(seeds: std::ops::Range<u64>, processes: u64) -> Verdict {
    let stage = Stage::set(&model(LAZY), BUSY)?;
    for seed in seeds {
        let said = Program::start(&format!("crowd-of-clients {seed} {processes}"))?.finish()?;
        println!("# seed {seed}: {}", said.trim());
        ensure!(
            said.starts_with(&format!("{processes} well, ")),
            "seed {seed}: {}",
            said.trim()
        );
        wait_until_empty(&stage).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    stage.check_no_fallback()?;
    stage.teardown()
}

fn storm_of_clients_loses_no_command() -> Verdict {
    storm(1..2, 60)
}

fn storms_of_500_clients_lose_no_command() -> Verdict {
    storm(10..13, 500)
}

/// Tries again while submission pages are mapped; returns the number of refusals.
fn insist(what: &str, act: impl Fn() -> Result<(), Errno>) -> Result<u32, String> {
    for tries in 0..TRIES {
        match act() {
            Ok(()) => return Ok(tries),
            Err(Errno::EBUSY | Errno::EAGAIN) => std::thread::sleep(TRY_PAUSE),
            Err(errno) => return Err(format!("{what}: {errno}")),
        }
    }
    Err(format!("{what}: refused {TRIES} times"))
}

/// Loads, detaches, attaches and unloads while clients come and go.
pub(crate) fn cycles(seed: u64, cycles: u64) -> Verdict {
    let mut random = Random::new(seed);
    let stage = Stage::without_loga(&model(LAZY))?;
    let clients = [
        Program::start(&format!("steady-clients {seed}"))?,
        Program::start_as(0, &format!("steady-clients {}", seed + 1))?,
    ];
    let since = Instant::now();
    let (mut refused, mut attached) = (0, 0);
    let pause = |random: &mut Random| {
        std::thread::sleep(Duration::from_micros(random.next_u64() % 15_000));
    };
    for cycle in 0..cycles {
        let at = |reason: String| format!("seed {seed}, cycle {cycle}: {reason}");
        stage.add_loga(BUSY).map_err(at)?;
        pause(&mut random);
        for _ in 0..random.next_u64() % 3 {
            refused += insist("attach=0", || modules::set(LOGA, "attach", "0")).map_err(at)?;
            pause(&mut random);
            refused += insist("attach=1", || modules::set(LOGA, "attach", "1")).map_err(at)?;
            pause(&mut random);
            attached += 1;
        }
        refused += insist("rmmod", || modules::remove(LOGA)).map_err(at)?;
        pause(&mut random);
    }
    let took = since.elapsed();
    let (mut ended, mut kernels) = (0, 0);
    for program in clients {
        let (more, done) = end(program).map_err(|error| format!("seed {seed}: {error}"))?;
        ended += more;
        kernels += done;
    }
    println!(
        "# seed {seed}: {cycles} loads, {attached} attaches beside them in {} ms, {refused} times refused; {ended} clients, {kernels} kernels, none failed or lost",
        took.as_millis()
    );
    ensure!(
        ended > cycles,
        "{ended} clients in {cycles} cycles: nothing came and went"
    );
    stage.teardown()
}

fn loading_and_attaching_beside_clients_loses_nothing() -> Verdict {
    cycles(1, 20)
}

fn a_hundred_loads_and_attaches_beside_clients_lose_nothing() -> Verdict {
    cycles(2, 100)
}

/// One round of all programs, with `size` processes.
fn round(stage: &Stage, random: &mut Random, size: u64, length: Duration) -> Verdict {
    let seed = random.next_u64() % 1_000_000;
    let loads = [
        Load::start("--kernel-us 1000 --channels 2 --wait block")?,
        Load::start_as(USER, "--kernel-us 100 --sleep-us 500 --wait block")?,
        Load::start_as(USER + 1, "--kernel-us 300 --jitter 20 --wait block")?,
    ];
    let since = Instant::now();
    let policies = ["maxmin", "event", "none", "maxmin"];
    let mut turn = 0;
    while turn == 0 || since.elapsed() < length {
        let policy = policies[(random.next_u64() % 4) as usize];
        crate::sysfs::write("policy", policy)?;
        let words = format!("crowd-of-clients {} {size}", seed + turn);
        let clients = Program::start(&words)?;
        let calls = fitting("crowd-of-calls");
        let words = format!("{calls} {} {} 200", seed + turn, size / 8 + 1);
        let calls = Program::start(&words)?;
        let said = clients.finish()?;
        ensure!(
            said.starts_with(&format!("{size} well, ")),
            "seed {}: {}",
            seed + turn,
            said.trim()
        );
        calls.finish()?;
        turn += 1;
    }
    for load in loads {
        let instance = load.stop()?;
        ensure!(
            instance.summary.kernels > 0,
            "seed {seed}: a load did nothing"
        );
    }
    wait_until_empty(stage)
}

/// Mixed load for `length`; prints what the kernel has given out after each round.
pub(crate) fn soak(seed: u64, length: Duration, size: u64, rounds: u64) -> Verdict {
    let mut random = Random::new(seed);
    let stage = Stage::set(&model(LAZY), BUSY)?;
    println!("# seed {seed}");
    // Tables that only grow, such as the kernel's own, reach their size in the first round.
    round(&stage, &mut random, size, Duration::ZERO)?;
    let before = Allocated::now()?;
    println!("# before: {before:?}");
    let caches = caches();
    let (since, each) = (Instant::now(), length / u32::try_from(rounds).unwrap_or(1));
    let mut given = Vec::new();
    for number in 1..=rounds {
        round(&stage, &mut random, size, each).map_err(|error| format!("seed {seed}: {error}"))?;
        let after = Allocated::now()?;
        println!(
            "# round {number}, {} s: {after:?}; {}",
            since.elapsed().as_secs(),
            grown(&caches)
        );
        given.push(after);
    }
    let after = given.last().ok_or("no rounds")?;
    ensure!(
        after.references == before.references
            && (after.areas, after.area_bytes) == (before.areas, before.area_bytes),
        "seed {seed}: {before:?} before, {after:?} after"
    );
    let slab: Vec<u64> = given.iter().map(|given| given.slab_kib).collect();
    let (first, last) = begin_and_end(before.slab_kib, &slab);
    println!("# slab: {first} KiB, and {last} KiB at the end");
    ensure!(
        last <= first + SLAB_NOISE_KIB,
        "seed {seed}: {first} KiB of slab, {last} at the end: {}",
        grown(&caches)
    );
    stage.teardown()
}

/// Slab at the begin and at the end, from what it was before the rounds and after each of them. It
/// varies by some hundred KiB from round to round, and the kernel's own caches reach their size
/// within minutes: of ten rounds and more, the means of the second and of the last tenth.
fn begin_and_end(before: u64, rounds: &[u64]) -> (u64, u64) {
    let tenth = rounds.len() / 10;
    let mean = |part: &[u64]| part.iter().sum::<u64>() / (part.len() as u64).max(1);
    match rounds {
        [] => (before, before),
        [.., last] if tenth == 0 => (before, *last),
        rounds => (
            mean(&rounds[tenth..2 * tenth]),
            mean(&rounds[rounds.len() - tenth..]),
        ),
    }
}

fn mixed_load_gives_everything_back() -> Verdict {
    soak(1, Duration::ZERO, 40, 3)
}

#[cfg(test)]
mod tests {
    use super::begin_and_end;

    #[test]
    fn slab_of_few_rounds_is_compared_with_that_before() {
        assert_eq!(begin_and_end(100, &[120, 110, 130]), (100, 130));
    }

    #[test]
    fn slab_of_many_rounds_is_compared_without_the_first_tenth() {
        let rounds: Vec<u64> = (0..60)
            .map(|at| if at < 6 { 0 } else { 700 + at })
            .collect();
        assert_eq!(begin_and_end(0, &rounds), (708, 756));
    }
}
