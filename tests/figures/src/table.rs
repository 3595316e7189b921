// SPDX-License-Identifier: GPL-2.0

//! Tables: their rows, the verdict of each, and where its figures are from.

use crate::measured::{Measured, Scenario};
use crate::template::{pieces, Piece, Placeholder};

/// A table of figures.
pub struct Table {
    /// What its marker names.
    pub name: &'static str,
    pub(crate) head: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
pub(crate) struct Row {
    /// Where its figures are from.
    pub(crate) scenario: &'static str,
    /// Texts with places for figures.
    pub(crate) cells: Vec<String>,
    /// Least and most of the figures in each place, in order, none for those that are left. A row with
    /// limits, be they none, ends with a cell for the verdict.
    pub(crate) limits: Option<Vec<(f64, f64)>>,
}

impl Row {
    fn places(&self) -> impl Iterator<Item = Placeholder<'_>> {
        let pieces = self.cells.iter().filter_map(|cell| pieces(cell)).flatten();
        pieces.filter_map(|piece| match piece {
            Piece::Placeholder(place) => Some(place),
            Piece::Text(_) => None,
        })
    }

    fn render(&self, scenario: &Scenario) -> Result<String, String> {
        let mut cells = Vec::new();
        for cell in &self.cells {
            let mut shown = String::new();
            for piece in pieces(cell).ok_or_else(|| format!("malformed: {cell}"))? {
                match piece {
                    Piece::Text(text) => shown.push_str(text),
                    Piece::Placeholder(place) => {
                        shown.push_str(&place.show(&place.values(scenario)?))
                    }
                }
            }
            cells.push(shown);
        }
        if let Some(limits) = &self.limits {
            cells.push(self.verdict(limits, scenario)?);
        }
        Ok(cells_of(&cells))
    }

    /// Whether figures are within limits, with each seed.
    fn verdict(&self, limits: &[(f64, f64)], scenario: &Scenario) -> Result<String, String> {
        if limits.is_empty() {
            return Ok(String::new());
        }
        let seeds = scenario.seeds.len();
        let mut met = vec![true; seeds];
        for (place, (least, most)) in self.places().zip(limits) {
            for values in place.values(scenario)? {
                for (met, value) in met.iter_mut().zip(values) {
                    *met &= (*least..=*most).contains(value);
                }
            }
        }
        Ok(match met.iter().filter(|met| **met).count() {
            all if all == seeds => "met".to_owned(),
            0 => "**missed**".to_owned(),
            some => format!("met with {some} of {seeds} seeds"),
        })
    }
}

fn cells_of<T: AsRef<str>>(cells: &[T]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |", cells.join(" | "))
}

impl Table {
    /// The scenarios that its figures are from, in the order of its rows.
    pub(crate) fn scenarios(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.scenario) {
                names.push(row.scenario);
            }
        }
        names
    }

    /// Whether a figure of a scenario stands in it.
    pub(crate) fn cites(&self, scenario: &str, figure: &str) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.scenario == scenario);
        rows.any(|row| row.places().any(|place| place.cites(figure)))
    }

    /// Whether all scenarios that it needs were measured.
    #[must_use]
    pub fn is_measured(&self, measured: &Measured) -> bool {
        let mut names = self.scenarios().into_iter();
        names.all(|name| measured.scenario(name).is_some())
    }

    /// Its lines, and a line that says what was measured.
    ///
    /// # Errors
    ///
    /// A scenario or a figure was not measured.
    pub fn render(&self, measured: &Measured) -> Result<String, String> {
        let scenario = |name: &str| {
            let found = measured.scenario(name);
            found.ok_or_else(|| format!("{}: {name} was not measured", self.name))
        };
        let mut lines = vec![cells_of(self.head), "|".to_owned()];
        lines[1].push_str(&"---|".repeat(self.head.len()));
        for row in &self.rows {
            let line = row.render(scenario(row.scenario)?);
            lines.push(line.map_err(|error| format!("{}, {}: {error}", self.name, row.scenario))?);
        }
        // Scenarios that were measured together, and how.
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for name in self.scenarios() {
            let (how, name) = (origin(scenario(name)?), format!("`{name}`"));
            match groups.iter_mut().find(|(other, _)| *other == how) {
                Some((_, names)) => names.push(name),
                None => groups.push((how, vec![name])),
            }
        }
        let from = match &groups[..] {
            [(how, _)] => format!("at {how}"),
            groups => groups
                .iter()
                .map(|(how, names)| format!("{} at {how}", names.join(", ")))
                .collect::<Vec<_>>()
                .join("; "),
        };
        lines.push(format!("\nMeasured {from}."));
        Ok(lines.join("\n"))
    }
}

/// Commit, day and seeds.
fn origin(scenario: &Scenario) -> String {
    let commit = scenario.commit.get(..7).unwrap_or(&scenario.commit);
    let day = scenario.date.split('T').next().unwrap_or_default();
    let seeds: Vec<String> = scenario.seeds.iter().map(u64::to_string).collect();
    let word = if seeds.len() == 1 { "seed" } else { "seeds" };
    format!("{commit}, {day}, {word} {}", seeds.join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::{measured, table};

    #[test]
    fn table_has_figures_verdicts_and_origin() {
        let lines = "| share | wanted |  |\n|---|---|---|\n\
            | 0.00 / +2.50 % | within 1 | met with 1 of 2 seeds |\n\n\
            Measured at 0123456, 2026-11-26, seeds 1 / 7.";
        assert_eq!(table().render(&measured()), Ok(lines.to_owned()));
    }

    #[test]
    fn table_without_its_measurement_is_an_error() {
        let (table, nothing) = (table(), Measured::default());
        assert!(table.is_measured(&measured()));
        assert!(!table.is_measured(&nothing));
        assert!(table.render(&nothing).is_err());
        assert!(table.cites("one", "share of client 1"));
        assert!(!table.cites("two", "other"));
    }
}
