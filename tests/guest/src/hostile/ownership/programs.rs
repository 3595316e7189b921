// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The programs that try to hide which process owns a running channel.
//!
//! Every program keeps kernels of [`KERNEL_US`] queued for as long as it lives, next to a client
//! that never pauses either.

use super::forging::forge;
use super::handing::flicker;
use super::{WARM_UP, WINDOW};
use crate::ktap::ensure;
use loga::rm as abi;
use loga::rm::{class, nr};
use nix::sys::wait::WaitStatus;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::plan::Engine;
use throttle::rm::{Client, ReadyToMap};
use throttle::standin::{open_channels, open_channels_in};
use throttle::sys::{Mapping, Visibility};
use throttle::{rm, sys};

/// The programs of this file.
pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("plain", |_| plain()),
    ("sibling", |_| sibling()),
    ("decoy", |_| decoy(false)),
    ("scapegoat", |_| decoy(true)),
    ("relay", |_| relay()),
    ("unmap", |_| unmap()),
    ("recycle", |_| recycle()),
    ("respawn", |_| respawn()),
    ("flicker", |_| flicker()),
    ("ctl2", |_| ctl2()),
    ("forge", |_| forge()),
    ("orphan", |_| orphan()),
    ("bequest", |_| bequest(false)),
    ("sleeper", |_| bequest(true)),
    ("group", |_| group()),
];

/// Length of a hog's kernels.
const KERNEL_US: u64 = 1000;
/// Kernels that a program keeps queued.
pub(super) const DEPTH: u32 = 4;
/// TIMEOUT: no program of this file lives longer.
pub(in crate::hostile) const LIFE: Duration = Duration::from_secs(60);
/// A client with channels.
pub(in crate::hostile) fn open(
    channels: u32,
    depth: u32,
) -> Result<(Client, Vec<Channel>), String> {
    let mut client = Client::open(0).map_err(text)?;
    let channels = open_channels(&mut client, channels, depth, Engine::Compute).map_err(text)?;
    Ok((client, channels))
}

pub(super) fn first(channels: &mut [Channel]) -> Result<&mut Channel, String> {
    channels.first_mut().ok_or_else(|| "no channel".to_string())
}

/// Prepares the submission page of a channel for mapping through a file of its own.
pub(in crate::hostile) fn ready(client: &Client, channel: &Channel) -> Result<ReadyToMap, String> {
    let path = rm::gpu_path(client.gpu());
    client
        .prepare_map(channel.handle(), abi::PAGE_SIZE, &path)
        .map_err(text)
}

fn map(ready: &ReadyToMap) -> Result<Mapping, String> {
    ready.map(Visibility::Shared).map_err(text)
}

/// Keeps kernels queued for some time.
pub(in crate::hostile) fn keep_busy(channel: &mut Channel, time: Duration) {
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
pub(super) const REFUSED: &str = "a child could not map";

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

/// Kernels that `unmap`, `bequest` and `sleeper` queue with one store.
const QUEUE: u32 = 60;

/// Queues many kernels with one store, and has no page mapped while they run.
fn unmap() -> Result<(), String> {
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

/// Takes fresh channels for each burst of kernels, and afterwards frees them before their pages are
/// unmapped: no phase ends while the page of a channel that ran in it exists.
fn recycle() -> Result<(), String> {
    const BURST: Duration = Duration::from_millis(25);
    // Those of a page: the driver lets no other process have a part of it.
    const CHANNELS: u32 = 8;
    let since = Instant::now();
    let mut current = open(CHANNELS, DEPTH)?;
    while since.elapsed() < LIFE {
        let (client, channels) = &mut current;
        let channel = first(channels)?;
        keep_busy(channel, BURST);
        while channel.completed() != channel.sequence() {
            std::thread::sleep(Duration::from_micros(200));
        }
        // Before the old ones are freed: the driver would hand out the same ones.
        let next = open(CHANNELS, DEPTH)?;
        for channel in channels.iter() {
            client
                .free(client.device(), channel.handle())
                .map_err(text)?;
        }
        channels.clear();
        current = next;
    }
    Ok(())
}

/// Each burst of kernels is that of a fresh process with a client of its own.
fn respawn() -> Result<(), String> {
    const BURST: Duration = Duration::from_millis(25);
    let since = Instant::now();
    while since.elapsed() < LIFE {
        match sys::fork().map_err(|error| error.to_string())? {
            Some(pid) => {
                let status = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
                status.map_err(|errno| errno.to_string())?;
            }
            None => {
                let ran = open(1, DEPTH).and_then(|(_client, mut channels)| {
                    let channel = first(&mut channels)?;
                    keep_busy(channel, BURST);
                    while channel.completed() != channel.sequence() {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                    Ok(())
                });
                sys::exit_now(i32::from(ran.is_err()));
            }
        }
    }
    Ok(())
}

/// As [`ready`], through this control file.
pub(in crate::hostile) fn prepare_through(
    ctl: &File,
    client: &Client,
    channel: &Channel,
) -> Result<ReadyToMap, String> {
    let file = rm::open_node(&rm::gpu_path(client.gpu())).map_err(text)?;
    prepare_file(file, ctl, client, channel)
}

/// As [`prepare_through`], for mapping through this file.
pub(in crate::hostile) fn prepare_file(
    file: File,
    ctl: &File,
    client: &Client,
    channel: &Channel,
) -> Result<ReadyToMap, String> {
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

/// The process that mapped the page ends; a child that it forked goes on submitting.
fn orphan() -> Result<(), String> {
    let (_client, mut channels) = open(1, DEPTH)?;
    if sys::fork().map_err(|error| error.to_string())?.is_some() {
        sys::exit_now(0);
    }
    keep_busy(first(&mut channels)?, LIFE);
    Ok(())
}

/// The channels are in a group: the status word of the GPU names the group, and no channel.
fn group() -> Result<(), String> {
    let mut client = Client::open(0).map_err(text)?;
    let device = client.device();
    let group = client.alloc(device, class::CHANNEL_GROUP_A, &mut ());
    let group = group.map_err(text)?;
    let mut channels =
        open_channels_in(&mut client, group, 2, DEPTH, Engine::Compute).map_err(text)?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        for channel in &mut channels {
            if channel.sequence().wrapping_sub(channel.completed()) < DEPTH / 2 {
                channel.prepare(KERNEL_US * 1000, false);
                channel.submit();
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Fresh processes queue kernels with one store and end; a child holds the control file until the
/// kernels have run, and maps nothing. With `disabled` the channel is disabled when the kernels are
/// queued, and the child enables it after its parent has ended.
fn bequest(disabled: bool) -> Result<(), String> {
    // Beside each other: a channel waits long before it is enabled.
    let lines = if disabled { 4 } else { 1 };
    for _ in 0..lines {
        if sys::fork().map_err(|error| error.to_string())?.is_none() {
            let since = Instant::now();
            while since.elapsed() < LIFE {
                let done = nix::unistd::pipe().map_err(|errno| errno.to_string())?;
                match sys::fork().map_err(|error| error.to_string())? {
                    Some(pid) => {
                        drop(done.1);
                        let status = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None);
                        status.map_err(|errno| errno.to_string())?;
                        // Ends with the last process that has the other end.
                        let mut nothing = [0];
                        let _ = nix::unistd::read(&done.0, &mut nothing);
                    }
                    None => sys::exit_now(i32::from(bequeath(disabled).is_err())),
                }
            }
            sys::exit_now(0);
        }
    }
    std::thread::sleep(LIFE);
    Ok(())
}

/// One process of [`bequest`], and its child.
fn bequeath(disabled: bool) -> Result<(), String> {
    /// Decisions that LoGA makes meanwhile: some.
    const SOME_DECISIONS: Duration = Duration::from_millis(200);
    let (client, mut channels) = open(1, QUEUE)?;
    let channel = first(&mut channels)?;
    if disabled {
        client.schedule(channel.handle(), false).map_err(text)?;
    }
    for _ in 0..QUEUE {
        channel.prepare(KERNEL_US * 1000, false);
    }
    channel.submit();
    if sys::fork().map_err(|error| error.to_string())?.is_some() {
        sys::exit_now(0);
    }
    channel.unmap_userd();
    if disabled {
        std::thread::sleep(SOME_DECISIONS);
        client.schedule(channel.handle(), true).map_err(text)?;
    }
    while channel.completed() != channel.sequence() {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

fn text(error: throttle::error::Error) -> String {
    error.to_string()
}
