// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of engaged scheduling with real processes: which submission reaches the GPU first.

use crate::caller::{Caller, SOON};
use crate::calls::Calls;
use crate::faults::occupy;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE, LAZY};
use crate::truth::{shares, Truth};
use crate::{busy, sysfs, threads};
use loga::uapi;
use rustix::process::{setpriority_process, Pid};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use throttle::random::Random;
use throttle::statistics::Frames;

crate::ktap::tests![
    frames_of_a_higher_priority_wait_for_one_submission_of_another: timed,
    clients_of_one_priority_take_turns: timed,
    policy_divides_time_between_clients_that_take_turns: timed slow,
    client_of_a_low_priority_gets_its_turn_once_a_second: timed,
    store_that_waits_once_takes_the_lock_five_times_at_most,
    copies_do_not_wait_for_kernels: timed,
    endless_command_holds_others_for_two_seconds_and_they_are_decided_on_after_it,
    client_that_waits_for_its_turn_dies_promptly_and_its_turn_is_passed_on,
    dispatch_that_is_turned_off_lets_all_pass,
    device_lost_lets_clients_that_wait_for_their_turn_run,
    forked_child_takes_turns_as_its_parent,
    remapped_page_takes_turns,
    reading_a_page_does_not_wait_and_opens_no_way_to_store,
    clients_stopped_and_killed_at_random_hold_no_other_back,
    completion_thread_that_does_not_run_lets_all_pass_until_it_does,
];

/// Parameters of LoGA for these tests: what is throttled is decided by nothing else.
pub(crate) const PRIO: &str = "policy=none dispatch=prio";
/// Frames of four kernels of 500 us, one every 10 ms.
pub(crate) const FRAMES: &str =
    "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 10000 --wait block";
/// Length of one alone, in us: measured.
const FRAME_US: f64 = 2040.0;
/// What deciding on a submission costs at most, in us: waking up, the windows and the reads.
pub(crate) const SUBMISSION_US: f64 = 150.0;
/// Store that did not wait for a command, in us.
const AT_ONCE_US: u64 = 50_000;

/// Starts a load with this nice value.
pub(crate) fn start_nice(nice: i32, arguments: &str) -> Result<Load, String> {
    let load = Load::start(arguments)?;
    let pid = i32::try_from(load.pid()).ok().and_then(Pid::from_raw);
    setpriority_process(pid, nice).map_err(|error| format!("nice {nice}: {error}"))?;
    Ok(load)
}

/// Sums of what was decided: grants, waits, unused grants, times that all had to pass, and grants
/// to clients that had waited for too long.
pub(crate) fn counters() -> Result<[u64; 5], String> {
    numbers("gpu0 grants ")
}

/// How often the lock of what is decided was taken for stores that faulted.
fn store_locks() -> Result<u64, String> {
    numbers("gpu0 store_locks ").map(|[taken]| taken)
}

/// The numbers of the line of costs that begins so.
fn numbers<const COUNT: usize>(begin: &str) -> Result<[u64; COUNT], String> {
    let path = "/sys/kernel/debug/loga/costs";
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(begin));
    let line = line.ok_or_else(|| format!("{path}: no line {begin}"))?;
    let numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    numbers.try_into().map_err(|_| format!("{path}: {line}"))
}

/// Frames beside kernels of 3 ms, and the number of these.
fn frames_beside_a_bomb(dispatch: &str) -> Result<(Frames, u64), String> {
    let stage = Stage::set(FINE, &format!("policy=none dispatch={dispatch} {EXACT}"))?;
    let bomb = Load::start("--kernel-us 3000 --wait block")?;
    stage.wait_until_measured(bomb.pid())?;
    let frames = start_nice(-10, FRAMES)?;
    std::thread::sleep(Duration::from_secs(3));
    let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
    let kernels = bomb.stop()?.summary.kernels;
    println!("# {dispatch}: {frames:?}, {kernels} kernels of the other");
    stage.teardown()?;
    Ok((frames, kernels))
}

fn frames_of_a_higher_priority_wait_for_one_submission_of_another() -> Verdict {
    let (before, _) = frames_beside_a_bomb("none")?;
    let (frames, _) = frames_beside_a_bomb("prio")?;
    // The GPU serves both in turn: each kernel of a frame waits for one of the other.
    within(
        "median us of a frame without priority",
        before.median_us,
        6000.0..,
    )?;
    let most = FRAME_US + 3000.0 + 4.0 * SUBMISSION_US;
    ensure!(
        frames.p95_us < most,
        "{frames:?}, want 95 % below {most:.0} us"
    );
    ensure!(frames.mean_us < 0.7 * before.mean_us, "{frames:?}");
    Ok(())
}

fn clients_of_one_priority_take_turns() -> Verdict {
    let stage = Stage::set(FINE, &format!("{PRIO} {EXACT}"))?;
    let long = Load::start("--kernel-us 3000 --wait block")?;
    let short = Load::start("--kernel-us 500 --wait block")?;
    std::thread::sleep(Duration::from_secs(1));
    Truth::reset()?;
    std::thread::sleep(Duration::from_secs(3));
    let truth = Truth::read()?;
    let shares = [&long, &short].map(|load| truth.busy_share(load.pid()));
    let counters = counters()?;
    println!("# shares {shares:.3?}, counters {counters:?}");
    let [long, short] = [long.stop()?, short.stop()?].map(|one| one.summary.kernels);
    // A kernel each, and the GPU hardly idle between them.
    within("long to short", shares[0] / shares[1], 5.7..6.3)?;
    within("shares of both", shares[0] + shares[1], 0.9..)?;
    ensure!(counters[0] > 0 && counters[3] == 0, "{counters:?}");
    println!("# kernels {long} and {short}");
    stage.teardown()
}

/// Length of a period with few clients, in us.
const PERIOD_US: f64 = 50_000.0;

fn policy_divides_time_between_clients_that_take_turns() -> Verdict {
    const WINDOW_MS: u64 = 4000;
    const KERNELS_US: [f64; 2] = [3000.0, 500.0];
    // At both ends of the window, one is ahead by two periods and a command. What a decision costs is
    // part of the time of the client that it is on: more of it where the commands are short.
    // CAST: milliseconds.
    let ahead = (2.0 * PERIOD_US + KERNELS_US[0]) / (WINDOW_MS as f64 * 1000.0) * 100.0;
    let [long, short] = KERNELS_US.map(|kernel| kernel / (kernel + SUBMISSION_US));
    let allowed = 50.0 - ahead..=long / (long + short) * 100.0 + ahead;
    for (policy, nice) in [("event", 0), ("maxmin", 0), ("event", -10)] {
        let loga = format!("policy={policy} enforce=1 dispatch=prio {EXACT}");
        let stage = Stage::set(FINE, &loga)?;
        let long = start_nice(nice, "--kernel-us 3000 --wait block")?;
        let short = Load::start("--kernel-us 500 --wait block")?;
        stage.wait_until_all_measured([&long, &short])?;
        let [by_long, by_short] = shares([long.pid(), short.pid()], 1000, WINDOW_MS)?;
        drop((long, short));
        println!("# {policy}, nice {nice}: {by_long:.1} and {by_short:.1} %");
        let part = by_long / (by_long + by_short) * 100.0;
        within("percent of the long kernels", part, allowed.clone())?;
        stage.check_no_fallback()?;
        stage.teardown()?;
    }
    Ok(())
}

fn client_of_a_low_priority_gets_its_turn_once_a_second() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let mut low = Caller::with_channels(1)?;
    low.ask("store 100")?;
    // It has its next kernel ready before the last one ends.
    let hog = start_nice(-10, "--kernel-us 3000 --depth 4 --wait block")?;
    stage.wait_until_measured(hog.pid())?;
    for _ in 0..3 {
        let took_us = low.ask("store 100")?[0];
        println!("# store took {took_us} us");
        within("us of a store", took_us, 900_000..1_200_000)?;
    }
    within("grants to a starved client", counters()?[4], 3..)?;
    drop((hog, low));
    stage.teardown()
}

fn store_that_waits_once_takes_the_lock_five_times_at_most() -> Verdict {
    const ROUNDS: u64 = 10;
    let stage = Stage::set(LAZY, PRIO)?;
    let mut holder = Caller::with_channels(1)?;
    let mut waits = Caller::with_channels(1)?;
    holder.ask("store 100")?;
    waits.ask("store 100")?;
    let (mut taken, mut waited) = (0, 0);
    for _ in 0..ROUNDS {
        // It ends before a thread that waits looks whether the completion thread runs.
        holder.ask("launch 100000")?;
        let before = (store_locks()?, counters()?[1]);
        waits.ask("store 100")?;
        taken += store_locks()? - before.0;
        waited += counters()?[1] - before.1;
    }
    println!("# {waited} waits, lock taken {taken} times");
    within("waits", waited, ROUNDS..)?;
    // It is told to wait, wakes up, and opens its window at least.
    within(
        "times that the lock was taken",
        taken,
        3 * ROUNDS..=5 * waited,
    )?;
    drop((holder, waits));
    stage.teardown()
}

fn copies_do_not_wait_for_kernels() -> Verdict {
    let stage = Stage::set(FINE, &format!("{PRIO} {EXACT}"))?;
    let bomb = Load::start("--kernel-us 5000 --wait block")?;
    stage.wait_until_measured(bomb.pid())?;
    let copies = Load::start("--engine copy --kernel-us 100 --sleep-us 1000 --wait block")?;
    std::thread::sleep(Duration::from_secs(2));
    let copies = copies.stop()?.summary;
    println!("# {copies:?}");
    bomb.stop()?;
    within("copies", copies.kernels, 1001..)?;
    within(
        "copies turnaround p99 us",
        copies.turnaround_p99_us,
        ..1000.0,
    )?;
    stage.teardown()
}

/// A client with a kernel of this length under way, and one that waits for its turn behind it.
fn waiting(kernel_us: u64) -> Result<(Caller, Caller), String> {
    let mut holder = Caller::with_channels(1)?;
    let mut waits = Caller::with_channels(1)?;
    // Both are known, and have stored once.
    holder.ask("store 100")?;
    waits.ask("store 100")?;
    holder.ask(&format!("launch {kernel_us}"))?;
    let before = counters()?[1];
    waits.send("store 100")?;
    let limit = Instant::now() + SOON;
    while counters()?[1] == before {
        ensure!(Instant::now() < limit, "the second client does not wait");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((holder, waits))
}

/// The time that a store took, in us.
fn took(caller: &mut Caller) -> Result<u64, String> {
    let answer = caller.answer(SOON)?;
    answer.first().copied().ok_or_else(|| "no time".to_string())
}

fn endless_command_holds_others_for_two_seconds_and_they_are_decided_on_after_it() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let (mut holder, mut waits) = waiting(4_000_000)?;
    let took_us = took(&mut waits)?;
    println!("# store took {took_us} us");
    within("us of a store", took_us, 1_800_000..=2_600_000)?;
    ensure!(counters()?[3] == 1, "{:?}", counters()?);
    // The long kernel ends, and the completion thread sees it: stores are decided on again.
    holder.ask("store 100")?;
    std::thread::sleep(Duration::from_millis(100));
    let before = counters()?[0];
    for caller in [&mut holder, &mut waits] {
        for _ in 0..5 {
            let store = caller.ask("store 100")?;
            ensure!(store[0] < AT_ONCE_US, "a store took {} us", store[0]);
        }
    }
    let grants = counters()?[0] - before;
    within("grants", grants, 10..)?;
    drop((holder, waits));
    stage.teardown()
}

fn client_that_waits_for_its_turn_dies_promptly_and_its_turn_is_passed_on() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let (mut holder, mut waits) = waiting(1_000_000)?;
    let took = waits.kill()?;
    ensure!(took < Duration::from_millis(200), "dead after {took:?}");
    // The holder dies too, with its kernel under way.
    holder.kill()?;
    let mut next = Caller::with_channels(1)?;
    next.ask("store 100")?;
    let store = next.ask("store 100")?;
    ensure!(store[0] < AT_ONCE_US, "a store took {} us", store[0]);
    drop(next);
    stage.teardown()
}

fn dispatch_that_is_turned_off_lets_all_pass() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let (mut holder, mut waits) = waiting(1_500_000)?;
    sysfs::write("dispatch", "none")?;
    let took_us = took(&mut waits)?;
    within("us of a store", took_us, ..1_000_000)?;
    ensure!(
        sysfs::read("dispatch")? == "none",
        "{}",
        sysfs::read("dispatch")?
    );
    for caller in [&mut holder, &mut waits] {
        caller.ask("store 100")?;
    }
    sysfs::write("dispatch", "edf")?;
    for caller in [&mut holder, &mut waits] {
        caller.ask("store 100")?;
    }
    ensure!(counters()?[0] >= 2, "{:?}", counters()?);
    drop((holder, waits));
    stage.teardown()
}

fn device_lost_lets_clients_that_wait_for_their_turn_run() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let (mut holder, mut waits) = waiting(1_500_000)?;
    stage.set_lost(true)?;
    std::thread::sleep(Duration::from_millis(200));
    stage.set_lost(false)?;
    let took_us = took(&mut waits)?;
    within("us of a store", took_us, ..1_000_000)?;
    // Once the GPU answers again, stores are decided on.
    let limit = Instant::now() + SOON;
    let before = counters()?[0];
    while counters()?[0] == before {
        ensure!(Instant::now() < limit, "no store is decided on");
        holder.ask("store 100")?;
    }
    drop((holder, waits));
    stage.teardown()
}

fn forked_child_takes_turns_as_its_parent() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let mut parent = Caller::with_channels(1)?;
    let bomb = Load::start("--kernel-us 3000 --wait block")?;
    stage.wait_until_measured(bomb.pid())?;
    parent.send("fork 500 1000")?;
    let child = parent.answer(SOON)?;
    parent.answer(SOON)?;
    // A kernel of the other comes between any two of them.
    within("kernels of the child", child[0], 100..=330)?;
    within("us the child was blocked", child[1], 500_001..)?;
    bomb.stop()?;
    drop(parent);
    stage.teardown()
}

fn remapped_page_takes_turns() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("store 100")?;
    caller.ask("unmap")?;
    caller.ask("map")?;
    let before = counters()?[0];
    caller.ask("store 100")?;
    ensure!(counters()?[0] > before, "a store passed without a grant");
    drop(caller);
    stage.teardown()
}

fn reading_a_page_does_not_wait_and_opens_no_way_to_store() -> Verdict {
    for branch in [340, 470, 550] {
        read_and_store(branch).map_err(|reason| format!("branch {branch}: {reason}"))?;
    }
    Ok(())
}

/// As the driver of this branch makes entries.
fn read_and_store(branch: u32) -> Verdict {
    let stage = Stage::set(&format!("{LAZY} branch={branch}"), PRIO)?;
    let mut holder = Caller::with_channels(1)?;
    let mut reads = Caller::with_channels(1)?;
    for caller in [&mut holder, &mut reads] {
        caller.ask("store 100")?;
    }
    holder.ask("launch 1000000")?;
    let took_us = reads.ask("read")?[0];
    ensure!(took_us < AT_ONCE_US, "a read took {took_us} us");
    // The page has an entry now. The store waits for the rest of the second all the same.
    let took_us = reads.ask("store 100")?[0];
    within("us of a store", took_us, 500_001..)?;
    drop((holder, reads));
    stage.teardown()
}

fn clients_stopped_and_killed_at_random_hold_no_other_back() -> Verdict {
    use nix::sys::signal::Signal;
    let stage = Stage::set(LAZY, PRIO)?;
    let load = "--kernel-us 300 --jitter 50 --channels 2 --wait block";
    let mut loads: Vec<Load> = (0..6)
        .map(|_| Load::start(load))
        .collect::<Result<_, _>>()?;
    let mut random = Random::new(7);
    let mut random = || random.next_u64();
    for _ in 0..150 {
        let at = random() as usize % loads.len();
        match random() % 8 {
            0 => loads[at] = Load::start(load)?,
            1..=3 => loads[at].signal(Signal::SIGSTOP),
            _ => loads[at].signal(Signal::SIGCONT),
        }
        std::thread::sleep(Duration::from_millis(random() % 20));
    }
    // All are stopped, whatever they hold.
    loads.iter().for_each(|load| load.signal(Signal::SIGSTOP));
    let mut next = Caller::with_channels(1)?;
    let stores: Result<Vec<u64>, String> = (0..20).map(|_| Ok(next.ask("store 100")?[0])).collect();
    let stores = stores?;
    let longest = stores.iter().copied().max().unwrap_or(0);
    let counters = counters()?;
    println!("# stores of {stores:?} us, {counters:?}");
    drop(loads);
    ensure!(longest < AT_ONCE_US, "a store took {longest} us");
    ensure!(counters[3] == 0, "all had to pass {} times", counters[3]);
    drop(next);
    stage.teardown()
}

fn completion_thread_that_does_not_run_lets_all_pass_until_it_does() -> Verdict {
    let stage = Stage::set(LAZY, PRIO)?;
    let calls = Calls::open()?;
    calls
        .subscribe(1 << uapi::EVENT_FALLBACK | 1 << uapi::EVENT_ENGAGED)
        .map_err(|errno| errno.to_string())?;
    let (mut holder, mut waits) = waiting(1_000_000)?;
    for thread in threads::named("loga-watch")? {
        busy::pin(thread.pid, 1).map_err(|errno| errno.to_string())?;
    }
    let started = AtomicBool::new(false);
    let (took_us, shown) = std::thread::scope(|scope| {
        let spinner = scope.spawn(|| occupy(Duration::from_secs(6), &started));
        let found = took(&mut waits).and_then(|took_us| Ok((took_us, sysfs::read("dispatch")?)));
        spinner
            .join()
            .map_err(|_| "the thread of high priority panicked".to_string())??;
        found
    })?;
    println!("# store took {took_us} us");
    within("us of a store", took_us, 2_500_000..5_000_000)?;
    ensure!(shown == "none", "while all pass, dispatch is {shown}");
    // Nobody sets it again.
    let since = Instant::now();
    while sysfs::read("dispatch")? != "prio" {
        ensure!(since.elapsed() < SOON, "dispatch stays off");
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = counters()?[0];
    holder.ask("store 100")?;
    let after = counters()?[0];
    ensure!(after > before, "{before} grants, and then {after}");
    let events = calls.events()?;
    let told: Vec<(u32, u64)> = events
        .iter()
        .map(|event| (event.kind, event.value))
        .collect();
    let [(uapi::EVENT_FALLBACK, uapi::FALLBACK_SILENT), (uapi::EVENT_ENGAGED, passed)] = told[..]
    else {
        return Err(format!("events {told:?}"));
    };
    within("ns in which all passed", passed, 500_000_000..6_000_000_000)?;
    // A listener keeps the module.
    drop((calls, holder, waits));
    stage.teardown()
}
