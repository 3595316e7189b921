// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The GPU of a program that is about to start: from what the kernel module says of all GPUs
//! to the question that [`loga::placement`] answers.
//!
//! | file | contents |
//! |---|---|
//! | [`known`] | what earlier runs say |
//! | `load` | what is bound to a GPU |
//! | [`memory`] | how much memory of a GPU is free |
//! | [`record`] | all of it as a file |
//! | [`visible`] | which GPUs the caller's environment allows, and what the program is told |

pub mod known;
mod load;
pub mod memory;
pub mod record;
#[cfg(test)]
pub(crate) mod tests;
pub mod visible;

pub use load::client_demand;

use crate::control::Snapshot;
use crate::error::Error;
use crate::history::ask::Heard;
use crate::{cli, names};
use loga::fair::mul_div;
use loga::placement;
use loga::placement::{Bound, Cost, Demand, Gpu, Newcomer, Placement, PPM};
use loga::uapi;
use loga::units::{Ns, Weight};
use std::fmt;

/// A percent in millionths.
pub(crate) const PERCENT: u64 = PPM / 100;

/// Why a GPU may not be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// It does not answer.
    Lost,
    /// The caller left it out.
    NotAmong,
    /// The environment of the caller does not allow it.
    NotVisible,
    /// The program is there already.
    Occupied,
    /// So many MiB are free, fewer than the program needs.
    Memory(u64),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Closed::Lost => f.write_str("lost"),
            Closed::NotAmong => f.write_str("not in --among"),
            Closed::NotVisible => f.write_str("not in CUDA_VISIBLE_DEVICES"),
            Closed::Occupied => f.write_str("where it is"),
            Closed::Memory(free) => write!(f, "only {free} MiB free"),
        }
    }
}

/// What a program asks for: the rule, how many GPUs, and what is known of it.
#[derive(Clone, Debug)]
pub struct Wish {
    /// The rule.
    pub policy: Placement,
    /// How many GPUs.
    pub count: u32,
    /// The program.
    pub newcomer: Newcomer,
    /// Whether the length of its commands was given.
    pub command_given: bool,
    /// What the agent says of earlier runs.
    pub heard: Heard,
    /// What of that is used: see [`Pool::learn`].
    pub used: known::Used,
    pub(crate) without: Option<known::Without>,
}

impl Wish {
    /// From arguments; a policy that does not exist is refused with those that do.
    ///
    /// # Errors
    ///
    /// The cause, in one line.
    pub fn new(
        policy: Option<&str>,
        count: u32,
        asked: &cli::Asked,
        weight: Weight,
    ) -> Result<Self, String> {
        let policy = policy.map_or(Ok(Placement::Wait), placement::by_name);
        let unknown = Demand::UNKNOWN;
        let want = asked.want.map(|percent| u64::from(percent) * PERCENT);
        let demand = Demand {
            want: want.unwrap_or(unknown.want),
            run: asked.command_us.map_or(unknown.run, Ns::from_us),
            weight,
            ..unknown
        };
        Ok(Self {
            policy: policy.map_err(|error| error.to_string())?,
            count,
            newcomer: Newcomer {
                demand,
                known: want.is_some(),
                time: None,
            },
            command_given: asked.command_us.is_some(),
            heard: Heard::NotAsked,
            used: known::Used::default(),
            without: None,
        })
    }

    /// The policy that decides: the one asked for may have to know more of the program.
    pub fn decided_by(&self) -> Placement {
        self.policy.for_program(&self.newcomer)
    }

    /// What it wants of the fastest GPU, in percent.
    pub fn want_pct(&self) -> u32 {
        percent(&self.newcomer.demand)
    }

    /// For how much of the time it copies there, in percent, if that is known.
    pub fn copy_pct(&self) -> Option<u32> {
        let percent = self.newcomer.demand.copy.div_ceil(PERCENT).min(100);
        u32::try_from(percent).ok().filter(|_| self.used.copy)
    }
}

/// One GPU, with what decides about it.
#[derive(Clone, Debug)]
pub struct PoolGpu {
    /// Its index.
    pub gpu: u32,
    /// Where it sits.
    pub pci: String,
    /// Its model: the chip id.
    pub chip: u32,
    /// Why it may not be chosen.
    pub closed: Option<Closed>,
    /// Speed in millionths of the fastest one's.
    pub speed: u64,
    /// What is bound to it: clients, then claims.
    pub bound: Vec<Bound>,
    /// Clients that the caller sees, and those that it does not see and that want the GPU.
    pub clients: (u32, u32),
    /// What all clients want, in percent.
    pub want_pct: u32,
    /// For how much of the time all clients copy, in percent, where that is measured.
    pub copy_pct: Option<u32>,
    /// Programs that have claimed it, and what they want, in percent.
    pub claims: (u32, u32),
    /// Servers of NVIDIA's MPS there, each of which counts as one client.
    pub mps_servers: Vec<i32>,
    /// Free memory in MiB, if it is known.
    pub free_mib: Option<u64>,
    /// What its cost is multiplied by, since its free memory is needed and not known.
    pub crowded: u64,
}

/// All GPUs.
#[derive(Clone, Debug)]
pub struct Pool {
    /// By index.
    pub places: Vec<PoolGpu>,
    /// The GPU whose turn was last.
    last: Option<usize>,
}

impl Pool {
    /// From snapshots of all GPUs. `visible` are the indices that the environment of the caller
    /// allows, if it says so.
    ///
    /// # Errors
    ///
    /// The cause, in one line: a GPU in a list that does not exist, or too few speeds.
    pub fn new(
        snapshots: &[Snapshot],
        asked: &cli::Asked,
        visible: Option<&[u32]>,
    ) -> Result<Self, String> {
        let is_there = |gpu: u32| snapshots.iter().any(|snapshot| snapshot.gpu == gpu);
        if let Some(gpu) = asked.among.iter().copied().find(|gpu| !is_there(*gpu)) {
            let known = u32::try_from(snapshots.len()).ok();
            return Err(format!("--among: {}", Error::NoGpu { gpu, known }));
        }
        let speeds = speeds(&asked.speeds, snapshots.len())?;
        let closed = |snapshot: &Snapshot| {
            let left_out = |list: &[u32]| !list.contains(&snapshot.gpu);
            if snapshot.info.flags & (uapi::GPU_LOST | uapi::GPU_AWAY) != 0 {
                Some(Closed::Lost)
            } else if !asked.among.is_empty() && left_out(&asked.among) {
                Some(Closed::NotAmong)
            } else {
                visible.is_some_and(left_out).then_some(Closed::NotVisible)
            }
        };
        let places = snapshots.iter().zip(speeds).map(|(snapshot, speed)| {
            let info = &snapshot.info;
            let load = load::of(snapshot);
            PoolGpu {
                gpu: snapshot.gpu,
                pci: names::pci(info.pci_domain, info.pci_bdf),
                chip: info.chipset,
                closed: closed(snapshot),
                speed,
                bound: load.bound,
                clients: (load.seen, load.unseen),
                want_pct: info.want_30s_pct,
                copy_pct: (info.flags & uapi::GPU_COPIES != 0).then_some(info.copy_30s_pct),
                claims: (info.claims, info.claimed_pct),
                mps_servers: Vec::new(),
                free_mib: None,
                crowded: 1,
            }
        });
        Ok(Self {
            places: places.collect(),
            last: last(snapshots),
        })
    }

    /// As [`placement`] wants them.
    pub fn gpus(&self) -> Vec<Gpu<'_>> {
        let gpu = |place: &'_ PoolGpu| Gpu {
            open: place.closed.is_none(),
            local: true,
            speed: place.speed,
            bound: &[],
        };
        let mut gpus: Vec<Gpu<'_>> = self.places.iter().map(gpu).collect();
        for (gpu, place) in gpus.iter_mut().zip(&self.places) {
            gpu.bound = &place.bound;
        }
        gpus
    }

    /// Leaves out GPUs that have less free memory than is asked for. Where that is not known, the
    /// cost doubles with each program there, since each of them may hold some: see [`crowded`].
    pub fn note_memory(&mut self, memory: &memory::Memory, asked_mib: Option<u64>) {
        for place in &mut self.places {
            place.free_mib = memory.free_mib(&place.pci);
            let Some(asked) = asked_mib else {
                continue;
            };
            match place.free_mib {
                Some(free) if free < asked && place.closed.is_none() => {
                    place.closed = Some(Closed::Memory(free));
                }
                Some(_) => {}
                None => {
                    let programs = u32::try_from(place.bound.len()).unwrap_or(u32::MAX);
                    place.crowded = crowded(programs);
                }
            }
        }
    }

    /// What the program costs on each GPU; nothing for one that may not be chosen.
    fn prices(&self, wish: &Wish) -> Vec<Option<Cost>> {
        let gpus = self.gpus();
        let of = |gpus: &[Gpu<'_>], at, newcomer: &Newcomer| {
            wish.policy.cost(gpus, at, newcomer, self.last)
        };
        let without = wish.without.as_ref();
        let without = without.map(|one| (self.gpus_without(one), one.newcomer()));
        let price = |(at, place): (usize, &PoolGpu)| {
            let mut cost = of(&gpus, at, &wish.newcomer)?;
            if let Some((gpus, newcomer)) = &without {
                cost.0 = known::near(cost.0, of(gpus, at, newcomer)?.0);
            }
            Some((cost.0.saturating_mul(place.crowded), cost.1))
        };
        self.places
            .iter()
            .enumerate()
            .map(|(at, place)| price((at, place)))
            .collect()
    }

    /// What the program costs on each GPU, and how many millionths of its time alone it is expected
    /// to take there; nothing for one that may not be chosen.
    pub fn costs(&self, wish: &Wish) -> Vec<Option<(u64, u64)>> {
        let gpus = self.gpus();
        let prices = self.prices(wish).into_iter();
        let expected = |gpu: &Gpu<'_>| placement::expected(gpu, &wish.newcomer);
        prices
            .zip(&gpus)
            .map(|(price, gpu)| Some((price?.0, expected(gpu))))
            .collect()
    }

    /// The terms of what the program costs on each GPU, named by [`Placement::terms_are`] of the
    /// policy that decides. Neither what its history bounds nor unknown memory is in them.
    pub fn terms(&self, wish: &Wish) -> Vec<Option<[u64; 2]>> {
        let gpus = self.gpus();
        let of = |at| wish.policy.terms(&gpus, at, &wish.newcomer, self.last);
        (0..gpus.len()).map(of).collect()
    }

    /// The GPUs of the least cost, the best one first.
    ///
    /// # Errors
    ///
    /// One line that says why there are not that many.
    pub fn choose(&self, wish: &Wish) -> Result<Vec<u32>, String> {
        let gpus = self.gpus();
        let mut prices = self.prices(wish);
        let mut chosen = Vec::new();
        for _ in 0..wish.count {
            let price = |at: usize| prices.get(at).copied().flatten();
            let best = placement::best(&gpus, price);
            let found = best.and_then(|at| Some((at, self.places.get(at)?.gpu)));
            let Some((at, gpu)) = found else {
                return Err(self.too_few(wish.count));
            };
            // Taken now.
            if let Some(price) = prices.get_mut(at) {
                *price = None;
            }
            chosen.push(gpu);
        }
        Ok(chosen)
    }

    /// What the program wants of this GPU, in percent: more of a slower one.
    pub fn claim_pct(&self, gpu: u32, wish: &Wish) -> u32 {
        let gpus = self.gpus();
        let at = self.places.iter().position(|place| place.gpu == gpu);
        at.and_then(|at| gpus.get(at))
            .map_or(wish.want_pct(), |gpu| {
                percent(&placement::on(gpu, &wish.newcomer))
            })
    }

    fn too_few(&self, wanted: u32) -> String {
        let closed = self.places.iter();
        let closed = closed.filter_map(|place| Some((place.gpu, place.closed?)));
        let why: Vec<String> = closed
            .map(|(gpu, why)| format!("GPU {gpu} {why}"))
            .collect();
        let open = self.places.len() - why.len();
        let why = if why.is_empty() {
            "that is all".to_string()
        } else {
            why.join(", ")
        };
        match open {
            0 => format!("no GPU may be chosen: {why}"),
            open => format!("want {wanted} GPUs, but only {open} may be chosen: {why}"),
        }
    }
}

/// Programs with each of which the cost doubles where free memory is not known.
const DOUBLES: u32 = 16;

/// The factor of the cost of a GPU with so many programs whose free memory is not known. After some
/// it grows by as much with each, so that no number of programs makes costs equal that are not.
fn crowded(programs: u32) -> u64 {
    let further = programs.saturating_sub(DOUBLES);
    (1 << programs.min(DOUBLES)) * (1 + u64::from(further))
}

/// How much longer than alone a program of which nothing is known is expected to take on a GPU, in
/// millionths of its time alone: for schedulers of clusters.
pub fn unknown_loses(snapshot: &Snapshot) -> u64 {
    let gpu = Gpu {
        open: true,
        local: true,
        speed: PPM,
        bound: &load::of(snapshot).bound,
    };
    placement::expected(&gpu, &Newcomer::UNKNOWN).saturating_sub(PPM)
}

/// A want in percent, for a claim.
fn percent(demand: &Demand) -> u32 {
    let percent = demand.want.div_ceil(PERCENT).clamp(1, 100);
    u32::try_from(percent).unwrap_or(100)
}

/// The number of claims that were made, if all snapshots were taken between two of them.
pub fn agreed(snapshots: &[Snapshot]) -> Option<u64> {
    let seen = snapshots.first()?.info.claims_seen;
    let same = |snapshot: &Snapshot| snapshot.info.claims_seen == seen;
    snapshots.iter().all(same).then_some(seen)
}

/// The GPU whose turn was last, for a policy that goes by turns: each claim that is made moves
/// the turn on.
fn last(snapshots: &[Snapshot]) -> Option<usize> {
    let count = snapshots.len();
    let seen = usize::try_from(snapshots.first()?.info.claims_seen).unwrap_or(0);
    seen.checked_add(count)?.checked_sub(1)?.checked_rem(count)
}

/// Speeds in millionths of the fastest one's.
fn speeds(given: &[f64], gpus: usize) -> Result<Vec<u64>, String> {
    if given.is_empty() {
        return Ok(vec![PPM; gpus]);
    }
    if given.len() != gpus {
        let count = given.len();
        let plural = if gpus == 1 { "GPU" } else { "GPUs" };
        return Err(format!(
            "--speeds: want one for each of {gpus} {plural}, not {count}"
        ));
    }
    let fastest = given.iter().copied().fold(0.0, f64::max);
    // CAST: at most a million.
    let part = |speed: &f64| ((speed / fastest * PPM as f64).round() as u64).max(1);
    Ok(given.iter().map(part).collect())
}

/// What a program asks of the fastest GPU that asks this of one of `speed`: the parts of the time
/// that it uses the engines for grow shorter.
pub fn on_fastest(demand: Demand, speed: u64) -> Demand {
    let used = demand.want.saturating_add(demand.copy).min(PPM);
    let all = PPM
        .saturating_sub(used)
        .saturating_add(mul_div(used, speed, PPM))
        .max(1);
    let part = |of: u64| mul_div(mul_div(of, speed, PPM), PPM, all).min(PPM);
    Demand {
        want: part(demand.want),
        copy: part(demand.copy),
        run: Ns::new(mul_div(demand.run.get(), speed, PPM)),
        ..demand
    }
}
