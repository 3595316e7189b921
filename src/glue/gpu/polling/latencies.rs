// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Durations of the last operations of each kind.

use crate::units::Ns;
use kernel::fmt;
use kernel::prelude::*;

/// Samples kept.
const LATENCIES: usize = 256;

/// The last durations of one operation.
pub(crate) struct Latencies {
    samples: KVec<u32>,
    seen: usize,
}

impl Latencies {
    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let mut samples = KVec::new();
        samples.extend_with(LATENCIES, 0, GFP_KERNEL)?;
        Ok(Self { samples, seen: 0 })
    }

    /// Adds one.
    pub(crate) fn add(&mut self, took: Ns) {
        if let Some(sample) = self.samples.get_mut(self.seen % LATENCIES) {
            *sample = u32::try_from(took.get()).unwrap_or(u32::MAX);
        }
        self.seen = self.seen.wrapping_add(1);
    }

    /// Writes the kept samples on one line, oldest first.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (newer, older) = self
            .samples
            .split_at_checked(self.seen % LATENCIES)
            .unwrap_or_default();
        let kept = Iterator::chain(older.iter(), newer);
        for sample in kept.skip(LATENCIES.saturating_sub(self.seen)) {
            write!(f, " {sample}")?;
        }
        writeln!(f)
    }
}

/// Durations of operations on one GPU.
pub(crate) struct Took {
    /// Decisions, and beginnings of polling phases.
    pub(crate) decide: Latencies,
    pub(crate) start: Latencies,
    /// Turning the gates of a client.
    pub(crate) revoke: Latencies,
    pub(crate) restore: Latencies,
    /// Deciding on a store, and ending its window.
    pub(crate) enter: Latencies,
    pub(crate) close: Latencies,
}

impl Took {
    /// None yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(in crate::glue::gpu) fn new() -> Result<Self> {
        Ok(Self {
            decide: Latencies::new()?,
            start: Latencies::new()?,
            revoke: Latencies::new()?,
            restore: Latencies::new()?,
            enter: Latencies::new()?,
            close: Latencies::new()?,
        })
    }
}
