// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga slurm task-prolog`: the environment that makes a task see its GPUs, the best one
//! first. Slurm takes lines `export NAME=VALUE` from its TaskProlog into the task's environment;
//! without such a line the task keeps what Slurm gave it.
//!
//! Slurm numbers the GPUs of a node in the order of their types `g<N>`, and only those that a task
//! may open if it constrains devices. CUDA numbers them by speed unless it is told otherwise. So the
//! task gets UUIDs, or positions on the bus with the order that they count in. It sees no GPU that
//! Slurm did not give to it, but one in place of another with `--any-gpu`.
//!
//! It asks the kernel module and reads the note of the Prolog, and asks no daemon of Slurm: it runs
//! before each task, as the job's user.

use super::job::{note_for_user, Job, Note};
use crate::cli;
use crate::control::Snapshot;
use crate::export::board::Boards;
use crate::placing::visible::{Devices, DRIVER};
use crate::placing::{Pool, Wish};
use loga::uapi;
use loga::units::Weight;
use nix::errno::Errno;
use nix::unistd::{access, AccessFlags};
use std::path::Path;

/// Most GPUs in a list of Slurm's.
const MAX_GPUS: usize = 64;

/// A task, by the environment that slurmd gives to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Task {
    job: Job,
    /// The GPUs that it sees, as Slurm numbers them.
    seen: Vec<usize>,
    /// Whether its step has no other task.
    alone: bool,
}

impl Task {
    /// Nothing for a task without GPUs.
    ///
    /// # Errors
    ///
    /// What is missing or senseless.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let Some(job) = Job::of(&variable)? else {
            return Ok(None);
        };
        let seen = variable("CUDA_VISIBLE_DEVICES").unwrap_or_default();
        let indices: Result<Vec<usize>, _> = seen.split(',').map(str::parse).collect();
        let seen = indices.map_err(|_| "CUDA_VISIBLE_DEVICES has no indices, it stays")?;
        if seen.len() > MAX_GPUS {
            return Err("CUDA_VISIBLE_DEVICES is too long".to_string());
        }
        let tasks = variable("SLURM_STEP_NUM_TASKS").or_else(|| variable("SLURM_NTASKS"));
        let alone = tasks.is_none_or(|count| count == "1");
        Ok(Some(Self { job, seen, alone }))
    }
}

/// What is known of a node when a task starts.
struct Machine<'a> {
    snapshots: &'a [Snapshot],
    /// Where `proc` is mounted.
    proc: &'a Path,
    /// Whether this process may open a device node.
    may_open: &'a dyn Fn(&str) -> Result<(), Errno>,
}

/// The lines for Slurm; none if the task keeps what it has.
///
/// # Errors
///
/// Why it does.
pub fn run(
    arguments: &cli::SlurmTask,
    snapshots: impl FnOnce() -> Result<Vec<Snapshot>, String>,
) -> Result<String, String> {
    let Some(task) = Task::of(|name| std::env::var(name).ok())? else {
        return Ok(String::new());
    };
    let note = note_for_user(&arguments.notes, &task.job)?;
    let snapshots = snapshots()?;
    let machine = Machine {
        snapshots: &snapshots,
        proc: Path::new("/proc"),
        may_open: &|node: &str| {
            let flags = AccessFlags::R_OK | AccessFlags::W_OK;
            access(Path::new("/dev").join(node).as_path(), flags)
        },
    };
    lines(&task, &note, arguments.any_gpu, &machine)
}

fn lines(task: &Task, note: &Note, any_gpu: bool, machine: &Machine<'_>) -> Result<String, String> {
    let (open, denied) = machine.open(&note.gpus)?;
    let is_constrained = !denied.is_empty();
    let numbered = if is_constrained { &open } else { &note.gpus };
    let of = |index: &usize| numbered.get(*index).copied();
    let own: Option<Vec<u32>> = task.seen.iter().map(of).collect();
    let own = own.ok_or("its GPUs are not among the types of the node")?;
    let among = match any_gpu && note.loose && !is_constrained && own.len() == 1 {
        true => &note.gpus,
        false => &own,
    };
    // Tasks that choose by their rank need the same order in all of them.
    let chosen = if task.alone {
        machine.best(among, own.len()).unwrap_or(own)
    } else {
        own
    };
    let told = Devices::new(machine.snapshots, machine.proc)
        .without(&denied)
        .variables(&chosen);
    let line = |(name, value): &(&str, String)| format!("export {name}={value}\n");
    Ok(told.iter().map(line).collect())
}

impl Machine<'_> {
    /// Those of some GPUs that this process may open, and those that it may not.
    ///
    /// # Errors
    ///
    /// One that is not there.
    fn open(&self, gpus: &[u32]) -> Result<(Vec<u32>, Vec<u32>), String> {
        if gpus.is_empty() {
            return Err("the node's GPUs have no types of ours".to_string());
        }
        let mut boards = Boards::below(&self.proc.join(DRIVER));
        let (mut open, mut denied) = (Vec::new(), Vec::new());
        for gpu in gpus {
            let found = self.snapshots.iter().find(|one| one.gpu == *gpu);
            let snapshot = found.ok_or_else(|| format!("there is no GPU {gpu}"))?;
            let node = boards.node(*gpu, &snapshot.info);
            match (self.may_open)(&node) {
                Ok(()) => open.push(*gpu),
                // The answers of a device cgroup, and of a node of others.
                Err(Errno::EPERM | Errno::EACCES) => denied.push(*gpu),
                Err(error) => return Err(format!("/dev/{node}: {error}")),
            }
        }
        Ok((open, denied))
    }

    /// The `count` best of some GPUs, the best one first; nothing if LoGA has no opinion of them.
    fn best(&self, among: &[u32], count: usize) -> Option<Vec<u32>> {
        let snapshots = self.snapshots.iter();
        let mut candidates = snapshots.filter(|one| among.contains(&one.gpu));
        let is_sure =
            |one: &Snapshot| one.info.config().enforce && one.info.flags & uapi::GPU_LOST == 0;
        if !candidates.all(is_sure) {
            return None;
        }
        let asked = cli::Asked {
            among: among.to_vec(),
            ..cli::Asked::default()
        };
        let count = u32::try_from(count).ok()?;
        let wish = Wish::new(None, count, &asked, Weight::DEFAULT).ok()?;
        let pool = Pool::new(self.snapshots, &asked, None).ok()?;
        pool.choose(&wish).ok()
    }
}

#[cfg(test)]
mod tests;
