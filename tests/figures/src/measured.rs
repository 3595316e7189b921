// SPDX-License-Identifier: GPL-2.0

//! What is kept of measurements, and how it is taken over from a report of `make bench`.

use crate::table::Table;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Version of the layout of a report that can be taken over.
const VERSION: u32 = 3;

/// Figures that documents cite, by scenario.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Measured(BTreeMap<String, Scenario>);

/// What is kept of one scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Scenario {
    /// The whole name of what was measured.
    pub commit: String,
    /// When the measurement began, in UTC: two of them are compared as texts.
    pub date: String,
    /// Seeds of the virtual machines.
    pub seeds: Vec<u64>,
    /// By name.
    pub(crate) figures: BTreeMap<String, Figure>,
}

/// One figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) unit: String,
    /// One for each seed.
    pub(crate) values: Vec<f64>,
}

/// A report of `make bench`, of which more is not read.
#[derive(Deserialize)]
pub struct Report {
    version: u32,
    #[serde(default)]
    commit: String,
    #[serde(default)]
    tree: String,
    #[serde(default)]
    date: String,
    scenarios: Vec<Run>,
}

/// What a scenario found in a machine with this seed.
#[derive(Deserialize)]
struct Run {
    scenario: String,
    #[serde(default)]
    seed: u64,
    figures: Vec<Named>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    value: Option<f64>,
    unit: String,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    ///
    /// It is no report, not of a commit alone, or a scenario was not carried out.
    pub fn read(text: &str) -> Result<Self, String> {
        let report: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if report.version != VERSION {
            let version = report.version;
            return Err(format!(
                "it has layout {version}, not {VERSION}: measure again"
            ));
        }
        let hexadecimal = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        if report.commit.len() != 40 || !report.commit.bytes().all(hexadecimal) {
            return Err(format!("it is of no commit: {:?}", report.commit));
        }
        if report.tree != "clean" {
            return Err(format!(
                "it was measured on a tree that differs from its commit {}: commit, then measure",
                &report.commit[..12]
            ));
        }
        let failed = report
            .scenarios
            .iter()
            .find_map(|run| Some(format!("{}: {}", run.scenario, run.error.as_ref()?)));
        failed.map_or(Ok(report), Err)
    }

    /// The figures of a scenario that are cited; nothing if the scenario was not measured.
    fn scenario(&self, name: &str, tables: &[Table]) -> Result<Option<Scenario>, String> {
        let runs = self.scenarios.iter().filter(|run| run.scenario == name);
        let runs: Vec<&Run> = runs.collect();
        let Some(first) = runs.first() else {
            return Ok(None);
        };
        let mut figures = BTreeMap::new();
        for figure in &first.figures {
            if !tables.iter().any(|table| table.cites(name, &figure.name)) {
                continue;
            }
            let value = |run: &&Run| {
                let mut all = run.figures.iter();
                all.find(|one| one.name == figure.name && one.unit == figure.unit)?
                    .value
            };
            let values: Option<Vec<f64>> = runs.iter().map(value).collect();
            let values = values.ok_or_else(|| format!("{name}: {}: no number", figure.name))?;
            let unit = figure.unit.clone();
            figures.insert(figure.name.clone(), Figure { unit, values });
        }
        Ok(Some(Scenario {
            commit: self.commit.clone(),
            date: self.date.clone(),
            seeds: runs.iter().map(|run| run.seed).collect(),
            figures,
        }))
    }
}

impl Measured {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// It is not such a file.
    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// The scenarios by name.
    pub fn scenarios(&self) -> impl Iterator<Item = (&str, &Scenario)> {
        self.0.iter().map(|(name, one)| (name.as_str(), one))
    }

    /// The scenario of this name.
    pub(crate) fn scenario(&self, name: &str) -> Option<&Scenario> {
        self.0.get(name)
    }

    /// Takes over what tables cite of a report, and says so in a line for each scenario. What is there
    /// and newer stays.
    ///
    /// # Errors
    ///
    /// A figure that is cited is no number.
    pub fn take(&mut self, report: &Report, tables: &[Table]) -> Result<Vec<String>, String> {
        let mut lines = Vec::new();
        let names = tables.iter().flat_map(Table::scenarios);
        for name in names.collect::<BTreeSet<&str>>() {
            let Some(new) = report.scenario(name, tables)? else {
                continue;
            };
            let old = self.0.get(name).filter(|old| old.date > new.date);
            if let Some(old) = old {
                lines.push(format!("{name}: what is there is newer, of {}", old.date));
                continue;
            }
            lines.push(format!("{name}: {} of {}", &new.commit[..12], new.date));
            self.0.insert(name.to_owned(), new);
        }
        Ok(lines)
    }

    /// Forgets what no table cites any more.
    pub fn prune(&mut self, tables: &[Table]) {
        for (name, scenario) in &mut self.0 {
            let cited = |figure: &String| tables.iter().any(|table| table.cites(name, figure));
            scenario.figures.retain(|figure, _| cited(figure));
        }
        self.0.retain(|_, scenario| !scenario.figures.is_empty());
    }

    /// The text of the file: a figure a line, in the order of names.
    #[must_use]
    pub fn print(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let scenarios = self.0.iter().map(|(name, scenario)| {
            let figures = scenario.figures.iter().map(|(name, figure)| {
                let (name, unit) = (quoted(name), quoted(&figure.unit));
                let values = &figure.values;
                format!("      {name}: {{\"unit\": {unit}, \"values\": {values:?}}}")
            });
            let figures: Vec<String> = figures.collect();
            [
                format!("  {}: {{", quoted(name)),
                format!("    \"commit\": {},", quoted(&scenario.commit)),
                format!("    \"date\": {},", quoted(&scenario.date)),
                format!("    \"seeds\": {:?},", scenario.seeds),
                "    \"figures\": {".to_owned(),
                figures.join(",\n"),
                "    }\n  }".to_owned(),
            ]
            .join("\n")
        });
        let scenarios: Vec<String> = scenarios.collect();
        if scenarios.is_empty() {
            return "{}\n".to_owned();
        }
        format!("{{\n{}\n}}\n", scenarios.join(",\n"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::table::Row;

    const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

    /// A report of a scenario with two seeds, and a figure that nothing cites.
    fn report(commit: &str, tree: &str, date: &str) -> Result<Report, String> {
        let run = |seed: u64, value: f64| {
            format!(
                r#"{{"scenario": "one", "seed": {seed}, "error": null, "observations": [], "figures": [
                    {{"name": "share of client 1", "value": {value}, "unit": "%", "target": null}},
                    {{"name": "other", "value": 5, "unit": "", "target": null}}]}}"#
            )
        };
        Report::read(&format!(
            r#"{{"version": 3, "commit": "{commit}", "tree": "{tree}", "date": "{date}",
                "scenarios": [{}, {}]}}"#,
            run(1, -0.001),
            run(7, 2.5)
        ))
    }

    pub(crate) fn table() -> Table {
        Table {
            name: "shares",
            head: &["share", "wanted", ""],
            rows: vec![Row {
                scenario: "one",
                cells: vec!["{+2 share of client #} %".into(), "within 1".into()],
                limits: Some(vec![(-1.0, 1.0)]),
            }],
        }
    }

    pub(crate) fn measured() -> Measured {
        let mut measured = Measured::default();
        let report = report(COMMIT, "clean", "2026-11-26T10:00:00Z").expect("a report");
        measured.take(&report, &[table()]).expect("numbers");
        measured
    }

    #[test]
    fn report_of_no_commit_or_a_changed_tree_is_refused() {
        let error = |commit, tree| report(commit, tree, "").err().unwrap_or_default();
        assert_eq!(error(COMMIT, "clean"), "");
        assert!(error(COMMIT, "changed").contains("differs from its commit"));
        assert!(error("unknown", "clean").contains("of no commit"));
        assert!(error("", "changed").contains("of no commit"));
    }

    #[test]
    fn report_of_an_older_layout_or_with_a_failure_is_refused() {
        let old = r#"{"version": 2, "commit": "0a80417", "scenarios": []}"#;
        assert!(Report::read(old).is_err_and(|error| error.contains("layout 2")));
        let failed = format!(
            r#"{{"version": 3, "commit": "{COMMIT}", "tree": "clean", "date": "", "scenarios":
                [{{"scenario": "one", "seed": 1, "figures": [], "error": "no machine"}}]}}"#
        );
        assert!(Report::read(&failed).is_err_and(|error| error == "one: no machine"));
    }

    #[test]
    fn only_what_is_cited_is_kept_and_the_text_is_stable() {
        let measured = measured();
        let text = measured.print();
        assert!(text.contains(r#""share of client 1": {"unit": "%", "values": [-0.001, 2.5]}"#));
        assert!(!text.contains("other"), "{text}");
        let mut again = Measured::read(&text).expect("the same");
        assert_eq!(again, measured);
        assert_eq!(again.print(), text);
        again.prune(&[]);
        assert_eq!(again, Measured::default());
        assert_eq!(Measured::read(&again.print()), Ok(again));
    }

    #[test]
    fn newer_measurement_stays() {
        let mut measured = measured();
        let before = measured.clone();
        let older = report(COMMIT, "clean", "2026-11-25T23:00:00Z").expect("a report");
        let lines = measured.take(&older, &[table()]).expect("numbers");
        assert_eq!(
            lines,
            ["one: what is there is newer, of 2026-11-26T10:00:00Z"]
        );
        assert_eq!(measured, before);
        let newer = report(COMMIT, "clean", "2026-11-27T00:00:00Z").expect("a report");
        measured.take(&newer, &[table()]).expect("numbers");
        assert_ne!(measured, before);
    }
}
