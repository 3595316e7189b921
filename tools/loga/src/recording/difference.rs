// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What each client, user and cgroup got between two readings.
//!
//! What was there when recording began counts from then on; what came later counts whole. So the
//! differences of a client, with what its `exited` event adds, sum up to what the kernel module
//! says of it at the end.

use super::layout::{Amounts, Client, Owner, Sample, Whole};
use crate::export::owner::Owners;
use crate::export::reading::Reading;
use crate::names;
use crate::stat::booked_ns;
use loga::uapi;
use std::collections::BTreeMap;

/// A client that has not exited.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    got: Amounts,
    /// Whether the last reading lacked it: its event may be on the way.
    missing: bool,
}

/// What was read last of a GPU.
#[derive(Clone, Debug, Default)]
struct Before {
    /// What began before is not counted from its begin.
    base_ns: u64,
    info: uapi::Gpu,
    clients: BTreeMap<u64, Last>,
    users: BTreeMap<Key, Amounts>,
    cgroups: BTreeMap<Key, Amounts>,
}

/// A user or cgroup; nothing for all others together.
type Key = Option<u64>;

/// The last readings of all GPUs.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    gpus: BTreeMap<u32, Before>,
}

impl Differences {
    /// From these readings on.
    pub fn from(readings: &[Reading]) -> Self {
        let before = |reading: &Reading| (reading.snapshot.gpu, Before::of(reading));
        Self {
            gpus: readings.iter().map(before).collect(),
        }
    }

    /// What happened on a GPU since it was read before; a GPU that is new begins with this reading
    /// and has no sample yet. `ahead_ns` is what the clock of the day is ahead of the other one.
    pub fn sample(&mut self, reading: &Reading, owners: &Owners, ahead_ns: u64) -> Option<Sample> {
        let snapshot = &reading.snapshot;
        let Some(before) = self.gpus.get_mut(&snapshot.gpu) else {
            self.gpus.insert(snapshot.gpu, Before::of(reading));
            return None;
        };
        let (info, config) = (&snapshot.info, snapshot.info.config());
        let sample = Sample {
            gpu: snapshot.gpu,
            from_ns: before.info.now_ns,
            time_ns: info.now_ns,
            unix_ns: info.now_ns.saturating_add(ahead_ns),
            policy: config.policy.name().to_string(),
            enforcing: config.enforce,
            lost: info.flags & uapi::GPU_LOST != 0,
            away: info.flags & uapi::GPU_AWAY != 0,
            whole: whole(info, &before.info),
            clients: before.clients(&snapshot.clients, owners),
            users: before.users(&reading.users, owners),
            cgroups: before.cgroups(&reading.cgroups, owners),
        };
        before.info = *info;
        Some(sample)
    }

    /// Whether something happened before the GPU was read first.
    pub fn is_before(&self, event: &uapi::Event) -> bool {
        let before = self.gpus.get(&event.gpu);
        before.is_some_and(|before| event.time_ns < before.base_ns)
    }

    /// A client is gone with this GPU time: the part of it that no sample has.
    pub fn exited(&mut self, event: &uapi::Event) -> u64 {
        let Some(before) = self.gpus.get_mut(&event.gpu) else {
            return 0;
        };
        match before.clients.remove(&event.client) {
            Some(last) => event.value.saturating_sub(last.got.gpu_time_ns),
            // It came and went between two readings.
            None => event.value,
        }
    }

    /// Forgets GPUs that are gone.
    pub fn keep(&mut self, readings: &[Reading]) {
        let is_there = |gpu: &u32| readings.iter().any(|one| one.snapshot.gpu == *gpu);
        self.gpus.retain(|gpu, _| is_there(gpu));
    }
}

impl Before {
    fn of(reading: &Reading) -> Self {
        let snapshot = &reading.snapshot;
        let clients = snapshot.clients.iter().map(|client| {
            let last = Last {
                got: client.into(),
                missing: false,
            };
            (client.id, last)
        });
        Self {
            base_ns: snapshot.info.now_ns,
            info: snapshot.info,
            clients: clients.collect(),
            users: sums(&reading.users),
            cgroups: sums(&reading.cgroups),
        }
    }

    fn clients(&mut self, now: &[uapi::Client], owners: &Owners) -> Vec<Client> {
        self.clients.retain(|_, last| !last.missing);
        for last in self.clients.values_mut() {
            last.missing = true;
        }
        let base_ns = self.base_ns;
        let got = |client: &uapi::Client| {
            let all = Amounts::from(client);
            let last = Last {
                got: all,
                missing: false,
            };
            match self.clients.insert(client.id, last) {
                Some(last) => all.since(last.got),
                None if client.since_ns >= base_ns => all,
                // It was there before this caller saw it.
                None => Amounts::default(),
            }
        };
        let got: Vec<Amounts> = now.iter().map(got).collect();
        let line = |(client, got)| described(client, got, owners);
        now.iter().zip(got).map(line).collect()
    }

    fn users(&mut self, now: &[uapi::Total], owners: &Owners) -> Vec<Owner> {
        let got = changes(&mut self.users, self.base_ns, now);
        let name = |id: u64| owners.user_name(u32::try_from(id).ok()?).cloned();
        got.into_iter().map(|one| owner(one, name)).collect()
    }

    fn cgroups(&mut self, now: &[uapi::Total], owners: &Owners) -> Vec<Owner> {
        let got = changes(&mut self.cgroups, self.base_ns, now);
        let name = |id: u64| owners.cgroup_path(id).cloned();
        got.into_iter().map(|one| owner(one, name)).collect()
    }
}

fn owner((id, got): (Key, Amounts), name: impl Fn(u64) -> Option<names::Name>) -> Owner {
    let name = id.and_then(name);
    Owner {
        id,
        name_hex: name.as_ref().and_then(names::Name::hex),
        name,
        got,
    }
}

fn described(client: &uapi::Client, got: Amounts, owners: &Owners) -> Client {
    let comm = names::text(&client.comm);
    let path = owners.cgroup_path(client.cgroup).cloned();
    Client {
        id: client.id,
        pid: client.pid,
        uid: client.uid,
        comm_hex: comm.hex(),
        comm,
        cgroup: (client.cgroup != 0).then_some(client.cgroup),
        cgroup_path_hex: path.as_ref().and_then(names::Name::hex),
        cgroup_path: path,
        state: names::state(client.state),
        got,
    }
}

/// Figures of the whole GPU, if the caller may know them.
fn whole(info: &uapi::Gpu, old: &uapi::Gpu) -> Option<Whole> {
    let since = |pick: fn(&uapi::Gpu) -> u64| pick(info).saturating_sub(pick(old));
    let polled_ns = since(|gpu| gpu.polled_ns);
    let idle_ns = since(|gpu| gpu.idle_ns);
    let unknown_ns = since(|gpu| gpu.unknown_ns);
    let busy_ns = polled_ns.saturating_sub(idle_ns).saturating_sub(unknown_ns);
    (info.flags & uapi::GPU_WITHHELD == 0).then_some(Whole {
        span_ns: since(booked_ns),
        polled_ns,
        busy_ns,
        idle_ns,
        unknown_ns,
    })
}

fn key(total: &uapi::Total) -> Key {
    (total.flags & uapi::TOTAL_OTHERS == 0).then_some(total.id)
}

fn sums(totals: &[uapi::Total]) -> BTreeMap<Key, Amounts> {
    totals
        .iter()
        .map(|total| (key(total), total.into()))
        .collect()
}

/// What those got that got or wanted something.
fn changes(
    before: &mut BTreeMap<Key, Amounts>,
    base_ns: u64,
    now: &[uapi::Total],
) -> Vec<(Key, Amounts)> {
    let got = |total: &uapi::Total| {
        let all = Amounts::from(total);
        let got = match before.get(&key(total)) {
            Some(before) => all.since(*before),
            None if total.since_ns >= base_ns => all,
            None => Amounts::default(),
        };
        (got != Amounts::default()).then_some((key(total), got))
    };
    let got = now.iter().filter_map(got).collect();
    // One that made room for others is gone.
    *before = sums(now);
    got
}

#[cfg(test)]
mod tests;
