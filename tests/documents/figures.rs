// SPDX-License-Identifier: GPL-2.0

//! Tables of figures are those of the last committed measurement, which is of a commit in the history.

use super::commits::{is_in_history, unknown_history};
use super::pages::{pages, root};
use loga_figures::{all, blocks, fill, Measured, FILE};
use std::fs;

/// The text of the file, and what it says.
fn committed() -> (String, Measured) {
    let text =
        fs::read_to_string(root().join(FILE)).unwrap_or_else(|error| panic!("{FILE}: {error}"));
    let measured = Measured::read(&text).unwrap_or_else(|error| panic!("{FILE}: {error}"));
    (text, measured)
}

/// The first line in which two texts differ.
fn difference(is: &str, wanted: &str) -> String {
    let mut pairs = is.lines().zip(wanted.lines()).zip(1..);
    let found = pairs.find(|((is, wanted), _)| is != wanted);
    found.map_or("one is longer".to_owned(), |((is, wanted), line)| {
        format!("line {line} is\n{is}\nand measured was\n{wanted}")
    })
}

#[test]
fn tables_of_figures_are_those_of_the_last_measurement() {
    let (_, measured) = committed();
    let tables = all();
    let mut seen = Vec::new();
    for page in pages() {
        let names = blocks(&page.text);
        if names.is_empty() {
            continue;
        }
        seen.extend(names.into_iter().map(str::to_owned));
        let wanted = fill(&page.text, &tables, &measured);
        let wanted = wanted.unwrap_or_else(|error| panic!("{}: {error}", page.path));
        assert!(
            page.text == wanted,
            "{}: run make figures: {}",
            page.path,
            difference(&page.text, &wanted)
        );
    }
    seen.sort_unstable();
    let known = tables.iter().filter(|table| table.is_measured(&measured));
    let mut known: Vec<&str> = known.map(|table| table.name).collect();
    known.sort_unstable();
    assert_eq!(
        seen, known,
        "each table that was measured stands in one place"
    );
}

#[test]
fn measurements_are_as_they_were_written_and_of_commits_in_the_history() {
    let (text, mut measured) = committed();
    for (name, scenario) in measured.scenarios() {
        assert!(!scenario.seeds.is_empty(), "{name}");
        if let Some(reason) = unknown_history() {
            println!("skipped: {reason}");
            break;
        }
        let commit = &scenario.commit;
        assert!(
            is_in_history(commit),
            "{name}: {commit} is not in the history"
        );
    }
    measured.prune(&all());
    let wanted = measured.print();
    assert!(
        text == wanted,
        "{FILE}: run make figures: {}",
        difference(&text, &wanted)
    );
}

#[test]
fn digit_that_is_changed_is_seen() {
    let (_, measured) = committed();
    let tables = all();
    for page in pages() {
        for name in blocks(&page.text) {
            let marker = format!("<!-- bench: {name} -->");
            let (before, table) = page.text.split_once(&marker).expect("a marker");
            let row =
                |line: &&str| line.starts_with("| ") && line.contains(|c: char| c.is_ascii_digit());
            let row = table.lines().find(row).expect("a row with a number");
            let digit = row.rfind(|c: char| c.is_ascii_digit()).expect("a digit");
            let other = if row[digit..].starts_with('9') {
                '8'
            } else {
                '9'
            };
            let changed = format!("{}{other}{}", &row[..digit], &row[digit + 1..]);
            let changed = format!("{before}{marker}{}", table.replacen(row, &changed, 1));
            let [is, wanted] = [&changed, &page.text].map(|text| fill(text, &tables, &measured));
            assert!(changed != page.text, "{}: {name}", page.path);
            assert!(is == wanted, "{}: {name}", page.path);
        }
    }
}
