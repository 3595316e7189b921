// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What throttled processes used of a period.

use crate::units::Ns;

/// What throttled processes used of a period, which is charged to them one to one.
#[derive(Clone, Copy, Debug)]
pub struct Direct {
    /// Of the polling phase.
    pub polled: Ns,
    /// Of both phases.
    pub all: Ns,
}

impl Direct {
    /// Nothing.
    pub(super) const NONE: Self = Self {
        polled: Ns::ZERO,
        all: Ns::ZERO,
    };

    /// Adds what a process used, if it was throttled: `all` is known then.
    pub(super) fn add(&mut self, polled: Ns, all: Option<Ns>) {
        if let Some(all) = all {
            self.polled = self.polled.saturating_add(polled);
            self.all = self.all.saturating_add(all);
        }
    }

    /// The rest of a polling phase and of its period.
    pub(super) fn without(&self, poll: Ns, span: Ns) -> (Ns, Ns) {
        (
            poll.saturating_sub(self.polled),
            span.saturating_sub(self.all),
        )
    }
}
