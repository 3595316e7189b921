// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Which GPUs get no new pods: a pure state machine over what their programs waited.
//!
//! A GPU is *closed* when its programs together waited for more than [`CLOSE`] of the last 30 s, and
//! opens when that was below [`OPEN`], or unknown, for as long as it is *held*: [`HOLD`], and twice
//! as long as the last time, up to [`HOLD_MAX`], each time that it is closed again within two holds
//! of its opening. So load that goes where the signal sends it, and makes the signal, changes the
//! signal less and less often.
//!
//! At most half of a node's GPUs are closed, those first that are closed already, then those whose
//! programs waited most. A GPU counts while it was heard of within [`HOLD`]; so a node that falls
//! silent has no closed GPU after that time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Waiting above which a GPU is closed, in millionths of the window.
pub const CLOSE: u64 = 300_000;
/// Waiting below which it is calm.
pub const OPEN: u64 = 150_000;
/// How long it is calm before it opens, at least.
pub const HOLD: Duration = Duration::from_secs(60);
/// How long at most.
pub const HOLD_MAX: Duration = Duration::from_secs(16 * 60);
/// A GPU that was not heard of for so long is forgotten.
const FORGET: Duration = Duration::from_secs(3_600);

/// A GPU: the name of its node, and its minor there.
pub type Key = (String, u32);

/// What is known about one GPU.
#[derive(Clone, Debug)]
struct Gpu {
    closed: bool,
    /// What its programs waited.
    waited: u64,
    /// When it was heard of last.
    heard: Duration,
    /// Since when it is calm.
    calm: Option<Duration>,
    /// When it opened last.
    opened: Option<Duration>,
    /// How long it has to be calm.
    hold: Duration,
}

impl Gpu {
    fn new(now: Duration) -> Self {
        Self {
            closed: false,
            waited: 0,
            heard: now,
            calm: None,
            opened: None,
            hold: HOLD,
        }
    }

    fn close(&mut self, now: Duration) {
        let again = self
            .opened
            .is_some_and(|opened| now.saturating_sub(opened) <= self.hold.saturating_mul(2));
        self.hold = match again {
            true => self.hold.saturating_mul(2).min(HOLD_MAX),
            false => HOLD,
        };
        self.closed = true;
    }

    fn open(&mut self, now: Duration) {
        self.closed = false;
        self.opened = Some(now);
    }
}

/// All GPUs that were heard of.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    gpus: BTreeMap<Key, Gpu>,
}

impl Gates {
    /// Takes what the programs of each GPU waited, in millionths of the window, and returns the
    /// GPUs that are closed. GPUs without an opinion are left out. `now` is the time since some
    /// start.
    pub fn step(&mut self, waited: &BTreeMap<Key, u64>, now: Duration) -> BTreeSet<Key> {
        for (key, waited) in waited {
            let gpu = self
                .gpus
                .entry(key.clone())
                .or_insert_with(|| Gpu::new(now));
            gpu.heard = now;
            gpu.waited = *waited;
        }
        for (key, gpu) in &mut self.gpus {
            if !waited.contains_key(key) {
                gpu.waited = 0;
            }
            gpu.calm = (gpu.waited < OPEN).then(|| gpu.calm.unwrap_or(now));
            let calm = gpu
                .calm
                .is_some_and(|since| now.saturating_sub(since) >= gpu.hold);
            if gpu.closed && calm {
                gpu.open(now);
            }
        }
        self.gpus
            .retain(|_, gpu| now.saturating_sub(gpu.heard) < FORGET);
        let nodes: BTreeSet<String> = self.gpus.keys().map(|key| key.0.clone()).collect();
        for node in &nodes {
            self.bound(node, now);
        }
        let closed = self.gpus.iter().filter(|(_, gpu)| gpu.closed);
        closed.map(|(key, _)| key.clone()).collect()
    }

    /// Closes GPUs of a node whose programs wait, and opens those that are more than half of it.
    fn bound(&mut self, node: &str, now: Duration) {
        let first = (node.to_string(), u32::MIN);
        let last = (node.to_string(), u32::MAX);
        let mut gpus: Vec<&mut Gpu> = self.gpus.range_mut(first..=last).map(|one| one.1).collect();
        let known = gpus
            .iter()
            .filter(|gpu| now.saturating_sub(gpu.heard) < HOLD);
        let most = known.count() / 2;
        gpus.sort_by_key(|gpu| std::cmp::Reverse((gpu.closed, gpu.waited)));
        for (at, gpu) in gpus.into_iter().enumerate() {
            match (gpu.closed, at < most) {
                (true, false) => gpu.open(now),
                (false, true) if gpu.waited > CLOSE => gpu.close(now),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
