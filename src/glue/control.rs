// SPDX-License-Identifier: GPL-2.0

//! [glue] What the calls of `/dev/loga` do, and who may make them.
//!
//! Root, that is `CAP_SYS_ADMIN` in the initial user namespace, sees everything and changes
//! everything. Everybody else sees its own clients, and the totals of its own user.

use super::books::ChannelRecord;
use super::chardev::put;
use super::events::Listener;
use super::gpu::Gpu;
use super::hook;
use super::process::{caller_is_admin, calling_user, is_alive, number_of, shown_uid, Chosen};
use super::snapshot::class_number;
use super::tracker::Tracker;
use crate::error;
use crate::share::{Entry, Kind, Limit, Row, Subject, MAX_TOTALS};
use crate::uapi::{self, Refusal};
use crate::units::Weight;
use kernel::prelude::*;
use kernel::sync::Arc;

/// Why a call is refused: an errno, and for most what would be right.
pub(super) struct Refused {
    pub(super) errno: Error,
    pub(super) why: Refusal,
}

impl From<Error> for Refused {
    fn from(errno: Error) -> Self {
        let why = Refusal::default();
        Self { errno, why }
    }
}

impl From<Refusal> for Refused {
    fn from(why: Refusal) -> Self {
        let errno = match why.code {
            uapi::REFUSED_UNKNOWN_SUBJECT => ESRCH,
            uapi::REFUSED_FULL => ENOSPC,
            uapi::REFUSED_NOT_SET => ENOENT,
            _ => EINVAL,
        };
        Self { errno, why }
    }
}

impl From<error::Error> for Refused {
    fn from(cause: error::Error) -> Self {
        Refusal::from(cause).into()
    }
}

fn tracker() -> Result<Arc<Tracker>> {
    hook::tracker().ok_or(ENODEV)
}

/// The GPU with this index.
fn gpu(tracker: &Tracker, index: u32) -> Result<&Arc<Gpu>> {
    usize::try_from(index)
        .ok()
        .and_then(|index| tracker.gpu(index))
        .ok_or(ENXIO)
}

/// The GPU with this index, or all without one.
fn chosen_gpus(tracker: &Tracker, index: Option<u32>) -> Result<&[Arc<Gpu>]> {
    match index {
        Some(index) => gpu(tracker, index).map(core::slice::from_ref),
        None => Ok(tracker.gpus()),
    }
}

fn require_admin() -> Result {
    if caller_is_admin() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// Fills a snapshot and the tables it points to.
pub(super) fn snapshot(snapshot: &mut uapi::Snapshot) -> Result {
    snapshot.check().map_err(|_| EINVAL)?;
    let tracker = tracker()?;
    let tables = Tables::collect(gpu(&tracker, snapshot.gpu)?, snapshot)?;
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

/// The tables of a snapshot.
struct Tables {
    clients: KVVec<uapi::Client>,
    groups: KVVec<uapi::Group>,
    channels: KVVec<uapi::Channel>,
}

impl Tables {
    /// Takes the books down, without touching user memory while they are locked.
    fn collect(gpu: &Gpu, snapshot: &mut uapi::Snapshot) -> Result<Self> {
        let (user, is_admin) = (calling_user(), caller_is_admin());
        let mut books = gpu.books.lock();
        books.forget_gone_clients();
        books.settings.retain_processes(is_alive);
        snapshot.info = books.describe(gpu);
        let counts = books.count_channels()?;
        let groups = books.visible_groups(user, is_admin)?;
        let clients = books.visible(user, is_admin).map(|(at, _)| at);
        let members = books.shares.members();
        let is_shown = |channel: &ChannelRecord| {
            let owner = books.shares.find(channel.client);
            let owner = owner.and_then(|at| members.get(at));
            is_admin || owner.is_some_and(|owner| owner.who().user == user)
        };
        let channels =
            (0..books.channels.len()).filter(|at| books.channels.get(*at).is_some_and(is_shown));
        Ok(Self {
            clients: table(&mut snapshot.client_count, clients, |at| {
                books.describe_client(at, counts.get(at).copied()?)
            })?,
            groups: table(&mut snapshot.group_count, groups.into_iter(), |at| {
                books.describe_group(at)
            })?,
            channels: table(&mut snapshot.channel_count, channels, |at| {
                books.describe_channel(at)
            })?,
        })
    }
}

/// Describes those at `places`, as many as `count` says there is room for; says in `count` how
/// many there are.
fn table<T>(
    count: &mut u32,
    places: impl Iterator<Item = usize>,
    describe: impl Fn(usize) -> Option<T>,
) -> Result<KVVec<T>> {
    let room = *count;
    let mut table = KVVec::new();
    *count = 0;
    for at in places {
        if *count < room {
            if let Some(element) = describe(at) {
                table.push(element, GFP_KERNEL)?;
            }
        }
        *count = count.saturating_add(1);
    }
    Ok(table)
}

/// Sets or clears what somebody gets.
pub(super) fn set_share(set: &mut uapi::SetShare) -> Result<(), Refused> {
    require_admin()?;
    let request = set.check()?;
    let tracker = tracker()?;
    let gpus = chosen_gpus(&tracker, request.gpu)?;
    let unknown = Refusal::unknown_subject(set.id);
    let chosen = Chosen::find(request.named, request.change.is_some()).map_err(|_| unknown)?;
    let mut before = KVec::with_capacity(gpus.len(), GFP_KERNEL).map_err(Error::from)?;
    let mut result = Ok(());
    for gpu in gpus {
        match gpu.set_share(&chosen, request.change.as_ref()) {
            Ok(old) => before.push(old, GFP_KERNEL).map_err(Error::from)?,
            Err(cause) => {
                result = Err(cause.into());
                break;
            }
        }
    }
    if result.is_ok() && request.change.is_some() && chosen.is_gone() {
        result = Err(unknown.into());
    }
    // All GPUs take it or none.
    for (gpu, old) in gpus.iter().zip(before) {
        match result {
            Ok(()) => gpu.channels_changed(),
            Err(_) => gpu.restore_share(&chosen, old),
        }
    }
    result
}

/// Lists what is set on a GPU.
pub(super) fn list_shares(list: &mut uapi::ListShares) -> Result {
    require_admin()?;
    let tracker = tracker()?;
    let mut books = gpu(&tracker, list.gpu)?.books.lock();
    books.settings.retain_processes(is_alive);
    let entries = books.settings.all();
    let shares = table(&mut list.count, 0..entries.len(), |at| {
        entries.get(at).map(describe_share)
    })?;
    drop(books);
    for (at, share) in shares.iter().enumerate() {
        put(list.shares, at, share)?;
    }
    Ok(())
}

/// What is set for one subject, as the caller sees it.
fn describe_share(entry: &Entry) -> uapi::Share {
    let setting = entry.setting();
    let (subject, id) = match entry.subject() {
        Subject::Process(key) => (uapi::SUBJECT_PROCESS, number_of(key)),
        Subject::User(user) => (uapi::SUBJECT_USER, shown_uid(user).into()),
        Subject::Cgroup(id) => (uapi::SUBJECT_CGROUP, id),
    };
    let mut mask = 0;
    for (is_set, bit) in [
        (setting.weight.is_some(), uapi::SHARE_WEIGHT),
        (setting.limit.is_some(), uapi::SHARE_LIMIT),
        (setting.class.is_some(), uapi::SHARE_CLASS),
    ] {
        if is_set {
            mask |= bit;
        }
    }
    uapi::Share {
        subject,
        mask,
        id,
        weight: setting.weight.map_or(0, Weight::get),
        limit_pct: setting.limit.map_or(0, Limit::get),
        class: setting.class.map_or(0, class_number),
        exhausted: entry.exhausted().into(),
    }
}

/// Reads totals, and lets them begin anew if asked to.
pub(super) fn read_totals(read: &mut uapi::ReadTotals) -> Result<(), Refused> {
    let (kind, reset) = read.check()?;
    let own = if caller_is_admin() {
        None
    } else if reset || kind == Kind::Cgroup {
        return Err(EPERM.into());
    } else {
        Some(u64::from(calling_user()))
    };
    let tracker = tracker()?;
    let gpu = gpu(&tracker, read.gpu)?;
    let mut rows = KVVec::new();
    // One for all those that have none of their own.
    let most = MAX_TOTALS.saturating_add(1);
    let room = match own {
        Some(_) => most,
        // CAST: 32 bits fit.
        None => most.min(read.count as usize),
    };
    rows.extend_with(room, Row::default(), GFP_KERNEL)
        .map_err(Error::from)?;
    let there = gpu.books.lock().totals.read(kind, reset, &mut rows);
    rows.truncate(there);
    let mut count = there;
    if let Some(own) = own {
        rows.retain(|row| row.key == Some(own));
        count = rows.len();
        // CAST: As above.
        rows.truncate(read.count as usize);
    }
    // CAST: at most `most`.
    read.count = count as u32;
    deliver(&rows, read.totals).map_err(|(delivered, errno)| {
        let mut books = gpu.books.lock();
        // What its reader did not get is not lost.
        for row in rows.iter().skip(if reset { delivered } else { rows.len() }) {
            books.totals.merge(row);
        }
        errno.into()
    })
}

/// Writes totals to user memory; on failure says how many were.
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
        measured_ns: account.measured.get(),
        gpu_time_ns: account.received.get(),
        entitled_ns: account.entitled.get(),
        waited_ns: account.waited.get(),
        held_ns: account.held.get(),
        held_count: account.holds,
        runs: account.runs,
        processes: row.processes,
        since_ns: row.since.get(),
        last_ns: row.last.get(),
    }
}

/// Turns knobs.
pub(super) fn configure(knobs: &mut uapi::Configure) -> Result<(), Refused> {
    require_admin()?;
    let knobs = knobs.check()?;
    let tracker = tracker()?;
    for gpu in chosen_gpus(&tracker, knobs.gpu)? {
        // What one GPU takes, all of them take: only the values count.
        gpu.configure(&knobs)?;
        gpu.channels_changed();
    }
    Ok(())
}

/// Subscribes to events, or ends that.
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
    listener.subscribe(what, calling_user(), caller_is_admin())
}
