// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the kernel module says about all GPUs, once.

use crate::control::{Calls, Control, Snapshot};
use crate::error::Error;
use loga::uapi;
use std::collections::BTreeMap;

/// Most rows of one kind on a GPU: more than the kernel module has.
const ROWS_MAX: usize = 1024;

/// One GPU.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The GPU and its processes.
    pub snapshot: Snapshot,
    /// Totals of users.
    pub users: Vec<uapi::Total>,
    /// Totals of cgroups.
    pub cgroups: Vec<uapi::Total>,
    /// What is set for users and cgroups.
    pub shares: Vec<uapi::Share>,
    /// Reserves of users and cgroups.
    pub reserves: Vec<uapi::ListedSpec>,
}

impl Reading {
    /// All GPUs.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub fn of_all(control: &Control<impl Calls>) -> Result<Vec<Self>, Error> {
        let snapshots = control.all()?.into_iter();
        snapshots
            .map(|snapshot| Self::of(control, snapshot))
            .collect()
    }

    fn of(control: &Control<impl Calls>, snapshot: Snapshot) -> Result<Self, Error> {
        let gpu = snapshot.gpu;
        let mut reading = Self::without_shares(control, snapshot)?;
        let mut shares = control.shares(gpu)?;
        shares.retain(|share| share.subject != uapi::SUBJECT_PROCESS);
        shares.sort_by_key(|share| (share.subject, share.id));
        shares.dedup_by_key(|share| (share.subject, share.id));
        shares.truncate(ROWS_MAX);
        reading.shares = shares;
        // This caller may not list them.
        if reading.snapshot.info.flags & uapi::GPU_WITHHELD != 0 {
            return Ok(reading);
        }
        let mut reserves = control.specs(gpu)?;
        let key = |listed: &uapi::ListedSpec| (listed.spec.subject, listed.spec.id);
        reserves.retain(|listed| {
            listed.spec.kind != uapi::RESERVE_NONE && listed.spec.subject != uapi::SUBJECT_PROCESS
        });
        reserves.sort_by_key(key);
        reserves.dedup_by_key(|listed| key(listed));
        reserves.truncate(ROWS_MAX);
        reading.reserves = reserves;
        Ok(reading)
    }

    /// One GPU, without what is set for users and cgroups, and their reserves.
    ///
    /// # Errors
    ///
    /// Those of the calls.
    pub fn without_shares(
        control: &Control<impl Calls>,
        mut snapshot: Snapshot,
    ) -> Result<Self, Error> {
        let gpu = snapshot.gpu;
        let totals = |kind| {
            let mut totals = control.totals(gpu, kind, false)?;
            totals.truncate(ROWS_MAX);
            Ok::<_, Error>(merged(totals))
        };
        let users = totals(uapi::SUBJECT_USER)?;
        let cgroups = totals(uapi::SUBJECT_CGROUP)?;
        // They take most of the room.
        snapshot.channels = Vec::new();
        Ok(Self {
            snapshot,
            users,
            cgroups,
            shares: Vec::new(),
            reserves: Vec::new(),
        })
    }

    /// Users in it.
    pub fn uids(&self) -> impl Iterator<Item = u32> + '_ {
        let totals = self.users.iter().map(|total| total.id);
        let set = self.set_for(uapi::SUBJECT_USER);
        totals.chain(set).filter_map(|id| u32::try_from(id).ok())
    }

    /// Cgroups in it.
    pub fn cgroup_ids(&self) -> impl Iterator<Item = u64> + '_ {
        let totals = self.cgroups.iter().map(|total| total.id);
        let set = self.set_for(uapi::SUBJECT_CGROUP);
        totals.chain(set).filter(|id| *id != 0)
    }

    /// Users or cgroups for which a share or a reserve is set.
    fn set_for(&self, kind: u32) -> impl Iterator<Item = u64> + '_ {
        let shares = self.shares.iter().map(|share| (share.subject, share.id));
        let specs = self.reserves.iter().map(|listed| &listed.spec);
        let set = shares.chain(specs.map(|spec| (spec.subject, spec.id)));
        set.filter(move |(of, _)| *of == kind).map(|(_, id)| id)
    }
}

/// Adds up totals of the same number: those that the caller's namespaces lack have number 0, and a
/// metric may not have two rows with the same labels.
fn merged(totals: Vec<uapi::Total>) -> Vec<uapi::Total> {
    let mut sums: BTreeMap<(u64, u64), uapi::Total> = BTreeMap::new();
    for total in totals {
        let others = total.flags & uapi::TOTAL_OTHERS;
        let id = if others == 0 { total.id } else { 0 };
        let sum = sums.entry((others, id)).or_insert(uapi::Total {
            id,
            flags: total.flags,
            ..Default::default()
        });
        for (sum, part) in [
            (&mut sum.gpu_time_ns, total.gpu_time_ns),
            (&mut sum.entitled_ns, total.entitled_ns),
            (&mut sum.waited_ns, total.waited_ns),
            (&mut sum.throttled_ns, total.throttled_ns),
            (&mut sum.throttled_count, total.throttled_count),
            (&mut sum.processes, total.processes),
            (&mut sum.copy_time_ns, total.copy_time_ns),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
    sums.into_values().collect()
}
