// SPDX-License-Identifier: GPL-2.0

//! One figure: its pictures side by side, and the numbers behind them.

use super::{chip, number, set_name, Drawn, ResultSet};
use crate::draw::label;
use crate::findings::{Judged, Verdict};
use crate::results::{At, Experiment, Series};
use maud::{html, Markup, PreEscaped};

/// How a figure or section is called.
pub(super) fn name(figure: &str) -> String {
    if figure.contains('.') {
        format!("Section {figure}")
    } else {
        format!("Figure {figure}")
    }
}

/// Where it is on the page.
pub(super) fn anchor(figure: &str) -> String {
    format!("figure-{}", figure.replace('.', "-"))
}

/// The section of a figure.
pub(super) fn section(figure: &str, places: &[ResultSet], drawn: &[Drawn]) -> Markup {
    let drawn: Vec<_> = drawn
        .iter()
        .filter(|one| one.one.figure == figure)
        .collect();
    let first = drawn.first().map(|one| one.one);
    html! {
        h2 id=(anchor(figure)) { (name(figure)) @if let Some(one) = first { ": " (one.title) } }
        @if let Some(one) = first { p { strong { "The paper: " } (one.paper) } }
        div class="pictures" {
            @for one in &drawn {
                figure {
                    figcaption {
                        (set_name(one.one.origin, &one.one.setting))
                        @if first.is_some_and(|first| first.title != one.one.title) { ": " (one.one.title) }
                    }
                    (PreEscaped(&one.svg))
                }
            }
        }
        @for place in places {
            @for one in place.judged.iter().filter(|one| one.finding.figure == figure) {
                (verdict(place, one))
            }
        }
        @for one in &drawn { (details(one.one)) }
    }
}

fn verdict(place: &ResultSet, one: &Judged) -> Markup {
    html! {
        p class="verdict" {
            (chip(one.verdict)) " " (one.finding.claim) ". "
            @if one.verdict == Verdict::Untested { "In the " } @else { "Measured in the " }
            span class="ours" { (place.name) ": " (one.ours) }
            @if !one.finding.paper.is_empty() { " (paper: " (one.finding.paper) ")" }
            "."
        }
    }
}

/// What is assumed, what differs, where parameters come from, and all numbers.
fn details(one: &Experiment) -> Markup {
    html! {
        div class="notes" {
            @if !(one.differs.is_empty() && one.assumed.is_empty()) {
                h3 { "Notes on the " (set_name(one.origin, &one.setting)) }
            }
            @if !one.differs.is_empty() {
                table class="why" {
                    thead { tr { th { "Differs" } th { "Why" } } }
                    tbody { @for note in &one.differs { tr { td { (note.what) } td { (note.why) } } } }
                }
            }
            @if !one.assumed.is_empty() {
                p { "Assumed:" }
                ul { @for note in &one.assumed { li { (note) } } }
            }
            @if !one.settings.is_empty() {
                details {
                    summary { "Parameters, " (set_name(one.origin, &one.setting)) }
                    table {
                        thead { tr { th { "Parameter" } th { "Value" } th { "From" } } }
                        tbody { @for set in &one.settings { tr {
                            td { code { (set.name) } } td { (set) } td { (set.origin) }
                        } } }
                    }
                }
            }
            details {
                summary { "All numbers, " (set_name(one.origin, &one.setting)) " (" (one.file()) ")" }
                (numbers(one))
            }
        }
    }
}

/// Every point: mean, deviation, and the paper's number where it gives one.
fn numbers(one: &Experiment) -> Markup {
    let paper = |series: &Series| series.points.iter().any(|point| point.paper.is_some());
    let paper = one.series.iter().any(paper);
    html! {
        p { (axis(one)) }
        div class="wide" { table {
            thead { tr {
                th { "Series" } th { (one.x.title) } th { "Mean" } th { "Deviation" } th { "Runs" }
                @if paper { th { "Paper" } }
            } }
            tbody {
                @for series in &one.series { @for point in &series.points { tr {
                    td { (label(&series.name)) @if let Some(panel) = &series.panel { ", " (panel) } }
                    td { @match &point.at { At::Value(value) => (number(*value)), At::Name(name) => (name) } }
                    td class="number" { (number(point.mean)) }
                    td class="number" { (number(point.deviation)) }
                    td class="number" { (point.repetitions) }
                    @if paper { td class="number" { @if let Some(paper) = point.paper { (number(paper)) } } }
                } } }
            }
        } }
    }
}

fn axis(one: &Experiment) -> String {
    match &one.y.unit {
        Some(unit) => format!("{}, in {unit}", one.y.title),
        None => one.y.title.clone(),
    }
}
