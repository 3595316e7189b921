// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga place`: on which GPU a program would run, and why.

mod explain;
#[cfg(test)]
mod tests;

use super::{print_json, Failure, JSON_VERSION};
use crate::cli;
use crate::control::{Calls, Control, Snapshot};
use crate::history::ask;
use crate::history::ask::Heard;
use crate::names::{harmless, Name};
use crate::placing::known::Used;
use crate::placing::memory::Memory;
use crate::placing::record;
use crate::placing::record::CallerInput;
use crate::placing::visible::{Devices, Environment};
use crate::placing::{Pool, PoolGpu, Wish};
use crate::processes::Processes;
use crate::replace::{replace, New};
use crate::table::fit::grid_within;
use crate::terminal::Sheet;
use loga::placement::{Placement, Unit, PPM};
use loga::units::Weight;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Where the column of copies is, which are measured on some GPUs.
const COPY_AT: usize = 4;
/// Before which column that of free memory is.
const AFTER_MEMORY: &str = "COST";
/// Columns that a narrow terminal does without, the first one first.
const DISPENSABLE: [&str; 6] = ["CLAIMS", "CLAIMED", "PCI", "SPEED", "COPIES", "CLIENTS"];
/// A snapshot of root has figures of clients that others do not see.
const SNAPSHOT_MODE: u32 = 0o600;

/// The choice; the object of `loga place --json`.
#[derive(Serialize)]
struct Choice {
    version: u32,
    policy: &'static str,
    decided_by: &'static str,
    cost_is: &'static str,
    cost_unit: &'static str,
    want_pct: u32,
    want_known: bool,
    command_us: f64,
    copy_pct: Option<u32>,
    memory_mib: Option<u64>,
    history: Option<History>,
    chosen: Vec<u32>,
    gpus: Vec<Line>,
}

/// What earlier runs say.
#[derive(Serialize)]
struct History {
    runs: u32,
    want: bool,
    copy: bool,
    command: bool,
    time_ms: Option<f64>,
    time_of: &'static str,
    speeds: bool,
    why_not: Option<String>,
}

/// One GPU of it.
#[derive(Serialize)]
struct Line {
    gpu: u32,
    pci: String,
    why_not: Option<String>,
    speed: f64,
    clients: u32,
    unseen: u32,
    want_pct: u32,
    copy_pct: Option<u32>,
    mps_servers: Vec<i32>,
    claims: u32,
    claimed_pct: u32,
    free_mib: Option<u64>,
    terms: Option<BTreeMap<&'static str, f64>>,
    cost: Option<f64>,
    slowdown: Option<f64>,
}

/// Prints the choice, or what one cost.
///
/// # Errors
///
/// Any [`Failure`]; also if there is nothing to choose, after the table that says why.
pub fn run(
    arguments: &cli::Place,
    control: &Control<impl Calls>,
    environment: &Environment,
    out: &mut impl Sheet,
) -> Result<(), Failure> {
    let weight = arguments.weight.map_or(Ok(Weight::DEFAULT), Weight::new);
    let weight = weight.map_err(|error| Failure::Text(error.to_string()))?;
    let policy = Some(arguments.policy.as_str());
    let wish = Wish::new(policy, arguments.count, &arguments.asked, weight);
    let mut wish = wish.map_err(Failure::Text)?;
    let snapshots = control.all()?;
    let processes = Processes::below(&environment.proc);
    let devices = Devices::new(&snapshots, &environment.proc);
    let asked = devices.resolved(&arguments.asked);
    let arguments = &cli::Place {
        asked: asked.map_err(Failure::Text)?,
        ..arguments.clone()
    };
    let asked = &arguments.asked;
    if let Some(pid) = arguments.explain {
        return explain::run(arguments, &snapshots, pid, &wish, &processes, out);
    }
    let visible = devices.allowed(environment).map_err(Failure::Text)?;
    let pool = Pool::new(&snapshots, asked, visible.as_deref());
    let mut pool = pool.map_err(Failure::Text)?;
    for (place, snapshot) in pool.places.iter_mut().zip(&snapshots) {
        place.mps_servers = processes.servers(snapshot);
    }
    let memory = Memory::of(&environment.cgroups);
    pool.note_memory(&memory, asked.memory);
    wish.heard = heard(arguments, environment)?;
    if let Some(path) = &arguments.snapshot {
        let given = CallerInput {
            asked,
            visible: visible.as_deref(),
            memory: &memory,
        };
        write_snapshot(path, &snapshots, &wish, given)?;
    }
    let wish = pool.learn(&snapshots, &wish, !asked.speeds.is_empty());
    let chosen = pool.choose(&wish);
    let choice = Choice {
        memory_mib: asked.memory,
        ..describe(&pool, &wish, chosen.as_deref().unwrap_or_default())
    };
    if arguments.json {
        print_json(out, &choice)?;
    } else {
        print(&choice, out)?;
    }
    chosen.map(|_| ()).map_err(Failure::Text)
}

/// Writes what the choice is made from.
fn write_snapshot(
    path: &Path,
    snapshots: &[Snapshot],
    wish: &Wish,
    given: CallerInput<'_>,
) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Text(format!("{}: {reason}", Name::from(path)));
    let text = record::text(snapshots, wish, given).map_err(failed)?;
    let new = New {
        ending: ".new",
        mode: SNAPSHOT_MODE,
        owner: None,
    };
    replace(path, &new, text.as_bytes()).map_err(|error| failed(error.to_string()))
}

/// What the agent says of the program, if one is named.
fn heard(arguments: &cli::Place, environment: &Environment) -> Result<Heard, Failure> {
    let name = arguments.name.as_deref().unwrap_or_default();
    let exe = match arguments.command.first() {
        Some(program) => {
            let exe = ask::executable(program, environment.path.as_deref());
            let program = Name::from(program.as_os_str());
            let line = || format!("there is no program {program}: want one that can be run");
            Some(exe.ok_or_else(|| Failure::Text(line()))?)
        }
        None if name.is_empty() => return Ok(Heard::NotAsked),
        None => None,
    };
    Ok(ask::ask(&environment.history, exe, name, false))
}

fn describe(pool: &Pool, wish: &Wish, chosen: &[u32]) -> Choice {
    let decides = wish.decided_by();
    let line = |place: &PoolGpu, cost: Option<(u64, u64)>, terms: Option<[u64; 2]>| Line {
        gpu: place.gpu,
        pci: place.pci.clone(),
        why_not: place.closed.map(|why| why.to_string()),
        speed: ratio(place.speed),
        clients: place.clients.0,
        unseen: place.clients.1,
        want_pct: place.want_pct,
        copy_pct: place.copy_pct,
        mps_servers: place.mps_servers.clone(),
        claims: place.claims.0,
        claimed_pct: place.claims.1,
        free_mib: place.free_mib,
        terms: terms.and_then(|terms| named(decides, terms)),
        cost: cost.map(|(cost, _)| in_unit(cost, decides.unit())),
        slowdown: cost.map(|(_, slowdown)| ratio(slowdown)),
    };
    Choice {
        version: JSON_VERSION,
        policy: wish.policy.name(),
        decided_by: decides.name(),
        cost_is: decides.cost_is(),
        cost_unit: match decides.unit() {
            Unit::Count => "count",
            Unit::Millionths => "ratio",
            Unit::Time => "ns",
        },
        want_pct: wish.want_pct(),
        want_known: wish.newcomer.known,
        // CAST: shown with a few digits; a float holds that.
        command_us: wish.newcomer.demand.run.get() as f64 / 1e3,
        copy_pct: wish.copy_pct(),
        memory_mib: None,
        history: (wish.heard != Heard::NotAsked).then(|| history(wish)),
        chosen: chosen.to_vec(),
        gpus: (pool
            .places
            .iter()
            .zip(pool.costs(wish))
            .zip(pool.terms(wish)))
        .map(|((place, cost), terms)| line(place, cost, terms))
        .collect(),
    }
}

/// The terms of a cost by their names, if it has terms.
fn named(policy: Placement, terms: [u64; 2]) -> Option<BTreeMap<&'static str, f64>> {
    let all = policy.terms_are().into_iter().zip(terms);
    let named = all.filter(|(name, _)| !name.is_empty());
    let named = named.map(|(name, term)| (name, in_unit(term, policy.unit())));
    Some(named.collect()).filter(|named: &BTreeMap<_, _>| !named.is_empty())
}

fn history(wish: &Wish) -> History {
    let Used {
        runs,
        want,
        copy,
        command,
        time,
        typical,
        speeds,
        why_not,
    } = wish.used.clone();
    History {
        runs,
        want,
        copy,
        command,
        // CAST: shown with a few digits; a float holds that.
        time_ms: wish.newcomer.time.map(|time| time.get() as f64 / 1e6),
        time_of: match (time, typical) {
            (true, _) => "program",
            (_, true) => "user",
            _ => "nothing",
        },
        speeds,
        why_not,
    }
}

/// Millionths as a number.
fn ratio(ppm: u64) -> f64 {
    // CAST: shown with a few digits; a float holds that.
    ppm as f64 / PPM as f64
}

fn in_unit(cost: u64, unit: Unit) -> f64 {
    match unit {
        Unit::Millionths => ratio(cost),
        // CAST: as above.
        Unit::Count | Unit::Time => cost as f64,
    }
}

/// A cost in the words of its unit.
fn cost(choice: &Choice, cost: Option<f64>) -> String {
    let digits = |cost: f64| match choice.cost_unit {
        "count" => format!("{cost:.0}"),
        "ns" => format!("{:.1} ms", cost / 1e6),
        _ => format!("{cost:.3}"),
    };
    cost.map_or("-".to_string(), digits)
}

fn print(choice: &Choice, out: &mut impl Sheet) -> io::Result<()> {
    let mut titles = vec![
        "GPU", "PCI", "CLIENTS", "WANT", "CLAIMS", "CLAIMED", "SPEED", "COST", "SLOWDOWN", "CHOICE",
    ];
    let with_copies = choice.gpus.iter().any(|line| line.copy_pct.is_some());
    if with_copies {
        titles.insert(COPY_AT, "COPIES");
    }
    let before = |title: &&&str| **title == AFTER_MEMORY;
    let memory_at = titles.iter().take_while(|title| !before(title)).count();
    let with_memory = choice.memory_mib.is_some();
    if with_memory {
        titles.insert(memory_at, "FREE MiB");
    }
    // Of the policy that decides, the same for all GPUs.
    let terms: Vec<&str> = choice
        .gpus
        .iter()
        .find_map(|line| line.terms.as_ref())
        .map_or_else(Vec::new, |terms| terms.keys().copied().collect());
    let terms_at = memory_at + usize::from(with_memory);
    let of_terms: Vec<String> = terms.iter().map(|name| name.to_uppercase()).collect();
    titles.splice(terms_at..terms_at, of_terms.iter().map(String::as_str));
    let row = |line: &Line| {
        let is_chosen = choice.chosen.contains(&line.gpu);
        let why_not = line.why_not.clone().unwrap_or("-".to_string());
        let slowdown = line.slowdown.map(|slowdown| format!("{slowdown:.2}"));
        let mut cells = vec![
            line.gpu.to_string(),
            line.pci.clone(),
            (line.clients + line.unseen).to_string(),
            format!("{} %", line.want_pct),
            line.claims.to_string(),
            format!("{} %", line.claimed_pct),
            format!("{:.2}", line.speed),
            cost(choice, line.cost),
            slowdown.unwrap_or("-".to_string()),
            if is_chosen {
                "chosen".to_string()
            } else {
                why_not
            },
        ];
        if with_copies {
            let copies = line.copy_pct.map(|percent| format!("{percent} %"));
            cells.insert(COPY_AT, copies.unwrap_or("-".to_string()));
        }
        if with_memory {
            let free = line.free_mib.map(|free| free.to_string());
            cells.insert(memory_at, free.unwrap_or("unknown".to_string()));
        }
        let term = |name: &&str| {
            cost(
                choice,
                line.terms
                    .as_ref()
                    .and_then(|terms| terms.get(name).copied()),
            )
        };
        cells.splice(terms_at..terms_at, terms.iter().map(term));
        cells
    };
    let rows = choice.gpus.iter().map(row).collect();
    let left = ["PCI", "CHOICE"];
    let grid = grid_within(&titles, &left, &DISPENSABLE, rows, out.columns());
    writeln!(out, "{}", grid.unwrap_or_default())?;
    for line in &choice.gpus {
        for pid in &line.mps_servers {
            let gpu = line.gpu;
            writeln!(
                out,
                "GPU {gpu}: all programs of MPS server {pid} count as one client"
            )?;
        }
    }
    for line in choice.gpus.iter().filter(|line| line.unseen > 0) {
        let clients = if line.unseen == 1 {
            "client"
        } else {
            "clients"
        };
        let Line { gpu, unseen, .. } = line;
        writeln!(
            out,
            "GPU {gpu}: {unseen} {clients} of other users count by the mean of what they want together"
        )?;
    }
    if choice.chosen.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", harmless(&reason(choice)))
}

/// Which GPUs, and why, in one line.
fn reason(choice: &Choice) -> String {
    let of = |gpu: &u32| choice.gpus.iter().find(|line| line.gpu == *gpu);
    let words = choice.chosen.iter().filter_map(of).map(|line| {
        let slowdown = line.slowdown.unwrap_or_default();
        let cost = cost(choice, line.cost);
        format!(
            "GPU {}: {} {cost}, expected slowdown {slowdown:.2}",
            line.gpu, choice.cost_is
        )
    });
    let words: Vec<String> = words.collect();
    let Choice {
        policy, decided_by, ..
    } = choice;
    let policy = if policy == decided_by {
        format!("policy {policy}")
    } else {
        format!("policy {decided_by}, since {policy} has to know more of the program")
    };
    let source = match &choice.history {
        Some(history) => by_history(choice, history),
        None if choice.want_known => String::new(),
        None => " (assumed)".to_string(),
    };
    let copies = choice.copy_pct;
    let copies = copies.map_or(String::new(), |percent| format!(" and copies {percent} %"));
    format!(
        "{}; {policy}, for a program that wants {} %{copies}{source}",
        words.join("; "),
        choice.want_pct
    )
}

/// Where what is known of the program comes from.
fn by_history(choice: &Choice, history: &History) -> String {
    let want = match (history.want || history.copy, choice.want_known) {
        (true, _) => format!(" (by {} earlier runs)", history.runs),
        (false, true) => String::new(),
        (false, false) => " (assumed)".to_string(),
    };
    let time = history.time_ms.unwrap_or_default();
    let time = match history.time_of {
        "program" => format!(
            " and takes {time:.1} ms alone (by {} earlier runs)",
            history.runs
        ),
        "user" => format!(" and takes {time:.1} ms alone (the mean of your programs)"),
        _ => String::new(),
    };
    let command = match history.command {
        true => format!("; commands of {:.0} us by them", choice.command_us),
        false => String::new(),
    };
    let speeds = if history.speeds {
        "; speeds by its GPU time on each model"
    } else {
        ""
    };
    let why_not = history.why_not.as_ref();
    let why_not = why_not.map_or(String::new(), |why| format!("; no history: {why}"));
    format!("{want}{time}{command}{speeds}{why_not}")
}
