// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Faults: the driver, the card, memory or the processor fail, and LoGA fails open.
//!
//! | file | contents |
//! |---|---|
//! | this one | the card's registers, its removal, calls of the driver, processors |
//! | [`injection`] | every allocation of every call, on kernels that can inject failures |
//!
//! docs/faults.md lists the expected and the observed outcomes.

pub(crate) mod injection;

use crate::busy::pin;
use crate::caller::{client_works, Caller, SOON};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules::MODEL;
use crate::stage::{Stage, LAZY, LONG_PHASES};
use crate::throttling::throttled_hog;
use crate::{modules, threads};
use loga::rm::nr;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

crate::ktap::tests![
    registers_that_stand_still_leave_no_client_throttled,
    registers_of_random_words_leave_no_client_throttled,
    card_removed_while_a_client_is_throttled_lets_all_run,
    driver_calls_that_fail_get_the_same_answers_and_leave_nothing,
    starved_threads_leave_no_client_throttled,
];

/// The model's first card.
const CARD: &str = "/sys/bus/pci/devices/0001:00:00.0";
/// Real-time priority of a program that takes a processor for itself.
const URGENT: i32 = 50;
/// TIMEOUT: longest time that a client may be blocked while LoGA's threads do not run: two
/// periods, of 120 ms for each of two channels, after the last decision (`PERIODS_PER_THROTTLE`),
/// one before it, and a quarter of a second (`THROTTLE_GRACE`); a store also waits for a processor.
const BLOCKED_MAX: Duration = Duration::from_millis(3 * 240 + 250 + 200);
/// For how long the threads do not run.
const STARVED: Duration = Duration::from_secs(9);

/// Writes a parameter of the model.
pub(crate) fn set(parameter: &str, value: &str) -> Result<(), String> {
    modules::set(MODEL, parameter, value).map_err(|errno| format!("{parameter}={value}: {errno}"))
}

/// A throttled hog and a light client.
struct Throttled {
    hog: Caller,
    light: Load,
}

impl Throttled {
    fn new(stage: &Stage) -> Result<Self, String> {
        let (hog, light) = throttled_hog(stage, 1500)?;
        Ok(Throttled { hog, light })
    }

    /// Checks that both end; returns the longest time of a store of the hog.
    fn check_they_end(mut self) -> Result<Duration, String> {
        let run = self
            .hog
            .answer(SOON)
            .map_err(|error| format!("the hog that was throttled: {error}"))?;
        self.light.stop()?;
        Ok(Duration::from_micros(run[2]))
    }
}

/// Registers fail while a client is throttled, and recover.
fn with_registers(state: &str) -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let throttled = Throttled::new(&stage)?;
    set("registers", state)?;
    let ended = throttled.check_they_end();
    set("registers", "0")?;
    let longest = ended?;
    println!("# longest store {} ms", longest.as_millis());
    client_works(2)?;
    stage.teardown()
}

fn registers_that_stand_still_leave_no_client_throttled() -> Verdict {
    with_registers("1")
}

fn registers_of_random_words_leave_no_client_throttled() -> Verdict {
    with_registers("2")
}

fn card_removed_while_a_client_is_throttled_lets_all_run() -> Verdict {
    let stage = Stage::set(LAZY, LONG_PHASES)?;
    let throttled = Throttled::new(&stage)?;
    fs::write(format!("{CARD}/remove"), "1").map_err(|error| format!("{CARD}/remove: {error}"))?;
    let longest = throttled.check_they_end()?;
    println!("# longest store {} ms", longest.as_millis());
    stage.teardown()
}

/// Calls of the driver that a client makes on its way to a kernel.
const CALLS: [(&str, u32); 9] = [
    ("CHECK_VERSION_STR", nr::CHECK_VERSION_STR),
    ("CARD_INFO", nr::CARD_INFO),
    ("ALLOC", nr::ALLOC),
    ("ALLOC_MEMORY", nr::ALLOC_MEMORY),
    ("CONTROL", nr::CONTROL),
    ("MAP_MEMORY", nr::MAP_MEMORY),
    ("MAP_MEMORY_DMA", nr::MAP_MEMORY_DMA),
    ("UNMAP_MEMORY", nr::UNMAP_MEMORY),
    ("FREE", nr::FREE),
];

/// The answers that a client gets when calls fail, in a fixed order.
fn answers_when_calls_fail() -> Result<Vec<String>, String> {
    let mut answers = Vec::new();
    for after in ["0", "1"] {
        set("fail_after", after)?;
        let faults = CALLS
            .iter()
            .map(|(name, number)| (*name, "fail_ioctl", number.to_string()))
            .chain([
                ("open", "fail_open", "1".to_string()),
                ("mmap", "fail_mmap", "1".to_string()),
                ("mmap", "fail_mmap", "2".to_string()),
            ]);
        for (name, parameter, value) in faults {
            set(parameter, &value)?;
            let mut caller = Caller::new()?;
            let opened = caller.ask("open 2").map(drop);
            let freed = caller.ask("destroy 0").map(drop);
            let again = caller.ask("map").map(drop);
            drop(caller);
            set(parameter, "0")?;
            answers.push(format!(
                "{name} {value} after={after}: {opened:?} {freed:?} {again:?}"
            ));
            client_works(2).map_err(|error| format!("after {name} had failed: {error}"))?;
        }
    }
    set("fail_after", "0")?;
    Ok(answers)
}

/// Waits until all clients have gone: at the decision that the end of the last one forces.
fn wait_until_no_client(stage: &Stage) -> Verdict {
    let since = Instant::now();
    loop {
        let clients = stage.stat()?.clients;
        if clients.is_empty() {
            return Ok(());
        }
        let limit = Duration::from_secs(1);
        ensure!(since.elapsed() < limit, "clients left: {clients:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn driver_calls_that_fail_get_the_same_answers_and_leave_nothing() -> Verdict {
    let mut both = Vec::new();
    for with_loga in [false, true] {
        let stage = Stage::without_loga(LAZY)?;
        if with_loga {
            stage.add_loga(LONG_PHASES)?;
        }
        both.push(answers_when_calls_fail()?);
        if with_loga {
            wait_until_no_client(&stage)?;
        }
        stage.teardown()?;
    }
    let failed = both[0].iter().filter(|line| line.contains("Err")).count();
    println!("# {} faults, {failed} seen by the program", both[0].len());
    ensure!(
        failed > both[0].len() / 2,
        "hardly anything failed: {:?}",
        both[0]
    );
    for (without, with) in both[0].iter().zip(&both[1]) {
        ensure!(without == with, "without LoGA {without}\nwith LoGA {with}");
    }
    Ok(())
}

/// Keeps processor 1 busy for `time`, at a priority above all other threads.
pub(crate) fn occupy(time: Duration, started: &AtomicBool) -> Result<(), String> {
    pin(0, 1).map_err(|errno| errno.to_string())?;
    let urgent = nix::libc::sched_param {
        sched_priority: URGENT,
    };
    // SAFETY: a system call on the calling thread and a local variable.
    let rc = unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_FIFO, &raw const urgent) };
    if rc != 0 {
        return Err(format!("SCHED_FIFO: {}", nix::errno::Errno::last()));
    }
    started.store(true, Ordering::Release);
    let since = Instant::now();
    while since.elapsed() < time {}
    Ok(())
}

/// All of LoGA's threads on a processor that a real-time program keeps for itself.
fn starved_threads_leave_no_client_throttled() -> Verdict {
    let stage = Stage::set(LAZY, &format!("{LONG_PHASES} poller_cpu=1"))?;
    let throttled = Throttled::new(&stage)?;
    let threads = threads::named("loga")?;
    ensure!(
        threads.len() >= 2,
        "{} threads of LoGA, not two",
        threads.len()
    );
    for pid in threads.iter().map(|thread| thread.pid) {
        // The poller is bound there already and cannot be moved.
        let _ = pin(pid, 1);
    }
    let started = AtomicBool::new(false);
    let longest = std::thread::scope(|scope| {
        let spinner = scope.spawn(|| occupy(STARVED, &started));
        let longest = throttled.check_they_end();
        spinner
            .join()
            .map_err(|_| "the thread of high priority panicked".to_string())??;
        longest
    })?;
    println!("# longest store {} ms", longest.as_millis());
    ensure!(
        longest < BLOCKED_MAX,
        "a client was blocked for {longest:?} while LoGA's threads did not run"
    );
    client_works(2)?;
    stage.teardown()
}
