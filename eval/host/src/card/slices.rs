// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How long each of two processes is on the engine at a time, and what a switch takes: each
//! process sees by the device's timer when it was not on it.

use super::load::{Finished, Load};
use super::site::Site;
use loga_card::Outcome;
use serde::Serialize;
use throttle::report::Report;
use throttle::residency::{slice_and_switch, Residency, Sharing};

/// Time of each run: some hundred slices.
const ALONE: &str = "--residency --seconds 2";
const BESIDE: &str = "--residency --seconds 3";

/// The whole report.
#[derive(Debug, Serialize)]
struct Slices {
    /// One process that nobody disturbs.
    alone: Residency,
    /// Two beside each other.
    both: [Residency; 2],
    /// What follows from them.
    sharing: Option<Sharing>,
}

/// The step.
pub(super) fn slices(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let alone = residency(&Load::new(site, "alone", ALONE).run()?)?;
    let running = [
        Load::new(site, "both-a", BESIDE).start()?,
        Load::new(site, "both-b", BESIDE).start()?,
    ];
    let [a, b] = running;
    let both = [a.finish(site.left())?, b.finish(site.left())?];
    let both = [residency(&both[0])?, residency(&both[1])?];
    let sharing = slice_and_switch(&both[0], &both[1]);
    let found = match &sharing {
        Some(one) => format!(
            "slices of {:.1} us, switches of {:.1} us",
            one.slice_us, one.switch_us
        ),
        None => "the two processes were not seen to alternate".to_owned(),
    };
    let slices = Slices {
        alone,
        both,
        sharing,
    };
    site.keep("slices.json", &slices)?;
    Ok(Outcome::Done { found })
}

/// What the one process of a run saw.
fn residency(finished: &Finished) -> Result<Residency, Outcome> {
    let report: Report = finished.report()?;
    let first = report.instances.into_iter().next();
    let residency = first.and_then(|one| one.residency);
    residency.ok_or_else(|| Outcome::refused("the load's report", "it has no residency"))
}
