// SPDX-License-Identifier: GPL-2.0

//! [glue] What decisions and gates cost, and what LoGA keeps per client and channel:
//! `/sys/kernel/debug/loga/costs`, for benchmarks. Not a stable interface.

use crate::engine::ClientState;
use crate::glue::driver::hook;
use crate::glue::driver::mapping;
use crate::glue::gpu::books::{Owner, Page};
use crate::glue::gpu::gate::Gate;
use crate::share::{Group, Member};
use crate::track::pages::SLOTS;
use crate::units::Ns;
use kernel::c_str;
use kernel::debugfs::{Dir, File};
use kernel::fmt;
use kernel::prelude::*;

/// Samples kept.
const KEPT: usize = 256;

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
        samples.extend_with(KEPT, 0, GFP_KERNEL)?;
        Ok(Self { samples, seen: 0 })
    }

    pub(crate) fn add(&mut self, took: Ns) {
        if let Some(sample) = self.samples.get_mut(self.seen % KEPT) {
            *sample = u32::try_from(took.get()).unwrap_or(u32::MAX);
        }
        self.seen = self.seen.wrapping_add(1);
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The oldest first.
        let (newer, older) = self
            .samples
            .split_at_checked(self.seen % KEPT)
            .unwrap_or_default();
        let kept = Iterator::chain(older.iter(), newer);
        for sample in kept.skip(KEPT.saturating_sub(self.seen)) {
            write!(f, " {sample}")?;
        }
        writeln!(f)
    }
}

/// The file, while this lives.
#[pin_data]
pub(crate) struct Costs {
    _dir: Dir,
    #[pin]
    _costs: File<()>,
}

impl Costs {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let dir = Dir::new(c_str!("loga"));
        try_pin_init!(Self {
            _costs <- dir.read_callback_file(c_str!("costs"), (), &write_costs),
            _dir: dir,
        })
    }
}

fn write_costs(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Each has room for a group that lingers, beside its own.
    let group = size_of::<Group>() + size_of::<ClientState>();
    let client = size_of::<Member>() + 2 * group + size_of::<Owner>();
    let channel = (size_of::<Page>() + size_of::<Gate>()) / SLOTS + mapping::MAPPING_BYTES;
    writeln!(f, "client_bytes {client}")?;
    writeln!(f, "channel_bytes {channel}")?;
    let Some(tracker) = hook::tracker() else {
        return Ok(());
    };
    for gpu in tracker.gpus() {
        // Not while the books are locked: the main thread needs them to end the phase.
        let looked = gpu.phase.lock().looked;
        let books = gpu.books.lock();
        for (what, took) in [
            ("revoke_ns", &books.revoke_took),
            ("restore_ns", &books.restore_took),
            ("decide_ns", &books.decide_took),
            ("start_ns", &books.start_took),
        ] {
            write!(f, "gpu{} {what}", gpu.index)?;
            took.write(f)?;
        }
        let (spent, late) = (looked.spent.get(), looked.late.get());
        writeln!(
            f,
            "gpu{} looks {} spent_ns {spent} late_ns {late}",
            gpu.index, looked.looks
        )?;
    }
    Ok(())
}
