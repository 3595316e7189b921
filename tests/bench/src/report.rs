// SPDX-License-Identifier: GPL-2.0

//! All scenarios together: a table for people, a file for programs.

use crate::figure::{Figure, Findings};
use crate::scenarios;
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Version of the layout of the file.
const VERSION: u32 = 2;
/// How time passed.
const CLOCK: &str =
    "virtual: QEMU -icount shift=0,sleep=off -seed 1 -rtc clock=vm, 2 processors; 1 instruction is 1 ns";

const TITLES: [&str; 5] = ["SCENARIO", "FIGURE", "MEASURED", "TARGET", "VERDICT"];

#[derive(Serialize)]
struct Report {
    version: u32,
    commit: String,
    clock: &'static str,
    figures: usize,
    targets: usize,
    missed: Vec<String>,
    failed: Vec<String>,
    scenarios: Vec<Findings>,
}

/// Reads what the scenarios (all, if none is named) left in `folder`, prints the table and writes `json`; false if a
/// scenario was not carried out.
pub(crate) fn run(
    folder: &Path,
    names: &[String],
    json: &Path,
    commit: &str,
) -> Result<bool, String> {
    let scenarios: Vec<Findings> = scenarios::ALL
        .iter()
        .filter(|(name, _)| names.is_empty() || names.iter().any(|one| one == name))
        .map(|(name, _)| read(folder, name))
        .collect();
    let report = summarise(scenarios, commit);
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    fs::write(json, text).map_err(|error| format!("{}: {error}", json.display()))?;
    println!("{}", render(&report));
    Ok(report.failed.is_empty())
}

fn read(folder: &Path, name: &str) -> Findings {
    let path = folder.join(name).join(format!("bench-{name}.json"));
    fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}", path.display()))
        .and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
        })
        .unwrap_or_else(|error| {
            let mut findings = Findings::new(name);
            findings.fail(error);
            findings
        })
}

fn summarise(scenarios: Vec<Findings>, commit: &str) -> Report {
    let all = || {
        scenarios
            .iter()
            .flat_map(|one| one.figures.iter().map(|figure| (&one.scenario, figure)))
    };
    let targets = all().filter(|(_, figure)| figure.met().is_some()).count();
    let missed = all()
        .filter(|(_, figure)| figure.met() == Some(false))
        .map(|(scenario, figure)| format!("{scenario}: {}", figure.name))
        .collect();
    let failed = scenarios
        .iter()
        .filter_map(|one| Some(format!("{}: {}", one.scenario, one.error.as_ref()?)))
        .collect();
    Report {
        version: VERSION,
        commit: commit.to_owned(),
        clock: CLOCK,
        figures: all().count(),
        targets,
        missed,
        failed,
        scenarios,
    }
}

fn render(report: &Report) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(TITLES);
    for scenario in &report.scenarios {
        for figure in &scenario.figures {
            table.add_row(row(&scenario.scenario, figure));
        }
    }
    if let Some(column) = table.column_mut(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.push(String::new());
    lines.push(format!(
        "{} figures, {} with a target, {} missed",
        report.figures,
        report.targets,
        report.missed.len()
    ));
    lines.extend(report.missed.iter().map(|one| format!("missed  {one}")));
    lines.extend(report.failed.iter().map(|one| format!("FAILED  {one}")));
    lines.join("\n")
}

fn row(scenario: &str, figure: &Figure) -> [String; 5] {
    let verdict = match figure.met() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    let value = figure
        .value
        .map_or("no number".to_owned(), |value| format!("{value:.2}"));
    [
        scenario.to_owned(),
        figure.name.clone(),
        format!("{value} {}", figure.unit).trim_end().to_owned(),
        figure
            .target
            .map_or(String::new(), |target| target.to_string()),
        verdict.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_what_was_missed_and_what_failed() {
        let mut good = Findings::new("one");
        good.check("share", 26.5, "%", 24.0..=30.0);
        good.check("error", 2.0, "%", -1.0..=1.0);
        let mut bad = Findings::new("two");
        bad.fail("no machine".to_owned());
        let report = summarise(vec![good, bad], "abc");
        assert_eq!((report.figures, report.targets), (2, 2));
        assert_eq!(report.missed, ["one: error"]);
        assert_eq!(report.failed, ["two: no machine"]);
        let text = render(&report);
        assert!(text.contains("26.50 %"), "{text}");
        assert!(
            text.ends_with("missed  one: error\nFAILED  two: no machine"),
            "{text}"
        );
    }
}
