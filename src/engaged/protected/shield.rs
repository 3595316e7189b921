// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Shield: what keeps the others from the engine while a protected client uses it.
//!
//! A protected client ([`Mode::Protected`](crate::engaged::Mode::Protected)) is not stopped: its submissions cost it
//! nothing. The caller says when work of such clients is there and when it has ended. The others
//! pass only while none is there, and not before [`Linger`] has passed since the last one ended, in
//! case more is on its way. If that adapts, one whose next command is expected to last no longer
//! than a tenth of it passes at once: the protected client would hardly notice.
//!
//! While the caller does not know whether work is there, none of the others passes.
//!
//! Bound: a protected submission waits for `HT_DEPTH` commands of one other client at most (one
//! under PRT), as under `prio`, plus the time until it is seen. Without a reserve of their own, the
//! others get what it leaves, and what the floor (`allowance`) gives to those that have waited for
//! too long; [`Linger`] takes up to that much of each of its pauses from them.

use super::linger::Linger;
use crate::knobs::MAX_LINGER_US;
use crate::units::Ns;

/// Longest time for which the engine is kept idle after protected work.
// CAST: widens.
pub const MAX_LINGER: Ns = Ns::from_us(MAX_LINGER_US as u64);
/// Part of the time for which the engine is kept free that a command of another may last.
const SHORT: u64 = 10;

/// A pause of protected work.
#[derive(Clone, Copy, Debug)]
struct Pause {
    since: Ns,
    /// For how long the engine is kept free.
    kept: Ns,
    /// Whether another client waited when it began.
    noticed: bool,
}

/// Protected work of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shield {
    /// Whether some is there.
    busy: bool,
    /// Whether that is not known just now.
    doubtful: bool,
    /// The last one, if there was any.
    pause: Option<Pause>,
    linger: Linger,
}

impl Shield {
    /// Keeps the engine idle so long after protected work, at most [`MAX_LINGER`]; if it `adapts`,
    /// at most so long.
    pub(crate) fn set_linger(&mut self, length: Ns, adapts: bool) {
        self.linger.set(length.min(MAX_LINGER), adapts);
    }

    /// Protected work is there from now on, or none is. `waits`: another client waits.
    pub(crate) fn note(&mut self, now: Ns, busy: bool, waits: bool) {
        match (self.busy, busy) {
            (true, false) => {
                self.pause = Some(Pause {
                    since: now,
                    kept: self.linger.begin(now),
                    noticed: waits,
                });
            }
            (false, true) => {
                if let Some(pause) = self.pause.filter(|pause| pause.noticed) {
                    let length = now.saturating_sub(pause.since);
                    self.linger.end(now, length, pause.kept);
                }
            }
            _ => {}
        }
        (self.busy, self.doubtful) = (busy, false);
    }

    /// Whether protected work is there is not known until it is noted.
    pub(crate) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Whether a pause goes on whose end has to be seen, for its length to be known.
    pub(crate) fn learns(&self, now: Ns) -> bool {
        let learns_for = self.linger.learns_for();
        let pause = self.pause.filter(|pause| pause.noticed && !self.busy);
        pause.is_some_and(|pause| now.saturating_sub(pause.since) < learns_for)
    }

    /// From when on others may pass; nothing while protected work is there, or may be.
    pub(crate) fn from(&self) -> Option<Ns> {
        let lingers = |pause: Pause| pause.since.saturating_add(pause.kept);
        let is_idle = !self.busy && !self.doubtful;
        is_idle.then(|| self.pause.map_or(Ns::ZERO, lingers))
    }

    /// Whether no other may pass now, but for a short command.
    pub(crate) fn is_shut(&self, now: Ns) -> bool {
        self.from().is_none_or(|from| from > now)
    }

    /// Whether another may not pass now whose command is expected to last so long.
    pub(crate) fn holds(&self, now: Ns, expected: Ns) -> bool {
        let kept = self.pause.map_or(Ns::ZERO, |pause| pause.kept);
        let is_short = self.linger.adapts() && expected.saturating_mul(SHORT) <= kept;
        match self.from() {
            None => true,
            Some(from) => from > now && !is_short,
        }
    }
}
