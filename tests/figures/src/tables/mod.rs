// SPDX-License-Identifier: GPL-2.0

//! The tables: their rows, and what is wanted. Limits are those of the scenarios in `tests/bench`, or
//! what the documents promise.

mod accounting;
mod decision;
mod dispatch;
mod sharing;
mod turns;

use crate::table::{Row, Table};

/// Head of a table with what is wanted, and whether it is met.
const CHECKED: &[&str] = &["scenario", "figure", "measured", "wanted", ""];

/// All tables.
#[must_use]
pub fn all() -> Vec<Table> {
    vec![
        accounting::polled(),
        accounting::duty(),
        accounting::enforcing(),
        accounting::overhead(),
        accounting::costs(),
        sharing::weights(),
        sharing::policies(),
        sharing::pauses(),
        sharing::sparse(),
        decision::decision(),
        decision::of_all(),
        decision::clients(),
        dispatch::dispatch(),
        dispatch::looks(),
        dispatch::frames(),
        turns::turns(),
    ]
}

/// A row with what is wanted, nothing if no limit is given.
fn checked(
    scenario: &'static str,
    figure: &str,
    measured: &str,
    wanted: &str,
    limits: &[(f64, f64)],
) -> Row {
    let cells = [&format!("`{scenario}`"), figure, measured, wanted];
    Row {
        scenario,
        cells: cells.map(str::to_owned).into(),
        limits: Some(limits.to_vec()),
    }
}

/// A row of figures alone.
fn plain(scenario: &'static str, cells: Vec<String>) -> Row {
    Row {
        scenario,
        cells,
        limits: None,
    }
}

const fn at_most(most: f64) -> (f64, f64) {
    (f64::MIN, most)
}

const fn at_least(least: f64) -> (f64, f64) {
    (least, f64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::pieces;
    use std::collections::BTreeSet;

    #[test]
    fn tables_are_well_formed() {
        let mut names = BTreeSet::new();
        for table in all() {
            assert!(names.insert(table.name), "{}", table.name);
            for row in &table.rows {
                let width = row.cells.len() + usize::from(row.limits.is_some());
                assert_eq!(width, table.head.len(), "{}: {:?}", table.name, row.cells);
                for cell in &row.cells {
                    assert!(pieces(cell).is_some(), "{cell}");
                }
            }
        }
    }
}
