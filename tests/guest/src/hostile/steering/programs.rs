// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The programs that run outside polling phases, or steer when LoGA polls and decides.
//!
//! | program | does |
//! |---|---|
//! | `hog MS` | 1 ms kernels back to back: what the others are compared with |
//! | `dodge WAY MS` | the same, only while it believes that the poller does not poll; WAY is `flag` (of the snapshot), `counters` (those that a decision changes) or `thread` (the poller's state in `/proc`) |
//! | `deep COUNT MS` | one store of COUNT kernels, then as `hog` |
//! | `spin CPU MS` | as `hog`, and its processor is the poller's, which it never leaves while a kernel runs |
//! | `bomb THREADS MS` | as `hog`, with THREADS threads that never sleep |
//! | `churn CHANNELS MS` | maps and unmaps the page of its last channel in a loop |
//! | `many CHANNELS MS` | allocates and maps CHANNELS channels, and uses one |

use super::{Running, AFTER_DECISION, CHANNELS, DEEPEST, KERNEL};
use crate::busy::pin;
use crate::threads;
use loga::uapi;
use loga_cli::device::Device;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use throttle::channel::Channel;
use throttle::plan::Engine;
use throttle::rm::Client;
use throttle::standin::open_channels;

pub(in crate::hostile) const PROGRAMS: &[(&str, super::super::Act)] = &[
    ("hog", hog),
    ("dodge", dodge),
    ("deep", deep),
    ("spin", spin),
    ("bomb", bomb),
    ("churn", churn),
    ("many", many),
];

pub(super) fn number(arguments: &[String], at: usize) -> Result<u64, String> {
    let word = arguments.get(at).ok_or("a number is missing")?;
    word.parse().map_err(|_| format!("{word}: not a number"))
}

/// A client with one channel or more, and its end.
struct Hostile {
    // The channels go first.
    channels: Vec<Channel>,
    client: Client,
    since: Instant,
    lasts: Duration,
}

impl Hostile {
    pub(super) fn open(channels: u64, depth: u32, ms: u64) -> Result<Self, String> {
        let channels = u32::try_from(channels).map_err(|error| error.to_string())?;
        let mut client = Client::open(0).map_err(|error| error.to_string())?;
        let channels = open_channels(&mut client, channels, depth, Engine::Compute)
            .map_err(|error| error.to_string())?;
        Ok(Hostile {
            channels,
            client,
            since: Instant::now(),
            lasts: Duration::from_millis(ms),
        })
    }

    pub(super) fn goes_on(&self) -> bool {
        self.since.elapsed() < self.lasts
    }

    pub(super) fn first(&mut self) -> Result<&mut Channel, String> {
        self.channels.first_mut().ok_or_else(|| "no channel".into())
    }

    /// Commands of the first channel that have not ended.
    pub(super) fn under_way(&mut self) -> Result<u32, String> {
        let channel = self.first()?;
        Ok(channel.sequence().wrapping_sub(channel.completed()))
    }

    /// Submits `count` kernels with one store.
    pub(super) fn submit(&mut self, count: u32) -> Result<(), String> {
        let channel = self.first()?;
        for _ in 0..count {
            // CAST: a millisecond.
            channel.prepare(KERNEL.as_nanos() as u64, false);
        }
        channel.submit();
        Ok(())
    }

    /// Keeps two kernels in the queue until the end.
    pub(super) fn keep_busy(&mut self) -> Result<(), String> {
        self.keep(2, || Ok(true))
    }

    /// Keeps `depth` kernels in the queue until the end, whenever `may` returns true.
    pub(super) fn keep(
        &mut self,
        depth: u32,
        mut may: impl FnMut() -> Result<bool, String>,
    ) -> Result<(), String> {
        while self.goes_on() {
            if self.under_way()? < depth && may()? {
                self.submit(1)?;
            } else {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }
}

fn hog(arguments: &[String]) -> Result<(), String> {
    Hostile::open(CHANNELS, 3, number(arguments, 0)?)?.keep_busy()
}

fn deep(arguments: &[String]) -> Result<(), String> {
    let count = u32::try_from(number(arguments, 0)?).unwrap_or(u32::MAX);
    let mut hostile = Hostile::open(1, DEEPEST, number(arguments, 1)?)?;
    hostile.submit(count.min(DEEPEST))?;
    hostile.keep_busy()
}

fn dodge(arguments: &[String]) -> Result<(), String> {
    let way = arguments.first().map(String::as_str);
    let mut hostile = Hostile::open(CHANNELS, 3, number(arguments, 1)?)?;
    let device = Device::open().map_err(|error| error.to_string())?;
    let snapshot = || device.snapshot(0).map_err(|error| error.to_string());
    // Assumes a non-polling phase of this length after polling seemed to end.
    let mut ended = Instant::now();
    match way {
        Some("flag") => hostile.keep(1, || {
            let info = snapshot()?.info;
            let polls = info.flags & uapi::GPU_POLLING != 0;
            if polls {
                ended = Instant::now();
            }
            // The last phase predicts the length of this one; a command must end within it.
            let known = Duration::from_nanos(info.last_nonpoll_ns);
            let lasts = known.saturating_sub(4 * KERNEL).max(AFTER_DECISION);
            Ok(!polls && ended.elapsed() < lasts)
        }),
        Some("counters") => {
            let mut last = None;
            hostile.keep(1, || {
                let seen = snapshot()?;
                let own = seen.clients.first().copied().unwrap_or_default();
                let info = seen.info;
                let now = (
                    (info.decisions, info.polled_ns, info.t_sys_ns),
                    (
                        own.gpu_time_ns,
                        own.vtime_ns,
                        own.entitled_ns,
                        own.waited_ns,
                    ),
                );
                if last.replace(now) != Some(now) {
                    ended = Instant::now();
                }
                Ok(ended.elapsed() < AFTER_DECISION)
            })
        }
        Some("thread") => {
            let poller = thread("loga-poll")?;
            hostile.keep(1, || {
                let polls = Running::of(poller)?.now;
                if polls {
                    ended = Instant::now();
                }
                Ok(!polls && ended.elapsed() < AFTER_DECISION)
            })
        }
        other => Err(format!("{other:?}: no such way to dodge")),
    }
}

fn spin(arguments: &[String]) -> Result<(), String> {
    let cpu = usize::try_from(number(arguments, 0)?).unwrap_or(usize::MAX);
    let mut hostile = Hostile::open(1, 3, number(arguments, 1)?)?;
    pin(0, cpu).map_err(|error| error.to_string())?;
    while hostile.goes_on() {
        // Without a pause, which would let the poller run.
        if hostile.under_way()? < 2 {
            hostile.submit(1)?;
        }
    }
    Ok(())
}

fn bomb(arguments: &[String]) -> Result<(), String> {
    let threads = number(arguments, 0)?;
    let mut hostile = Hostile::open(1, 3, number(arguments, 1)?)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let builder = std::thread::Builder::new().stack_size(32 << 10);
            builder
                .spawn_scoped(scope, || {
                    while !done.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
                .map_err(|error| error.to_string())?;
        }
        let result = hostile.keep_busy();
        done.store(true, Ordering::Relaxed);
        result
    })
}

fn churn(arguments: &[String]) -> Result<(), String> {
    let mut hostile = Hostile::open(number(arguments, 0)?, 3, number(arguments, 1)?)?;
    let mut rounds = 0u64;
    while hostile.goes_on() {
        let (channels, client) = (&mut hostile.channels, &hostile.client);
        let channel = channels.last_mut().ok_or("no channel")?;
        channel.unmap_userd();
        channel
            .map_userd(client)
            .map_err(|error| error.to_string())?;
        rounds += 1;
    }
    println!("{rounds}");
    Ok(())
}

fn many(arguments: &[String]) -> Result<(), String> {
    Hostile::open(number(arguments, 0)?, 3, number(arguments, 1)?)?.keep_busy()
}

/// Process id of the kernel thread with this name.
pub(super) fn thread(name: &str) -> Result<i32, String> {
    let found = threads::named(name)?;
    let first = found.first().map(|thread| thread.pid);
    first.ok_or_else(|| format!("no thread {name}"))
}
