// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rows of users and cgroups, and the names that they have.

use super::cgroup::Names;
use super::metrics::Id;
use super::reading::Reading;
use super::rows::{printable, Label, Labels, Rows};
use crate::directory::Directory;
use crate::names::{self, Name};
use loga::uapi;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// After a search for names, none for this many times as long as it took.
const REST: u32 = 20;

/// Names of users and cgroups. A cgroup that is gone keeps its name as long as it has a total.
pub struct Owners {
    load: Box<dyn Fn() -> Directory + Send>,
    users: BTreeMap<u32, Name>,
    /// Paths; empty for those that were searched and not found.
    paths: HashMap<u64, Name>,
    /// Not before this is anything searched.
    next: Option<Instant>,
}

impl std::fmt::Debug for Owners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Owners")
            .field("paths", &self.paths.len())
            .finish_non_exhaustive()
    }
}

impl Owners {
    /// Without names yet; `load` reads the lists of the system.
    pub fn new(load: impl Fn() -> Directory + Send + 'static) -> Self {
        Self {
            load: Box::new(load),
            users: BTreeMap::new(),
            paths: HashMap::new(),
            next: None,
        }
    }

    /// Finds the names of all that readings mention, and forgets the others.
    pub fn learn(&mut self, readings: &[Reading]) {
        let uids: BTreeSet<u32> = readings.iter().flat_map(Reading::uids).collect();
        let ids: BTreeSet<u64> = readings.iter().flat_map(Reading::cgroup_ids).collect();
        self.users.retain(|uid, _| uids.contains(uid));
        self.paths.retain(|id, _| ids.contains(id));
        let known = uids.iter().all(|uid| self.users.contains_key(uid))
            && ids.iter().all(|id| self.paths.contains_key(id));
        let begin = Instant::now();
        if known || self.next.is_some_and(|next| begin < next) {
            return;
        }
        let directory = (self.load)();
        for uid in uids {
            if self.users.contains_key(&uid) {
                continue;
            }
            let name = directory.user(uid);
            // One of a name service that is too slow now may come later.
            if directory.answers() {
                self.users.insert(uid, name);
            }
        }
        if ids.iter().any(|id| !self.paths.contains_key(id)) {
            let mut found = directory.cgroup_paths_of(&ids);
            for id in ids {
                match found.paths.remove(&id) {
                    Some(path) => drop(self.paths.entry(id).or_insert(path)),
                    // It may be among those that were not searched.
                    None if found.cut => {}
                    None => drop(self.paths.entry(id).or_default()),
                }
            }
        }
        let took = begin.elapsed().max(Duration::from_millis(1));
        self.next = Instant::now().checked_add(took.saturating_mul(REST));
    }

    /// The name of a user, if it is known.
    pub fn user_name(&self, uid: u32) -> Option<&Name> {
        self.users.get(&uid)
    }

    /// The path of a cgroup, if it is known.
    pub fn cgroup_path(&self, id: u64) -> Option<&Name> {
        let path = self.paths.get(&id);
        path.filter(|path| !path.as_bytes().is_empty())
    }

    /// The labels of a user on a GPU.
    fn user(&self, gpu: &[Label], uid: u32) -> Labels {
        let name = self
            .users
            .get(&uid)
            .map_or_else(|| uid.to_string(), printable);
        with(
            gpu,
            [
                ("by", "user".into()),
                ("user", name),
                ("uid", uid.to_string()),
            ],
        )
    }

    /// The labels of a cgroup on a GPU: without those that its path does not have.
    fn cgroup(&self, gpu: &[Label], id: u64) -> Labels {
        let path = self.paths.get(&id).cloned().unwrap_or_default();
        let names = Names::of(&path);
        let cgroup = Some(&path).filter(|path| !path.as_bytes().is_empty());
        let unit = Some(&names.unit).filter(|unit| !unit.as_bytes().is_empty());
        let labels = [
            ("by", "cgroup".into()),
            ("cgroup", cgroup.map(printable).unwrap_or_default()),
            ("cgroup_id", id.to_string()),
            ("unit", unit.map(printable).unwrap_or_default()),
            ("pod_uid", names.pod_uid),
            ("container_id", names.container_id),
            ("slurm_job", names.slurm_job),
        ];
        with(
            gpu,
            labels.into_iter().filter(|(_, value)| !value.is_empty()),
        )
    }

    /// The labels of all users or cgroups without a total of their own.
    fn others(gpu: &[Label], by: &'static str) -> Labels {
        with(gpu, [("by", by.into()), (by, "other".into())])
    }

    /// Adds the rows of users and cgroups on a GPU.
    pub fn rows(&self, reading: &Reading, gpu: &Labels, rows: &mut Rows) {
        let copies = reading.snapshot.info.flags & uapi::GPU_COPIES != 0;
        for total in &reading.users {
            let labels = match u32::try_from(total.id) {
                Ok(uid) if total.flags & uapi::TOTAL_OTHERS == 0 => self.user(gpu, uid),
                _ => Self::others(gpu, "user"),
            };
            totals(total, copies, &labels, rows);
        }
        for total in &reading.cgroups {
            let others = total.flags & uapi::TOTAL_OTHERS != 0;
            let labels = match others {
                true => Self::others(gpu, "cgroup"),
                false => self.cgroup(gpu, total.id),
            };
            totals(total, copies, &labels, rows);
        }
        for share in &reading.shares {
            let Some(labels) = self.subject(gpu, share.subject, share.id) else {
                continue;
            };
            if share.mask & uapi::SHARE_WEIGHT != 0 {
                rows.count(Id::Weight, &labels, share.weight.into());
            }
            if share.mask & uapi::SHARE_LIMIT != 0 {
                rows.ratio(Id::Limit, &labels, f64::from(share.limit_pct) / 100.0);
            }
        }
        for listed in &reading.reserves {
            if let Some(labels) = self.subject(gpu, listed.spec.subject, listed.spec.id) {
                reserve(listed, &labels, rows);
            }
        }
    }

    /// The labels of a user or cgroup on a GPU.
    fn subject(&self, gpu: &[Label], kind: u32, id: u64) -> Option<Labels> {
        match kind {
            uapi::SUBJECT_CGROUP => Some(self.cgroup(gpu, id)),
            _ => Some(self.user(gpu, u32::try_from(id).ok()?)),
        }
    }
}

fn with(gpu: &[Label], own: impl IntoIterator<Item = Label>) -> Labels {
    gpu.iter().cloned().chain(own).collect()
}

/// `copies`: copies are measured on this GPU.
fn totals(total: &uapi::Total, copies: bool, labels: &Labels, rows: &mut Rows) {
    rows.seconds(Id::GpuTime, labels, total.gpu_time_ns);
    rows.seconds(Id::WaitedSeconds, labels, total.waited_ns);
    if copies || total.copy_time_ns > 0 {
        rows.seconds(Id::CopyTime, labels, total.copy_time_ns);
    }
    rows.seconds(Id::Entitled, labels, total.entitled_ns);
    rows.seconds(Id::Throttled, labels, total.throttled_ns);
    rows.count(Id::Throttles, labels, total.throttled_count);
    rows.count(Id::Processes, labels, total.processes);
}

/// What a reserve promises, and how it was kept.
fn reserve(listed: &uapi::ListedSpec, labels: &Labels, rows: &mut Rows) {
    let own = |name, value: &str| with(labels, [(name, value.to_string())]);
    let promise = names::promise(listed.promise).unwrap_or("none");
    let served = own("promise", promise);
    rows.count(Id::ReserveServed, &served, listed.served);
    for (why, count) in names::misses(&listed.misses) {
        rows.count(Id::ReserveLate, &own("why", why), count);
    }
}
