// SPDX-License-Identifier: GPL-2.0

//! What criterion measured: read from the files that it leaves, printed as a table.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::SystemTime;
use std::{fs, io};

/// The mean time of one benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Group and benchmark, separated by `/`.
    pub name: String,
    /// Mean, in ns.
    pub mean_ns: f64,
    /// Lower end of the 95 % confidence interval.
    pub low_ns: f64,
    /// Its upper end.
    pub high_ns: f64,
    /// Elements (clients, commands, events) in a second, where they are counted.
    pub elements_per_s: Option<f64>,
}

/// The parts of criterion's files that are used.
#[derive(Deserialize)]
struct Estimates {
    mean: Estimate,
}

#[derive(Deserialize)]
struct Estimate {
    confidence_interval: Interval,
    point_estimate: f64,
}

#[derive(Deserialize)]
struct Interval {
    lower_bound: f64,
    upper_bound: f64,
}

#[derive(Deserialize)]
struct Benchmark {
    full_id: String,
    throughput: Option<Throughput>,
}

#[derive(Deserialize)]
struct Throughput {
    #[serde(rename = "Elements")]
    elements: Option<u64>,
}

/// All figures below criterion's folder that were measured after `since`, by name. An absent folder
/// has none.
pub fn read(folder: &Path, since: SystemTime) -> io::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if folder.exists() {
        collect(folder, since, &mut figures)?;
    }
    figures.sort_by(|one: &Figure, other| one.name.cmp(&other.name));
    Ok(figures)
}

fn collect(folder: &Path, since: SystemTime, figures: &mut Vec<Figure>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !path.is_dir() {
            continue;
        }
        let file = path.join("new/estimates.json");
        // Files of benchmarks that no longer exist stay there.
        if file.exists() && fs::metadata(&file)?.modified()? >= since {
            let estimates: Estimates = parse(&file)?;
            let benchmark: Benchmark = parse(&path.join("new/benchmark.json"))?;
            let interval = estimates.mean.confidence_interval;
            let elements = benchmark
                .throughput
                .and_then(|throughput| throughput.elements);
            let mean_ns = estimates.mean.point_estimate;
            figures.push(Figure {
                name: benchmark.full_id,
                mean_ns,
                low_ns: interval.lower_bound,
                high_ns: interval.upper_bound,
                elements_per_s: elements.map(|count| count as f64 * 1e9 / mean_ns),
            });
        }
        collect(&path, since, figures)?;
    }
    Ok(())
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<T> {
    let text = fs::read_to_string(path)?;
    serde_json::from_str(&text)
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))
}

/// How many times as long the first one takes, if both were measured.
pub fn ratio(figures: &[Figure], slow: &str, fast: &str) -> Option<f64> {
    let mean = |name: &str| {
        let figure = figures.iter().find(|figure| figure.name == name)?;
        Some(figure.mean_ns)
    };
    Some(mean(slow)? / mean(fast)?)
}

/// The figures as a person reads them, one in each line.
pub fn table(figures: &[Figure]) -> String {
    let mut table = Table::new();
    let titles = ["BENCHMARK", "MEAN", "ELEMENTS/s", "95 % OF THE MEANS"];
    table.load_preset(NOTHING).set_header(titles);
    for figure in figures {
        let rate = figure.elements_per_s;
        table.add_row([
            figure.name.clone(),
            text(figure.mean_ns),
            rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
            format!("{} to {}", text(figure.low_ns), text(figure.high_ns)),
        ]);
    }
    for numbers in [1, 2] {
        if let Some(column) = table.column_mut(numbers) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> = table.lines().collect();
    lines
        .iter()
        .map(|line| line.trim_end())
        .collect::<Vec<_>>()
        .join("\n")
}

/// A time as a person reads it.
pub fn text(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.2} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, mean_ns: f64) -> Figure {
        Figure {
            name: name.to_owned(),
            mean_ns,
            low_ns: mean_ns,
            high_ns: mean_ns,
            elements_per_s: None,
        }
    }

    #[test]
    fn ratio_needs_both_figures() {
        let figures = [figure("a/slow", 300.0), figure("a/fast", 4.0)];
        assert_eq!(ratio(&figures, "a/slow", "a/fast"), Some(75.0));
        assert_eq!(ratio(&figures, "a/slow", "a/none"), None);
    }

    #[test]
    fn table_has_a_line_of_each_figure() {
        let counted = Figure {
            elements_per_s: Some(2.5e6),
            ..figure("group/counted", 400.0)
        };
        let table = table(&[counted, figure("plain", 1_250.0)]);
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines.len(), 3);
        let first = [
            "group/counted",
            "400.0",
            "ns",
            "2500000",
            "400.0",
            "ns",
            "to",
            "400.0",
            "ns",
        ];
        assert_eq!(lines[1], first);
        assert_eq!(
            lines[2],
            ["plain", "1.25", "us", "1.25", "us", "to", "1.25", "us"]
        );
    }

    #[test]
    fn read_of_an_absent_folder_is_empty() {
        assert_eq!(
            read(Path::new("/nonexistent"), SystemTime::UNIX_EPOCH).expect("none"),
            []
        );
    }

    #[test]
    fn text_takes_the_fitting_unit() {
        assert_eq!(text(1.25), "1.2 ns");
        assert_eq!(text(1_250.0), "1.25 us");
        assert_eq!(text(1_250_000.0), "1.25 ms");
    }
}
