// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Fading means and claims, as a snapshot has them.

use crate::account::fading::{percent, Means, Sums};
use crate::claims::Claimed;
use crate::uapi::{Client, Gpu};

impl Client {
    /// Its fading means.
    pub const fn means(&self) -> Means {
        Means {
            busy_2s: self.busy_2s_ppm,
            busy_30s: self.busy_30s_ppm,
            waited_2s: self.waited_2s_ppm,
            waited_30s: self.waited_30s_ppm,
            copied_2s: self.copy_2s_ppm,
            copied_30s: self.copy_30s_ppm,
        }
    }
}

impl Gpu {
    /// Notes the sums over all clients.
    pub fn note_sums(&mut self, sums: &Sums) {
        self.busy_2s_pct = percent(sums.busy_2s);
        self.busy_30s_pct = percent(sums.busy_30s);
        self.want_2s_pct = percent(sums.want_2s);
        self.want_30s_pct = percent(sums.want_30s);
        self.wanting = sums.wanting;
        self.copy_2s_pct = percent(sums.copied_2s);
        self.copy_30s_pct = percent(sums.copied_30s);
    }

    /// Notes what its claims count.
    pub fn note_claims(&mut self, claimed: &Claimed) {
        self.claims = claimed.count;
        self.claimed_pct = claimed.pct;
        self.claims_seen = claimed.seen;
    }
}
