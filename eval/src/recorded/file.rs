// SPDX-License-Identifier: GPL-2.0

//! The file that `loga place --snapshot` writes. `docs/placement.md` explains every key.

use crate::scenario::{Error, Text};
use loga::placement::{self, Placement, PPM};
use loga::units::Weight;
use serde::Deserialize;
use toml::Spanned;

/// The layout that is read.
const VERSION: u64 = 1;
/// Most GPUs.
const GPUS_MAX: u64 = 256;
/// Most clients of a GPU, seen or not, and most claims.
const CLIENTS_MAX: u64 = 65_536;
/// Longest command of the program, in microseconds.
const COMMAND_US_MAX: u64 = 60_000_000;
/// Largest relative speed.
const SPEED_MAX: f64 = 1e6;

/// All of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    version: Spanned<u64>,
    policy: Spanned<String>,
    count: Spanned<u64>,
    /// Claims that were made so far.
    pub(super) claims_made: u64,
    #[serde(default)]
    among: Option<Spanned<Vec<u32>>>,
    #[serde(default)]
    visible: Option<Spanned<Vec<u32>>>,
    /// The program.
    pub(super) program: Program,
    #[serde(rename = "gpu")]
    gpus: Spanned<Vec<Spanned<Gpu>>>,
}

/// The program that is about to start.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Program {
    weight: Spanned<u64>,
    want_pct: Option<Spanned<u64>>,
    command_us: Option<Spanned<u64>>,
    /// Memory that it needs.
    pub(super) memory_mib: Option<u64>,
    /// What is known of earlier runs.
    pub(super) history: Option<History>,
}

/// What the agent says of earlier runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct History {
    /// The mean time alone of all programs of the user.
    pub(super) typical_ns: Option<u64>,
    /// Means of its runs that count, by model of GPU.
    #[serde(default, rename = "model")]
    pub(super) models: Vec<Model>,
}

/// The runs of a program on GPUs of one model.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    /// Its chip id.
    pub(super) chip: u32,
    /// Part of its time alone for which the program used the GPU.
    pub(super) want_ppm: Option<u64>,
    /// Part of it for which the program copied.
    pub(super) copy_ppm: Option<u64>,
    /// For how long its work was on the engine without a break.
    pub(super) command_ns: Option<u64>,
    /// Its time alone.
    pub(super) time_ns: Option<u64>,
    /// Its GPU time.
    pub(super) gpu_ns: Option<u64>,
}

/// A GPU.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Gpu {
    gpu: Spanned<u32>,
    /// Its address, for people.
    #[serde(rename = "pci")]
    _pci: String,
    /// Its model.
    pub(super) chip: u32,
    /// Whether it does not answer.
    pub(super) lost: bool,
    speed: Option<Spanned<f64>>,
    /// Free memory.
    pub(super) free_mib: Option<u64>,
    wanting: Spanned<u64>,
    /// What all clients want.
    pub(super) want_pct: u32,
    /// What all clients copy.
    pub(super) copy_pct: u32,
    claims: Spanned<u64>,
    claimed_pct: Spanned<u64>,
    #[serde(default, rename = "client")]
    clients: Vec<Client>,
}

/// A client that the caller sees.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    weight: Spanned<u64>,
    /// Whether it is of the idle class.
    pub(super) idle: bool,
    busy_ppm: Spanned<u64>,
    waited_ppm: Spanned<u64>,
    copy_ppm: Spanned<u64>,
    /// GPU time in polling phases.
    pub(super) measured_ns: u64,
    /// Times that the engine took up its work there.
    pub(super) runs: u64,
    /// Since when it is there.
    pub(super) there_ns: u64,
    /// How long it waited.
    pub(super) waited_ns: u64,
    /// How long its program takes alone, if that is known.
    pub(super) time_ns: Option<u64>,
}

impl File {
    /// The text, if it makes sense.
    pub(super) fn parse(source: &Text<'_>) -> Result<Self, Error> {
        let file: Self = source.read()?;
        source.number("version", &file.version, VERSION, VERSION)?;
        let policy = file.policy.get_ref();
        placement::by_name(policy).map_err(|_| {
            let names = placement::NAMES.join(", ");
            let reason = format!("unknown placement policy {policy:?}, want one of {names}");
            source.error(file.policy.span(), reason)
        })?;
        source.number("count", &file.count, 1, GPUS_MAX)?;
        file.check_gpus(source)?;
        for (name, list) in [("among", &file.among), ("visible", &file.visible)] {
            let Some(list) = list else {
                continue;
            };
            let mut unknown = list.get_ref().iter().filter(|gpu| !file.has(**gpu));
            if let Some(gpu) = unknown.next() {
                let all: Vec<String> = file.gpus().map(|one| one.index().to_string()).collect();
                let reason = format!("{name} has GPU {gpu}, want some of {}", all.join(", "));
                return Err(source.error(list.span(), reason));
            }
        }
        file.program.check(source)?;
        for gpu in file.gpus() {
            gpu.check(source)?;
        }
        Ok(file)
    }

    fn check_gpus(&self, source: &Text<'_>) -> Result<(), Error> {
        let gpus = self.gpus.get_ref();
        // CAST: a length.
        if gpus.is_empty() || gpus.len() as u64 > GPUS_MAX {
            let reason = format!("{} GPUs, want 1 to {GPUS_MAX}", gpus.len());
            return Err(source.error(self.gpus.span(), reason));
        }
        let mut before = Vec::new();
        for gpu in self.gpus() {
            if before.contains(&gpu.index()) {
                let reason = format!("a second GPU {}, want another number", gpu.index());
                return Err(source.error(gpu.gpu.span(), reason));
            }
            before.push(gpu.index());
        }
        let given = gpus.iter().filter(|gpu| gpu.get_ref().speed.is_some());
        let without = gpus.iter().find(|gpu| gpu.get_ref().speed.is_none());
        match (given.count(), without) {
            (1.., Some(gpu)) => Err(source.error(
                gpu.span(),
                "a GPU without speed beside one with it, want a speed of all or of none",
            )),
            _ => Ok(()),
        }
    }

    /// The GPUs, in their order.
    pub(super) fn gpus(&self) -> impl Iterator<Item = &Gpu> {
        self.gpus.get_ref().iter().map(Spanned::get_ref)
    }

    fn has(&self, index: u32) -> bool {
        self.gpus().any(|gpu| gpu.index() == index)
    }

    /// The policy that was asked for.
    pub(super) fn policy(&self) -> Placement {
        // It was looked up when the file was read.
        placement::by_name(self.policy.get_ref()).unwrap_or(placement::STATIC)
    }

    /// How many GPUs.
    pub(super) fn count(&self) -> usize {
        // CAST: at most 256.
        *self.count.get_ref() as usize
    }

    /// Whether the caller left a GPU out, or its environment does not allow it.
    pub(super) fn left_out(&self, gpu: u32) -> Option<&'static str> {
        let out = |list: &Option<Spanned<Vec<u32>>>| {
            let list = list.as_ref();
            list.is_some_and(|list| !list.get_ref().contains(&gpu))
        };
        if out(&self.among) {
            return Some("not in among");
        }
        out(&self.visible).then_some("not in visible")
    }
}

impl Program {
    fn check(&self, source: &Text<'_>) -> Result<(), Error> {
        weight(source, &self.weight)?;
        if let Some(want) = &self.want_pct {
            source.number("want_pct", want, 1, 100)?;
        }
        if let Some(command) = &self.command_us {
            source.number("command_us", command, 1, COMMAND_US_MAX)?;
        }
        Ok(())
    }

    /// Its weight.
    pub(super) fn weight(&self) -> Weight {
        of(&self.weight)
    }

    /// What it wants of the fastest GPU, in percent.
    pub(super) fn want_pct(&self) -> Option<u64> {
        self.want_pct.as_ref().map(|want| *want.get_ref())
    }

    /// The mean time of its work on the engine without a break.
    pub(super) fn command_us(&self) -> Option<u64> {
        self.command_us.as_ref().map(|time| *time.get_ref())
    }
}

impl Gpu {
    fn check(&self, source: &Text<'_>) -> Result<(), Error> {
        if let Some(speed) = &self.speed {
            let number = *speed.get_ref();
            if !(number > 0.0 && number <= SPEED_MAX) {
                let reason = format!("speed = {number}, want more than 0, {SPEED_MAX} at most");
                return Err(source.error(speed.span(), reason));
            }
        }
        source.number("wanting", &self.wanting, 0, CLIENTS_MAX)?;
        source.number("claims", &self.claims, 0, CLIENTS_MAX)?;
        source.number("claimed_pct", &self.claimed_pct, 0, 100 * CLIENTS_MAX)?;
        for client in &self.clients {
            weight(source, &client.weight)?;
            source.number("busy_ppm", &client.busy_ppm, 0, PPM)?;
            source.number("waited_ppm", &client.waited_ppm, 0, PPM)?;
            source.number("copy_ppm", &client.copy_ppm, 0, PPM)?;
        }
        Ok(())
    }

    /// Its number.
    pub(super) fn index(&self) -> u32 {
        *self.gpu.get_ref()
    }

    /// Its speed, relative to that of others.
    pub(super) fn speed(&self) -> Option<f64> {
        self.speed.as_ref().map(|speed| *speed.get_ref())
    }

    /// The clients that the caller sees.
    pub(super) fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Clients that want 1 % or more.
    pub(super) fn wanting(&self) -> u64 {
        *self.wanting.get_ref()
    }

    /// Programs that have claimed it, and what they want, in percent.
    pub(super) fn claimed(&self) -> (u64, u64) {
        (*self.claims.get_ref(), *self.claimed_pct.get_ref())
    }
}

impl Client {
    /// Its weight.
    pub(super) fn weight(&self) -> Weight {
        match self.idle {
            true => Weight::new(Weight::MIN).unwrap_or_default(),
            false => of(&self.weight),
        }
    }

    /// Parts of the last half a minute for which it was on the engine, waited and copied.
    pub(super) fn parts(&self) -> [u64; 3] {
        [&self.busy_ppm, &self.waited_ppm, &self.copy_ppm].map(|part| *part.get_ref())
    }
}

fn weight(source: &Text<'_>, written: &Spanned<u64>) -> Result<(), Error> {
    let (min, max) = (Weight::MIN.into(), Weight::MAX.into());
    source.number("weight", written, min, max).map(|_| ())
}

fn of(written: &Spanned<u64>) -> Weight {
    let weight = u32::try_from(*written.get_ref()).ok();
    weight
        .and_then(|weight| Weight::new(weight).ok())
        .unwrap_or_default()
}
