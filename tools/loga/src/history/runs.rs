// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Runs of programs, from snapshots that are taken again and again and from events between
//! them.
//!
//! When a client exits, its event has the GPU time of the whole run; how long it waited comes from
//! the last snapshot and goes on at the rate of the last two seconds until the exit, and so does for
//! how long it copied. A run between two snapshots has no such figures: its GPU time counts, and its
//! length only if nothing else wanted the GPU at the last snapshot and it was never throttled. If events were lost, a client that is
//! gone counts with the figures of its last snapshot.

use super::record::{Conditions, Run};
use super::table::{Exe, Key};
use crate::control::Snapshot;
use loga::fair::mul_div;
use loga::placement::PPM;
use loga::uapi;
use loga::uapi::Event;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds of events that [`RunTracker::event`] takes.
pub const EVENTS: u64 =
    1 << uapi::EVENT_APPEARED | 1 << uapi::EVENT_THROTTLED | 1 << uapi::EVENT_EXITED;

/// Most clients that are followed at a time.
const CLIENTS_MAX: usize = 8192;
/// The hard limit of a client without one.
const NO_LIMIT: u32 = 100;

/// An executable, and the name that was given to the program.
pub type Program = (Exe, String);

/// A run that has ended, with its program.
pub type Ended = (Key, Run);

/// What is known of a GPU.
#[derive(Clone, Debug, Default)]
struct Gpu {
    chip: u32,
    policy: String,
    /// Whether its copy engine is measured.
    copies: bool,
    /// Whether some client wanted it.
    wanted: bool,
}

/// A client that has not exited.
#[derive(Clone, Debug)]
struct Live {
    uid: u32,
    since_ns: u64,
    program: Option<Program>,
    /// The last snapshot of it, and when that was.
    last: Option<(uapi::Client, u64)>,
    /// Nothing once they changed.
    under: Option<Conditions>,
    /// Whether it may have waited before its first snapshot.
    held: bool,
    /// Whether the last snapshot lacked it.
    missing: bool,
}

/// The clients of all GPUs.
#[derive(Clone, Debug, Default)]
pub struct RunTracker {
    gpus: BTreeMap<u32, Gpu>,
    live: BTreeMap<(u32, u64), Live>,
    /// Number of the next event.
    next: Option<u64>,
    /// Events were lost since the last snapshot.
    lost: bool,
}

impl RunTracker {
    /// An event. `program` says what a process of a user runs.
    pub fn event(
        &mut self,
        event: &Event,
        program: &mut impl FnMut(i32, u32) -> Option<Program>,
    ) -> Option<Ended> {
        self.lost |= self.next.is_some_and(|next| next != event.sequence);
        self.next = Some(event.sequence.saturating_add(1));
        let id = (event.gpu, event.client);
        match event.kind {
            uapi::EVENT_APPEARED if self.live.len() < CLIENTS_MAX => {
                let gpu = self.gpus.get(&event.gpu);
                let live = Live {
                    uid: event.uid,
                    since_ns: event.time_ns,
                    program: program(event.pid, event.uid),
                    last: None,
                    under: gpu.map(|gpu| Conditions {
                        policy: gpu.policy.clone(),
                        limit_pct: NO_LIMIT,
                        idle: false,
                    }),
                    held: gpu.is_none_or(|gpu| gpu.wanted),
                    missing: false,
                };
                self.live.entry(id).or_insert(live);
            }
            uapi::EVENT_THROTTLED => {
                if let Some(live) = self.live.get_mut(&id) {
                    live.held = true;
                }
            }
            uapi::EVENT_EXITED => {
                let live = self.live.remove(&id)?;
                return self.ended(event.gpu, live, Some((event.time_ns, event.value)));
            }
            _ => {}
        }
        None
    }

    /// A snapshot of a GPU. Returns runs that ended without an event.
    pub fn snapshot(
        &mut self,
        snapshot: &Snapshot,
        program: &mut impl FnMut(i32, u32) -> Option<Program>,
    ) -> Vec<Ended> {
        let info = &snapshot.info;
        let config = info.config();
        let policy = if config.enforce {
            config.policy.name().to_string()
        } else {
            String::new()
        };
        let gpu = Gpu {
            chip: info.chipset,
            policy,
            copies: info.flags & uapi::GPU_COPIES != 0,
            wanted: info.wanting > 0,
        };
        let mut there = BTreeSet::new();
        for client in &snapshot.clients {
            there.insert(client.id);
            let under = Conditions {
                policy: gpu.policy.clone(),
                limit_pct: client.limit_pct,
                idle: client.class == uapi::CLASS_IDLE,
            };
            let id = (snapshot.gpu, client.id);
            if !self.live.contains_key(&id) && self.live.len() >= CLIENTS_MAX {
                continue;
            }
            let live = self.live.entry(id).or_insert_with(|| Live {
                uid: client.uid,
                since_ns: client.since_ns,
                program: None,
                last: None,
                under: Some(under.clone()),
                held: false,
                missing: false,
            });
            if live.last.is_none() {
                // What an event assumed was not seen.
                live.under = Some(under.clone());
            } else if live.under.as_ref() != Some(&under) {
                live.under = None;
            }
            live.program = live
                .program
                .take()
                .or_else(|| program(client.pid, client.uid));
            live.last = Some((*client, info.now_ns));
            live.missing = false;
        }
        self.gpus.insert(snapshot.gpu, gpu);
        let gone: Vec<u64> = self.gone(snapshot.gpu, &there);
        let lost = self.lost;
        let mut ended = Vec::new();
        for client in gone {
            let Some(mut live) = self.live.remove(&(snapshot.gpu, client)) else {
                continue;
            };
            if lost || live.missing {
                // The event was lost, or there never was one.
                ended.extend(lost.then(|| self.ended(snapshot.gpu, live, None)).flatten());
            } else {
                // Its event may still be under way.
                live.missing = true;
                self.live.insert((snapshot.gpu, client), live);
            }
        }
        ended
    }

    fn gone(&self, gpu: u32, there: &BTreeSet<u64>) -> Vec<u64> {
        let own = self.live.range((gpu, 0)..=(gpu, u64::MAX));
        // A client that only an event has told of may be younger than the snapshot.
        let gone = own.filter(|((_, id), live)| live.last.is_some() && !there.contains(id));
        gone.map(|((_, id), _)| *id).collect()
    }

    /// All GPUs were seen since events were lost.
    pub fn caught_up(&mut self) {
        self.lost = false;
    }

    /// What is followed ends unseen: the kernel module does not answer.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// The subscription is new: its events count from 0.
    pub fn subscribed(&mut self) {
        self.next = None;
        self.lost = !self.live.is_empty();
    }

    /// Running clients of a user: GPU, client and program.
    pub fn of(&self, uid: u32) -> impl Iterator<Item = (u32, u64, &Program)> {
        let own = self.live.iter().filter(move |(_, live)| live.uid == uid);
        own.filter_map(|((gpu, client), live)| Some((*gpu, *client, live.program.as_ref()?)))
    }

    /// The run of a client that exited at this time with this GPU time, or was not there any more.
    fn ended(&self, gpu: u32, live: Live, exit: Option<(u64, u64)>) -> Option<Ended> {
        let gpu = self.gpus.get(&gpu)?;
        let (exe, name) = live.program?;
        let last = live.last.as_ref();
        let (end_ns, gpu_ns) =
            exit.or_else(|| last.map(|(client, at_ns)| (*at_ns, client.gpu_time_ns)))?;
        // A time of the last snapshot, as it goes on until the end.
        let until_end = |time_ns: fn(&uapi::Client) -> u64, ppm: fn(&uapi::Client) -> u32| {
            let (client, at_ns) = last?;
            let more = mul_div(end_ns.saturating_sub(*at_ns), ppm(client).into(), PPM);
            Some(time_ns(client).saturating_add(more))
        };
        let copied = until_end(|client| client.copy_time_ns, |client| client.copy_2s_ppm);
        let copy_ns = copied.filter(|copied| gpu.copies || *copied > 0);
        // A program that never ran says nothing.
        if gpu_ns == 0 && copy_ns.unwrap_or(0) == 0 {
            return None;
        }
        let there_ns = end_ns.saturating_sub(live.since_ns);
        let waited = until_end(|client| client.waited_ns, |client| client.waited_2s_ppm)
            .or_else(|| (last.is_none() && !live.held).then_some(0));
        let run = Run {
            chip: gpu.chip,
            gpu_ns,
            copy_ns,
            // Sparse accounting measures none.
            command_ns: last.and_then(|(client, _)| client.measured_ns.checked_div(client.runs)),
            there: waited.map(|waited_ns| (there_ns, waited_ns)),
            under: live.under,
        };
        let uid = live.uid;
        Some((Key { uid, exe, name }, run))
    }
}
