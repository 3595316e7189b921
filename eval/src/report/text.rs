// SPDX-License-Identifier: GPL-2.0

//! The figures as tables.

use super::{Client, Gpu, Report};
use crate::results::stats::Spread;
use comfy_table::{presets, CellAlignment, Table};
use std::fmt::Write;

/// The figures as text: the run in full, or means and deviations of several.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mode = if report.enforce {
        "enforcing"
    } else {
        "accounting only"
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{}: policy {}, {mode}",
        report.scenario, report.policy
    );
    match &report.runs[..] {
        [run] => {
            for gpu in &run.gpus {
                one_gpu(&mut text, gpu);
            }
        }
        _ => summary(&mut text, report),
    }
    text
}

/// A table with names on the left and numbers on the right.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    for (column, at) in table.column_iter_mut().zip(0..) {
        column.set_padding((0, 2));
        if at > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn one_gpu(text: &mut String, gpu: &Gpu) {
    let _ = writeln!(
        text,
        "\nGPU {}: {:.3} ms, {:.2} % used, {:.2} % idle, {:.2} % switching, copies {:.2} %",
        gpu.gpu, gpu.length_ms, gpu.utilisation_pct, gpu.idle_pct, gpu.switch_pct, gpu.copy_pct
    );
    let _ = writeln!(
        text,
        "Jain index {}, accounting error {} %, CPU of LoGA {:.3} ms ({:.2} %) and {:.3} ms in \
         clients",
        optional(gpu.jain, 4),
        optional(gpu.accounting_error_pct, 3),
        gpu.loga_cpu_ms,
        gpu.loga_cpu_pct,
        gpu.loga_in_clients_ms
    );
    let _ = writeln!(
        text,
        "{} decisions, {} throttles, {} faults, {} GPU events\n",
        gpu.decisions, gpu.throttles, gpu.faults, gpu.events
    );
    let mut clients = table([
        "client",
        "weight",
        "kernels",
        "copies",
        "rounds",
        "turnaround ms",
        "99 % ms",
        "late",
        "total ms",
        "GPU ms",
        "GPU %",
        "measured ms",
        "entitled ms",
        "throttled ms",
    ]);
    for client in &gpu.clients {
        clients.add_row(row(client));
    }
    let _ = writeln!(text, "{}", clients.trim_fmt());
}

fn row(client: &Client) -> Vec<String> {
    vec![
        client.name.clone(),
        client.weight.to_string(),
        client.kernels.to_string(),
        client.copies.to_string(),
        client.rounds.to_string(),
        optional(client.turnaround_ms, 3),
        optional(client.turnaround_p99_ms, 3),
        client
            .missed
            .map_or_else(|| "-".to_owned(), |missed| missed.to_string()),
        optional(client.total_ms, 3),
        format!("{:.3}", client.gpu_ms),
        format!("{:.2}", client.gpu_pct),
        optional(client.measured_ms, 3),
        optional(client.entitled_ms, 3),
        format!("{:.3}", client.throttled_ms),
    ]
}

fn summary(text: &mut String, report: &Report) {
    let _ = writeln!(
        text,
        "{} runs, mean +- standard deviation",
        report.summary.runs
    );
    for (number, gpu) in report.summary.gpus.iter().enumerate() {
        let _ = writeln!(
            text,
            "\nGPU {number}: {} % used, Jain index {}, accounting error {} %, CPU of LoGA {} %\n",
            spread(gpu.utilisation_pct, 2),
            spread(gpu.jain, 4),
            spread(gpu.accounting_error_pct, 3),
            spread(gpu.loga_cpu_pct, 2)
        );
        let mut clients = table(["client", "GPU %", "turnaround ms"]);
        for client in &gpu.clients {
            clients.add_row(vec![
                client.name.clone(),
                spread(client.gpu_pct, 2),
                spread(client.turnaround_ms, 3),
            ]);
        }
        let _ = writeln!(text, "{}", clients.trim_fmt());
    }
}

/// A number with `digits` decimals, or a dash.
pub(crate) fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn spread(value: Option<Spread>, digits: usize) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| format!("{:.digits$} +- {:.digits$}", value.mean, value.deviation),
    )
}
