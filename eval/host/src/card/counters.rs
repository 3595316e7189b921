// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the driver itself counts, while a load of ours runs: its records of context switches,
//! and what its management library says of processes.

use super::fecs::live::{record_while, Recorder, Recording};
use super::load::{Finished, Load};
use super::nvml::library::Library;
use super::nvml::{About, Accounted, Utilisation, LIBRARY};
use super::refusal::Refusal;
use super::rm::Client;
use super::site::Site;
use loga_card::Outcome;
use serde::Serialize;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The load: kernels without a pause.
const WORDS: &str = "--kernel-us 1000 --seconds 3";

/// The step `switches`.
pub(super) fn switches(site: &Site) -> Outcome {
    all_switches(site).unwrap_or_else(|outcome| outcome)
}

fn all_switches(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let recorder = recorder(site)?;
    let load = || Load::new(site, "switches", WORDS).run();
    let (recording, finished) = record_while(recorder, load);
    let recording: Recording = recording?;
    site.keep("switches.json", &recording)?;
    // A recording without a load is worth keeping, and says less.
    let program = finished?;
    let summary = &recording.summary;
    let found = format!(
        "{} records of {} processes, {} dropped, the load ended with {}",
        summary.records,
        summary.processes.len(),
        summary.losses.dropped.max(summary.losses.missing),
        program.line(),
    );
    Ok(Outcome::Done { found })
}

/// A recorder of context switches on the card of the site.
///
/// # Errors
///
/// The first call that is refused.
pub(super) fn recorder(site: &Site) -> Result<Recorder, Refusal> {
    Recorder::open(Client::open(&site.dev(), site.gpu)?)
}

/// What the management library said.
#[derive(Debug, Serialize)]
struct Management {
    about: About,
    utilisation: Result<Vec<Utilisation>, Refusal>,
    accounted: Result<Vec<Accounted>, Refusal>,
    /// Why accounting could not be put back as it was.
    left_on: Option<Refusal>,
}

/// The step `nvml`.
pub(super) fn nvml(site: &Site) -> Outcome {
    all_nvml(site).unwrap_or_else(|outcome| outcome)
}

fn all_nvml(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let library = Library::load(Path::new(LIBRARY))?;
    let device = library.device(&site.address()?)?;
    let since_us = now_us();
    let accounting = device.account();
    let finished: Result<Finished, Outcome> = Load::new(site, "nvml", WORDS).run();
    let accounted = match &accounting {
        Ok(accounting) => accounting.accounted(),
        Err(refusal) => Err(refusal.clone()),
    };
    let left_on = accounting
        .ok()
        .and_then(|accounting| accounting.end().err());
    let management = Management {
        about: device.about(),
        utilisation: device.utilisation(since_us),
        accounted,
        left_on,
    };
    site.keep("nvml.json", &management)?;
    let count = |told: Option<usize>| told.map_or("refused".to_owned(), |count| count.to_string());
    let found = format!(
        "samples of processes: {}, accounted processes: {}, the load ended with {}",
        count(management.utilisation.as_ref().ok().map(Vec::len)),
        count(management.accounted.as_ref().ok().map(Vec::len)),
        finished?.line(),
    );
    Ok(Outcome::Done { found })
}

/// The time by which the management library tells when a sample was taken.
pub(super) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    // CAST: some hundred thousand years fit.
    since.map_or(0, |since| since.as_micros() as u64)
}
