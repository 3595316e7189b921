// SPDX-License-Identifier: GPL-2.0

//! All scenarios together: a table for people, a file for programs.

use crate::figure::{Figure, Findings};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Version of the layout of the file.
const VERSION: u32 = 3;
/// How time passed.
const CLOCK: &str =
    "virtual: QEMU -icount shift=0,sleep=off -rtc clock=vm, 2 processors; 1 instruction is 1 ns";

const TITLES: [&str; 6] = [
    "SCENARIO", "SEED", "FIGURE", "MEASURED", "TARGET", "VERDICT",
];

/// What a scenario found in a machine with this seed.
#[derive(Serialize)]
struct Run {
    seed: u64,
    #[serde(flatten)]
    findings: Findings,
}

impl Run {
    fn name(&self) -> String {
        format!("{} (seed {})", self.findings.scenario, self.seed)
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.findings.figures.iter()
    }
}

/// What was measured, and when.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Source {
    /// What was measured, for the report
    #[arg(long, default_value = "unknown")]
    commit: String,
    /// Whether it was the commit alone, clean, or changed, for the report
    #[arg(long, default_value = "changed")]
    tree: String,
    /// When the measurement began, in UTC, for the report
    #[arg(long, default_value = "unknown")]
    date: String,
}

#[derive(Serialize)]
struct Report {
    version: u32,
    #[serde(flatten)]
    source: Source,
    clock: &'static str,
    figures: usize,
    targets: usize,
    missed: Vec<String>,
    failed: Vec<String>,
    scenarios: Vec<Run>,
}

/// Reads what the runs, each SCENARIO-SEED, left in `folder`, prints the table and writes `json`; false if a
/// run was not carried out.
pub(crate) fn run(
    folder: &Path,
    runs: &[String],
    json: &Path,
    source: &Source,
) -> Result<bool, String> {
    let scenarios = runs.iter().map(|run| read(folder, run));
    let report = summarise(scenarios.collect::<Result<_, _>>()?, source);
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    fs::write(json, text).map_err(|error| format!("{}: {error}", json.display()))?;
    println!("{}", render(&report));
    Ok(report.failed.is_empty())
}

fn read(folder: &Path, run: &str) -> Result<Run, String> {
    let parts = run
        .rsplit_once('-')
        .and_then(|(name, seed)| Some((name, seed.parse().ok()?)));
    let (name, seed) = parts.ok_or_else(|| format!("{run} is no SCENARIO-SEED"))?;
    let path = folder.join(run).join(format!("bench-{name}.json"));
    let findings = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}", path.display()))
        .and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
        })
        .unwrap_or_else(|error| {
            let mut findings = Findings::new(name);
            findings.fail(error);
            findings
        });
    Ok(Run { seed, findings })
}

fn summarise(scenarios: Vec<Run>, source: &Source) -> Report {
    let all = || {
        let figures = |run| Run::figures(run).map(move |figure| (run.name(), figure));
        scenarios.iter().flat_map(figures)
    };
    let targets = all().filter(|(_, figure)| figure.met().is_some()).count();
    let missed = all()
        .filter(|(_, figure)| figure.met() == Some(false))
        .map(|(run, figure)| format!("{run}: {}", figure.name))
        .collect();
    let failed = scenarios
        .iter()
        .filter_map(|run| Some(format!("{}: {}", run.name(), run.findings.error.as_ref()?)))
        .collect();
    Report {
        version: VERSION,
        source: source.clone(),
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
    for run in &report.scenarios {
        for figure in run.figures() {
            table.add_row(row(run, figure));
        }
    }
    if let Some(column) = table.column_mut(3) {
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

fn row(run: &Run, figure: &Figure) -> [String; 6] {
    let verdict = match figure.met() {
        Some(true) => "met",
        Some(false) => "MISSED",
        None => "",
    };
    let value = figure
        .value
        .map_or("no number".to_owned(), |value| format!("{value:.2}"));
    [
        run.findings.scenario.clone(),
        run.seed.to_string(),
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
        let runs = [(good, 1), (bad, 3)].map(|(findings, seed)| Run { seed, findings });
        let source = Source {
            commit: "abc".to_owned(),
            tree: "clean".to_owned(),
            date: "2026-11-26T00:00:00Z".to_owned(),
        };
        let report = summarise(Vec::from(runs), &source);
        assert_eq!((report.figures, report.targets), (2, 2));
        assert_eq!(report.missed, ["one (seed 1): error"]);
        assert_eq!(report.failed, ["two (seed 3): no machine"]);
        let text = render(&report);
        assert!(text.contains("26.50 %"), "{text}");
        assert!(
            text.ends_with("missed  one (seed 1): error\nFAILED  two (seed 3): no machine"),
            "{text}"
        );
        let json = serde_json::to_value(&report).expect("json");
        assert_eq!(
            (&json["commit"], &json["tree"]),
            (&"abc".into(), &"clean".into())
        );
        assert_eq!(json["scenarios"][1]["seed"], 3);
        assert_eq!(json["scenarios"][1]["scenario"], "two");
    }

    #[test]
    fn run_without_a_seed_is_refused_and_one_without_a_result_has_failed() {
        let nowhere = Path::new("/nowhere");
        assert!(read(nowhere, "duty").is_err());
        let run = read(nowhere, "sparse-demo-2").expect("a name and a seed");
        assert_eq!(run.name(), "sparse-demo (seed 2)");
        assert!(run.findings.error.is_some());
    }
}
