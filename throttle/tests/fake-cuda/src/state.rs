// SPDX-License-Identifier: GPL-2.0

//! `[double]` What the library and its device remember, and the device's clock.

use crate::FIXED_NS;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::time::Instant;

/// The library, its device and the one context.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) initialized: bool,
    pub(crate) context: bool,
    pub(crate) stream: bool,
    pub(crate) ptx: String,
    /// When the device ends everything launched so far, in ns of its clock.
    pub(crate) free_ns: u64,
    /// What the stream got last, unless its owner has waited since.
    pub(crate) last: Last,
    /// Time that passed without anybody waiting for it, in ns.
    pub(crate) skipped_ns: u64,
    /// What was allocated, by its address.
    pub(crate) memory: BTreeMap<u64, Vec<u64>>,
    /// Rounds of the residency kernel, and how long they took by its timer.
    pub(crate) rounds: u64,
    pub(crate) rounds_ns: u64,
    /// Events by handle: when they happen, if they are recorded.
    pub(crate) events: BTreeMap<usize, Option<u64>>,
}

/// What a stream got last: what follows at once begins with its end, however long the host took from one
/// call to the next.
#[derive(Clone, Copy, Default)]
pub(crate) enum Last {
    #[default]
    Nothing,
    /// An event, which happens at this time.
    Event(u64),
    /// A kernel, which ends at `free_ns`.
    Kernel,
}

impl State {
    /// Queues a kernel that spins for this long.
    pub(crate) fn run(&mut self, spin_ns: u64) -> c_int {
        let mut length_ns = FIXED_NS + spin_ns;
        let launched_ns = match self.last {
            Last::Event(happens_ns) => happens_ns,
            Last::Nothing | Last::Kernel => self.now_ns(),
        };
        if self.free_ns > self.now_ns() {
            length_ns += length_ns * setting("FAKE_CUDA_STRETCH", 0) / 100;
        }
        self.free_ns = self.free_ns.max(launched_ns) + length_ns;
        self.last = Last::Kernel;
        0
    }

    /// Queues an event; when it happens.
    pub(crate) fn record(&mut self) -> u64 {
        let happens_ns = match self.last {
            Last::Kernel => self.free_ns,
            Last::Nothing | Last::Event(_) => self.free_ns.max(self.now_ns()),
        };
        self.last = Last::Event(happens_ns);
        happens_ns
    }

    /// The device's clock.
    pub(crate) fn now_ns(&self) -> u64 {
        host_ns() + self.skipped_ns
    }

    /// Lets the time pass until everything launched so far has ended.
    pub(crate) fn skip(&mut self) {
        self.skipped_ns += self.free_ns.saturating_sub(self.now_ns());
    }
}

/// A variable of the environment, if it can be read as that.
pub(crate) fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    let value = std::env::var(name).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The host's clock, since it was first read.
fn host_ns() -> u64 {
    static START: Mutex<Option<Instant>> = Mutex::new(None);
    let mut start = START
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let start = *start.get_or_insert_with(Instant::now);
    // CAST: centuries fit.
    start.elapsed().as_nanos() as u64
}
