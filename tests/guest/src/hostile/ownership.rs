// SPDX-License-Identifier: GPL-2.0

//! [tool] Programs that try to hide from LoGA which process owns a running channel: each must be
//! charged what it used, and get no more than a plain hog.
//!
//! Every program keeps kernels of [`KERNEL_US`] queued for as long as it lives, next to a client
//! that never pauses either.

use super::{branch, model, Program};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{client_of, Stage, FINE, LAZY};
use crate::truth::Truth;
use loga::rm as abi;
use loga::rm::nr;
use nix::sys::wait::WaitStatus;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::plan::Engine;
use throttle::rm::{Client, ReadyToMap};
use throttle::standin::open_channels;
use throttle::sys::{Mapping, Visibility};
use throttle::{rm, sys};

crate::ktap::tests![
    sibling_slot_of_a_mapped_page_is_charged: timed,
    decoy_that_maps_and_ends_changes_no_owner: timed,
    scapegoat_that_maps_too_is_not_charged: timed,
    relay_of_fresh_processes_owes_what_they_used: timed,
    queue_without_a_mapping_is_charged: timed,
    second_control_file_changes_no_owner: timed,
    forged_free_changes_no_owner: timed,
    mapping_outlives_its_process_and_is_throttled: timed,
];

/// The tests of `make test`.
pub(super) const QUICK: &[crate::ktap::Test] = &[TESTS[0], TESTS[3], TESTS[4], TESTS[7]];

/// The programs of this file.
pub(super) const PROGRAMS: &[(&str, super::Act)] = &[
    ("plain", |_| plain()),
    ("sibling", |_| sibling()),
    ("decoy", |_| decoy(false)),
    ("scapegoat", |_| decoy(true)),
    ("relay", |_| relay()),
    ("unmap", |_| unmap()),
    ("ctl2", |_| ctl2()),
    ("forge", |_| forge()),
    ("orphan", |_| orphan()),
];

/// Length of a hog's kernels.
const KERNEL_US: u64 = 1000;
/// Kernels that a program keeps queued.
const DEPTH: u32 = 4;
/// Time of a measurement.
pub(super) const WINDOW: Duration = Duration::from_millis(6000);
/// The same for a program that queues 60 ms at once: the share of a window is exact to a few
/// times 60 ms.
const LONG_WINDOW: Duration = Duration::from_millis(24_000);
/// Before that.
const WARM_UP: Duration = Duration::from_millis(700);
/// TIMEOUT: no program of this file lives longer.
pub(super) const LIFE: Duration = Duration::from_secs(60);
/// Parameters of LoGA.
const ENFORCING: &str = "enforce=1 accounting=sparse randomize=1";

/// Shares of the GPU in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// By the model's log, of the hostile process and its children.
    pub(super) used: f64,
    /// What LoGA charged to all clients but the victim.
    charged: f64,
    /// What LoGA charged to no client.
    unknown: f64,
}

/// Runs a program next to a client of 100 us kernels, and returns what each side saw.
pub(super) fn measure(program: &str, window: Duration) -> Result<Figures, String> {
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), ENFORCING)?;
    let other = Load::start("--kernel-us 100 --depth 4 --wait block --channels 1")?;
    let mut hostile = Program::start(program)?;
    std::thread::sleep(WARM_UP);
    Truth::reset()?;
    let stat = stage.stat_during(window)?;
    let truth = Truth::read()?;
    ensure!(
        hostile.runs()?,
        "{program} ended before the figures were taken"
    );
    let share = |stat: &loga_cli::stat::Stat, pid| {
        client_of(stat, pid)
            .and_then(|client| client.share)
            .unwrap_or(0.0)
    };
    let all: f64 = stat
        .clients
        .iter()
        .filter_map(|client| client.share)
        .sum::<f64>();
    let used: f64 = truth
        .pids()
        .filter(|pid| *pid != other.pid())
        .map(|pid| truth.ran_share(pid))
        .sum();
    let figures = Figures {
        used: 100.0 * used,
        charged: 100.0 * (all - share(&stat, other.pid())),
        unknown: 100.0 * stat.unknown.unwrap_or(0.0),
    };
    println!(
        "# {program}: used {:.1} %, charged {:.1} %, unknown {:.1} %; the other {:.1} % (charged {:.1} %)",
        figures.used,
        figures.charged,
        figures.unknown,
        100.0 * truth.ran_share(other.pid()),
        100.0 * share(&stat, other.pid())
    );
    drop(hostile);
    drop(other);
    stage.teardown()?;
    Ok(figures)
}

/// What the plain hog gets, measured once.
pub(super) fn baseline() -> Result<Figures, String> {
    static PLAIN: OnceLock<Result<Figures, String>> = OnceLock::new();
    PLAIN.get_or_init(|| measure("plain", WINDOW)).clone()
}

/// Checks that a program is charged what it used, and gets no more than the plain hog.
fn check(program: &str) -> Verdict {
    check_for(program, WINDOW)
}

/// As [`check`], with a measurement of `window`.
fn check_for(program: &str, window: Duration) -> Verdict {
    let plain = baseline()?;
    let figures = measure(program, window)?;
    ensure!(
        figures.unknown < 0.5,
        "{program}: {:.1} % of the time is unknown",
        figures.unknown
    );
    ensure!(
        (figures.used - figures.charged).abs() <= 2.0,
        "{program} used {:.1} % and was charged {:.1} %",
        figures.used,
        figures.charged
    );
    ensure!(
        figures.used <= plain.used + 1.0,
        "{program} got {:.1} %, the plain hog {:.1} %",
        figures.used,
        plain.used
    );
    Ok(())
}

fn sibling_slot_of_a_mapped_page_is_charged() -> Verdict {
    check("sibling")
}

fn decoy_that_maps_and_ends_changes_no_owner() -> Verdict {
    check("decoy")
}

fn scapegoat_that_maps_too_is_not_charged() -> Verdict {
    check("scapegoat")
}

fn relay_of_fresh_processes_owes_what_they_used() -> Verdict {
    if branch() != 340 {
        return check("relay");
    }
    // On that driver only the process that allocated the channel can map its page.
    let stage = Stage::set(&model(&format!("{LAZY} {FINE}")), ENFORCING)?;
    let ended = Program::start("relay")?.finish();
    ensure!(
        ended.as_ref().is_err_and(|reason| reason.contains(REFUSED)),
        "a child has mapped the page of its parent, or failed before: {ended:?}"
    );
    stage.teardown()
}

fn queue_without_a_mapping_is_charged() -> Verdict {
    check_for("unmap", LONG_WINDOW)
}

fn second_control_file_changes_no_owner() -> Verdict {
    check("ctl2")
}

fn forged_free_changes_no_owner() -> Verdict {
    check("forge")
}

fn mapping_outlives_its_process_and_is_throttled() -> Verdict {
    check("orphan")
}

/// A client with channels.
pub(super) fn open(channels: u32, depth: u32) -> Result<(Client, Vec<Channel>), String> {
    let mut client = Client::open(0).map_err(text)?;
    let channels = open_channels(&mut client, channels, depth, Engine::Compute).map_err(text)?;
    Ok((client, channels))
}

fn first(channels: &mut [Channel]) -> Result<&mut Channel, String> {
    channels.first_mut().ok_or_else(|| "no channel".to_string())
}

/// Prepares the submission page of a channel for mapping through a file of its own.
pub(super) fn ready(client: &Client, channel: &Channel) -> Result<ReadyToMap, String> {
    let path = rm::gpu_path(client.gpu());
    client
        .prepare_map(channel.handle(), abi::PAGE_SIZE, &path)
        .map_err(text)
}

fn map(ready: &ReadyToMap) -> Result<Mapping, String> {
    ready.map(Visibility::Shared).map_err(text)
}

/// Keeps kernels queued for some time.
pub(super) fn keep_busy(channel: &mut Channel, time: Duration) {
    let since = Instant::now();
    while since.elapsed() < time {
        let under_way = channel.sequence().wrapping_sub(channel.completed());
        if under_way < DEPTH {
            channel.prepare(KERNEL_US * 1000, false);
            channel.submit();
        } else {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// The plain hog.
fn plain() -> Result<(), String> {
    let (_client, mut channels) = open(1, DEPTH)?;
    keep_busy(first(&mut channels)?, LIFE);
    Ok(())
}

/// Submits to a channel through the page of its neighbour: its own is not mapped.
fn sibling() -> Result<(), String> {
    let (client, mut channels) = open(2, DEPTH)?;
    let linear = ready(&client, &channels[1])?.linear;
    channels[1].unmap_userd();
    let page = map(&ready(&client, &channels[0])?)?;
    channels[1].use_userd(page, linear);
    keep_busy(&mut channels[1], LIFE);
    Ok(())
}

/// A forked child maps the submission page too; it ends, or stays and sleeps.
fn decoy(stays: bool) -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let ready = ready(&client, first(&mut channels)?)?;
    first(&mut channels)?.use_userd(map(&ready)?, ready.linear);
    if sys::fork().map_err(|error| error.to_string())?.is_none() {
        let page = map(&ready);
        if stays {
            std::thread::sleep(LIFE);
        }
        sys::exit_now(i32::from(page.is_err()));
    }
    keep_busy(first(&mut channels)?, LIFE);
    Ok(())
}

/// What the relay prints if a child may not map the page of its parent.
const REFUSED: &str = "a child could not map";

/// A fresh process maps the page of a fresh channel and submits, one after the other.
fn relay() -> Result<(), String> {
    const TURN: Duration = Duration::from_millis(50);
    const CHANNELS: u32 = 240;
    const _: () = assert!(
        TURN.as_millis() * CHANNELS as u128 > WARM_UP.as_millis() + WINDOW.as_millis(),
        "it ends before the figures are taken"
    );
    let (client, mut channels) = open(CHANNELS, DEPTH)?;
    for channel in &mut channels {
        channel.unmap_userd();
    }
    for channel in &mut channels {
        let ready = ready(&client, channel)?;
        match sys::fork().map_err(|error| error.to_string())? {
            Some(pid) => {
                let pid = nix::unistd::Pid::from_raw(pid);
                let status = nix::sys::wait::waitpid(pid, None);
                let status = status.map_err(|errno| errno.to_string())?;
                if !matches!(status, WaitStatus::Exited(_, 0)) {
                    println!("{REFUSED}");
                    return Err(format!("a child ended with {status:?}"));
                }
            }
            None => {
                let page = map(&ready);
                let mapped = page.is_ok();
                if let Ok(page) = page {
                    channel.use_userd(page, ready.linear);
                    keep_busy(channel, TURN);
                }
                sys::exit_now(i32::from(!mapped));
            }
        }
    }
    Ok(())
}

/// Queues many kernels with one store, and has no page mapped while they run.
fn unmap() -> Result<(), String> {
    const QUEUE: u32 = 60;
    let (client, mut channels) = open(1, QUEUE)?;
    let channel = first(&mut channels)?;
    channel.unmap_userd();
    let since = Instant::now();
    while since.elapsed() < LIFE {
        for _ in 0..QUEUE {
            channel.prepare(KERNEL_US * 1000, false);
        }
        let ready = ready(&client, channel)?;
        channel.use_userd(map(&ready)?, ready.linear);
        channel.submit();
        channel.unmap_userd();
        while channel.completed() != channel.sequence() {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
}

/// Has the mapping prepared through a second control file, then closes that file.
fn ctl2() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = first(&mut channels)?;
    channel.unmap_userd();
    let second = rm::open_node(rm::CTL_PATH).map_err(text)?;
    let ready = prepare_through(&second, &client, channel)?;
    channel.use_userd(map(&ready)?, ready.linear);
    drop(second);
    keep_busy(channel, LIFE);
    Ok(())
}

/// As [`ready`], through this control file.
pub(super) fn prepare_through(
    ctl: &File,
    client: &Client,
    channel: &Channel,
) -> Result<ReadyToMap, String> {
    let file = rm::open_node(&rm::gpu_path(client.gpu())).map_err(text)?;
    let version = rm::check_version(ctl).map_err(text)?;
    let by_physical = version.version.starts_with(b"340.");
    let map = abi::MapMemory {
        client: client.root(),
        device: client.device(),
        memory: channel.handle(),
        length: abi::PAGE_SIZE,
        ..Default::default()
    };
    let answer = if by_physical {
        let mut arg = map;
        sys::call(ctl.as_fd(), nr::MAP_MEMORY, &mut arg, &mut (), |_, _| ()).map(|()| arg)
    } else {
        let mut arg = abi::MapMemoryFd {
            map,
            fd: file.as_raw_fd(),
            pad: 0,
        };
        sys::call(ctl.as_fd(), nr::MAP_MEMORY, &mut arg, &mut (), |_, _| ()).map(|()| arg.map)
    };
    let map = answer.map_err(|error| error.to_string())?;
    ensure!(map.status == 0, "MAP_MEMORY: RM status {:#x}", map.status);
    Ok(ReadyToMap {
        file,
        linear: map.linear,
        length: abi::PAGE_SIZE,
        offset: if by_physical {
            map.linear - map.linear % abi::PAGE_SIZE
        } else {
            0
        },
    })
}

/// The outer structure of a call in words, as two threads see it: command and size, address.
type Outer = [AtomicU64; 2];

/// Long calls of the driver; meanwhile another thread turns their argument into an RM_FREE of
/// the program's own channel.
fn forge() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = first(&mut channels)?;
    let free: &'static abi::Free = Box::leak(Box::new(abi::Free {
        root: client.root(),
        parent: client.device(),
        object: channel.handle(),
        status: 0,
    }));
    let outer: &'static Outer = Box::leak(Box::default());
    let inside: &'static AtomicBool = Box::leak(Box::default());
    std::thread::spawn(move || loop {
        if inside.swap(false, Ordering::AcqRel) {
            std::thread::sleep(Duration::from_micros(100));
            point(outer, nr::FREE, free);
        }
        std::thread::sleep(Duration::from_micros(50));
    });
    std::thread::spawn(move || call_slowly(&client, outer, inside));
    keep_busy(channel, LIFE);
    Ok(())
}

/// Makes a call of a structure.
fn point<T>(outer: &Outer, number: u32, argument: &T) {
    outer[1].store(std::ptr::from_ref(argument) as u64, Ordering::SeqCst);
    let size = size_of::<T>() as u64;
    outer[0].store(u64::from(number) | size << 32, Ordering::SeqCst);
}

/// Has the driver allocate much memory in a loop; announces each call.
fn call_slowly(client: &Client, outer: &'static Outer, inside: &AtomicBool) {
    const BYTES: u64 = 8 << 20;
    let request = abi::request(nr::XFER_CMD, size_of::<abi::Xfer>());
    for handle in 0x7000_0001.. {
        let memory = Box::new(abi::AllocMemoryFd {
            memory: abi::AllocMemory {
                root: client.root(),
                parent: client.device(),
                handle,
                class: abi::class::MEMORY_SYSTEM,
                limit: BYTES - 1,
                ..Default::default()
            },
            fd: -1,
            pad: 0,
        });
        point(outer, nr::ALLOC_MEMORY, &*memory);
        inside.store(true, Ordering::Release);
        // SAFETY: the structure has the length that the request says; it and what it points to
        // live until the end of the call.
        unsafe {
            nix::libc::ioctl(
                client.ctl().as_raw_fd(),
                request.into(),
                std::ptr::from_ref(outer),
            )
        };
        // The memory exists only if the driver saw the original argument.
        let _ = client.free(client.device(), handle);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process that mapped the page ends; a child that it forked goes on submitting.
fn orphan() -> Result<(), String> {
    let (_client, mut channels) = open(1, DEPTH)?;
    if sys::fork().map_err(|error| error.to_string())?.is_some() {
        sys::exit_now(0);
    }
    keep_busy(first(&mut channels)?, LIFE);
    Ok(())
}

fn text(error: throttle::error::Error) -> String {
    error.to_string()
}
