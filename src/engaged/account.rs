// SPDX-License-Identifier: GPL-2.0

//! [pure] An account of GPU time that earns a part of all time.

use super::unsigned;
use crate::units::{signed, Ns};

/// An account that earns a `PART`th of all time, `MOST_MS` at most, and owes `OWES_MS` at most.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account<const PART: u64, const MOST_MS: u64, const OWES_MS: u64> {
    /// What it had then, in ns; negative if it owes some.
    left: i64,
    at: Ns,
}

impl<const PART: u64, const MOST_MS: u64, const OWES_MS: u64> Account<PART, MOST_MS, OWES_MS> {
    /// Whether it has anything left.
    pub(super) fn has(&self, now: Ns) -> bool {
        self.left(now) > 0
    }

    /// Whether it owes any.
    pub(super) fn owes(&self, now: Ns) -> bool {
        self.left(now) < 0
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
        let owes = signed(Ns::from_ms(OWES_MS)).saturating_neg();
        self.left = self.left(now).saturating_sub(signed(used)).max(owes);
        self.at = now;
    }

    fn left(&self, now: Ns) -> i64 {
        let earned = now.saturating_sub(self.at).get().checked_div(PART);
        let earned = signed(Ns::new(earned.unwrap_or(0)));
        self.left
            .saturating_add(earned)
            .min(signed(Ns::from_ms(MOST_MS)))
    }
}
