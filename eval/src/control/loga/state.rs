// SPDX-License-Identifier: GPL-2.0

//! What LoGA remembers of its scans and of its samples between polling phases.

use loga::account::residue::Residue;
use loga::policies::PolicyKind;

/// State of scans.
pub(super) struct Scans {
    /// End of the scan that has begun.
    pub(super) ends: Option<u64>,
    /// Whether no client is throttled in free runs, because decisions are not to be carried out.
    pub(super) evened: bool,
    /// Whether submissions are trapped while a client is watched.
    pub(super) traps: bool,
    /// Whether a client is watched.
    pub(super) watches: bool,
    /// How many times the weight of a client counts on its processor while it runs alone.
    pub(super) cpu_boost: u64,
    /// Commands submitted and completed, and time on a processor, up to the last scan, by client.
    pub(super) counted: Vec<(u64, u64, u64)>,
}

impl Scans {
    pub(super) fn new(policy: PolicyKind, enforce: bool, traps: bool, clients: usize) -> Self {
        let samples = policy == PolicyKind::Sampling;
        Self {
            ends: None,
            evened: samples && !enforce,
            traps: samples && traps,
            watches: false,
            cpu_boost: 1,
            counted: vec![(0, 0, 0); clients],
        }
    }
}

/// Samples between polling phases.
pub(super) struct Residues {
    pub(super) residue: Residue,
    /// When the next one is due.
    pub(super) next: Option<u64>,
    /// Samples are taken in this non-polling phase.
    pub(super) samples: bool,
    /// What the last samples found is in the state of the GPU.
    pub(super) noted: bool,
}

impl Residues {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            residue: Residue::new(seed),
            next: None,
            samples: false,
            noted: false,
        }
    }

    /// Whether samples were noted for the decision that is due.
    pub(super) fn take_noted(&mut self) -> bool {
        std::mem::take(&mut self.noted)
    }
}
