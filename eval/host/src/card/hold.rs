// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Doorbells of a process of ours, held back in user space as LoGA's gate does it in the
//! kernel: which of the mappings is rung, how long the device goes on, what the program sees, and
//! whether a command is taken along whose ring never comes.

use super::held::{held, kernels, rung, swallowed, Held, Kernel, Rung, State, Swallowed};
use super::load::{library, Finished, Load};
use super::site::Site;
use loga_card::Outcome;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The sources of the library that holds, kept in this program.
const HOLD: [(&str, &str); 8] = [
    ("hold.c", include_str!("../../../../tests/card/hold.c")),
    (
        "hold_faults.h",
        include_str!("../../../../tests/card/hold_faults.h"),
    ),
    (
        "hold_gate.h",
        include_str!("../../../../tests/card/hold_gate.h"),
    ),
    (
        "hold_report.h",
        include_str!("../../../../tests/card/hold_report.h"),
    ),
    (
        "hold_rings.h",
        include_str!("../../../../tests/card/hold_rings.h"),
    ),
    (
        "hold_store.h",
        include_str!("../../../../tests/card/hold_store.h"),
    ),
    (
        "hold_threads.h",
        include_str!("../../../../tests/card/hold_threads.h"),
    ),
    (
        "hold_witness.h",
        include_str!("../../../../tests/card/hold_witness.h"),
    ),
];

/// Kernels of the run that counts rings.
const COUNTED: u64 = 200;
/// Kernels that are queued when a hold begins; the queue is full from the first millisecond on.
const QUEUE: &str = "--kernel-us 1000 --depth 64";
/// From the first ring of a process to a hold: objects are made and the load is calibrated by then.
const BEFORE_MS: &str = "3000";
/// How much longer than a hold its run is: a hold begins in it and ends in it, whenever it began.
const AROUND_S: u64 = 5;
/// Rings that are swallowed in a run.
const SWALLOWED: &str = "12";
/// How long after each it is made up for: many times the kernels of a run.
const MADE_UP_MS: &str = "200";

/// Loads whose rings are swallowed: a name, the words, and those of another process beside it. In the
/// first the channel is idle at each submission, in the second it runs, in the third it may wait.
const LOADS: [(&str, &str, Option<&str>); 3] = [
    (
        "pauses",
        "--kernel-us 1000 --sleep-us 10000 --seconds 8",
        None,
    ),
    ("queue", "--kernel-us 20000 --depth 2 --seconds 8", None),
    (
        "beside",
        "--kernel-us 1000 --depth 4 --seconds 8",
        Some("--kernel-us 20000 --seconds 12"),
    ),
];

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    count: Counted,
    holds: Vec<Hold>,
    swallowed: Vec<Ignored>,
}

#[derive(Debug, Serialize)]
struct Counted {
    kernels: u64,
    /// Rings for the first kernel and what comes before it: set-up, calibration.
    rings_before: u64,
    /// Rings for each further one.
    rings_per_kernel: f64,
    mappings: Vec<Rung>,
}

#[derive(Debug, Serialize)]
struct Hold {
    asked_ms: u64,
    /// How the program ended, and its last line.
    program: String,
    holds: Vec<Held>,
}

#[derive(Debug, Serialize)]
struct Ignored {
    load: &'static str,
    program: String,
    by_state: BTreeMap<State, Swallowed>,
    /// What the library could not do.
    refused: Vec<String>,
}

/// The step.
pub(super) fn hold(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let library = library(site, "hold", &HOLD)?;
    let count = count(site, &library)?;
    let mut report = Report {
        count,
        holds: Vec::new(),
        swallowed: Vec::new(),
    };
    // What is known is kept before each part that may hang.
    site.keep("hold.json", &report)?;
    for asked_ms in &site.hold_ms {
        report.holds.push(one_hold(site, &library, *asked_ms)?);
        site.keep("hold.json", &report)?;
    }
    for load in LOADS {
        let ignored = ignored(site, &library, &report.count, load)?;
        report.swallowed.push(ignored);
        site.keep("hold.json", &report)?;
    }
    Ok(Outcome::Done {
        found: found(&report),
    })
}

fn found(report: &Report) -> String {
    let count = &report.count;
    let rung = count.mappings.iter().map(Rung::line);
    let rung: Vec<_> = rung.collect();
    let holds = report.holds.iter().map(|hold| {
        let parts: Vec<_> = hold.holds.iter().map(Held::line).collect();
        format!("{} ms: {}", hold.asked_ms, parts.join(", "))
    });
    let holds: Vec<_> = holds.collect();
    format!(
        "{} kernels rang {}; held {}",
        count.kernels,
        rung.join(" and "),
        holds.join("; ")
    )
}

/// A run under the library: how it ended, what it reported, its kernels.
fn run(
    site: &Site,
    library: &Path,
    name: &str,
    words: &str,
    variables: &[(&'static str, &str)],
) -> Result<(Finished, String, Vec<Kernel>), Outcome> {
    let (report, log) = (
        site.scratch.join(format!("{name}.report")),
        site.scratch.join(format!("{name}.kernels")),
    );
    let mut load = Load::new(site, name, words)
        .with("--log", &log)
        .set("LD_PRELOAD", library)
        .set("HOLD_LOG", &report)
        .set("HOLD_NODES", site.nodes_begin());
    for (name, value) in variables {
        load = load.set(name, *value);
    }
    let finished = load.run()?;
    let kernels = kernels(&fs::read_to_string(&log).unwrap_or_default());
    Ok((finished, said(&report), kernels))
}

/// What the library reported: of all processes that loaded it, the one that has most to say.
fn said(report: &Path) -> String {
    let name = report
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    let entries = report.parent().and_then(|folder| fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().flatten();
    let texts = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(name))
        .filter_map(|entry| fs::read_to_string(entry.path()).ok());
    texts.max_by_key(String::len).unwrap_or_default()
}

fn count(site: &Site, library: &Path) -> Result<Counted, Outcome> {
    let of = |kernels: u64| -> Result<Vec<Rung>, Outcome> {
        let words = format!("--kernel-us 1000 --count {kernels}");
        let name = format!("count-{kernels}");
        let (finished, said, _) = run(site, library, &name, &words, &[("HOLD_COUNT", "1")])?;
        finished.report::<serde_json::Value>()?;
        Ok(rung(&said))
    };
    let mappings = of(COUNTED)?;
    if mappings.is_empty() {
        return Err(Outcome::refused("CUDA's library", "it maps no doorbell"));
    }
    let rings = |mappings: &[Rung]| mappings.iter().map(|one| one.stores).sum::<u64>();
    let (first, all) = (rings(&of(1)?), rings(&mappings));
    Ok(Counted {
        kernels: COUNTED,
        rings_before: first,
        rings_per_kernel: all.saturating_sub(first) as f64 / (COUNTED - 1) as f64,
        mappings,
    })
}

fn one_hold(site: &Site, library: &Path, asked_ms: u64) -> Result<Hold, Outcome> {
    let seconds = asked_ms.div_ceil(1000).saturating_add(AROUND_S);
    let words = format!("{QUEUE} --seconds {seconds}");
    let lasts = asked_ms.to_string();
    let variables = [("HOLD_AFTER_MS", BEFORE_MS), ("HOLD_MS", &*lasts)];
    let name = format!("hold-{asked_ms}");
    let (finished, said, kernels) = run(site, library, &name, &words, &variables)?;
    Ok(Hold {
        asked_ms,
        program: finished.line(),
        holds: held(&said, &kernels),
    })
}

/// Rings that do not come, until they are made up for.
fn ignored(
    site: &Site,
    library: &Path,
    count: &Counted,
    (load, words, beside): (&'static str, &str, Option<&str>),
) -> Result<Ignored, Outcome> {
    let other = beside.map(|words| Load::new(site, "other", words).start());
    let other = other.transpose()?;
    // Behind the calibration, which does not ring equally often each time.
    let from = count.rings_before * 5 / 4 + 10;
    // A few kernels apart.
    let every = (5.0 * count.rings_per_kernel).ceil().max(5.0);
    let (from, every) = (from.to_string(), every.to_string());
    let variables = [
        ("HOLD_COUNT", "1"),
        ("HOLD_SWALLOW", SWALLOWED),
        ("HOLD_SWALLOW_FROM", &*from),
        ("HOLD_SWALLOW_EVERY", &*every),
        ("HOLD_SWALLOW_MS", MADE_UP_MS),
    ];
    let (finished, said, kernels) = run(site, library, load, words, &variables)?;
    drop(other);
    let refused = said.lines().filter(|line| line.starts_with("refused"));
    Ok(Ignored {
        load,
        program: finished.line(),
        by_state: swallowed(&said, &kernels),
        refused: refused.map(str::to_owned).collect(),
    })
}
