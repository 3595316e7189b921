// SPDX-License-Identifier: GPL-2.0

//! [pure] Shield: what keeps the others from the engine while a protected client uses it.
//!
//! A protected client ([`Mode::Free`](super::Mode::Free)) is not stopped: its submissions cost it
//! nothing. The caller says when work of such clients is there and when it has ended. The others
//! pass only while none is there, and not before `linger` has passed since the last one ended, in
//! case more is on its way.
//!
//! Bound: a protected submission waits for `HT_DEPTH` commands of one other client at most (one
//! under PRT), as under `prio`, plus the time until it is seen. Without a reserve of their own, the
//! others get what it leaves; `linger` takes up to that much of each of its pauses from them.

use crate::units::Ns;

/// Longest time for which the engine is kept idle after protected work.
pub const MAX_LINGER: Ns = Ns::from_ms(5);

/// Protected work of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shield {
    /// Whether some is there.
    busy: bool,
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
        self.busy = busy;
    }

    /// From when on others may pass; nothing while protected work is there.
    pub(super) fn from(&self) -> Option<Ns> {
        let lingers = |ended: Ns| ended.saturating_add(self.linger);
        (!self.busy).then(|| self.ended.map_or(Ns::ZERO, lingers))
    }
}
