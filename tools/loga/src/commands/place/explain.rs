// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga place --explain`: what a choice cost, once the program runs.

use super::{print_json, ratio, Failure, JSON_VERSION};
use crate::control::Snapshot;
use crate::names::Name;
use crate::placing::{client_demand, on_fastest, Closed, Pool, Wish};
use crate::processes::Processes;
use crate::{cli, names, table};
use loga::placement::{expected, Newcomer};
use loga::uapi;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;

/// A process on one GPU; an object of `loga place --explain --json`.
#[derive(Serialize)]
struct Explained {
    version: u32,
    pid: i32,
    comm: Name,
    /// Its bytes in hexadecimal digits, if they are no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    comm_hex: Option<String>,
    gpu: u32,
    /// Whether it is a server of NVIDIA's MPS: all of it is about its programs together.
    mps_server: bool,
    want_pct: f64,
    there_ns: u64,
    waited_ns: u64,
    /// As a fraction of `there_ns`.
    waited: Option<f64>,
    /// How many times as long everything took as without waiting.
    slowdown: Option<f64>,
    /// The same as it is expected here now.
    expected: f64,
    other: Option<Other>,
}

/// The best other GPU.
#[derive(Serialize)]
struct Other {
    gpu: u32,
    expected: f64,
}

/// Prints a line, or an object, for each GPU that the process uses.
///
/// # Errors
///
/// [`Failure::Text`] if it uses none that the caller sees.
pub(super) fn run(
    arguments: &cli::Place,
    snapshots: &[Snapshot],
    pid: i32,
    wish: &Wish,
    processes: &Processes,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let uses = |snapshot: &&Snapshot| of(snapshot, pid).is_some();
    let there: Vec<u32> = snapshots.iter().filter(uses).map(|one| one.gpu).collect();
    if there.is_empty() {
        let servers = snapshots.iter().flat_map(|one| processes.servers(one));
        let behind = servers.map(|server| format!(", or is behind MPS server {server}"));
        let behind: BTreeSet<String> = behind.collect();
        let behind = Vec::from_iter(behind).concat();
        let line = format!("process {pid} uses no GPU, or is not one that you see{behind}");
        return Err(Failure::Text(line));
    }
    // Without it: what it asks for is asked once more.
    let mut without = snapshots.to_vec();
    for snapshot in &mut without {
        take_out(snapshot, pid);
    }
    let mut pool = Pool::new(&without, &arguments.asked, None).map_err(Failure::Text)?;
    for place in &mut pool.places {
        if there.contains(&place.gpu) {
            place.closed = Some(Closed::Occupied);
        }
    }
    let mut named = snapshots.to_vec();
    processes.rename(&mut named);
    for snapshot in &named {
        if let Some(client) = of(snapshot, pid) {
            let explained = Explained {
                mps_server: processes.servers(snapshot).contains(&pid),
                ..explain(snapshot, client, &pool, wish)
            };
            if arguments.json {
                print_json(out, &explained)?;
            } else {
                writeln!(out, "{}", line(&explained))?;
            }
        }
    }
    Ok(())
}

fn of(snapshot: &Snapshot, pid: i32) -> Option<&uapi::Client> {
    snapshot.clients.iter().find(|client| client.pid == pid)
}

/// Takes the clients of a process out of a snapshot and its sums.
fn take_out(snapshot: &mut Snapshot, pid: i32) {
    let (own, others): (Vec<_>, Vec<_>) = std::mem::take(&mut snapshot.clients)
        .into_iter()
        .partition(|client| client.pid == pid);
    snapshot.clients = others;
    let info = &mut snapshot.info;
    for client in own {
        let demand = client_demand(&client);
        let percent = |part: u64| u32::try_from(part / crate::placing::PERCENT).unwrap_or(100);
        let want = percent(demand.want);
        info.wanting = info.wanting.saturating_sub((want > 0).into());
        info.want_30s_pct = info.want_30s_pct.saturating_sub(want);
        info.copy_30s_pct = info.copy_30s_pct.saturating_sub(percent(demand.copy));
    }
}

fn explain(snapshot: &Snapshot, client: &uapi::Client, pool: &Pool, wish: &Wish) -> Explained {
    let gpus = pool.gpus();
    let at = |gpu: u32| {
        let mut places = pool.places.iter().zip(&gpus);
        places.find(|(place, _)| place.gpu == gpu)
    };
    let here = at(snapshot.gpu);
    let demand = client_demand(client);
    let speed = here.map_or(loga::placement::PPM, |(place, _)| place.speed);
    let newcomer = Newcomer {
        demand: on_fastest(demand, speed),
        known: true,
        time: None,
    };
    let asked = Wish {
        newcomer,
        count: 1,
        ..wish.clone()
    };
    let on = |gpu: u32| at(gpu).map(|(_, gpu)| ratio(expected(gpu, &newcomer)));
    let best = pool
        .choose(&asked)
        .ok()
        .and_then(|best| best.first().copied());
    let there_ns = snapshot.info.now_ns.saturating_sub(client.since_ns);
    // What is under way is in no figure.
    let waited_ns = client.waited_ns.min(there_ns);
    let part = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let comm = names::text(&client.comm);
    Explained {
        version: JSON_VERSION,
        pid: client.pid,
        comm_hex: comm.hex(),
        comm,
        gpu: snapshot.gpu,
        mps_server: false,
        want_pct: ratio(demand.want) * 100.0,
        there_ns,
        waited_ns,
        waited: part(waited_ns, there_ns),
        slowdown: part(there_ns, there_ns.saturating_sub(waited_ns)),
        expected: on(snapshot.gpu).unwrap_or(1.0),
        other: best.and_then(|gpu| {
            let expected = on(gpu)?;
            Some(Other { gpu, expected })
        }),
    }
}

fn line(one: &Explained) -> String {
    let Explained { pid, comm, gpu, .. } = one;
    let times = one
        .slowdown
        .map_or("-".to_string(), |times| format!("{times:.2}"));
    let there_s = one.there_ns as f64 / 1e9;
    let other = one.other.as_ref().map_or_else(
        || "there is no other GPU".to_string(),
        |other| format!("{:.2} on GPU {}", other.expected, other.gpu),
    );
    let mps = if one.mps_server {
        "; it is an MPS server: this is about all its programs together"
    } else {
        ""
    };
    format!(
        "GPU {gpu}: process {pid} {comm} wants {:.1} %, waited {} ms of the {there_s:.1} s since it began ({}), and took {times} times as long as without; expected now: {:.2} here, {other}{mps}",
        one.want_pct,
        table::ms(one.waited_ns),
        table::percent(one.waited),
        one.expected,
    )
}
