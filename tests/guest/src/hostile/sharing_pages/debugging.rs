// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Stores to a page through a debugger's interfaces, `ptrace` and `/proc/PID/mem`, which make no
//! page-table entry; and a debugger that stops the owner of a page.

use super::super::ownership::{check, keep_busy, open, ready, LIFE};
use super::super::{dispatcher, model, Program};
use super::{check_nothing_left, throttle, Mapped, SOON};
use crate::ktap::{ensure, Verdict};
use crate::stage::{Stage, LAZY};
use crate::truth::Truth;
use loga::rm as abi;
use loga::rm::submit::USERD_GP_PUT;
use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use throttle::sys;
use throttle::sys::Visibility;

crate::ktap::tests![
    debugger_stores_nothing_to_a_throttled_page,
    page_stored_to_by_ptrace_gains_nothing: timed,
    page_stored_to_by_proc_mem_gains_nothing: timed,
    owner_that_a_debugger_stops_gains_nothing: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0]];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("poke", |_| debug(true, store_by_ptrace)),
    ("write-mem", |_| debug(false, store_by_mem)),
    ("interrupted", |_| interrupted()),
];

/// Length of a hog's kernels, and how many it keeps queued: those of the plain hog.
const KERNEL_NS: u64 = 1_000_000;
const DEPTH: u32 = 4;
/// Offset in a page of the last slot, of a channel that the program does not have.
const LAST_SLOT: usize = 7 * 512;
/// Between two looks at a channel.
const PAUSE: Duration = Duration::from_micros(200);

/// A process that is traced, and where its page lies.
struct Traced {
    pid: Pid,
    memory: File,
    /// Address of GP_PUT there.
    put: usize,
}

/// Stores a value to GP_PUT of a traced process.
type Store = fn(&Traced, u32) -> Result<(), Errno>;

/// A request that passes no address.
fn trace(pid: Pid, request: libc::c_uint, data: usize) -> Result<(), Errno> {
    // SAFETY: concerns another process; the kernel checks that this one may trace it.
    let rc = unsafe { libc::ptrace(request, pid.as_raw(), 0, data) };
    Errno::result(rc).map(drop)
}

/// Stops the traced process for the time of `act`.
fn stopped<T>(pid: Pid, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    trace(pid, libc::PTRACE_INTERRUPT, 0)?;
    waitpid(pid, None)?;
    let done = act();
    trace(pid, libc::PTRACE_CONT, 0)?;
    done
}

fn store_by_ptrace(traced: &Traced, value: u32) -> Result<(), Errno> {
    stopped(traced.pid, || poke(traced.pid, traced.put, value))
}

/// Stores a value to the memory of a stopped process.
fn poke(pid: Pid, at: usize, value: u32) -> Result<(), Errno> {
    let pid = pid.as_raw();
    Errno::clear();
    // SAFETY: the kernel checks the address, which is one of the traced process.
    let word = unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, pid, at, 0) };
    if word == -1 && Errno::last_raw() != 0 {
        return Err(Errno::last());
    }
    // GP_PUT is the lower half of the word.
    let word = word & !0xffff_ffff | i64::from(value);
    // SAFETY: as above.
    let rc = unsafe { libc::ptrace(libc::PTRACE_POKEDATA, pid, at, word) };
    Errno::result(rc).map(drop)
}

fn store_by_mem(traced: &Traced, value: u32) -> Result<(), Errno> {
    // CAST: user addresses are 64 bits here.
    let stored = traced
        .memory
        .write_at(&value.to_le_bytes(), traced.put as u64);
    match stored {
        Ok(4) => Ok(()),
        Ok(_) => Err(Errno::EIO),
        Err(error) => Err(Errno::from_raw(error.raw_os_error().unwrap_or(0))),
    }
}

/// Submits by a debugger's interface alone, which traces the process or not. Prints each errno that a
/// store ended with, once.
fn debug(traces: bool, store: Store) -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.unmap_userd();
    let ready = ready(&client, channel)?;
    let page = ready
        .map(Visibility::Shared)
        .map_err(|error| error.to_string())?;
    let Some(pid) = sys::fork().map_err(|error| error.to_string())? else {
        // A debugger reaches pages of a device only where there is an entry.
        loop {
            page.read(LAST_SLOT);
            std::thread::sleep(PAUSE);
        }
    };
    let pid = Pid::from_raw(pid);
    if traces {
        trace(pid, libc::PTRACE_SEIZE, 0).map_err(|errno| format!("PTRACE_SEIZE: {errno}"))?;
    }
    let path = format!("/proc/{pid}/mem");
    let memory = File::options().read(true).write(true).open(&path);
    // CAST: less than a page.
    let slot = (ready.linear % abi::PAGE_SIZE + USERD_GP_PUT) as usize;
    let traced = Traced {
        pid,
        memory: memory.map_err(|error| format!("{path}: {error}"))?,
        put: page.address() + slot,
    };
    // The traced process has the only mapping that is left.
    drop(page);
    let tell = |pid: u32| {
        let address = traced.put as u64;
        Mapped { pid, address }.tell();
    };
    tell(u32::try_from(pid.as_raw()).unwrap_or(0));
    let mut said = Vec::new();
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let sequence = channel.sequence();
        if sequence.wrapping_sub(channel.completed()) >= DEPTH {
            std::thread::sleep(PAUSE);
            continue;
        }
        let sequence = channel.prepare(KERNEL_NS, false);
        while let Err(errno) = store(&traced, sequence % (channel.depth_max() + 1)) {
            if !said.contains(&errno) {
                println!("{errno:?}");
                said.push(errno);
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// A debugger of its own stops a hog and lets it go on, over and over.
fn interrupted() -> Result<(), String> {
    let (_client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let owner = nix::unistd::getpid();
    if sys::fork().map_err(|error| error.to_string())?.is_some() {
        // A descendant may trace it.
        // SAFETY: concerns the calling process.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
        keep_busy(channel, LIFE);
        return Ok(());
    }
    channel.unmap_userd();
    trace(owner, libc::PTRACE_SEIZE, 0).map_err(|errno| format!("PTRACE_SEIZE: {errno}"))?;
    while stopped(owner, || Ok(())).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    sys::exit_now(0)
}

fn page_stored_to_by_ptrace_gains_nothing() -> Verdict {
    check("poke")
}

fn page_stored_to_by_proc_mem_gains_nothing() -> Verdict {
    check("write-mem")
}

fn owner_that_a_debugger_stops_gains_nothing() -> Verdict {
    check("interrupted")
}

fn debugger_stores_nothing_to_a_throttled_page() -> Verdict {
    // Kernels that were queued before the owner was throttled.
    const QUEUED: Duration = Duration::from_millis(50);
    for words in ["poke", "write-mem"] {
        let stage = Stage::set(&model(LAZY), "enforce=1")?;
        let mut program = Program::start(words)?;
        let line = program.line(SOON)?;
        let at = Mapped::parse(&line).ok_or(line)?;
        // With a dispatcher, the page never has an entry for a store of the kernel's.
        let throttles = dispatcher().is_none();
        if throttles {
            stage.wait_until_measured(program.pid())?;
            throttle(&stage, program.pid())?;
        }
        let refused = program.line(SOON)?;
        ensure!(refused == "EIO", "{words}: a store ended with {refused}");
        std::thread::sleep(QUEUED);
        let before = stage.client(program.pid())?.ok_or("no client")?;
        Truth::reset()?;
        std::thread::sleep(Duration::from_secs(1));
        let kernels = Truth::read()?.usage(program.pid()).commands;
        let after = stage.client(program.pid())?.ok_or("no client")?;
        println!("# {words}: {refused}, {kernels} kernels in a second");
        ensure!(
            !throttles
                || after.state == "throttled" && after.throttled_count == before.throttled_count,
            "it was not throttled all the time"
        );
        ensure!(kernels == 0, "{kernels} kernels of a throttled client");
        // One that reads makes one through which nothing is stored.
        ensure!(
            !throttles || !at.has_entry()?,
            "a debugger has made an entry"
        );
        drop(program);
        check_nothing_left(&stage)?;
        stage.teardown()?;
    }
    Ok(())
}
