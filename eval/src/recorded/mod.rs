// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A choice of `loga place`, made again: the snapshot that it wrote becomes what the
//! simulator knows of its own GPUs and programs, and the simulator chooses as it does for those.

mod file;
mod signals;

use crate::arrivals::{cheapest, Signals};
use crate::report::text::table;
use crate::scenario::{Error, Text};
use file::File;
use loga::placement::{self, Cost, Gpu, Placement, Unit, PPM};
use serde::Serialize;
use signals::{near, Known};
use std::fmt::Write;
use std::path::Path;

/// A snapshot that makes sense.
#[derive(Clone, Debug)]
pub struct Recorded(File);

/// A GPU of a choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its number.
    pub gpu: u32,
    /// Why it may not be chosen.
    pub why_not: Option<String>,
    /// Its speed over the fastest one's.
    pub speed: f64,
    /// Programs that are bound to it.
    pub programs: usize,
    /// What they want, in percent.
    pub want_pct: f64,
    /// What it costs to place the program there.
    pub cost: Option<f64>,
    /// How many times as long as alone on the fastest GPU the program is expected to take there.
    pub slowdown: Option<f64>,
}

/// A choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The placement policy.
    pub policy: &'static str,
    /// The one that decides: another one if that one has to know more of the program.
    pub decided_by: &'static str,
    /// What its cost is, in words.
    pub cost_is: &'static str,
    /// GPUs that were asked for.
    pub count: usize,
    /// Numbers of the chosen GPUs, the best one first; none if fewer may be chosen.
    pub chosen: Vec<u32>,
    /// All GPUs.
    pub gpus: Vec<Row>,
}

/// Reads a snapshot.
///
/// # Errors
///
/// The file cannot be read or makes no sense: where, and what would.
pub fn read(path: &Path) -> Result<Recorded, Error> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error {
        place: name.clone(),
        reason: error.to_string(),
    })?;
    parse(&name, &text)
}

/// Reads a snapshot from text; `name` is that of the file.
///
/// # Errors
///
/// It makes no sense: where, and what would.
pub fn parse(name: &str, text: &str) -> Result<Recorded, Error> {
    File::parse(&Text { name, text }).map(Recorded)
}

impl Recorded {
    /// The choice by the policy of the snapshot, or by another one.
    pub fn choose(&self, policy: Option<Placement>) -> Choice {
        let file = &self.0;
        let policy = policy.unwrap_or_else(|| file.policy());
        let known = match &file.program.history {
            Some(history) => Known::with_history(file, history),
            None => Known::without_history(file),
        };
        let gpus: Vec<Gpu<'_>> = known.gpus.iter().map(Signals::gpu).collect();
        let costs = self.costs(policy, &known, &gpus);
        let indices: Vec<u32> = file.gpus().map(file::Gpu::index).collect();
        let mut chosen = cheapest(&gpus, costs.clone(), file.count());
        if chosen.len() < file.count() {
            chosen.clear();
        }
        let decides = policy.for_program(&known.program);
        let row = |((at, gpu), cost): ((usize, &file::Gpu), &Option<Cost>)| Row {
            gpu: gpu.index(),
            why_not: signals::closed(file, gpu),
            speed: ratio(gpus[at].speed),
            programs: gpus[at].bound.len(),
            want_pct: 100.0 * ratio(gpus[at].bound.iter().map(|one| one.demand.want).sum()),
            cost: cost.map(|cost| in_unit(cost.0, decides.unit())),
            slowdown: cost.map(|_| ratio(placement::expected(&gpus[at], &known.program))),
        };
        let rows = file.gpus().enumerate().zip(&costs).map(row);
        Choice {
            policy: policy.name(),
            decided_by: decides.name(),
            cost_is: decides.cost_is(),
            count: file.count(),
            chosen: chosen.iter().map(|at| indices[*at]).collect(),
            gpus: rows.collect(),
        }
    }

    /// What the program costs on each GPU.
    fn costs(&self, policy: Placement, known: &Known, gpus: &[Gpu<'_>]) -> Vec<Option<Cost>> {
        let file = &self.0;
        let last = last(file.claims_made, gpus.len());
        let price = |gpus: &[Gpu<'_>], at, program| policy.cost(gpus, at, program, last);
        // History moves a cost by so much at most.
        let before = Known::without_history(file);
        let without = file.program.history.as_ref().map(|history| {
            let gpus: Vec<Gpu<'_>> = before.gpus.iter().map(Signals::gpu).collect();
            (gpus, signals::unlearnt(file, history, &known.program))
        });
        let bounded = |at: usize| {
            let mut cost = price(gpus, at, &known.program)?;
            if let Some((gpus, program)) = &without {
                cost.0 = near(cost.0, price(gpus, at, program)?.0);
            }
            Some(cost)
        };
        let all = file.gpus().enumerate().map(|(at, gpu)| {
            let cost = bounded(at)?;
            // Each program there may hold memory, if it is not known how much is free.
            let unknown = file.program.memory_mib.is_some() && gpu.free_mib.is_none();
            let programs = if unknown { gpus[at].bound.len() } else { 0 };
            let programs = u32::try_from(programs).unwrap_or(u32::MAX);
            Some((cost.0.saturating_mul(2u64.saturating_pow(programs)), cost.1))
        });
        all.collect()
    }
}

/// The GPU whose turn was last: each claim moves the turn on by one.
fn last(claims: u64, gpus: usize) -> Option<usize> {
    // CAST: a length, and less than it.
    let gpus = gpus as u64;
    let turn = (claims % gpus.max(1)) as usize;
    turn.checked_sub(1).or((gpus as usize).checked_sub(1))
}

/// Millionths as a number.
fn ratio(ppm: u64) -> f64 {
    // CAST: shown with a few digits; a double holds that.
    ppm as f64 / PPM as f64
}

fn in_unit(cost: u64, unit: Unit) -> f64 {
    match unit {
        Unit::Millionths => ratio(cost),
        // CAST: as above.
        Unit::Count | Unit::Time => cost as f64,
    }
}

/// A choice as a table.
pub fn text(choice: &Choice) -> String {
    let mut gpus = table([
        "GPU",
        "programs",
        "want",
        "speed",
        choice.cost_is,
        "slowdown",
        "choice",
    ]);
    let number = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.3}"));
    for row in &choice.gpus {
        let chosen = choice.chosen.contains(&row.gpu).then_some("chosen");
        gpus.add_row([
            row.gpu.to_string(),
            row.programs.to_string(),
            format!("{:.0} %", row.want_pct),
            format!("{:.2}", row.speed),
            number(row.cost),
            number(row.slowdown),
            chosen.or(row.why_not.as_deref()).unwrap_or("-").to_owned(),
        ]);
    }
    let mut text = format!("{}\n\n", gpus.trim_fmt());
    let chosen: Vec<String> = choice.chosen.iter().map(u32::to_string).collect();
    let by = match choice.policy == choice.decided_by {
        true => format!("policy {}", choice.policy),
        false => format!(
            "policy {}, since {} has to know more of the program",
            choice.decided_by, choice.policy
        ),
    };
    let which = match chosen.is_empty() {
        true => format!("fewer than {} GPUs may be chosen", choice.count),
        false => format!("GPU {}", chosen.join(", ")),
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{which}; {by}");
    text
}
