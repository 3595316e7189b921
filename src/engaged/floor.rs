// SPDX-License-Identifier: GPL-2.0

//! [pure] Floor: what no priority takes from the other clients.
//!
//! Rule: of the clients without a reserve, one that has waited for [`STARVED`] passes before those
//! of a higher priority, while the account has anything left. The account earns a twentieth of all
//! time, [`MOST`] at most, and pays what those submissions use.
//!
//! Bound: all that pass this way use at most a twentieth of any window, [`MOST`], and one
//! submission more. If their submissions fit into that, none of `n` clients waits for longer than
//! [`STARVED`] and the submissions of all. A client with a reserve is never passed over: what was
//! promised is kept.
//!
//! A client that waits for protected work, with a reserve or without, passes by the same rule.

use super::unsigned;
use crate::units::{signed, Ns};

/// How long a client waits before it passes first.
pub const STARVED: Ns = Ns::from_ms(1_000);
/// Most that the account has.
const MOST: Ns = Ns::from_ms(50);
/// Part of the time that it earns.
const PART: u64 = 20;

/// The account.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Floor {
    /// What it had then, in ns; negative if it owes some.
    left: i64,
    at: Ns,
}

impl Floor {
    /// Whether it has anything left.
    pub(super) fn has(&self, now: Ns) -> bool {
        self.left(now) > 0
    }

    /// From when on it has anything, if it pays nothing until then.
    pub(super) fn from(&self, now: Ns) -> Ns {
        let owed = unsigned(self.left(now).saturating_neg()).get();
        let earns = owed.saturating_add(1).saturating_mul(PART);
        if self.has(now) {
            now
        } else {
            now.saturating_add(Ns::new(earns))
        }
    }

    /// Pays what a submission used.
    pub(super) fn pay(&mut self, now: Ns, used: Ns) {
        self.left = self.left(now).saturating_sub(signed(used));
        self.at = now;
    }

    fn left(&self, now: Ns) -> i64 {
        let earned = Ns::new(now.saturating_sub(self.at).get() / PART);
        self.left.saturating_add(signed(earned)).min(signed(MOST))
    }
}
