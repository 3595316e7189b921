// SPDX-License-Identifier: GPL-2.0

//! `[glue]` How long threads that store to a page wait for their turn.

use crate::units::Ns;
use kernel::sync::atomic::{Atomic, Full, Relaxed};

/// Waits of the threads that store to one page, for the policy. While several wait, it is the time in
/// which any does. Calls that meet may leave out a part of the time since the last
/// [`take`](Self::take), or count all of it: it is an estimate.
pub(crate) struct TurnWaits {
    /// Threads that wait.
    sleepers: Atomic<i32>,
    /// Since when, in ns; not before the last [`take`](Self::take).
    since: Atomic<u64>,
    /// What was waited since then, in ns, and is over.
    waited: Atomic<u64>,
}

impl TurnWaits {
    pub(in crate::glue::gpu) const fn new() -> Self {
        Self {
            sleepers: Atomic::new(0),
            since: Atomic::new(0),
            waited: Atomic::new(0),
        }
    }

    /// A thread begins to wait. Any context.
    pub(crate) fn begin(&self, now: Ns) {
        if self.sleepers.fetch_add(1, Full) == 0 {
            self.since.store(now.get(), Relaxed);
        }
    }

    /// It waits no longer. Any context.
    pub(crate) fn end(&self, now: Ns) {
        let since = self.since.load(Relaxed);
        if self.sleepers.fetch_add(-1, Full) == 1 {
            self.waited
                .fetch_add(now.get().saturating_sub(since), Relaxed);
        }
    }

    /// Whether a thread waits. Any context.
    pub(in crate::glue::gpu) fn any(&self) -> bool {
        self.sleepers.load(Relaxed) != 0
    }

    /// What was waited since the last call. Any context.
    pub(in crate::glue::gpu) fn take(&self, now: Ns) -> Ns {
        let over = match self.waited.load(Relaxed) {
            0 => 0,
            _ => self.waited.xchg(0, Full),
        };
        let under_way = match self.any() {
            false => 0,
            true => now.get().saturating_sub(self.since.xchg(now.get(), Full)),
        };
        Ns::new(over.saturating_add(under_way))
    }
}
