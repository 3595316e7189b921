// SPDX-License-Identifier: GPL-2.0

//! Rules for sources, checked on their text. Files that the host and the kernel share use nothing
//! that compiles on the host and fails only when the module is linked or loaded. Pure files import
//! each other in one direction (`circles`), and so do those of the kernel side, of the model and of
//! the simulator. An assertion has one condition (`asserts`).

#[path = "sources/asserts.rs"]
mod asserts;
#[path = "sources/circles.rs"]
mod circles;

use std::fs;
use std::path::{Path, PathBuf};

/// Directories and files that both roots mount.
const SHARED: &[&str] = &[
    "src/account",
    "src/candidate.rs",
    "src/claims.rs",
    "src/compatibility",
    "src/engaged",
    "src/engine",
    "src/error.rs",
    "src/fair",
    "src/gpu",
    "src/ids.rs",
    "src/knobs.rs",
    "src/names.rs",
    "src/random.rs",
    "src/request",
    "src/rm",
    "src/share",
    "src/storage.rs",
    "src/track",
    "src/uapi",
    "src/units.rs",
    "regs",
    "policies",
];

/// Words that may not appear in code, and the one file that may use them.
const FORBIDDEN: &[(&str, &str)] = &[
    // No library function for their division in the kernel.
    ("u128", "src/fair/ratio.rs"),
    ("i128", ""),
    // No floating-point registers in the kernel.
    ("f32", ""),
    ("f64", ""),
    // Only the glue touches the kernel and memory.
    ("unsafe", ""),
    ("alloc::", ""),
    ("std::", ""),
    ("use kernel", ""),
    ("crate::glue", ""),
    // The two builds must compile the same code.
    ("cfg(MODULE)", ""),
    ("feature =", ""),
];

/// Rust files at or below `path`.
fn sources(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_path_buf()];
    }
    let entries = fs::read_dir(path).unwrap();
    entries
        .flat_map(|entry| sources(&entry.unwrap().path()))
        .filter(|file| file.extension().is_some_and(|suffix| suffix == "rs"))
        .collect()
}

/// All shared sources with their names and texts.
fn shared() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = SHARED.iter().flat_map(|path| sources(&root.join(path)));
    files
        .map(|file| {
            let name = file.strip_prefix(root).unwrap().display().to_string();
            (name, fs::read_to_string(&file).unwrap())
        })
        .collect()
}

/// Whether `word` stands in `line` by itself and not in a comment.
fn uses(line: &str, word: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(word).any(|(at, _)| {
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        !code[..at].ends_with(is_name) && !code[at + word.len()..].starts_with(is_name)
    })
}

#[test]
fn shared_sources_use_nothing_that_the_kernel_lacks() {
    let mut found = Vec::new();
    for (name, text) in shared() {
        for (number, line) in (1..).zip(text.lines()) {
            for (word, exception) in FORBIDDEN {
                if name != *exception && uses(line, word) {
                    found.push(format!("{name}:{number}: {word}"));
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn shared_sources_begin_with_licence_and_purpose() {
    for (name, text) in shared() {
        let mut lines = text.lines();
        let licence = lines.next().unwrap_or_default();
        assert_eq!(licence, "// SPDX-License-Identifier: GPL-2.0", "{name}");
        assert!(lines.any(|line| line.starts_with("//! ")), "{name}");
    }
}

#[test]
fn shared_sources_are_found() {
    assert!(shared().len() > 20);
    assert!(uses("let x: u128 = 1;", "u128"));
    assert!(!uses("// u128 is missing", "u128"));
    assert!(!uses("let not_u128_at_all = 1;", "u128"));
}
