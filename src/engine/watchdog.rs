// SPDX-License-Identifier: GPL-2.0

//! `[pure]` When all clients are let run against the decision, and why.

use super::{Engine, Fallback};
use crate::units::Ns;

/// Deadlines may be missed by this much while a client is throttled. The main
/// thread is an ordinary thread on a machine that may be busy.
pub const MAX_LATE: Ns = Ns::from_ms(2_000);
/// A client may be throttled for this long while every check finds the GPU idle.
pub const MAX_IDLE_THROTTLE: Ns = Ns::from_ms(2_000);

impl Engine {
    /// Notes a check of the GPU outside polling phases: whether it had no work at all.
    pub fn note_idle(&mut self, now: Ns, idle: bool) {
        self.idle_since = match self.idle_since {
            _ if !idle => None,
            None => Some(now),
            since => since,
        };
    }

    /// Whether all clients have to be released at once. To be called from outside the main thread,
    /// every few hundred milliseconds, while a client is throttled.
    ///
    /// Returns the reason once; from then on the engine counts no client as throttled.
    pub fn watchdog(&mut self, now: Ns) -> Option<Fallback> {
        if self.throttled == 0 {
            return None;
        }
        // After a change of policy the deadline of the scan is in the past.
        let deadline = self.next_deadline().filter(|_| !self.stages.changed());
        let late = deadline.map_or(Ns::ZERO, |deadline| now.saturating_sub(deadline));
        let idle = self
            .idle_since
            .map_or(Ns::ZERO, |since| now.saturating_sub(since));
        if late > MAX_LATE {
            self.fall_back(Fallback::Late { by: late });
        } else if idle > MAX_IDLE_THROTTLE {
            self.fall_back(Fallback::IdleThrottle { lasting: idle });
        } else {
            return None;
        }
        self.last_fallback
    }

    /// Counts a fallback, and notes its reason.
    pub(super) fn fall_back(&mut self, reason: Fallback) {
        self.throttled = 0;
        self.stats.fallbacks = self.stats.fallbacks.saturating_add(1);
        self.last_fallback = Some(reason);
    }
}
