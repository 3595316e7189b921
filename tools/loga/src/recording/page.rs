// SPDX-License-Identifier: GPL-2.0

//! `[tool]` A recording as one HTML page that needs nothing else.

use super::columns::{Columns, Picture, Row, COLUMNS};
use super::day::utc;
use super::layout::Amounts;
use super::summary::{Board, Client, Summary, Total, LISTED};
use crate::names::Name;
use loga_draw::document;
use loga_draw::time::{stack, Layer, Stack};
use maud::{html, Markup, PreEscaped};
use std::collections::BTreeMap;
use std::error::Error;

/// Clients that have a row in the table.
const CLIENTS_MAX: usize = 100;
/// Letters beside a row of a picture.
const LABEL_MAX: usize = 23;

/// The page.
///
/// # Errors
///
/// A picture cannot be drawn.
pub fn page(name: &Name, summary: &Summary, columns: &Columns) -> Result<String, Box<dyn Error>> {
    let mut boards = Vec::new();
    for (gpu, board) in &summary.boards {
        let picture = columns.pictures.get(gpu);
        let svg = match picture.filter(|_| !board.clients.is_empty()) {
            Some(picture) => Some(stack(&drawing(*gpu, board, picture, summary))?),
            None => None,
        };
        boards.push((*gpu, board, svg));
    }
    let body = html! {
        (about(summary))
        @for (gpu, board, svg) in &boards { (section(*gpu, board, svg.as_deref(), summary)) }
    };
    Ok(document(&format!("LoGA: {name}"), &body))
}

/// What is recorded, and what of it is not whole.
fn about(summary: &Summary) -> Markup {
    let start = &summary.start;
    let lost = summary.lost;
    html! {
        p {
            "Recorded from " (utc(start.unix_ns)) " for " (seconds(summary.seconds()))
            ", a sample each " (start.interval_ms) " ms, by loga " (start.program)
            " (interface " (start.abi) " of the kernel module). Samples: " (summary.samples) "."
        }
        p {
            "A share is GPU time as a part of the time that was accounted. Shares and throttled "
            "times are means over a six-hundredth of the recording, or over a sample if that is longer."
        }
        @if summary.samples == 0 { p class="off" { "There is no sample in it." } }
        @if lost > 0 {
            p class="off" {
                (lost) " events were lost: times throttled in the pictures may lack. Totals do not."
            }
        }
        @for note in summary.damage.iter().chain(&summary.note) { p class="off" { (note) } }
        @if !summary.gaps.is_empty() {
            p { "Without figures (grey in the pictures):" }
            ul { @for (gap, until) in &summary.gaps { li {
                "from " (since(summary, gap.time_ns))
                @match until {
                    Some(until) => { " to " (since(summary, *until)) },
                    None => " to the end",
                }
                ": " (gap.why)
            } } }
        }
    }
}

fn section(gpu: u32, board: &Board, svg: Option<&str>, summary: &Summary) -> Markup {
    let withheld = board.about.as_ref().is_some_and(|about| about.withheld);
    html! {
        h2 id={ "gpu-" (gpu) } {
            "GPU " (gpu)
            @if let Some(about) = &board.about { " (" (about.chip) ", " (about.pci) ")" }
        }
        p {
            @if board.policies.len() > 1 { "Policies: " } @else { "Policy: " }
            (board.policies.join(", ")) ". "
            @if board.polled_ns > 0 {
                "Busy " (percent(board.busy_ns, board.polled_ns)) " % of the time, "
                "with work of unknown clients " (percent(board.unknown_ns, board.polled_ns)) " %."
            }
            @if withheld { "The recorder saw its own clients only." }
        }
        @if let Some(svg) = svg { figure { (PreEscaped(svg)) } }
        @if board.clients.is_empty() { p { "No client was there." } }
        @else { (clients(board, summary)) }
        (totals("Users", "User", &board.users, board.span_ns))
        (totals("Cgroups", "Cgroup", &board.cgroups, board.span_ns))
        (events(board, summary))
    }
}

fn clients(board: &Board, summary: &Summary) -> Markup {
    let ranked = board.ranked();
    let more = ranked.len().saturating_sub(CLIENTS_MAX);
    html! {
        h3 { "Clients" }
        div class="wide" { table {
            thead { tr {
                th { "Process" } th { "Command" } th { "User" } th { "Cgroup" }
                (heads()) th { "Times" } th { "From" } th { "To" }
            } }
            tbody { @for (_, client) in ranked.iter().take(CLIENTS_MAX) { tr {
                td { (client.pid) } td { (client.comm) }
                td { (user(client, summary)) }
                td { @if let Some(cgroup) = &client.cgroup { (cgroup) } }
                (amounts(client.got, board.span_ns))
                td class="number" { (client.throttles) }
                td class="number" { (since(summary, client.first_ns)) }
                td class="number" { (since(summary, client.last_ns)) }
            } } }
        } }
        @if more > 0 { p { (more) " clients with less GPU time are not shown." } }
    }
}

fn user(client: &Client, summary: &Summary) -> String {
    let name = summary.context.user(client.uid);
    name.map_or_else(|| client.uid.to_string(), Name::to_string)
}

fn totals(heading: &str, one: &str, totals: &BTreeMap<Option<u64>, Total>, span_ns: u64) -> Markup {
    let mut ranked: Vec<_> = totals.iter().collect();
    ranked.sort_by_key(|(id, total)| (std::cmp::Reverse(total.got.gpu_time_ns), **id));
    let called = |id: &Option<u64>, total: &Total| match (&total.name, id) {
        (Some(name), _) => name.to_string(),
        (None, Some(id)) => id.to_string(),
        (None, None) => "(others)".to_string(),
    };
    html! { @if !ranked.is_empty() {
        h3 { (heading) }
        div class="wide" { table {
            thead { tr { th { (one) } (heads()) } }
            tbody { @for (id, total) in ranked { tr {
                td { (called(id, total)) } (amounts(total.got, span_ns))
            } } }
        } }
    } }
}

fn heads() -> Markup {
    html! {
        th { "GPU time (s)" } th { "Share (%)" } th { "Waited (s)" } th { "Throttled (s)" }
    }
}

fn amounts(got: Amounts, span_ns: u64) -> Markup {
    html! {
        td class="number" { (ns(got.gpu_time_ns)) }
        td class="number" { (percent(got.gpu_time_ns, span_ns)) }
        td class="number" { (ns(got.waited_ns)) }
        td class="number" { (ns(got.throttled_ns)) }
    }
}

fn events(board: &Board, summary: &Summary) -> Markup {
    let counts = board
        .events
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"));
    let counts: Vec<String> = counts.collect();
    html! { @if !counts.is_empty() {
        h3 { "Events" }
        p { (counts.join(", ")) "." }
        @if !board.listed.is_empty() {
            details open {
                summary { "One by one, but for those that come with each client" }
                table {
                    thead { tr { th { "At" } th { "Event" } th { "About" } } }
                    tbody { @for (time_ns, kind, about) in &board.listed { tr {
                        td class="number" { (since(summary, *time_ns)) } td { (kind) } td { (about) }
                    } } }
                }
                @if board.listed.len() == LISTED { p { "Those after the first " (LISTED) " are only counted." } }
            }
        }
    } }
}

/// The picture of a GPU.
fn drawing(gpu: u32, board: &Board, picture: &Picture, summary: &Summary) -> Stack {
    let layer = |name: String, row: &Row, rest: bool| {
        let part = (0..COLUMNS).map(|at| {
            let span_ns = picture.span_ns.get(at).copied().unwrap_or(0.0);
            let got_ns = row.got_ns.get(at).copied().unwrap_or(0.0);
            (span_ns > 0.0).then(|| got_ns / span_ns)
        });
        let wide_ns = summary.seconds().max(1e-9) * 1e9 / COLUMNS as f64;
        Layer {
            name,
            rest,
            part: part.collect(),
            held: row.held_ns.iter().map(|held| held / wide_ns).collect(),
        }
    };
    let shown = board.ranked();
    let rows = shown.iter().filter_map(|(who, client)| {
        let row = picture.rows.get(who)?;
        Some(layer(label(client), row, false))
    });
    let mut layers: Vec<Layer> = rows.collect();
    if shown.len() > layers.len() {
        layers.push(layer("all others".to_string(), &picture.rest, true));
    }
    Stack {
        parts: format!("share of GPU {gpu}"),
        rows: "throttled".to_string(),
        seconds: summary.seconds(),
        layers,
    }
}

/// A client, as wide as there is room for.
fn label(client: &Client) -> String {
    let label = format!("{} {}", client.pid, client.comm);
    match label.char_indices().nth(LABEL_MAX) {
        Some((end, _)) => format!("{}…", label.get(..end).unwrap_or_default()),
        None => label,
    }
}

/// A time since the start.
fn since(summary: &Summary, time_ns: u64) -> String {
    seconds(time_ns.saturating_sub(summary.start.time_ns) as f64 / 1e9)
}

fn seconds(seconds: f64) -> String {
    format!("{seconds:.1} s")
}

fn ns(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => String::new(),
        _ => format!("{:.1}", part as f64 * 100.0 / whole as f64),
    }
}
