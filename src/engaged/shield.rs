// SPDX-License-Identifier: GPL-2.0

//! [pure] Shield: what keeps the others from the engine while a protected client uses it.
//!
//! A protected client ([`Mode::Free`](super::Mode::Free)) is not stopped: its submissions cost it
//! nothing. The caller says when work of such clients is there and when it has ended. The others
//! pass only while none is there, and not before `linger` has passed since the last one ended, in
//! case more is on its way.
//!
//! While the caller does not know whether work is there, none of the others passes.
//!
//! Bound: a protected submission waits for `HT_DEPTH` commands of one other client at most (one
//! under PRT), as under `prio`, plus the time until it is seen. Without a reserve of their own, the
//! others get what it leaves, and what the [`floor`](super::floor) gives to those that have waited for
//! too long; `linger` takes up to that much of each of its pauses from them.

use crate::units::Ns;

/// Longest time for which the engine is kept idle after protected work.
pub const MAX_LINGER: Ns = Ns::from_ms(5);

/// Protected work of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shield {
    /// Whether some is there.
    busy: bool,
    /// Whether that is not known just now.
    doubtful: bool,
    /// When it last ended, if there was any.
    ended: Option<Ns>,
    linger: Ns,
}

impl Shield {
    /// Keeps the engine idle so long after protected work, at most [`MAX_LINGER`].
    pub(super) fn set_linger(&mut self, linger: Ns) {
        self.linger = linger.min(MAX_LINGER);
    }

    /// Protected work is there from now on, or none is.
    pub(super) fn note(&mut self, now: Ns, busy: bool) {
        if self.busy && !busy {
            self.ended = Some(now);
        }
        (self.busy, self.doubtful) = (busy, false);
    }

    /// Whether protected work is there is not known until it is noted.
    pub(super) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// From when on others may pass; nothing while protected work is there, or may be.
    pub(super) fn from(&self) -> Option<Ns> {
        let lingers = |ended: Ns| ended.saturating_add(self.linger);
        let is_idle = !self.busy && !self.doubtful;
        is_idle.then(|| self.ended.map_or(Ns::ZERO, lingers))
    }

    /// Whether no other may pass now.
    pub(super) fn is_shut(&self, now: Ns) -> bool {
        self.from().is_none_or(|from| from > now)
    }
}
