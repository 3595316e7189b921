// SPDX-License-Identifier: GPL-2.0

//! docs/security.md lists every bounded table of the module, in the file and with the constants that
//! bound it: a new constant, or one that changes, needs a row there.

use super::{document, quoted};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Constants of type `usize` that bound no table which fills by what tenants do, and why.
const NO_TABLES: &[(&str, &[&str])] = &[
    (
        "positions, lengths of texts and sizes of types",
        &[
            "BACKGROUND",
            "SHARED_QUEUE",
            "END",
            "NAME_LEN",
            "MEMBERS",
            "MAPPING_BYTES",
            "ROOM",
            "WORD_BITS",
            "MAX_PARSED",
            "ALLOC",
            "ALLOC_LONG",
            "FREE",
            "MAP_MEMORY",
            "MAP_MEMORY_FD",
            "SLOTS",
            "LENGTHS",
            "MAX_LEVELS",
            "MAX_LIMITS",
            "HT_DEPTH",
        ],
    ),
    (
        "steps, tries and entries at a time; what is left is done the next time",
        &[
            "BATCH",
            "TRIES",
            "BRIEF",
            "PAGES_PER_DECISION",
            "CHECKED",
            "NEAR",
            "FIRST_CLIENTS",
            "FIRST_FILES",
            "READS_MAX",
            "SAMPLES_MAX",
            "MAX_PASSES",
        ],
    ),
    (
        "rings of the last figures, of one wait queue or of the GPU",
        &["RECORDS", "LATENCIES"],
    ),
    (
        "bounded by the hardware, or by root",
        &["MAX_GPUS", "MAX_CHANNELS", "MAX_SLOTS", "RESERVES"],
    ),
    ("the nearest ancestors of one process", &["ANCESTORS"]),
    ("a part of the rows, of a table that is listed", &["CROWD"]),
    (
        "bounds of a number that is set or counted",
        &[
            "MAX_CGROUP_DEPTH",
            "MAX_LINGER_US",
            "MOST_UNUSED",
            "MOST_CHANNELS",
        ],
    ),
];

/// A row of the table: its files, and the constants with their values.
struct Bounds {
    row: String,
    files: Vec<String>,
    constants: Vec<(String, u64)>,
}

/// The rows of the table in docs/security.md.
fn rows() -> Vec<Bounds> {
    let text = document("security.md");
    let (_, rest) = text.split_once("\n## Bounded tables\n").expect("a section");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    let table = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = table.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let words = quoted(row);
        let files = words.iter().filter(|word| word.ends_with(".rs"));
        let constants = words.iter().filter_map(|word| word.split_once(" = "));
        let constants = constants.map(|(name, value)| {
            let value = value.replace(',', "").parse();
            (
                name.to_owned(),
                value.unwrap_or_else(|error| panic!("{row}: {error}")),
            )
        });
        Bounds {
            row: row.to_owned(),
            files: files.map(|file| (*file).to_owned()).collect(),
            constants: constants.collect(),
        }
    })
    .collect()
}

/// The source files of the module, without their tests.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("readable");
            let code = text
                .split("#[cfg(any(test, loga_kunit))]\n#[cfg_attr")
                .next();
            found.push((path, code.unwrap_or_default().to_owned()));
        }
    }
}

/// Name, type and expression of a constant.
fn constant(line: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = line.split_once("const ")?;
    if !before.trim().is_empty() && !before.trim().starts_with("pub") {
        return None;
    }
    let (name, rest) = rest.split_once(": ")?;
    let (kind, value) = rest.split_once(" = ")?;
    Some((name, kind, value.trim_end().strip_suffix(';')?))
}

/// The value of a product, quotient, sum or difference of numbers and constants.
fn value(expression: &str, known: &BTreeMap<String, String>) -> Option<u64> {
    for (sign, act) in [
        (" + ", u64::checked_add as fn(u64, u64) -> Option<u64>),
        (" - ", u64::checked_sub),
        (" / ", u64::checked_div),
        (" * ", u64::checked_mul),
    ] {
        if let Some((left, right)) = expression.rsplit_once(sign) {
            return act(value(left, known)?, value(right, known)?);
        }
    }
    let number = expression.replace('_', "");
    number
        .parse()
        .ok()
        .or_else(|| value(known.get(expression)?, known))
}

#[test]
fn every_bounded_table_is_listed_with_its_constants() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let mut known = BTreeMap::new();
    let mut bounds = Vec::new();
    for (path, code) in &files {
        let path = path.strip_prefix(root).expect("below the root");
        let path = path.to_string_lossy().into_owned();
        for (name, kind, expression) in code.lines().filter_map(constant) {
            if kind != "usize" && kind != "u32" {
                continue;
            }
            known.insert(name.to_owned(), expression.to_owned());
            let is_bound = kind == "usize" || name.starts_with("MAX_") || name.starts_with("MOST_");
            // Layouts of calls, in memory of their callers.
            let is_layout = ["src/uapi/", "src/rm/"]
                .iter()
                .any(|of| path.starts_with(of));
            if is_bound && !is_layout {
                bounds.push((path.clone(), name.to_owned(), expression.to_owned()));
            }
        }
    }
    assert!(bounds.len() > 40, "{} constants were found", bounds.len());
    let rows = rows();
    let exempt: BTreeSet<&str> = NO_TABLES
        .iter()
        .flat_map(|(_, names)| *names)
        .copied()
        .collect();
    for (path, name, expression) in &bounds {
        let of = rows.iter().filter(|row| row.files.contains(path));
        let mut of = of
            .flat_map(|row| &row.constants)
            .filter(|(listed, _)| listed == name);
        let Some((_, listed)) = of.next() else {
            assert!(
                exempt.contains(name.as_str()),
                "{path}: docs/security.md says nothing of {name}, and it is not among those that bound no table"
            );
            continue;
        };
        let is =
            value(expression, &known).unwrap_or_else(|| panic!("{path}: {name} = {expression}"));
        assert_eq!(*listed, is, "docs/security.md on {name} of {path}");
    }
    for row in &rows {
        assert!(!row.files.is_empty(), "{}", row.row);
        assert!(!row.constants.is_empty(), "{}", row.row);
        assert!(
            row.row.matches('|').count() == 6,
            "{}: not five cells",
            row.row
        );
        for (name, _) in &row.constants {
            let there = bounds
                .iter()
                .any(|(path, bound, _)| bound == name && row.files.contains(path));
            assert!(there, "{}: there is no {name}", row.row);
        }
    }
    for name in exempt {
        assert!(
            bounds.iter().any(|(_, bound, _)| bound == name),
            "{name} is not there any more"
        );
    }
}
