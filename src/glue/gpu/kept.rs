// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What stays of a GPU while LoGA is detached from the driver: its knobs, what is set for
//! processes, cgroups and users, and the totals of users and cgroups.
//!
//! Once LoGA is attached again, what is set for a process or a cgroup that is gone is forgotten. Sums of
//! the GPU and of its clients begin anew.

use super::device::bar::Address;
use super::Gpu;
use crate::engaged::{Row as Spec, SPECS};
use crate::glue::kernel::storage::common_storage;
use crate::knobs::Config;
use crate::share::{Entry, Kind, Row as Total, MAX_ROWS, MAX_SETTINGS};
use kernel::prelude::*;

/// What stays of one GPU.
pub(crate) struct Kept {
    address: Address,
    knobs: Config,
    settings: KVVec<Entry>,
    specs: KVVec<Spec>,
    totals: KVVec<Total>,
}

impl Kept {
    /// What stays of a GPU that is not followed any more, or whose threads have ended. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn of(gpu: &Gpu) -> Result<Self> {
        let mut settings = KVVec::with_capacity(MAX_SETTINGS, GFP_KERNEL)?;
        let mut specs = KVVec::with_capacity(SPECS, GFP_KERNEL)?;
        // One more row of each kind, for all subjects without a row of their own.
        let mut users = common_storage::<Total>(MAX_ROWS.saturating_add(1))?;
        let mut totals = common_storage::<Total>(MAX_ROWS.saturating_add(1))?;
        let mut books = gpu.books.lock();
        let knobs = *books.state.engine.config();
        // There is room for all of them.
        for entry in books.state.settings.all() {
            let _ = settings.push_within_capacity(*entry);
        }
        for (_, spec) in books.specs.table().all() {
            let _ = specs.push_within_capacity(*spec);
        }
        let table = books.state.shares.totals();
        let there = table.read(Kind::User, false, &mut users);
        users.truncate(there);
        let there = table.read(Kind::Cgroup, false, &mut totals);
        totals.truncate(there);
        drop(books);
        totals.extend_from_slice(&users, GFP_KERNEL)?;
        Ok(Self {
            address: gpu.device.address,
            knobs,
            settings,
            specs,
            totals,
        })
    }

    /// Whether it is of the GPU that sits there.
    pub(crate) fn is_of(&self, address: Address) -> bool {
        self.address == address
    }

    /// The knobs with which its GPU is followed again.
    pub(super) const fn knobs(&self) -> &Config {
        &self.knobs
    }
}

impl Gpu {
    /// Sets and counts what was set and counted before. May sleep.
    pub(super) fn put_back(&self, kept: &Kept) {
        let mut locked = self.books.lock();
        let books = &mut *locked;
        for entry in &kept.settings {
            books.state.restore(None, entry.subject(), Some(*entry));
        }
        books.forget_settings();
        for total in &kept.totals {
            books.state.shares.totals().merge(total);
        }
        for spec in &kept.specs {
            books.restore_spec(spec.subject, Some(*spec));
        }
        books.forget_ended_specs();
        drop(locked);
        self.update_gates();
        let (settings, specs) = (kept.settings.len(), kept.specs.len());
        let (address, totals) = (kept.address, kept.totals.len());
        pr_info!("{address}: as before LoGA was detached: {settings} settings, {specs} specs, {totals} totals\n");
    }
}
