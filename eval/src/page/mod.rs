// SPDX-License-Identifier: GPL-2.0

//! The report: one HTML page that needs nothing else, with the paper's numbers beside ours, which
//! findings hold, and every number behind the pictures.

mod agreement;
mod figure;
mod summary;

use crate::draw::{document, picture};
use crate::findings::{judge, Judged, Verdict};
// In the simulator, what is compared with the virtual machine: no result of its own.
use crate::results::reduced::SETTING as MACHINE;
use crate::results::{Experiment, Origin, FIGURES};
use maud::{html, Markup};
use std::error::Error;

/// Results of one place with one setting.
struct ResultSet<'a> {
    name: String,
    results: Vec<&'a Experiment>,
    judged: Vec<Judged>,
}

/// An experiment and its picture.
struct Drawn<'a> {
    one: &'a Experiment,
    svg: String,
}

/// The report of these results as HTML.
///
/// # Errors
///
/// A picture cannot be drawn.
pub fn page(results: &[Experiment]) -> Result<String, Box<dyn Error>> {
    let places = places(results);
    let mut drawn = Vec::new();
    for place in &places {
        for one in &place.results {
            let svg = picture(one).map_err(|error| format!("{}: {error}", one.file()))?;
            drawn.push(Drawn { one, svg });
        }
    }
    let figures = figures(results);
    let body = html! {
        p {
            "The experiments of “LoGA: Low-overhead GPU Accounting Using Events”, repeated: "
            "what the paper found, what came out here, and whether it is the same. Verdicts "
            "are calculated from the numbers below by the rule beside each; bars and points "
            "are means, error bars standard deviations."
        }
        nav {
            a href="#findings" { "Findings" }
            @for number in &figures { a href={ "#" (figure::anchor(number)) } { (figure::name(number)) } }
            a href="#beside" { "Simulator and module" }
        }
        (summary::section(&places))
        @for number in &figures { (figure::section(number, &places, &drawn)) }
        (agreement::section(results))
    };
    Ok(document("LoGA: the paper's experiments", &body))
}

/// The places, simulator first, each with its verdicts.
fn places(results: &[Experiment]) -> Vec<ResultSet<'_>> {
    let mut keys: Vec<_> = results
        .iter()
        .map(|one| (one.origin, &*one.setting))
        .filter(|key| *key != (Origin::Simulator, MACHINE))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let place = |(origin, setting)| {
        let here = |one: &&Experiment| (one.origin, &*one.setting) == (origin, setting);
        let results: Vec<_> = results.iter().filter(here).collect();
        ResultSet {
            name: set_name(origin, setting),
            judged: judge(&results),
            results,
        }
    };
    keys.into_iter().map(place).collect()
}

/// A place for people.
fn set_name(origin: Origin, setting: &str) -> String {
    let origin = match origin {
        Origin::Simulator => "simulator",
        Origin::VirtualMachine => "virtual machine",
        Origin::Host => "host",
    };
    match setting {
        "paper" | MACHINE => origin.to_owned(),
        other => format!("{origin}, {other}"),
    }
}

/// Numbers of the figures there are: those of the paper in its order, then others.
fn figures(results: &[Experiment]) -> Vec<&str> {
    let there = |number: &&&str| results.iter().any(|one| one.figure == **number);
    let mut figures: Vec<&str> = FIGURES.iter().filter(there).copied().collect();
    for one in results {
        if !figures.contains(&&*one.figure) {
            figures.push(&one.figure);
        }
    }
    figures
}

/// A verdict as a word with a colour.
fn chip(verdict: Verdict) -> Markup {
    let (class, word) = match verdict {
        Verdict::Holds => ("holds", "holds"),
        Verdict::Differs => ("differs", "differs"),
        Verdict::Untested => ("untested", "not tested"),
    };
    html! { span class={ "chip " (class) } { (word) } }
}

/// A number with about four digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests;
