// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Rows below titles.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Rows below titles, columns side by side; nothing without rows. Columns named in `left` begin at
/// the left, all others end at the right.
pub fn grid(titles: &[&str], left: &[&str], rows: Vec<Vec<String>>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(titles).add_rows(rows);
    for (title, column) in titles.iter().zip(table.column_iter_mut()) {
        column.set_cell_alignment(if left.contains(title) {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_string())
        .collect();
    Some(lines.join("\n"))
}
