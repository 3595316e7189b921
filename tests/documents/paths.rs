// SPDX-License-Identifier: GPL-2.0

//! Files, functions, tests and commands that the documents name exist.

use super::pages::{pages, root};
use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Folders of the repository with what is named by its path.
const FOLDERS: &[&str] = &[
    "docs",
    "eval",
    "model",
    "packaging",
    "policies",
    "regs",
    "src",
    "tests",
    "throttle",
    "tools",
];

/// Folders that are named without the ones that they are in.
const NESTED: &[&str] = &["faults", "hostile"];

/// What stands for any name, or is a name of another program.
const EXAMPLES: &[&str] = &[
    "jump_label_del_module",
    "tests/fuzz/corpus/TARGET.tar",
    "VLLM::EngineCor",
];

/// All files and folders at or below `path`, by their paths below the root.
fn collect(path: &Path, found: &mut Vec<String>) {
    let name = path.strip_prefix(root()).expect("below the root");
    found.push(name.display().to_string());
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            collect(&entry.expect("an entry").path(), found);
        }
    }
}

/// Pieces of code in a line.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// First words of the pieces of code in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    pieces(line).filter_map(|piece| piece.split(' ').next())
}

/// Whether a word of code is the name of a test, a metric or the like.
fn is_long_name(word: &str) -> bool {
    let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    word.chars().all(lower) && word.matches('_').count() >= 3 && !EXAMPLES.contains(&word)
}

/// The file that a word of code names, and what it says is in it; nothing if it names none.
fn named(word: &str) -> Option<(&str, Option<&str>)> {
    let (file, function) = match word.split_once("::") {
        Some((file, function)) => (file, Some(function)),
        None => (word, None),
    };
    let first = file.split('/').next().unwrap_or_default();
    let by_path = file.contains('/') && (FOLDERS.contains(&first) || NESTED.contains(&first));
    let source = file.ends_with(".rs") && !file.starts_with('*');
    let pattern = file.contains('*') || EXAMPLES.contains(&file);
    ((by_path || source) && !pattern).then_some((file.trim_end_matches('/'), function))
}

/// The paths of `there` that a name stands for: the whole path, or its end.
fn matching<'a>(there: &'a [String], name: &str) -> Vec<&'a String> {
    let end = format!("/{name}");
    let fits = |path: &&String| **path == name || path.ends_with(&end);
    there.iter().filter(fits).collect()
}

/// Whether a source has this function.
fn defines(text: &str, function: &str) -> bool {
    let function = function.trim_end_matches("()");
    text.contains(&format!("fn {function}(")) || text.contains(&format!("fn {function}<"))
}

/// The type and the member that a word of code names; nothing if it names none.
fn member(word: &str) -> Option<(&str, &str)> {
    let (of, member) = word
        .split_once("::")
        .filter(|_| !EXAMPLES.contains(&word))?;
    let is_name = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_type = of.starts_with(|c: char| c.is_ascii_uppercase());
    (is_type && is_name(of) && is_name(member)).then_some((of, member))
}

/// Whether a source has a type and a function or a field of it, or what is done with it.
fn has_member(text: &str, of: &str, member: &str) -> bool {
    let kinds = ["struct", "enum", "trait", "impl", "for", "type"];
    let typed = kinds.iter().any(|kind| {
        let start = format!("{kind} {of}");
        let ends = text.match_indices(&start).map(|(at, _)| at + start.len());
        ends.filter_map(|at| text[at..].chars().next())
            .any(|next| !next.is_alphanumeric() && next != '_')
    });
    let generic = text.contains(&format!("> {of}<"));
    (typed || generic) && (defines(text, member) || text.contains(&format!(" {member}: ")))
}

#[test]
fn files_functions_and_members_that_are_named_exist() {
    let mut there = Vec::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut there);
    }
    let read = |path: &String| fs::read_to_string(root().join(path)).unwrap_or_default();
    let sources = there.iter().filter(|path| path.ends_with(".rs"));
    let sources: Vec<String> = sources.map(read).collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: HashSet<&str> = sources
        .iter()
        .flat_map(|text| text.split(|c| !is_name(c)))
        .collect();
    let mut missing = Vec::new();
    let mut seen = 0;
    for page in pages() {
        for word in page.text.lines().flat_map(code) {
            let found = match (named(word), member(word)) {
                (Some((file, None)), _) => !matching(&there, file).is_empty(),
                (Some((file, Some(function))), _) => matching(&there, file)
                    .into_iter()
                    .any(|path| defines(&read(path), function)),
                (None, Some((of, member))) => {
                    sources.iter().any(|text| has_member(text, of, member))
                }
                (None, None) if is_long_name(word) => names.contains(word),
                (None, None) => continue,
            };
            seen += 1;
            if !found {
                missing.push(format!("{}: {word}", page.path));
            }
        }
    }
    assert!(seen > 100, "{seen} names");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Names of pages of `docs` in a text.
fn named_pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &text[at..];
        let in_name = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        let end = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        Some(rest[..end].trim_end_matches('.')).filter(|name| name.ends_with(".md"))
    })
}

#[test]
fn pages_that_sources_name_exist() {
    let mut there = Vec::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut there);
    }
    let kinds = [
        ".rs",
        ".toml",
        ".yaml",
        ".yml",
        ".service",
        ".modprobe",
        ".c",
        ".h",
    ];
    let sources = there
        .iter()
        .filter(|path| kinds.iter().any(|kind| path.ends_with(kind)));
    let mut missing = Vec::new();
    let mut seen = 0;
    for path in sources {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        for page in named_pages(&text) {
            seen += 1;
            if !there.iter().any(|path| path == page) {
                missing.push(format!("{path}: {page}"));
            }
        }
    }
    assert!(seen > 50, "{seen} names");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn commands_of_make_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a makefile");
    let mut missing = Vec::new();
    for page in pages() {
        let shown = |line: &&str| line.starts_with("    make ");
        let shown = page.text.lines().filter(shown).map(str::trim);
        for line in page.text.lines().flat_map(code_of_make).chain(shown) {
            let target = line.split([' ', '`']).nth(1).unwrap_or_default();
            if !makefile.contains(&format!("\n{target}:")) {
                missing.push(format!("{}: {line}", page.path));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Pieces of code in a line that call make.
fn code_of_make(line: &str) -> impl Iterator<Item = &str> {
    pieces(line).filter(|piece| piece.starts_with("make "))
}
