// SPDX-License-Identifier: GPL-2.0

//! The places of the tables in a document, between `<!-- bench: NAME -->` and `<!-- end -->`.

use crate::measured::Measured;
use crate::table::Table;

const END: &str = "<!-- end -->";

/// What a marker names.
fn marked(line: &str) -> Option<&str> {
    line.strip_prefix("<!-- bench: ")?.strip_suffix(" -->")
}

/// The names of the tables that a document has places for.
#[must_use]
pub fn blocks(text: &str) -> Vec<&str> {
    text.lines().filter_map(marked).collect()
}

/// The document with its tables as they were measured.
///
/// # Errors
///
/// A marker names no table, its end is missing, or the table was not measured.
pub fn fill(text: &str, tables: &[Table], measured: &Measured) -> Result<String, String> {
    let mut filled = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        filled.push_str(line);
        filled.push('\n');
        let Some(name) = marked(line) else { continue };
        let table = tables.iter().find(|table| table.name == name);
        let table = table.ok_or_else(|| format!("there is no table {name}"))?;
        filled.push_str(&format!("\n{}\n\n{END}\n", table.render(measured)?));
        // What stood there, up to its end.
        let end = lines.find(|line| *line == END || marked(line).is_some());
        if end != Some(END) {
            return Err(format!("the table {name} has no end"));
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::tests::{measured, table};

    #[test]
    fn what_stands_between_the_markers_is_replaced_and_the_rest_stays() {
        let old = "# Title\n\n<!-- bench: shares -->\n| old |\n<!-- end -->\nText\n";
        assert_eq!(blocks(old), ["shares"]);
        let (tables, measured) = ([table()], measured());
        let new = fill(old, &tables, &measured).expect("filled");
        assert!(new.starts_with("# Title\n\n<!-- bench: shares -->\n\n| share |"));
        assert!(
            new.ends_with("seeds 1 / 7.\n\n<!-- end -->\nText\n"),
            "{new}"
        );
        assert_eq!(fill(&new, &tables, &measured), Ok(new.clone()));
        let changed = new.replace("+2.50", "+2.51");
        assert_ne!(changed, new);
        assert_eq!(fill(&changed, &tables, &measured), Ok(new));
    }

    #[test]
    fn unknown_tables_and_missing_ends_are_errors() {
        let (tables, measured) = ([table()], measured());
        for text in [
            "<!-- bench: other -->\n<!-- end -->\n",
            "<!-- bench: shares -->\n",
            "<!-- bench: shares -->\n<!-- bench: shares -->\n<!-- end -->\n",
        ] {
            assert!(fill(text, &tables, &measured).is_err(), "{text}");
        }
    }
}
