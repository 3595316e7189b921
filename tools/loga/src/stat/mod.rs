// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One GPU's figures: sums since the module was loaded, or what happened between two
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
mod phases;
#[cfg(test)]
pub(crate) mod tests;

pub use client::Client;
pub use group::Group;
pub(crate) use phases::booked_ns;

use self::phases::Phases;
use crate::control::Snapshot;
use crate::names;
use crate::processes::Processes;
use loga::uapi;
use serde::{Deserialize, Serialize};

/// Version of the JSON layout. Raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 6;

/// Members that only callers get that may see figures of the whole GPU.
const WITHHELD: [&str; 34] = [
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
    "copy_busy",
    "copy_idle",
    "copy_unknown",
    "submission_wait_running_ns",
    "submission_wait_budget_ns",
    "submission_wait_order_ns",
    "submission_wait_linger_ns",
    "missed",
    "void_own",
    "void_foreign",
    "void_fallback",
    "void_order",
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
    /// Whether it is not bound to its driver.
    #[serde(default)]
    pub away: bool,
    /// GPUs of the driver that LoGA does not follow.
    #[serde(default)]
    pub unfollowed: u32,
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
    /// Mappings of submission pages that LoGA neither controls nor has refused: their channels
    /// run unthrottled. The log says why, and of which process.
    #[serde(default)]
    pub unmanaged_mappings: u64,
    /// The last channel without a known owner that was on the engine; ids of TSGs count
    /// from 4096. Nothing if there was none.
    #[serde(default)]
    pub unknown_chid: Option<u32>,
    /// Times that clients were found to run while the GPU was not polled.
    pub evasions: u64,
    /// Part of the GPU that all clients together had, in steps of 0.01: a mean that fades with a
    /// time constant of 2 s.
    pub busy_2s: f64,
    /// As `busy_2s`, of 30 s.
    pub busy_30s: f64,
    /// Sum of the parts of the GPU that each client would use alone.
    pub want_2s: f64,
    /// As `want_2s`, of 30 s.
    pub want_30s: f64,
    /// Clients that want a hundredth of the GPU or more, over 30 s.
    pub wanting: u32,
    /// Claims of programs that are about to start.
    pub claims: u32,
    /// Sum of the parts of the GPU that they want.
    pub claimed: f64,
    /// Changes whenever a claim is made or ends early.
    pub claims_seen: u64,
    /// Whether the copy engine was measured in the last period: if not, the chip lists none or its
    /// status word cannot be read, and times of copies do not grow.
    pub copies: bool,
    /// Share of the polled time in which copies of a client ran; this and the next two are absent
    /// where copies are not measured.
    pub copy_busy: Option<f64>,
    /// Share of the polled time in which the copy engine was idle.
    pub copy_idle: Option<f64>,
    /// Share of the polled time in which channels without a known owner were on it.
    pub copy_unknown: Option<f64>,
    /// Part of the copy engine that all clients together had: as `busy_2s`.
    pub copy_2s: Option<f64>,
    /// As `copy_2s`, of 30 s.
    pub copy_30s: Option<f64>,
    /// Processes that are servers of NVIDIA's MPS, of the clients that the caller sees: all programs
    /// behind one are one client.
    pub mps_servers: Vec<i32>,
    /// Time that all clients waited for submissions that were on the engine before, and for work of
    /// protected clients.
    pub submission_wait_running_ns: u64,
    /// Time that they waited for their reserves to let them start.
    pub submission_wait_budget_ns: u64,
    /// Time that they waited for clients that passed before although they were ready.
    pub submission_wait_order_ns: u64,
    /// Time that they waited while the engine was kept free after work of protected clients.
    pub submission_wait_linger_ns: u64,
    /// Deadlines of reserves that were missed although all conditions of the promise held.
    pub missed: u64,
    /// Those that were missed and void: the client used more than it had left or declared.
    pub void_own: u64,
    /// Void: a command of another client was too long, or there was work of protected clients.
    pub void_foreign: u64,
    /// Void: all clients had to pass, or submissions had passed without a decision.
    pub void_fallback: u64,
    /// Void: clients of a higher priority passed before.
    pub void_order: u64,
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
        let copies = info.flags & uapi::GPU_COPIES != 0;
        let copy_polled_ns = since(|gpu| gpu.copy_polled_ns);
        let copy_idle = fraction(since(|gpu| gpu.copy_idle_ns), copy_polled_ns);
        let copy_unknown = fraction(since(|gpu| gpu.copy_unknown_ns), copy_polled_ns);
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
                    sample_interval_ns: info.sample_interval_ns,
                    copies,
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
                    sample_interval_ns: info.sample_interval_ns,
                    copies,
                };
                Group::new(group, earlier, &phases, t_sys_ns)
            })
            .collect();
        groups.sort_by_key(|group| (std::cmp::Reverse(group.gpu_time_ns), group.id));
        clients.sort_by_key(|client| (std::cmp::Reverse(client.gpu_time_ns), client.id));
        let config = info.config();
        let part = |percent: u32| f64::from(percent) / 100.0;
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
            away: info.flags & uapi::GPU_AWAY != 0,
            unfollowed: info.unfollowed,
            source: config.source.name().to_owned(),
            now_ns: info.now_ns,
            interval: before.is_some(),
            span_ns,
            polled_ns,
            busy: rest(idle, unknown),
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
            busy_2s: part(info.busy_2s_pct),
            busy_30s: part(info.busy_30s_pct),
            want_2s: part(info.want_2s_pct),
            want_30s: part(info.want_30s_pct),
            wanting: info.wanting,
            claims: info.claims,
            claimed: part(info.claimed_pct),
            claims_seen: info.claims_seen,
            copies,
            copy_busy: rest(copy_idle, copy_unknown),
            copy_idle,
            copy_unknown,
            copy_2s: copies.then(|| part(info.copy_2s_pct)),
            copy_30s: copies.then(|| part(info.copy_30s_pct)),
            mps_servers: Vec::new(),
            submission_wait_running_ns: since(|gpu| gpu.submission_waits.running_ns),
            submission_wait_budget_ns: since(|gpu| gpu.submission_waits.budget_ns),
            submission_wait_order_ns: since(|gpu| gpu.submission_waits.order_ns),
            submission_wait_linger_ns: since(|gpu| gpu.submission_waits.linger_ns),
            missed: since(|gpu| gpu.misses.promised),
            void_own: since(|gpu| gpu.misses.own),
            void_foreign: since(|gpu| gpu.misses.foreign),
            void_fallback: since(|gpu| gpu.misses.fallback),
            void_order: since(|gpu| gpu.misses.order),
            clients,
            groups,
        }
    }
}

impl Stat {
    /// With what the processes of its clients run.
    #[must_use]
    pub fn seen_with(mut self, processes: &Processes, now: &Snapshot) -> Self {
        self.mps_servers = processes.servers(now);
        self
    }

    /// As JSON, without members that the caller may not see.
    ///
    /// # Errors
    ///
    /// None that is known: all members can be written.
    pub fn to_json(&self) -> serde_json::Result<serde_json::Value> {
        let mut value = serde_json::to_value(self)?;
        if let Some(members) = value.as_object_mut().filter(|_| self.withheld) {
            for name in WITHHELD {
                members.remove(name);
            }
        }
        Ok(value)
    }
}

fn find(snapshot: &Snapshot, id: u64) -> Option<&uapi::Client> {
    snapshot.clients.iter().find(|client| client.id == id)
}

fn fraction(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What idle and unknown time leave of the whole.
fn rest(idle: Option<f64>, unknown: Option<f64>) -> Option<f64> {
    idle.zip(unknown)
        .map(|(idle, unknown)| (1.0 - idle - unknown).max(0.0))
}
