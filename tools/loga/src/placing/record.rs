// SPDX-License-Identifier: GPL-2.0

//! `[tool]` All that a choice is made from, as a file: the simulator reads it and chooses again.
//! `docs/placement.md` explains every key.

use super::memory::Memory;
use super::Wish;
use crate::control::Snapshot;
use crate::history::ask::{Answer, Heard};
use crate::history::record::OnModel;
use crate::{cli, names};
use loga::uapi;
use serde::Serialize;

/// The layout. Raised when a key changes its meaning or goes away.
const VERSION: u32 = 1;

/// All of it; tables come last.
#[derive(Serialize)]
struct File<'a> {
    version: u32,
    policy: &'static str,
    count: u32,
    claims_made: u64,
    among: Option<&'a [u32]>,
    visible: Option<&'a [u32]>,
    program: Program,
    gpu: Vec<Gpu>,
}

/// The program that is about to start.
#[derive(Serialize)]
struct Program {
    weight: u32,
    want_pct: Option<u32>,
    command_us: Option<u64>,
    memory_mib: Option<u64>,
    history: Option<History>,
}

/// What earlier runs say, as far as it counts.
#[derive(Serialize)]
struct History {
    typical_ns: Option<u64>,
    model: Vec<Model>,
}

/// Runs on GPUs of one model.
#[derive(Serialize)]
struct Model {
    chip: u32,
    want_ppm: Option<u64>,
    copy_ppm: Option<u64>,
    command_ns: Option<u64>,
    time_ns: Option<u64>,
    gpu_ns: Option<u64>,
}

/// A GPU, as the kernel module says.
#[derive(Serialize)]
struct Gpu {
    gpu: u32,
    pci: String,
    chip: u32,
    lost: bool,
    speed: Option<f64>,
    free_mib: Option<u64>,
    wanting: u32,
    want_pct: u32,
    copy_pct: u32,
    claims: u32,
    claimed_pct: u32,
    client: Vec<Client>,
}

/// A client that the caller sees, as the kernel module says.
#[derive(Serialize)]
struct Client {
    weight: u32,
    idle: bool,
    busy_ppm: u32,
    waited_ppm: u32,
    copy_ppm: u32,
    measured_ns: u64,
    runs: u64,
    there_ns: u64,
    waited_ns: u64,
    time_ns: Option<u64>,
}

/// What the caller gave and what its environment says.
#[derive(Clone, Copy, Debug)]
pub struct CallerInput<'a> {
    /// Its arguments.
    pub asked: &'a cli::Asked,
    /// The GPUs that its environment allows, if it says so.
    pub visible: Option<&'a [u32]>,
    /// How much memory is free.
    pub memory: &'a Memory,
}

/// The file, from what [`Pool`](super::Pool) is made from; `wish` is the one that was asked for, with
/// what the agent says and before anything is learnt from it.
///
/// # Errors
///
/// A figure is too large to be written.
pub fn text(snapshots: &[Snapshot], wish: &Wish, given: CallerInput<'_>) -> Result<String, String> {
    let asked = given.asked;
    let answer = match &wish.heard {
        Heard::Answer(answer) => Some(answer.as_ref()),
        Heard::NotAsked | Heard::Silent(_) => None,
    };
    let gpus = snapshots.iter().enumerate();
    let gpus = gpus.map(|(at, snapshot)| gpu(snapshot, asked.speeds.get(at), given.memory, answer));
    let file = File {
        version: VERSION,
        policy: wish.policy.name(),
        count: wish.count,
        claims_made: snapshots.first().map_or(0, |one| one.info.claims_seen),
        among: (!asked.among.is_empty()).then_some(&asked.among),
        visible: given.visible,
        program: Program {
            weight: wish.newcomer.demand.weight.get(),
            want_pct: asked.want,
            command_us: asked.command_us,
            memory_mib: asked.memory,
            history: answer.map(history),
        },
        gpu: gpus.collect(),
    };
    let text = toml::to_string(&file).map_err(|error| error.to_string())?;
    Ok(format!(
        "# What a choice of `loga place` was made from: see docs/placement.md of LoGA.\n{text}"
    ))
}

fn history(answer: &Answer) -> History {
    let model = |model: &OnModel| Model {
        chip: model.chip,
        want_ppm: model.want.known(),
        copy_ppm: model.copy.known(),
        command_ns: model.command.known(),
        time_ns: model.time.known(),
        gpu_ns: model.gpu.known(),
    };
    let models = answer.record.iter().flat_map(|record| &record.models);
    History {
        typical_ns: answer.typical_ns,
        model: models.map(model).collect(),
    }
}

fn gpu(snapshot: &Snapshot, speed: Option<&f64>, memory: &Memory, answer: Option<&Answer>) -> Gpu {
    let info = &snapshot.info;
    let pci = names::pci(info.pci_domain, info.pci_bdf);
    let client = |client: &uapi::Client| {
        let mut running = answer.iter().flat_map(|answer| &answer.running);
        let known = running.find(|one| (one.gpu, one.client) == (snapshot.gpu, client.id));
        Client {
            weight: client.weight,
            idle: client.class == uapi::CLASS_IDLE,
            busy_ppm: client.busy_30s_ppm,
            waited_ppm: client.waited_30s_ppm,
            copy_ppm: client.copy_30s_ppm,
            measured_ns: client.measured_ns,
            runs: client.runs,
            there_ns: info.now_ns.saturating_sub(client.since_ns),
            waited_ns: client.waited_ns,
            time_ns: known.map(|one| one.time_ns),
        }
    };
    Gpu {
        gpu: snapshot.gpu,
        chip: info.chipset,
        lost: info.flags & (uapi::GPU_LOST | uapi::GPU_AWAY) != 0,
        speed: speed.copied(),
        free_mib: memory.free_mib(&pci),
        pci,
        wanting: info.wanting,
        want_pct: info.want_30s_pct,
        copy_pct: info.copy_30s_pct,
        claims: info.claims,
        claimed_pct: info.claimed_pct,
        client: snapshot.clients.iter().map(client).collect(),
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
