// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The programs that try to get past the decisions on submissions.
//!
//! Most have kernels of [`KERNEL_US`] for as long as they live, at nice 19; `ghost` and `phantom` have
//! none. The last ones of the list are not nice: `plain-turns` has kernels of [`HOG_US`], `tiny` of
//! [`TINY_US`], `stores` has none.

use super::super::ownership::{open, ready, LIFE};
use crate::ktap::ensure;
use nix::errno::Errno;
use nix::libc;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};
use throttle::channel::{Channel, Layout, Share};
use throttle::plan::Engine;
use throttle::rm::Client;
use throttle::standin::open_channels;
use throttle::sys::{Mapping, Visibility};

pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("late", |_| late(Engine::Compute)),
    ("late-copy", |_| late(Engine::Copy)),
    ("acquire", |_| acquire()),
    ("disabled", |_| disabled()),
    ("full", |_| full()),
    ("full-anew", |_| full_anew()),
    ("around", |_| around()),
    ("threads", |_| threads()),
    ("ghost", |_| ghost()),
    ("phantom", |_| phantom()),
    ("forged", |_| forged()),
    ("overflow", |_| overflow()),
    ("plain-turns", |_| one_at_a_time(HOG_US)),
    ("tiny", |_| one_at_a_time(TINY_US)),
    ("stores", |_| stores()),
    ("stores-anew", |_| anew("stores", FRESH)),
];

/// Length of a hog's kernels.
pub(super) const KERNEL_US: u64 = 1000;
/// Kernels that `late` has room for: it submits one after the other.
const DEPTH: u32 = 1;
/// Kernels that `acquire` and `disabled` queue with one store.
const QUEUE: u32 = 300;
/// Kernels with which `full` keeps its ring filled.
const RING: u32 = 3000;
/// Kernels that `around` submits with two stores: as many as the least ring has entries.
pub(super) const AROUND: u32 = 64;
/// Length of a kernel of `plain-turns`, and of its victim, and of one of `tiny`.
pub(super) const HOG_US: u64 = 2000;
const TINY_US: u64 = 10;
/// How long a process of `stores-anew` lives: a few turns beside kernels of [`HOG_US`].
const FRESH: Duration = Duration::from_millis(100);
/// How long each channel of `phantom` lives: the turn of a client is overdue after 2 s.
const PHANTOM: Duration = Duration::from_millis(1900);
/// Channels of `overflow` that rest for as long as it lives: as many of a client are noted.
const RESTING: u32 = 16;
/// Threads of `threads`.
const THREADS: u32 = 3000;
/// Offset in a page of the last slot, of a channel that `threads` does not have.
const LAST_SLOT: usize = 7 * 512;
/// How long a store that passes is seen within.
const SEEN: Duration = Duration::from_millis(2);
/// Pause between two looks at a channel.
const PAUSE: Duration = Duration::from_micros(200);

/// The lowest priority, for all threads that it will have.
fn be_nice() -> Result<(), String> {
    Errno::clear();
    // SAFETY: concerns the calling thread; a failure shows in errno.
    unsafe { libc::nice(19) };
    let errno = Errno::last();
    ensure!(errno == Errno::from_raw(0), "nice: {errno}");
    Ok(())
}

/// A channel that is not mapped, with room for so many commands.
fn alloc(client: &mut Client, depth: u32) -> Result<Channel, String> {
    let layout = Layout::for_depth(depth);
    let memory = Rc::new(client.alloc_memory(layout.length).map_err(text)?);
    let share = Share { memory, start: 0 };
    let device = client.device();
    Channel::alloc(client, device, share, layout, Engine::Compute).map_err(text)
}

/// Submits to a channel that was allocated after its page had been mapped, through a mapping made
/// for another one, which computes or copies.
fn late(first: Engine) -> Result<(), String> {
    be_nice()?;
    let mut client = Client::open(0).map_err(text)?;
    let mut before = open_channels(&mut client, 1, DEPTH, first).map_err(text)?;
    let before = before.first_mut().ok_or("no channel")?;
    let page = ready(&client, before)?
        .map(Visibility::Shared)
        .map_err(text)?;
    before.prepare(1000, false);
    before.submit();
    let mut channel = alloc(&mut client, DEPTH)?;
    let linear = ready(&client, &channel)?.linear;
    channel.use_userd(page, linear);
    client.schedule(channel.handle(), true).map_err(text)?;
    submit_one_at_a_time(&mut channel, KERNEL_US);
    Ok(())
}

/// Says once that something is queued in a channel that has never had anything, and does no more.
fn ghost() -> Result<(), String> {
    be_nice()?;
    let (_client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    channel.store_get(1);
    std::thread::sleep(LIFE);
    Ok(())
}

/// The same in a fresh channel again and again, each freed before others pass beside it.
fn phantom() -> Result<(), String> {
    be_nice()?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let (_client, mut channels) = open(1, DEPTH)?;
        let channel = channels.first_mut().ok_or("no channel")?;
        channel.store_get(1);
        std::thread::sleep(PHANTOM);
    }
    Ok(())
}

/// Has as many channels that rest as are noted, and does the same as `acquire` in one more.
fn overflow() -> Result<(), String> {
    be_nice()?;
    let (_client, mut channels) = open(RESTING + 1, QUEUE)?;
    let (last, resting) = channels.split_last_mut().ok_or("no channel")?;
    for channel in resting {
        channel.prepare_held(KERNEL_US * 1000);
        channel.submit();
    }
    release_later(last);
    Ok(())
}

/// Queues many kernels that wait for a semaphore, and releases it when their turn has ended.
fn acquire() -> Result<(), String> {
    be_nice()?;
    let (_client, mut channels) = open(1, QUEUE)?;
    release_later(channels.first_mut().ok_or("no channel")?);
    Ok(())
}

fn release_later(channel: &mut Channel) {
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let held = channel.prepare_held(KERNEL_US * 1000);
        for _ in 1..QUEUE {
            channel.prepare(KERNEL_US * 1000, false);
        }
        channel.submit();
        std::thread::sleep(SEEN);
        channel.release(held);
        wait_for_all(channel);
    }
}

/// Queues many kernels in a disabled channel, and enables it when their turn has ended.
fn disabled() -> Result<(), String> {
    disabled_where(|_| ())
}

/// The same, with indices that say that nothing is queued.
fn forged() -> Result<(), String> {
    disabled_where(|channel| {
        let entries = channel.depth_max() + 1;
        channel.store_get(channel.sequence() % entries);
    })
}

/// Queues many kernels in a disabled channel, does something to it, and enables it when their turn
/// has ended.
fn disabled_where(and: fn(&Channel)) -> Result<(), String> {
    be_nice()?;
    let (client, mut channels) = open(1, QUEUE)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        client.schedule(channel.handle(), false).map_err(text)?;
        for _ in 0..QUEUE {
            channel.prepare(KERNEL_US * 1000, false);
        }
        channel.submit();
        and(channel);
        std::thread::sleep(SEEN);
        client.schedule(channel.handle(), true).map_err(text)?;
        wait_for_all(channel);
    }
    Ok(())
}

/// Keeps its ring filled with more work than any turn may last.
fn full() -> Result<(), String> {
    be_nice()?;
    let (_client, mut channels) = open(1, RING)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let under_way = channel.sequence().wrapping_sub(channel.completed());
        for _ in under_way..RING {
            channel.prepare(KERNEL_US * 1000, false);
        }
        if under_way < RING {
            channel.submit();
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// A fresh process with a full ring after the other: each ends when others pass beside it.
fn full_anew() -> Result<(), String> {
    anew("full", Duration::from_millis(2500))
}

/// A fresh process of another program after the other, each for this time.
fn anew(program: &str, each: Duration) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let mut command = Command::new(&own);
        let mut child = command
            .args(["hostile", program])
            .spawn()
            .map_err(|error| error.to_string())?;
        std::thread::sleep(each);
        child.kill().map_err(|error| error.to_string())?;
        child.wait().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Fills its ring but for one entry, and when the first command has been fetched, the last entry too:
/// GP_PUT is then where it was before.
fn around() -> Result<(), String> {
    be_nice()?;
    let (_client, mut channels) = open(1, AROUND - 1)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    ensure!(channel.depth_max() == AROUND - 1, "a ring of another size");
    let since = Instant::now();
    while since.elapsed() < LIFE {
        let before = channel.sequence() % AROUND;
        for _ in 0..AROUND {
            channel.prepare(KERNEL_US * 1000, false);
        }
        channel.store_put((before + AROUND - 1) % AROUND);
        let at = Instant::now();
        while channel.get() == Some(before) && at.elapsed() < SEEN {}
        channel.store_put(before);
        wait_for_all(channel);
    }
    Ok(())
}

/// Many threads store to a slot without a channel, in the page through which another submits.
fn threads() -> Result<(), String> {
    be_nice()?;
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let (_page, slot) = last_slot(&client, channel)?;
    for _ in 0..THREADS {
        let builder = std::thread::Builder::new().stack_size(32 << 10);
        let store = move || loop {
            // SAFETY: the page stays mapped as long as the process lives, and the word is in a slot
            // that no channel has.
            unsafe { std::ptr::without_provenance_mut::<u32>(slot).write_volatile(0) };
            std::thread::sleep(PAUSE);
        };
        builder.spawn(store).map_err(|error| error.to_string())?;
    }
    submit_one_at_a_time(channel, KERNEL_US);
    Ok(())
}

/// A client that does so, see [`submit_one_at_a_time`].
fn one_at_a_time(kernel_us: u64) -> Result<(), String> {
    let (_client, mut channels) = open(1, DEPTH)?;
    submit_one_at_a_time(channels.first_mut().ok_or("no channel")?, kernel_us);
    Ok(())
}

/// Submits one kernel of this length after the other.
fn submit_one_at_a_time(channel: &mut Channel, kernel_us: u64) {
    let since = Instant::now();
    while since.elapsed() < LIFE {
        channel.prepare(kernel_us * 1000, false);
        channel.submit();
        wait_for_all(channel);
    }
}

/// Stores all the time to a slot without a channel, and submits nothing.
fn stores() -> Result<(), String> {
    let (client, mut channels) = open(1, DEPTH)?;
    let channel = channels.first_mut().ok_or("no channel")?;
    let (_page, slot) = last_slot(&client, channel)?;
    let since = Instant::now();
    while since.elapsed() < LIFE {
        // SAFETY: the page is mapped, and the word is in a slot that no channel has.
        unsafe { std::ptr::without_provenance_mut::<u32>(slot).write_volatile(0) };
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Maps the page of a channel; the address of its last slot, in which there is none.
fn last_slot(client: &Client, channel: &Channel) -> Result<(Mapping, usize), String> {
    let page = ready(client, channel)?
        .map(Visibility::Shared)
        .map_err(text)?;
    let slot = page.address() + LAST_SLOT;
    Ok((page, slot))
}

fn wait_for_all(channel: &Channel) {
    while channel.completed() != channel.sequence() {
        std::thread::sleep(PAUSE);
    }
}

fn text(error: throttle::error::Error) -> String {
    error.to_string()
}
