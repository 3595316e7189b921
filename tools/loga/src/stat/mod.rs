// SPDX-License-Identifier: GPL-2.0

//! [tool] One GPU's figures: sums since the module was loaded, or what happened between two
//! snapshots. The structures here are the layout of `loga stat --json`.
//!
//! A caller that may not see figures of the whole GPU gets its own clients, with shares of the time
//! that went by. Members that are figures of the whole GPU are left out of the JSON then.
//!
//! Shares are fractions of the time polled and entitlements fractions of the phases they stand for;
//! both are absent while there was none. The kernel books a polling phase when it ends, together
//! with the non-polling phase before it; what is under way appears in no figure. Counters that went
//! backwards (another module was loaded in between) count as zero.

mod client;
mod group;
#[cfg(test)]
pub(crate) mod tests;

pub use client::Client;
pub use group::Group;

use crate::control::Snapshot;
use crate::names;
use loga::uapi;
use serde::{Deserialize, Serialize};

/// Version of the JSON layout. Raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 3;

/// Members that only callers get that may see figures of the whole GPU.
const WITHHELD: [&str; 22] = [
    "polling",
    "span_ns",
    "polled_ns",
    "busy",
    "idle",
    "unknown",
    "last_poll_ns",
    "last_nonpoll_ns",
    "polls",
    "register_reads",
    "switches",
    "decisions",
    "revokes",
    "restores",
    "fallbacks",
    "overdue_drains",
    "t_sys_ns",
    "settings",
    "sample_interval_ns",
    "open_files",
    "unmanaged_files",
    "evasions",
];

/// One GPU.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct Stat {
    /// [`VERSION`].
    pub version: u32,
    /// Index of the GPU.
    pub gpu: u32,
    /// Chip as the hardware names it, such as `0xf1`.
    pub chip: String,
    /// Where it sits, such as `0001:01:00.0`.
    pub pci: String,
    /// Policy that decides which clients are throttled.
    pub policy: String,
    /// Whether its decisions are carried out.
    pub enforcing: bool,
    /// Which dispatcher decides on submissions: `none`, `prio` or `edf`.
    #[serde(default)]
    pub dispatch: String,
    /// Whether figures of the whole GPU are left out, because the caller may not see them.
    pub withheld: bool,
    /// Whether a polling phase is under way.
    pub polling: bool,
    /// Whether the device stopped answering.
    pub lost: bool,
    /// Registers that are polled.
    pub source: String,
    /// Time of the snapshot, CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// Whether the figures are those between two snapshots instead of all.
    pub interval: bool,
    /// Length of the phases the figures are about: those that are booked.
    pub span_ns: u64,
    /// Part of it that was polled.
    pub polled_ns: u64,
    /// Share of the polled time in which work of a client ran.
    pub busy: Option<f64>,
    /// Share of the polled time in which the engine was idle.
    pub idle: Option<f64>,
    /// Share of the polled time of channels without a known owner.
    pub unknown: Option<f64>,
    /// Length of the last polling phase.
    pub last_poll_ns: u64,
    /// Length of the last non-polling phase.
    pub last_nonpoll_ns: u64,
    /// Iterations of the poll loop, and samples of sparse accounting.
    pub polls: u64,
    /// Register reads of the poll loop.
    pub register_reads: u64,
    /// Changes of the engine's occupant.
    pub switches: u64,
    /// Decisions.
    pub decisions: u64,
    /// Clients throttled.
    pub revokes: u64,
    /// Clients released.
    pub restores: u64,
    /// Times the watchdog let all clients run.
    pub fallbacks: u64,
    /// Times that a channel did not run empty within the bound of a policy that waits for it.
    pub overdue_drains: u64,
    /// System virtual time.
    pub t_sys_ns: u64,
    /// What the GPU is divided between: `process`, `user` or `cgroup`.
    #[serde(default)]
    pub group_by: String,
    /// How time is accounted: `burst` or `sparse`.
    #[serde(default)]
    pub accounting: String,
    /// Whether that follows from the other settings (`auto`).
    #[serde(default)]
    pub accounting_auto: bool,
    /// What phases grow with: `channels` or `active`.
    #[serde(default)]
    pub scale: String,
    /// Polling phase per channel or active client.
    #[serde(default)]
    pub poll_ms: u32,
    /// Length of the non-polling phase in polling phases.
    #[serde(default)]
    pub ratio: u32,
    /// Whether phases have random lengths.
    #[serde(default)]
    pub randomize: bool,
    /// Processes, users and cgroups for which something is set.
    #[serde(default)]
    pub settings: u32,
    /// Time between two samples on average, if accounting is sparse; else 0.
    #[serde(default)]
    pub sample_interval_ns: u64,
    /// Open files that are managed.
    pub open_files: u32,
    /// Files that were open before and are passed through.
    pub unmanaged_files: u64,
    /// Mappings of submission pages that LoGA could not take on: their channels run unthrottled.
    #[serde(default)]
    pub unmanaged_mappings: u64,
    /// The last channel without a known owner that was on the engine; ids of TSGs count
    /// from 4096. Nothing if there was none.
    #[serde(default)]
    pub unknown_chid: Option<u32>,
    /// Times that clients were found to run while the GPU was not polled.
    pub evasions: u64,
    /// The clients, most GPU time first.
    pub clients: Vec<Client>,
    /// The groups, most GPU time first.
    #[serde(default)]
    pub groups: Vec<Group>,
}

impl Stat {
    /// The figures of a snapshot; with an earlier one, what happened since.
    pub fn new(now: &Snapshot, before: Option<&Snapshot>) -> Self {
        let info = &now.info;
        let zero = uapi::Gpu::default();
        let old = before.map_or(&zero, |before| &before.info);
        let since = |pick: fn(&uapi::Gpu) -> u64| pick(info).saturating_sub(pick(old));
        let polled_ns = since(|gpu| gpu.polled_ns);
        let withheld = info.flags & uapi::GPU_WITHHELD != 0;
        let span_ns = match (withheld, before) {
            (false, _) => booked_ns(info).saturating_sub(booked_ns(old)),
            (true, Some(_)) => since(|gpu| gpu.now_ns),
            // Each client has one of its own.
            (true, None) => 0,
        };
        let t_sys_ns = (!withheld).then_some(info.t_sys_ns);
        let first_ns = now.clients.iter().map(|client| client.since_ns).min();
        let idle = fraction(since(|gpu| gpu.idle_ns), polled_ns);
        let unknown = fraction(since(|gpu| gpu.unknown_ns), polled_ns);
        let mut clients: Vec<Client> = now
            .clients
            .iter()
            .map(|client| {
                let earlier = before.and_then(|before| find(before, client.id));
                let own_ns = info.now_ns.saturating_sub(client.since_ns);
                let phases = Phases {
                    span_ns: if withheld && before.is_none() {
                        own_ns
                    } else {
                        span_ns
                    },
                    polled_ns: (!withheld).then_some(polled_ns),
                    sample_interval_ns: info.sample_interval_ns,
                };
                Client::new(client, earlier, &phases, t_sys_ns)
            })
            .collect();
        let mut groups: Vec<Group> = now
            .groups
            .iter()
            .map(|group| {
                let same = |old: &&uapi::Group| old.id == group.id && old.kind == group.kind;
                let earlier = before.and_then(|before| before.groups.iter().find(same));
                let own_ns = info.now_ns.saturating_sub(first_ns.unwrap_or(info.now_ns));
                let phases = Phases {
                    span_ns: if withheld && before.is_none() {
                        own_ns
                    } else {
                        span_ns
                    },
                    polled_ns: (!withheld).then_some(polled_ns),
                    sample_interval_ns: info.sample_interval_ns,
                };
                Group::new(group, earlier, &phases, t_sys_ns)
            })
            .collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.gpu_time_ns), group.id));
        clients.sort_by_key(|client| (std::cmp::Reverse(client.gpu_time_ns), client.id));
        let config = info.config();
        Stat {
            version: VERSION,
            gpu: now.gpu,
            chip: format!("{:#x}", info.chipset),
            pci: names::pci(info.pci_domain, info.pci_bdf),
            policy: config.policy.name().to_owned(),
            enforcing: config.enforce,
            dispatch: names::dispatch(config.dispatch),
            withheld,
            polling: info.flags & uapi::GPU_POLLING != 0,
            lost: info.flags & uapi::GPU_LOST != 0,
            source: config.source.name().to_owned(),
            now_ns: info.now_ns,
            interval: before.is_some(),
            span_ns,
            polled_ns,
            busy: idle
                .zip(unknown)
                .map(|(idle, unknown)| (1.0 - idle - unknown).max(0.0)),
            idle,
            unknown,
            last_poll_ns: info.last_poll_ns,
            last_nonpoll_ns: info.last_nonpoll_ns,
            polls: since(|gpu| gpu.polls),
            register_reads: since(|gpu| gpu.register_reads),
            switches: since(|gpu| gpu.switches),
            decisions: since(|gpu| gpu.decisions),
            revokes: since(|gpu| gpu.revokes),
            restores: since(|gpu| gpu.restores),
            fallbacks: since(|gpu| gpu.fallbacks),
            overdue_drains: since(|gpu| gpu.overdue_drains),
            t_sys_ns: info.t_sys_ns,
            group_by: config.group_by.name().to_owned(),
            accounting: names::accounting(info.accounting),
            accounting_auto: config.accounting.is_none(),
            scale: names::scale(info.scale),
            poll_ms: config.poll_ms,
            ratio: config.ratio,
            randomize: config.randomize,
            settings: info.settings,
            sample_interval_ns: info.sample_interval_ns,
            open_files: info.open_files,
            unmanaged_files: info.unmanaged_files,
            unmanaged_mappings: info.unmanaged_mappings,
            unknown_chid: (info.flags & uapi::GPU_UNKNOWN_SEEN != 0).then_some(info.unknown_chid),
            evasions: since(|gpu| gpu.evasions),
            clients,
            groups,
        }
    }
}

impl Stat {
    /// As JSON, without members that the caller may not see.
    ///
    /// # Errors
    ///
    /// None that is known: all members can be written.
    pub fn told(&self) -> serde_json::Result<serde_json::Value> {
        let mut value = serde_json::to_value(self)?;
        if let Some(members) = value.as_object_mut().filter(|_| self.withheld) {
            for name in WITHHELD {
                members.remove(name);
            }
        }
        Ok(value)
    }
}

/// Lengths that shares are fractions of.
struct Phases {
    span_ns: u64,
    /// Nothing if the caller may not know.
    polled_ns: Option<u64>,
    /// Time between two samples, if accounting is sparse; else 0.
    sample_interval_ns: u64,
}

impl Phases {
    /// The share of a client or group with these times; of the time that went by, for a caller
    /// that may not know how long was polled.
    fn share(&self, measured_ns: u64, gpu_time_ns: u64) -> Option<f64> {
        match self.polled_ns {
            Some(polled_ns) => fraction(measured_ns, polled_ns),
            None => fraction(gpu_time_ns, self.span_ns),
        }
    }
}

/// Length of the phases that are in the clients' figures.
///
/// The polling phase under way is not; the non-polling phase before it is in `unpolled_ns` already.
fn booked_ns(gpu: &uapi::Gpu) -> u64 {
    let early_ns = if gpu.flags & uapi::GPU_POLLING != 0 {
        gpu.last_nonpoll_ns
    } else {
        0
    };
    gpu.polled_ns
        .saturating_add(gpu.unpolled_ns)
        .saturating_sub(early_ns)
}

fn find(snapshot: &Snapshot, id: u64) -> Option<&uapi::Client> {
    snapshot.clients.iter().find(|client| client.id == id)
}

fn fraction(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
