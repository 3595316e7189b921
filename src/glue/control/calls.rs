// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The calls of `/dev/loga`.
//!
//! `permission` decides which caller may make them. Nothing is allocated while the books are
//! locked.

use super::chosen::Chosen;
use super::listeners::Listener;
use super::permission::{may_change, may_lower, require_change, Reader};
use super::refused::Refused;
use super::snapshot::Tables;
use super::wire::{class_number, put, subject_numbers};
use crate::error;
use crate::glue::driver::hook;
use crate::glue::driver::tracker::Tracker;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::process::{shown_uid, Process};
use crate::quota::Tenant;
use crate::request::Named;
use crate::share::{Change, Entry, Kind, Limit, Row, Target, MAX_ROWS, MAX_SETTINGS};
use crate::uapi::{self, Refusal};
use crate::units::Weight;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

pub(super) fn tracker() -> Result<Arc<Tracker>> {
    hook::tracker().ok_or(ENODEV)
}

/// The GPU with this index.
pub(super) fn gpu(tracker: &Tracker, index: u32) -> Result<&Arc<Gpu>> {
    usize::try_from(index)
        .ok()
        .and_then(|index| tracker.gpu(index))
        .ok_or(ENXIO)
}

/// The GPU with this index, or all that there are now without one.
pub(super) fn chosen_gpus(
    tracker: &Tracker,
    index: Option<u32>,
) -> Result<impl Iterator<Item = &Arc<Gpu>> + Clone> {
    let (skipped, count) = match index {
        Some(index) => (gpu(tracker, index)?.device.index, 1),
        None => (0, tracker.gpus().count()),
    };
    Ok(tracker.gpus().skip(skipped).take(count))
}

/// Fills a snapshot and the tables it points to.
pub(super) fn snapshot(listener: &Listener, snapshot: &mut uapi::Snapshot) -> Result {
    snapshot.check().map_err(|_| EINVAL)?;
    if !Reader::calling().all {
        listener.pace();
    }
    let tracker = tracker()?;
    let tables = Tables::collect(gpu(&tracker, snapshot.gpu)?, snapshot)?;
    snapshot.info.unfollowed = tracker.refused();
    for (at, client) in tables.clients.iter().enumerate() {
        put(snapshot.clients, at, client)?;
    }
    for (at, group) in tables.groups.iter().enumerate() {
        put(snapshot.groups, at, group)?;
    }
    for (at, channel) in tables.channels.iter().enumerate() {
        put(snapshot.channels, at, channel)?;
    }
    Ok(())
}

/// Sets or clears the shares of a subject.
pub(crate) fn set_share(set: &mut uapi::SetShare) -> Result<(), Refused> {
    let request = set.check()?;
    let all = may_change();
    if !all && !matches!(request.named, Named::Process(_) | Named::Caller) {
        return Err(error::Error::NotOwn.into());
    }
    if !all && request.change.is_some_and(|change| change.target.is_some()) {
        return Err(Refusal::for_change().into());
    }
    let tracker = tracker()?;
    let gpus = chosen_gpus(&tracker, request.gpu)?;
    let unknown = Refusal::unknown_subject(set.id);
    let chosen = Chosen::find(request.named, request.change.is_some()).map_err(|_| unknown)?;
    if !all && !chosen.process.as_ref().is_some_and(may_lower) {
        return Err(error::Error::NotOwn.into());
    }
    let mut before = KVec::with_capacity(gpus.clone().count(), GFP_KERNEL).map_err(Error::from)?;
    let mut result = Ok(());
    for gpu in gpus.clone() {
        match set_share_of(gpu, &chosen, request.change.as_ref(), all) {
            Ok(old) => before.push(old, GFP_KERNEL).map_err(Error::from)?,
            Err(cause) => {
                result = Err(cause);
                break;
            }
        }
    }
    if result.is_ok() && request.change.is_some() && chosen.is_gone() {
        result = Err(unknown.into());
    }
    // The change applies to all GPUs or none.
    for (gpu, old) in gpus.zip(before) {
        match result {
            // A change by an unprivileged user takes effect at the next decision: it forces none.
            Ok(()) if all => gpu.settings_changed(),
            Ok(()) => {}
            // A process that has exited gets no settings back.
            Err(_) => {
                let old = old.filter(|_| !chosen.is_gone());
                gpu.restore_share(chosen.subject, chosen.process.as_ref(), old);
            }
        }
    }
    result
}

/// Sets or clears the shares of a subject on one GPU. Returns those before.
fn set_share_of(
    gpu: &Gpu,
    chosen: &Chosen,
    change: Option<&Change>,
    all: bool,
) -> Result<Option<Entry>, Refused> {
    let process = chosen.process.as_ref();
    if let Some(process) = process.filter(|_| change.is_some()) {
        if let Some(refusal) = gpu.refuse_heir(process, all)? {
            return Err(refusal.into());
        }
    }
    let _first = (!all).then(|| gpu.enter_as_reader()).transpose()?;
    Ok(gpu.set_share(chosen.subject, process, chosen.within, change, all)?)
}

/// Lists the settings of a GPU: for an unprivileged caller, those of its own processes.
pub(super) fn list_shares(listener: &Listener, list: &mut uapi::ListShares) -> Result {
    let reader = Reader::calling();
    if !reader.all {
        listener.pace();
    }
    let tracker = tracker()?;
    let gpu = gpu(&tracker, list.gpu)?;
    // CAST: 32 bits fit.
    let room = MAX_SETTINGS.min(list.count as usize);
    let mut shares: KVVec<uapi::Share> = KVVec::with_capacity(room, GFP_KERNEL_ACCOUNT)?;
    let first = (!reader.all).then(|| gpu.enter_as_reader()).transpose()?;
    let mut books = gpu.books.lock();
    if reader.all {
        books.forget_settings();
    }
    let is_shown = |entry: &&Entry| {
        let own = entry.user().is_some_and(|user| reader.may_see(user));
        reader.all || own
    };
    list.count = 0;
    for entry in books.state.settings.all().iter().filter(is_shown) {
        list.count = list.count.saturating_add(1);
        // Entries without room are counted only.
        let _ = shares.push_within_capacity(describe_share(entry));
    }
    drop(books);
    drop(first);
    for (at, share) in shares.iter().enumerate() {
        put(list.shares, at, share)?;
    }
    Ok(())
}

/// The settings of one subject, as the caller sees them.
fn describe_share(entry: &Entry) -> uapi::Share {
    let (weight, limit, class) = (entry.weight(), entry.limit(), entry.class());
    let (lowered, target) = (entry.lowered(), entry.setting().target);
    let denied = entry.setting().denied;
    let (subject, id) = subject_numbers(entry.subject());
    let mut mask = 0;
    for (is_set, bit) in [
        (weight.is_some(), uapi::SHARE_WEIGHT),
        (limit.is_some(), uapi::SHARE_LIMIT),
        (class.is_some(), uapi::SHARE_CLASS),
        (target.is_some(), uapi::SHARE_TARGET),
        (denied, uapi::SHARE_ACCESS),
        (lowered.weight.is_some(), uapi::SHARE_LOWERED_WEIGHT),
        (lowered.limit.is_some(), uapi::SHARE_LOWERED_LIMIT),
        (lowered.class.is_some(), uapi::SHARE_LOWERED_CLASS),
    ] {
        if is_set {
            mask |= bit;
        }
    }
    uapi::Share {
        subject,
        mask,
        id,
        weight: weight.map_or(0, Weight::get),
        limit_pct: limit.map_or(0, Limit::get),
        class: class.map_or(0, class_number),
        exhausted: entry.exhausted().into(),
        target_pct: target.map_or(0, Target::get),
        access: if denied {
            uapi::ACCESS_DENIED
        } else {
            uapi::ACCESS_ALLOWED
        },
    }
}

/// Reads totals, and resets them if requested.
pub(super) fn read_totals(listener: &Listener, read: &mut uapi::ReadTotals) -> Result<(), Refused> {
    let (kind, reset) = read.check()?;
    let reader = Reader::calling();
    if !reader.all {
        listener.pace();
    }
    if reset && !may_change() {
        return Err(Refusal::for_change().into());
    }
    if !reader.all && kind == Kind::Cgroup {
        return Err(Refusal::for_reader().into());
    }
    let tracker = tracker()?;
    let gpu = gpu(&tracker, read.gpu)?;
    if !reader.all {
        return read_own_total(gpu, &reader, kind, read);
    }
    let mut rows = KVVec::new();
    // One more row, for all subjects without a row of their own. CAST: 32 bits fit.
    let room = MAX_ROWS.saturating_add(1).min(read.count as usize);
    rows.extend_with(room, Row::default(), GFP_KERNEL_ACCOUNT)
        .map_err(Error::from)?;
    let there = gpu
        .books
        .lock()
        .state
        .shares
        .totals()
        .read(kind, reset, &mut rows);
    rows.truncate(there);
    // CAST: at most one more than `MAX_ROWS`.
    read.count = there as u32;
    deliver(&rows, read.totals).map_err(|(delivered, errno)| {
        let mut books = gpu.books.lock();
        let totals = books.state.shares.totals();
        // Rows that the reader did not get are merged back.
        for row in rows.iter().skip(if reset { delivered } else { rows.len() }) {
            totals.merge(row);
        }
        errno.into()
    })
}

/// Reads the total of the calling user alone.
fn read_own_total(
    gpu: &Gpu,
    reader: &Reader,
    kind: Kind,
    read: &mut uapi::ReadTotals,
) -> Result<(), Refused> {
    let own = {
        let _first = gpu.enter_as_reader()?;
        let mut books = gpu.books.lock();
        books.state.shares.totals().row(kind, reader.user.into())
    };
    let room = read.count != 0;
    read.count = own.is_some().into();
    let row = own.as_slice();
    let row = if room { row } else { &[] };
    deliver(row, read.totals).map_err(|(_, errno)| errno.into())
}

/// Writes totals to user memory; on failure returns how many were written.
fn deliver(rows: &[Row], table: u64) -> Result<(), (usize, Error)> {
    for (at, row) in rows.iter().enumerate() {
        put(table, at, &describe_total(row)).map_err(|errno| (at, errno))?;
    }
    Ok(())
}

fn describe_total(row: &Row) -> uapi::Total {
    let account = &row.account;
    uapi::Total {
        id: match (row.kind, row.key) {
            (Kind::User, Some(user)) => {
                u32::try_from(user).map_or(u64::MAX, |user| shown_uid(user).into())
            }
            (Kind::Cgroup, Some(id)) => id,
            (_, None) => 0,
        },
        flags: if row.key.is_none() {
            uapi::TOTAL_OTHERS
        } else {
            0
        },
        above: row.above,
        measured_ns: account.measured.get(),
        gpu_time_ns: account.received.get(),
        entitled_ns: account.entitled.get(),
        waited_ns: account.waited.get(),
        throttled_ns: account.throttled.get(),
        throttled_count: account.throttles,
        runs: account.runs,
        processes: row.processes,
        since_ns: row.since.get(),
        last_ns: row.last.get(),
        copy_time_ns: account.copied.get(),
    }
}

/// Changes knobs.
pub(crate) fn configure(knobs: &mut uapi::Configure) -> Result<(), Refused> {
    require_change().map_err(|_| Refusal::for_change())?;
    let knobs = knobs.check()?;
    let tracker = tracker()?;
    let mut rooms = KVec::new();
    let gpus = chosen_gpus(&tracker, knobs.gpu)?;
    for gpu in gpus.clone() {
        let room = gpu.prepare(&knobs)?;
        rooms.push(room, GFP_KERNEL).map_err(|_| ENOMEM)?;
    }
    for (gpu, room) in gpus.zip(rooms) {
        // If one GPU accepts the values, all do: the check depends on the values only.
        gpu.configure(&knobs, room)?;
        gpu.settings_changed();
    }
    Ok(())
}

/// Subscribes to events, or unsubscribes.
pub(super) fn subscribe(
    listener: &Arc<Listener>,
    what: &mut uapi::Subscribe,
) -> Result<(), Refused> {
    what.check()?;
    if what.mask == 0 {
        listener.unsubscribe();
        return Ok(());
    }
    if what.gpu != uapi::ALL_GPUS {
        gpu(&*tracker()?, what.gpu)?;
    }
    let reader = Reader::calling();
    // The tenants' level may differ between GPUs: here, the one that tells more cgroups apart.
    let depths = hook::tracker().map(|tracker| {
        let gpus = tracker.gpus().map(|gpu| gpu.cgroup_depth.load(Relaxed));
        gpus.max().unwrap_or(0)
    });
    let identity = Process::of_caller()?.identity().ok_or(ESRCH)?;
    let tenant = Tenant {
        user: reader.user,
        ..identity.tenant(depths.unwrap_or(0))
    };
    listener.subscribe(what, reader, tenant)
}
