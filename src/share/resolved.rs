// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What holds for one process, of all that is set for it and around it.
//!
//! It names the entries of its limits by their numbers, and its coarse reserve by its position: it is to
//! be found anew after each change of the settings.

use super::setting::{Class, Limit, MAX_LEVELS};
use crate::units::Weight;

/// Most limits that a process is under: its own, those of the cgroups around it, its user's.
const MAX_LIMITS: usize = MAX_LEVELS + 2;

/// What holds for one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Its weight.
    pub weight: Weight,
    /// Its class.
    pub class: Class,
    /// The lowest limit that it is under.
    pub limit: Option<Limit>,
    /// Position of its coarse reserve.
    reserve: Option<u8>,
    /// Numbers of the entries of its limits; the first `count` of them.
    limits: [u16; MAX_LIMITS],
    count: u8,
}

impl Resolved {
    /// Whether it has a budget.
    pub const fn is_limited(&self) -> bool {
        self.limit.is_some() || self.reserve.is_some()
    }

    /// The percentage of a GPU that it may use.
    pub(super) fn cap(&self) -> u32 {
        self.limit.unwrap_or(Limit::NONE).get()
    }

    /// Position of its coarse reserve, if it follows one.
    pub(super) const fn reserve(&self) -> Option<u8> {
        self.reserve
    }

    /// It follows the coarse reserve at this position.
    pub(super) const fn set_reserve(&mut self, reserve: Option<u8>) {
        self.reserve = reserve;
    }

    /// Numbers of the entries of its limits.
    pub(super) fn limits(&self) -> impl Iterator<Item = u16> + '_ {
        self.limits.iter().take(self.count.into()).copied()
    }

    /// It is under the limit of the entry with this number, too.
    pub(super) fn push_limit(&mut self, number: u16, limit: Limit) {
        // It does not fail: the number of limits is bounded.
        if let Some(slot) = self.limits.get_mut(usize::from(self.count)) {
            *slot = number;
            self.count = self.count.saturating_add(1);
        }
        self.limit = self.limit.into_iter().chain(Some(limit)).min();
    }
}
