// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rows of a GPU, and of its processes where they are asked for.

use super::metrics::Id;
use super::rows::{printable, Label, Labels, Rows};
use crate::control::Snapshot;
use crate::names;
use crate::placing::unknown_loses;
use crate::processes::Processes;
use loga::placement::Placement;
use loga::uapi;
use std::cmp::Reverse;

/// Parts of a whole, in the kernel's ratios.
const MILLION: u32 = 1_000_000;
const HUNDRED: u32 = 100;

/// Adds the rows of a GPU.
pub fn rows(snapshot: &Snapshot, processes: &Processes, gpu: &Labels, rows: &mut Rows) {
    let info = &snapshot.info;
    let config = info.config();
    let flag = |bit: u32| u64::from(info.flags & bit != 0);
    let own = [
        ("chip", format!("{:#04x}", info.chipset)),
        ("policy", config.policy.name().to_string()),
        ("accounting", names::accounting(info.accounting)),
        ("group_by", config.group_by.name().to_string()),
    ];
    let labels: Labels = gpu.iter().cloned().chain(own).collect();
    rows.count(Id::Info, &labels, 1);
    rows.count(Id::Lost, gpu, flag(uapi::GPU_LOST));
    rows.count(Id::Enforcing, gpu, u64::from(config.enforce));
    rows.count(Id::Mps, gpu, length(&processes.servers(snapshot)));
    rows.count(Id::Clients, gpu, length(&snapshot.clients));
    rows.count(Id::UnmanagedMappings, gpu, info.unmanaged_mappings);
    // This caller may not see the rest.
    if info.flags & uapi::GPU_WITHHELD != 0 {
        return;
    }
    now(snapshot, gpu, rows);
    let busy = info
        .polled_ns
        .saturating_sub(info.idle_ns)
        .saturating_sub(info.unknown_ns);
    rows.seconds(Id::ObservedSeconds, gpu, info.polled_ns);
    rows.seconds(Id::BusySeconds, gpu, busy);
    rows.seconds(Id::IdleSeconds, gpu, info.idle_ns);
    rows.seconds(Id::UnknownSeconds, gpu, info.unknown_ns);
    rows.count(Id::Fallbacks, gpu, info.fallbacks);
    rows.count(Id::Evasions, gpu, info.evasions);
    rows.count(Id::UnmanagedFiles, gpu, info.unmanaged_files);
    rows.count(Id::OverdueDrains, gpu, info.overdue_drains);
    rows.count(Id::Decisions, gpu, info.decisions);
    rows.count(Id::Switches, gpu, info.switches);
    rows.count(Id::ClaimsSeen, gpu, info.claims_seen);
    submissions(info, gpu, rows);
}

/// For what clients waited, and which deadlines were missed, while submissions were decided on.
fn submissions(info: &uapi::Gpu, gpu: &Labels, rows: &mut Rows) {
    let with = |name: &'static str, value: &str| -> Labels {
        let own = [(name, value.to_string())];
        gpu.iter().cloned().chain(own).collect()
    };
    let waits = &info.submission_waits;
    for (cause, ns) in [
        ("running", waits.running_ns),
        ("budget", waits.budget_ns),
        ("order", waits.order_ns),
        ("linger", waits.linger_ns),
    ] {
        rows.seconds(Id::SubmissionWait, &with("cause", cause), ns);
    }
    for (why, count) in names::misses(&info.misses) {
        rows.count(Id::ReserveMisses, &with("why", why), count);
    }
}

/// What is wanted of the GPU now, which a scheduler of a cluster decides by.
fn now(snapshot: &Snapshot, gpu: &Labels, rows: &mut Rows) {
    let info = &snapshot.info;
    let busy = [info.busy_2s_pct, info.busy_30s_pct].map(u64::from);
    rows.windows(Id::Busy, gpu, busy, HUNDRED);
    if info.flags & uapi::GPU_COPIES != 0 {
        let copies = [info.copy_2s_pct, info.copy_30s_pct].map(u64::from);
        rows.windows(Id::CopyBusy, gpu, copies, HUNDRED);
    }
    let want = [info.want_2s_pct, info.want_30s_pct].map(u64::from);
    rows.windows(Id::Want, gpu, want, HUNDRED);
    rows.windows(
        Id::Waited,
        gpu,
        Windows::of(&snapshot.clients).waited,
        MILLION,
    );
    rows.count(Id::Wanting, gpu, info.wanting.into());
    rows.count(Id::Claims, gpu, info.claims.into());
    rows.ratio(
        Id::Claimed,
        gpu,
        f64::from(info.claimed_pct) / f64::from(HUNDRED),
    );
    let policy = ("policy", Placement::Wait.name().to_string());
    let labels: Labels = gpu.iter().cloned().chain([policy]).collect();
    // CAST: for people and schedulers, far below 53 bits.
    let score = unknown_loses(snapshot) as f64 / f64::from(MILLION);
    rows.ratio(Id::PlaceScore, &labels, score);
}

/// Adds rows of the processes that were busiest in the last 30 s, and one of all others together.
pub fn processes(snapshot: &Snapshot, gpu: &Labels, most: usize, rows: &mut Rows) {
    let mut clients: Vec<&uapi::Client> = snapshot.clients.iter().collect();
    clients.sort_by_key(|client| (Reverse(client.busy_30s_ppm), client.id));
    let (shown, others) = clients.split_at(most.min(clients.len()));
    let row = |own: [Label; 3], windows: Windows, rows: &mut Rows| {
        let labels: Labels = gpu.iter().cloned().chain(own).collect();
        rows.windows(Id::ProcessBusy, &labels, windows.busy, MILLION);
        rows.windows(Id::ProcessWaited, &labels, windows.waited, MILLION);
    };
    for client in shown {
        // The number of a process that another namespace hides is 0: that of the client differs.
        let own = [
            ("pid", client.pid.to_string()),
            ("client", client.id.to_string()),
            ("comm", printable(&names::text(&client.comm))),
        ];
        row(own, Windows::of([*client]), rows);
    }
    if !others.is_empty() {
        let own = ["pid", "client", "comm"].map(|name| (name, "other".to_string()));
        row(own, Windows::of(others.iter().copied()), rows);
    }
}

/// Sums over processes, of the last 2 s and the last 30 s, in millionths.
#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    busy: [u64; 2],
    waited: [u64; 2],
}

impl Windows {
    fn of<'a>(clients: impl IntoIterator<Item = &'a uapi::Client>) -> Self {
        let mut sum = Self::default();
        for client in clients {
            sum.busy[0] += u64::from(client.busy_2s_ppm);
            sum.busy[1] += u64::from(client.busy_30s_ppm);
            sum.waited[0] += u64::from(client.waited_2s_ppm);
            sum.waited[1] += u64::from(client.waited_30s_ppm);
        }
        sum
    }
}

fn length<T>(table: &[T]) -> u64 {
    u64::try_from(table.len()).unwrap_or(u64::MAX)
}
