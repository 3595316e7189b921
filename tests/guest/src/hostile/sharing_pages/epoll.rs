// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Hundreds of epoll instances that watch the nodes of a throttled client.

use super::super::bystander::Bystander;
use super::super::ownership::{open, LIFE};
use super::super::{model, Program};
use super::{check_nothing_left, SOON};
use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::sharing::{for_process, limit, set};
use crate::stage::{Stage, LAZY};
use loga::uapi;
use nix::errno::Errno;
use nix::libc;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use throttle::{rm, sys};

crate::ktap::tests![
    epoll_on_the_nodes_of_a_throttled_client_delays_nobody: timed,
];

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[("epoll", |_| epoll())];

/// Processes that watch, and the instances of each.
const WATCHERS: u32 = 4;
const INSTANCES: u32 = 100;
/// Files of `/dev/loga` that one user may listen with, and files that hear of completions.
const LISTENERS: u32 = 8;
const EVENTS: u32 = 4;
/// Events of each kind.
const ALL_KINDS: u64 = (1 << uapi::EVENT_KINDS) - 1;
/// Length of a hog's kernels, and how many it keeps queued: those of the plain hog.
const KERNEL_NS: u64 = 1_000_000;
const DEPTH: u32 = 4;
/// Wake-ups after which a watcher says so, and what it says.
const ENOUGH: u32 = 20;
const WOKEN: &str = "woken";

/// An instance that watches these files, and says each time that one can be read.
fn watch(files: &[i32]) -> Result<OwnedFd, Errno> {
    // SAFETY: a call without addresses.
    let instance = Errno::result(unsafe { libc::epoll_create1(0) })?;
    // SAFETY: the kernel has just opened it for this caller.
    let instance = unsafe { OwnedFd::from_raw_fd(instance) };
    for file in files {
        // CAST: flags.
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET) as u32,
            u64: 0,
        };
        let add = libc::EPOLL_CTL_ADD;
        // SAFETY: the structure lives until the end of the call.
        let added = unsafe { libc::epoll_ctl(instance.as_raw_fd(), add, *file, &raw mut event) };
        Errno::result(added)?;
    }
    Ok(instance)
}

/// Watches these files with all instances, and waits for one of these.
fn watch_all(files: &[i32]) -> Result<(), Errno> {
    let instances: Result<Vec<OwnedFd>, Errno> = (0..INSTANCES).map(|_| watch(files)).collect();
    let instances = instances?;
    let first = instances.first().ok_or(Errno::EINVAL)?.as_raw_fd();
    let since = Instant::now();
    let mut woken = 0;
    while since.elapsed() < LIFE {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: there is room for one event, which lives until the end of the call.
        let ready = unsafe { libc::epoll_wait(first, &raw mut event, 1, 1000) };
        woken += u32::try_from(Errno::result(ready)?).unwrap_or(0);
        if woken == ENOUGH {
            println!("{WOKEN}");
            woken += 1;
        }
    }
    Ok(())
}

/// A hog that listens, and hears of its completions; processes of it watch the files.
fn epoll() -> Result<(), String> {
    let (mut client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let mut listeners = Vec::new();
    let mut events = Vec::new();
    for _ in 0..LISTENERS {
        let calls = Calls::open()?;
        calls
            .subscribe(ALL_KINDS)
            .map_err(|errno| errno.to_string())?;
        listeners.push(calls);
    }
    for _ in 0..EVENTS {
        events.push(client.alloc_event().map_err(|error| error.to_string())?);
    }
    let files = listeners.iter().map(AsRawFd::as_raw_fd);
    let files: Vec<i32> = files.chain(events.iter().map(AsRawFd::as_raw_fd)).collect();
    for _ in 0..WATCHERS {
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            channel.unmap_userd();
            sys::exit_now(watch_all(&files).is_err().into());
        }
    }
    let since = Instant::now();
    while since.elapsed() < LIFE {
        if channel.sequence().wrapping_sub(channel.completed()) < DEPTH {
            channel.prepare(KERNEL_NS, true);
            channel.submit();
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
        for file in &events {
            // One that was not signalled has none.
            while rm::take_event(file).unwrap_or(false) {}
        }
        for calls in &listeners {
            calls.events()?;
        }
    }
    Ok(())
}

fn epoll_on_the_nodes_of_a_throttled_client_delays_nobody() -> Verdict {
    let stage = Stage::set(&model(LAZY), "enforce=1")?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let mut program = Program::start("epoll")?;
    for _ in 0..WATCHERS {
        let line = program.line(SOON)?;
        ensure!(line == WOKEN, "it said {line:?}");
    }
    // Policies do not throttle clients that wait for their turns.
    set(for_process(program.pid()), limit(20))?;
    let before = stage.wait_until_throttled(program.pid())?;
    let bystander = Bystander::open()?;
    let longest = bystander.watch(Duration::from_secs(2))?;
    let after = stage.client(program.pid())?.ok_or("no client")?;
    let throttled = after.throttled_count - before.throttled_count;
    println!("# {longest}; throttled {throttled} times meanwhile");
    ensure!(throttled > 0, "it was not throttled meanwhile");
    longest.check()?;
    drop((bystander, program, other));
    check_nothing_left(&stage)?;
    stage.teardown()
}
