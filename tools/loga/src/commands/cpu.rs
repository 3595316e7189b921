// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga agent cpu`: who has the turn of a GPU comes first on the processors too.
//!
//! A client that has the turn and no processor leaves the GPU idle. The agent raises `cpu.weight` of
//! the cgroup of each client that has the turn, and puts back what it was when the turn is passed on,
//! and when the agent ends for whatever reason. What it has raised stands in a file, from which the
//! next start puts back what a killed agent has left.
//!
//! | file | contents |
//! |---|---|
//! | `cgroups` | the cgroups of processes, and their weights |
//! | `noted` | the file of what is raised |
//! | `raised` | which cgroups are raised, and why others are not |

mod cgroups;
mod noted;
mod raised;

pub use self::cgroups::Cgroups;

use self::noted::Noted;
use self::raised::Raised;
use super::Failure;
use crate::cli;
use crate::control::{Calls, Control, Snapshot};
use loga::policies::PolicyKind;
use loga::uapi;
use loga::uapi::Event;
use nix::unistd::Uid;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Turns read at once.
const BATCH: usize = 64;
/// Time after which all GPUs are looked at again without an event: so late the end of LoGA is seen.
const RENEWAL: Duration = Duration::from_secs(1);
/// Where root keeps the file. Not in /run/loga, which systemd removes with loga-agent.service.
const OF_ROOT: &str = "/run/loga-cpu";

/// Follows the turns until `stop` is set, or LoGA is gone. All weights are then what they were.
///
/// # Errors
///
/// Any [`Failure`].
pub fn run(
    arguments: &cli::Cpu,
    control: &Control<impl Calls>,
    cgroups: &Cgroups,
    stop: &AtomicBool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let folder = match &arguments.state {
        Some(folder) => folder.clone(),
        None => folder_of_caller().map_err(Failure::Text)?,
    };
    let noted = Noted::open(&folder).map_err(Failure::Text)?;
    let mut raised = Raised::new(cgroups, noted, arguments.weight);
    raised.put_back_of_killed(out)?;
    let followed = follow(arguments, control, &mut raised, stop, out);
    let ended = raised.end(out);
    followed.and(ended)
}

/// The folder for the file, if no argument names one.
fn folder_of_caller() -> Result<PathBuf, String> {
    if Uid::effective().is_root() {
        return Ok(PathBuf::from(OF_ROOT));
    }
    let own =
        std::env::var_os("XDG_RUNTIME_DIR").map(|folder| PathBuf::from(folder).join("loga-cpu"));
    own.ok_or_else(|| {
        "no folder for what is raised: XDG_RUNTIME_DIR is not set, want --state FOLDER".to_string()
    })
}

fn follow(
    arguments: &cli::Cpu,
    control: &Control<impl Calls>,
    raised: &mut Raised<'_>,
    stop: &AtomicBool,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let gpu = arguments.gpu.unwrap_or(uapi::ALL_GPUS);
    control.subscribe(gpu, 1 << uapi::EVENT_TURN)?;
    let mut told = BTreeSet::new();
    let mut events = [Event::default(); BATCH];
    let mut passed = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) {
        let snapshots = match passed.is_empty() {
            true => control.chosen(arguments.gpu)?,
            false => {
                let snapshots = passed.iter().map(|gpu| control.snapshot(*gpu));
                snapshots.collect::<Result<Vec<_>, _>>()?
            }
        };
        for snapshot in &snapshots {
            tell_without_turns(snapshot, &mut told, out)?;
            raised.follow(snapshot.gpu, holders(snapshot), out)?;
        }
        out.flush()?;
        let count = control.events(&mut events, RENEWAL)?;
        let of_gpus = events.iter().take(count).map(|event| event.gpu);
        passed = of_gpus.collect();
    }
    Ok(())
}

/// The processes that have the turn of a GPU; of those in containers that the caller does not see,
/// none.
fn holders(snapshot: &Snapshot) -> impl Iterator<Item = i32> + '_ {
    let groups = snapshot.groups.iter().filter(|group| group.turn != 0);
    let groups: BTreeSet<u64> = groups.map(|group| group.id).collect();
    let clients = snapshot.clients.iter();
    clients
        .filter(move |client| groups.contains(&client.group) && client.ended == 0)
        .map(|client| client.pid)
        .filter(|pid| *pid > 0)
}

/// Says of a GPU that nobody has a turn there, when that begins.
fn tell_without_turns(
    snapshot: &Snapshot,
    told: &mut BTreeSet<u32>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let config = snapshot.info.config();
    if config.enforce && config.policy.has_turns() {
        told.remove(&snapshot.gpu);
    } else if told.insert(snapshot.gpu) {
        let with_turns = PolicyKind::ALL.iter().filter(|kind| kind.has_turns());
        let names: Vec<&str> = with_turns.map(|kind| kind.name()).collect();
        writeln!(
            out,
            "GPU {}: clients take no turns: want `loga policy set --policy credit --enforce on`, or another of {}",
            snapshot.gpu,
            names.join(", ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
