// SPDX-License-Identifier: GPL-2.0

//! The table of locks has each lock that `src/glue` declares, says of each whether its holder inherits
//! the priority of those that wait, as its type has it, and has no other lock of LoGA's.

use super::document;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Types of locks, each with whether the holder inherits priority. A thread that has a spinlock is not
/// preempted.
const TYPES: [(&str, &str); 4] = [
    ("PiMutex<", "yes"),
    ("UserQueues,", "yes"),
    ("Mutex<", "no"),
    ("SpinLock<", "spins"),
];

/// The name before `: TYPE` in a declaration, and what its holder inherits.
fn declared(line: &str) -> Option<(&str, &'static str)> {
    let is_name = |name: &&str| name.chars().all(|one| one.is_alphanumeric() || one == '_');
    TYPES.iter().find_map(|(lock, inherits)| {
        let (before, _) = line.split_once(&format!(": {lock}"))?;
        let name = before.rsplit(' ').next().filter(is_name)?;
        // Not a parameter or a variable.
        let declares = !before.contains("fn ") && !before.contains("let ") && !before.contains('(')
            || before.contains("pub(")
            || before.contains("static ");
        declares.then_some((name, *inherits))
    })
}

/// The type that a line declares.
fn structure(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("struct ")?;
    let is_declaration = before.is_empty() || before.starts_with("pub");
    let name = after.split(|one: char| !one.is_alphanumeric()).next()?;
    is_declaration.then_some(name)
}

/// Adds the locks that a file declares.
fn add_locks(path: &Path, locks: &mut BTreeMap<String, String>) {
    let source = fs::read_to_string(path).expect("a source");
    let mut owner = "";
    for line in source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        owner = structure(line).unwrap_or(owner);
        if let Some((name, inherits)) = declared(line) {
            let is_static = line.contains("static ");
            let full = if is_static {
                name.into()
            } else {
                format!("{owner}::{name}")
            };
            locks.insert(full, inherits.into());
        }
        let spin = line.strip_prefix("static DEFINE_SPINLOCK(");
        if let Some((name, _)) = spin.and_then(|rest| rest.split_once(')')) {
            locks.insert(name.into(), "spins".into());
        }
        assert!(!line.contains("DEFINE_MUTEX"), "{}: {line}", path.display());
    }
}

fn add_folder(folder: &Path, locks: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let kind = path.extension().and_then(|kind| kind.to_str());
        match kind {
            _ if path.is_dir() => add_folder(&path, locks),
            // The locks themselves are made there.
            _ if path.ends_with("kernel/pi_mutex.rs") => {}
            Some("rs" | "c") => add_locks(&path, locks),
            _ => {}
        }
    }
}

/// The rows of the table: of each lock of LoGA's whether its holder inherits priority.
fn rows() -> BTreeMap<String, String> {
    let text = document("architecture.md");
    let (_, rest) = text.split_once("\n| lock |").expect("a table of locks");
    let mut rows = BTreeMap::new();
    for row in rest.lines().skip(2).take_while(|row| row.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [lock, holders, inherits, waiting] = cells[..] else {
            panic!("not four cells: {row}");
        };
        assert!(!holders.is_empty(), "{row}");
        assert!(!waiting.is_empty(), "{row}");
        if lock.ends_with("(kernel)") {
            continue;
        }
        let first = inherits.split(':').next().unwrap_or(inherits);
        rows.insert(lock.trim_matches('`').into(), first.into());
    }
    rows
}

#[test]
fn table_of_locks_is_that_of_the_source() {
    let mut declared = BTreeMap::new();
    let glue = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/glue");
    add_folder(&glue, &mut declared);
    assert!(declared.len() > 15, "{declared:?}");
    assert_eq!(rows(), declared, "docs/architecture.md, against src/glue");
}
