// SPDX-License-Identifier: GPL-2.0

//! The glossary explains each word once, and a word of it names one type.

use super::document;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Where types are that the glossary has words for.
const FOLDERS: &[&str] = &["src", "regs", "policies", "model"];
/// What callers of `/dev/loga` see of a word: a type of the same name, always with its module.
const OF_CALLERS: &str = "src/uapi";
/// Words that say too little, or too much, for the name of a type without a row in the glossary.
const VAGUE: &[&str] = &[
    "Fresh", "Given", "Holding", "Holdings", "Look", "Pass", "Place", "Places", "Sight", "Spec",
    "Tend", "Told", "Turn", "Turns", "Watch", "Watched", "Watcher",
];

/// The words of the glossary.
fn words() -> Vec<String> {
    let text = document("architecture.md");
    let (_, glossary) = text.split_once("\n## Glossary\n").expect("a glossary");
    let rows = glossary
        .lines()
        .skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let words = cells.flat_map(|words| words.split(','));
    words
        .map(|word| word.trim().trim_matches('`').to_string())
        .collect()
}

/// A word as the name of a type.
fn name_of(word: &str) -> String {
    let parts = word.split([' ', '-']).filter(|part| !part.is_empty());
    let part = |part: &str| part[..1].to_uppercase() + &part[1..].to_lowercase();
    parts.map(part).collect()
}

/// The words of which the name of a type consists.
fn parts_of(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for letter in name.chars() {
        match parts.last_mut() {
            Some(part) if !letter.is_uppercase() => part.push(letter),
            _ => parts.push(letter.into()),
        }
    }
    parts
}

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut line = line.trim_start();
    if let Some(rest) = line.strip_prefix("pub") {
        let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        line = rest.map_or(&line[3..], |(_, rest)| rest).trim_start();
    }
    line = line.strip_prefix("unsafe ").unwrap_or(line);
    let kinds = ["struct ", "enum ", "trait ", "type ", "union "];
    let name = kinds.iter().find_map(|kind| line.strip_prefix(kind))?;
    let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&name[..end.unwrap_or(name.len())])
}

/// Files with code below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let below = entries.flat_map(|entry| {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(&path),
            false => vec![path],
        }
    });
    below
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "rs"))
        .collect()
}

/// All types by name, with the files and lines that define them. Types of traits are not types of
/// their own.
fn types() -> BTreeMap<String, Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in FOLDERS.iter().flat_map(|folder| files(&root.join(folder))) {
        let shown = file.strip_prefix(root).expect("below").display();
        let text = fs::read_to_string(&file).expect("text");
        for (number, line) in (1..).zip(text.lines()) {
            let is_of_trait = line.starts_with(' ') && line.trim_start().starts_with("type ");
            if let Some(name) = defined(line).filter(|_| !is_of_trait) {
                let at = format!("{shown}:{number}");
                found.entry(name.to_string()).or_default().push(at);
            }
        }
    }
    found
}

/// Words whose type is defined more than once.
fn ambiguous(words: &[String], types: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let one = |word: &String| {
        let all = types.get(&name_of(word))?;
        let (of_callers, others): (Vec<&String>, Vec<&String>) =
            all.iter().partition(|at| at.starts_with(OF_CALLERS));
        let is_one = of_callers.len() <= 1 && others.len() <= 1;
        (!is_one).then(|| format!("{word}: {}", all.join(", ")))
    };
    words.iter().filter_map(one).collect()
}

/// Types whose names have a vague word that the glossary does not explain.
fn vague(words: &[String], types: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let explained: BTreeSet<String> = words.iter().map(|word| name_of(word)).collect();
    let is_vague =
        |part: &String| VAGUE.contains(&part.as_str()) && !explained.contains(part.as_str());
    let named = types
        .iter()
        .filter(|(name, _)| parts_of(name).iter().any(is_vague));
    named
        .map(|(name, all)| format!("{name}: {}", all.join(", ")))
        .collect()
}

#[test]
fn glossary_explains_each_word_once() {
    let words = words();
    let mut known = BTreeSet::new();
    let twice: Vec<&String> = words.iter().filter(|word| !known.insert(*word)).collect();
    assert!(known.len() > 40, "{known:?}");
    assert_eq!(twice, [""; 0]);
}

#[test]
fn word_of_the_glossary_names_one_type() {
    let (words, types) = (words(), types());
    let named = words
        .iter()
        .filter(|word| types.contains_key(&name_of(word)));
    assert!(named.count() > 20, "{words:?}");
    assert_eq!(ambiguous(&words, &types), [""; 0]);
}

#[test]
fn type_has_no_vague_name() {
    assert_eq!(vague(&words(), &types()), [""; 0]);
}

#[test]
fn types_and_their_words_are_found() {
    assert_eq!(defined("pub(crate) struct Gate {"), Some("Gate"));
    assert_eq!(defined("    pub trait Policy: Sized {"), Some("Policy"));
    assert_eq!(defined("pub type Page = pages::Page<Gate>;"), Some("Page"));
    assert_eq!(defined("let structure = 1;"), None);
    assert_eq!(name_of("wait queue"), "WaitQueue");
    assert_eq!(name_of("GPU time"), "GpuTime");
    assert_eq!(parts_of("TurnEnd"), ["Turn", "End"]);
    let at = |path: &str| path.to_string();
    let mut types = BTreeMap::from([
        ("Gate".to_string(), vec![at("src/a.rs:1")]),
        ("TurnEnd".to_string(), vec![at("src/b.rs:1")]),
    ]);
    let words = ["gate".to_string()];
    assert_eq!(vague(&words, &types), ["TurnEnd: src/b.rs:1"]);
    assert_eq!(ambiguous(&words, &types), [""; 0]);
    let gates = types.get_mut("Gate").expect("there");
    gates.push(at("src/uapi/c.rs:1"));
    assert_eq!(ambiguous(&words, &types), [""; 0]);
    types
        .get_mut("Gate")
        .expect("there")
        .push(at("model/d.rs:1"));
    assert_eq!(
        ambiguous(&words, &types),
        ["gate: src/a.rs:1, src/uapi/c.rs:1, model/d.rs:1"]
    );
}
