// SPDX-License-Identifier: GPL-2.0

//! The simulator beside the real module in the virtual machine.

use super::{figure, number, MACHINE};
use crate::draw::label;
use crate::findings::{agreement, Agreement, Pair, LIMIT};
use crate::results::{Experiment, Origin, FIGURES};
use maud::{html, Markup};

/// The figures that were run in both places.
pub(super) fn section(results: &[Experiment]) -> Markup {
    let real = results
        .iter()
        .filter(|one| one.origin == Origin::VirtualMachine);
    let mut both: Vec<_> = real
        .filter_map(|real| Some((partner(results, real)?, real)))
        .collect();
    both.sort_by_key(|(_, real)| FIGURES.iter().position(|one| *one == real.figure));
    html! {
        h2 id="beside" { "The simulator beside the real module" }
        p {
            "The same experiments on the real kernel module with real processes, in the virtual "
            "machine, against the simulator with the costs that were measured there. They agree if "
            "no point is off by more than " (LIMIT) " %."
        }
        @if both.is_empty() { p { "No figure was run in both places." } }
        @else { (table(&both)) }
        @for (simulated, real) in &both {
            details {
                summary { (figure::name(&real.figure)) ": point by point" }
                (points(&agreement(simulated, real)))
            }
        }
    }
}

/// The simulator's result that is to be compared: with the machine's costs if there is one.
fn partner<'a>(results: &'a [Experiment], real: &Experiment) -> Option<&'a Experiment> {
    let same = |one: &&Experiment| one.origin == Origin::Simulator && one.figure == real.figure;
    let mut simulated = results.iter().filter(same);
    let first = simulated.clone().next();
    simulated.find(|one| one.setting == MACHINE).or(first)
}

fn table(both: &[(&Experiment, &Experiment)]) -> Markup {
    html! {
        div class="wide" { table {
            thead { tr {
                th { "Figure" } th { "Points" } th { "Furthest apart" } th { "Within " (LIMIT) " %" }
                th { "What differs, and why" }
            } }
            tbody {
                @for (simulated, real) in both {
                    @let compared = agreement(simulated, real);
                    tr {
                        td { (figure::name(&real.figure)) }
                        td class="number" { (compared.pairs.len()) }
                        td { @if let Some(pair) = compared.worst() { (worst(pair)) } }
                        td { (agrees(&compared)) }
                        td {
                            @for note in real.differs.iter().chain(&simulated.differs) {
                                p { strong { (note.what) } ": " (note.why) }
                            }
                        }
                    }
                }
            }
        } }
    }
}

fn worst(pair: &Pair) -> String {
    let place = pair
        .panel
        .as_deref()
        .map_or(String::new(), |panel| format!(", {panel}"));
    let (series, at) = (label(&pair.series), &pair.at);
    format!("{:+.1} % ({series}{place}, {at})", pair.off)
}

fn agrees(compared: &Agreement) -> Markup {
    let within = compared
        .pairs
        .iter()
        .filter(|pair| pair.off.abs() <= LIMIT)
        .count();
    let (class, word) = if compared.agrees() {
        ("holds", "agree")
    } else {
        ("differs", "differ")
    };
    html! { span class={ "chip " (class) } { (word) } br; (within) " of " (compared.pairs.len()) }
}

fn points(compared: &Agreement) -> Markup {
    html! {
        div class="wide" { table {
            thead { tr {
                th { "Series" } th { "At" } th { "Simulator" } th { "Module" } th { "Off" }
            } }
            tbody { @for pair in &compared.pairs { tr {
                td { (label(&pair.series)) @if let Some(panel) = &pair.panel { ", " (panel) } }
                td { (pair.at) }
                td class="number" { (number(pair.simulated)) }
                td class="number" { (number(pair.real)) }
                td class={ "number" @if pair.off.abs() > LIMIT { " off" } } { (format!("{:+.1} %", pair.off)) }
            } } }
        } }
    }
}
