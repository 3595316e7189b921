// SPDX-License-Identifier: GPL-2.0

//! `[pure]` When scans are due, for policies that work in stages.

use super::Config;
use crate::units::Ns;

/// When scans were and are due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stages {
    /// The last scan.
    pub(super) last: Option<Ns>,
    /// When the next one is due.
    pub(super) at: Ns,
    /// Since when all clients are throttled.
    pub(super) barrier_since: Option<Ns>,
    /// The policy was changed, or enforcement switched on: all clients are to be released.
    pub(super) changed: bool,
}

impl Stages {
    /// Begins anew, with a scan at once.
    pub(super) fn reset(&mut self) {
        *self = Self {
            changed: true,
            ..Self::default()
        };
    }

    /// Whether all clients are to be released.
    pub(super) fn changed(&self) -> bool {
        self.changed
    }

    /// When a scan is due.
    pub(super) fn due(&self, config: &Config) -> Option<Ns> {
        let wanted = self.changed || (config.enforce && config.policy.staged());
        wanted.then_some(self.at)
    }
}
