// SPDX-License-Identifier: GPL-2.0

//! docs/security.md lists what programs of root believe: the tests that each row names exist, and every
//! program that `tools/loga` starts, and every module of it that asks over HTTP, has a row.

use crate::document;
use crate::pages::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The heading of the list.
const SECTION: &str = "## What programs of root believe\n";
/// Files of `tools/loga/src` that start programs, and what reads their answers.
const STARTERS: &[&str] = &[
    // The program of a user, with that user's rights; it is not read.
    "commands/run.rs",
    // Those that are asked for a job or a node.
    "commands/slurm/program.rs",
    // `getent`.
    "directory/users.rs",
];

/// The first and the last cell of each row: an answer, and the tests that hold it.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let section = text.split_once(SECTION).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    let cells = lines.map(|line| {
        line.trim_matches(['|', ' '])
            .split(" | ")
            .collect::<Vec<_>>()
    });
    let mut rows = Vec::new();
    for cells in cells.skip(1) {
        assert_eq!(cells.len(), 5, "{cells:?}");
        rows.push((cells[0], cells[4]));
    }
    rows
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The sources below a folder, and of a file `NAME.rs` that of `NAME` too.
fn sources(path: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let folder = path.with_extension("");
    if path.is_file() {
        all.push(path.to_path_buf());
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.map(|entry| entry.path()) {
        match entry.extension() {
            Some(end) if end == "rs" => all.push(entry),
            None => all.extend(sources(&entry)),
            Some(_) => {}
        }
    }
    all
}

/// The sources of what a row names: a path of the repository, or a module of `tools/loga`.
fn named(name: &str) -> Vec<PathBuf> {
    if name.contains('/') {
        return sources(&root().join(name));
    }
    let path = name.replace("::", "/");
    let places = ["", "commands/", "commands/slurm/", "commands/kube/"];
    let files = places.map(|place| root().join(format!("tools/loga/src/{place}{path}.rs")));
    let folders = files.clone().map(|file| file.with_extension(""));
    let found = files.into_iter().chain(folders);
    let found = found.map(|path| sources(&path));
    found
        .into_iter()
        .find(|all| !all.is_empty())
        .unwrap_or_default()
}

/// What is wrong with the tests that a row names.
fn wrong(tests: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut texts = Vec::new();
    for name in quoted(tests) {
        let of_name: Vec<String> = named(name)
            .iter()
            .map(|path| fs::read_to_string(path).expect("a source"))
            .collect();
        if !of_name
            .iter()
            .any(|text| text.contains("#[test]") || text.contains("fn "))
        {
            wrong.push(format!("`{name}` is no module with tests"));
        }
        let tested = |text: &String| text.contains("#[test]");
        if !name.contains('/') && !of_name.iter().any(tested) {
            wrong.push(format!("`{name}` has no tests"));
        }
        texts.extend(of_name);
    }
    if texts.is_empty() {
        wrong.push(format!("no test in {tests:?}"));
    }
    // Their names are cut, within parentheses.
    let cut = tests
        .split(['(', ')', ',', ' '])
        .filter_map(|word| word.strip_suffix(".."));
    for begin in cut {
        if !texts
            .iter()
            .any(|text| text.contains(&format!("fn {begin}")))
        {
            wrong.push(format!("no test {begin}.."));
        }
    }
    wrong
}

/// The code of `tools/loga` without its tests, by path below `src`.
fn code() -> BTreeMap<String, String> {
    let folder = root().join("tools/loga/src");
    let mut code = BTreeMap::new();
    for path in sources(&folder) {
        let below = path.strip_prefix(&folder).expect("below");
        let name = below.to_str().expect("text").to_owned();
        if name.contains("tests") || name.ends_with("fake.rs") || name.ends_with("double.rs") {
            continue;
        }
        let whole = fs::read_to_string(&path).expect("a source");
        let mut text = whole.as_str();
        for tests in [
            "#[cfg(test)]\nmod tests {",
            "#[cfg(test)]\npub(crate) mod tests {",
        ] {
            text = text.split(tests).next().unwrap_or_default();
        }
        code.insert(name, text.to_owned());
    }
    code
}

/// The programs that are asked, by their names in calls.
fn asked(code: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut asked = BTreeSet::new();
    for text in code.values() {
        for call in ["ask(", "Service::of(Path::new("] {
            let after = text.split(call).skip(1).map(str::trim_start);
            let names = after.filter_map(|rest| rest.strip_prefix('"')?.split('"').next());
            asked.extend(names.map(str::to_owned));
        }
    }
    asked
}

/// Programs and modules without a row.
fn missing(rows: &[(&str, &str)], code: &BTreeMap<String, String>) -> Vec<String> {
    let mut missing = Vec::new();
    for program in asked(code) {
        let is_it = |answer: &str| answer.split(' ').next() == Some(&program);
        if !rows.iter().any(|(answer, _)| quoted(answer).any(is_it)) {
            missing.push(format!("no row of the answers of {program}"));
        }
    }
    for (name, _) in code.iter().filter(|(_, text)| text.contains("ureq::")) {
        let path = root().join("tools/loga/src").join(name);
        let is_named = |tests: &str| quoted(tests).any(|one| named(one).contains(&path));
        if !rows.iter().any(|(_, tests)| is_named(tests)) {
            missing.push(format!("no row of what {name} is answered"));
        }
    }
    missing
}

#[test]
fn tests_of_what_root_believes_exist() {
    let text = document("security.md");
    let rows = rows(&text);
    assert!(rows.len() > 15, "{} rows", rows.len());
    let all: Vec<String> = rows.iter().flat_map(|(_, tests)| wrong(tests)).collect();
    assert_eq!(all, Vec::<String>::new());
    assert_eq!(
        wrong("`slurm::jobs`; `slurm::waiting` (no_such_test..)"),
        [
            "`slurm::jobs` is no module with tests",
            "`slurm::jobs` has no tests",
            "no test no_such_test.."
        ]
    );
}

#[test]
fn every_program_that_root_asks_has_a_row() {
    let text = document("security.md");
    let (rows, code) = (rows(&text), code());
    assert_eq!(missing(&rows, &code), Vec::<String>::new());
    let starts =
        |(name, text): (&String, &String)| text.contains("Command::new(").then(|| name.clone());
    let starters: Vec<String> = code.iter().filter_map(starts).collect();
    assert_eq!(starters, STARTERS);
    // Without its row a program is found.
    let others = rows
        .iter()
        .filter(|(answer, _)| !answer.contains("sacctmgr"));
    let others: Vec<_> = others.copied().collect();
    assert_eq!(
        missing(&others, &code),
        ["no row of the answers of sacctmgr"]
    );
}
