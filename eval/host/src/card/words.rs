// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The step that asks for registers: of RM, and of BAR0 where the kernel lets it be mapped.

use super::load::Load;
use super::refusal::Refusal;
use super::registers::bar0::Bar0;
use super::registers::controls::{group_id, runlist_bases, RunlistBase, ThroughRm};
use super::registers::decode::Layout;
use super::registers::sampler::{sample, HostClock, Samples};
use super::registers::survey::{candidates, read_words, survey, Reading, Survey};
use super::rm::Client;
use super::site::Site;
use loga::units::Ns;
use loga_card::Outcome;
use serde::Serialize;

/// The load while the status word is sampled, and for how long it is.
const WORDS: &str = "--kernel-us 1000 --seconds 4";
const SAMPLED: Ns = Ns::from_ms(2000);
/// Seed of the instants of the samples.
const SEED: u64 = 1;

/// The whole report.
#[derive(Debug, Serialize)]
struct Report {
    through_rm: Result<ByRm, Refusal>,
    bar0: Result<Survey, Refusal>,
    /// Samples of the status word while a load ran, where it can be read.
    samples: Option<Samples>,
}

/// What RM answered.
#[derive(Debug, Serialize)]
struct ByRm {
    runlists: Result<Vec<RunlistBase>, Refusal>,
    group: Result<u32, Refusal>,
    words: Vec<Reading>,
}

/// The step.
pub(super) fn registers(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    site.nodes()?;
    let mut report = Report {
        through_rm: through_rm(site),
        bar0: Err(Refusal::new("this program", "not asked")),
        samples: None,
    };
    // What is known is kept before a card may fall off the bus.
    site.keep("registers.json", &report)?;
    match bar0(site) {
        Ok((found, registers)) => {
            let word = status_word(&found);
            report.bar0 = Ok(found);
            // A load that does not run costs the samples alone.
            site.keep("registers.json", &report)?;
            report.samples = sampled(site, word, registers)?;
        }
        Err(refusal) => report.bar0 = Err(refusal),
    }
    site.keep("registers.json", &report)?;
    match (&report.through_rm, &report.bar0) {
        (Err(_), Err(refusal)) => Err(refusal.clone().into()),
        _ => Ok(Outcome::Done {
            found: found(&report),
        }),
    }
}

fn through_rm(site: &Site) -> Result<ByRm, Refusal> {
    let mut client = Client::open(&site.dev(), site.gpu)?;
    let runlists = runlist_bases(&client);
    let bases = runlists.iter().flatten().map(|runlist| runlist.base);
    let bases: Vec<u32> = bases.collect();
    Ok(ByRm {
        group: group_id(&mut client),
        words: read_words(&mut ThroughRm(&client), candidates(&bases)),
        runlists,
    })
}

fn bar0(site: &Site) -> Result<(Survey, Bar0), Refusal> {
    let mut registers = Bar0::open(&site.root, &site.address()?)?;
    Ok((survey(&mut registers), registers))
}

/// Samples the status word, if there is one that could be read, beside a load.
fn sampled(
    site: &Site,
    word: Option<(u32, Layout)>,
    mut registers: Bar0,
) -> Result<Option<Samples>, Outcome> {
    let Some(word) = word else {
        return Ok(None);
    };
    let mut load = Load::new(site, "sampled", WORDS)
        .with_announcement()
        .start()?;
    load.wait_for_start(site.left())?;
    let mut clock = HostClock::start();
    let samples = sample(&mut registers, &mut clock, word, SAMPLED, SEED);
    load.finish(site.left())?;
    Ok(Some(samples))
}

/// Where the status word of the engine for compute is, if it could be read.
pub(super) fn status_word(found: &Survey) -> Option<(u32, Layout)> {
    let first = found.status_words.first()?;
    Some((first.offset, first.layout))
}

fn found(report: &Report) -> String {
    let answered = |words: &[Reading]| words.iter().filter(|word| word.value.is_ok()).count();
    let rm = match &report.through_rm {
        Ok(rm) => {
            let runlists = rm.runlists.as_ref().map_or(0, Vec::len);
            let (words, all) = (answered(&rm.words), rm.words.len());
            format!("RM told {runlists} runlists and read {words} of {all} words")
        }
        Err(refusal) => format!("RM refused ({refusal})"),
    };
    let bar0 = match &report.bar0 {
        Ok(survey) => {
            let (words, all) = (answered(&survey.readings), survey.readings.len());
            format!("{words} of {all} words of BAR0 were read")
        }
        Err(refusal) => format!("BAR0 is refused ({refusal})"),
    };
    format!("{rm}; {bar0}")
}
