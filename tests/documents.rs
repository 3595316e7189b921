// SPDX-License-Identifier: GPL-2.0

//! The documents name every knob with its values, its default and what it sets. They explain each word
//! once, which names one type (`glossary`). Their links lead somewhere, and the index answers questions
//! (`links`); the commits that they cite are in the history (`commits`), the files that they name exist
//! (`paths`), the table of locks is that of the source (`locks`), and tables of figures are those of the
//! last committed measurement (`figures`). The tests exist that hold what programs of root believe, and
//! each of their inputs is listed (`believed`); so is every bounded table with the constants that bound
//! it (`bounds`). What goes with what is the table of the code (`compatibility`).

#[path = "documents/believed.rs"]
mod believed;
#[path = "documents/bounds.rs"]
mod bounds;
#[path = "documents/commits.rs"]
mod commits;
#[path = "documents/compatibility.rs"]
mod compatibility;
#[path = "documents/figures.rs"]
mod figures;
#[path = "documents/glossary.rs"]
mod glossary;
#[path = "documents/links.rs"]
mod links;
#[path = "documents/locks.rs"]
mod locks;
#[path = "documents/pages.rs"]
mod pages;
#[path = "documents/paths.rs"]
mod paths;

use loga::knobs::{Knob, KNOBS};
use loga::names::Kind;
use std::fs;
use std::path::Path;

fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The row of a knob in the table of docs/knobs.md.
fn row(number: usize, knob: &Knob) -> String {
    let values = match knob.kind {
        Kind::Switch => "0, 1".to_owned(),
        Kind::Number { min, max } => format!("{min} to {max}"),
        Kind::Word(words) => words.join(", "),
    };
    let (name, default, about) = (knob.name, knob.default, knob.about);
    let when = if knob.live { "live" } else { "load" };
    format!("| {number} | `{name}` | {values} | `{default}` | {when} | {about} |")
}

#[test]
fn table_of_knobs_is_that_of_the_module() {
    let text = document("knobs.md");
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("| `")).collect();
    let wanted: Vec<String> = (0..).zip(KNOBS).map(|(at, knob)| row(at, knob)).collect();
    assert_eq!(
        rows,
        wanted,
        "docs/knobs.md should have:\n{}",
        wanted.join("\n")
    );
}

#[test]
fn every_live_knob_is_described_as_a_file_and_in_json() {
    let files = document("abi/sysfs-class-misc-loga");
    let json = document("loga-json.md");
    for knob in KNOBS.iter().filter(|knob| knob.live) {
        let file = format!("What:\t\t/sys/class/misc/loga/gpu<N>/{}\n", knob.name);
        assert!(files.contains(&file), "{file}");
        assert!(
            json.contains(&format!("| `{}` |", knob.name)),
            "{}",
            knob.name
        );
    }
}

/// What stands between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn every_slow_test_of_the_guest_is_in_the_table_of_slow_tests() {
    let text = document("testing.md");
    let (_, rest) = text.split_once("## Slow tests").expect("a section");
    let table = rest.split("\n## ").next().unwrap_or(rest);
    let first = table.lines().filter_map(|row| row.split('|').nth(1));
    let known: Vec<&str> = first.flat_map(quoted).collect();
    let is_known = |name: &str| {
        let beginning = |word: &&str| word.strip_suffix("..").map(|word| name.starts_with(word));
        known
            .iter()
            .any(|word| beginning(word).unwrap_or(*word == name))
    };
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/src");
    let folders = [guest.clone(), guest.join("hostile"), guest.join("faults")];
    let files = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    let mut slow = 0;
    for path in files.map(|entry| entry.expect("an entry").path()) {
        let Ok(source) = fs::read_to_string(&path) else {
            continue; // A folder.
        };
        for line in source.lines() {
            let Some((name, marks)) = line.trim().trim_end_matches(',').split_once(": ") else {
                continue;
            };
            let mut marks = marks.split(' ');
            if marks.clone().all(|mark| ["timed", "slow"].contains(&mark))
                && marks.any(|mark| mark == "slow")
            {
                slow += 1;
                assert!(is_known(name), "docs/testing.md says nothing of {name}");
            }
        }
    }
    assert!(slow > 20, "{slow} slow tests were found");
}
