// SPDX-License-Identifier: GPL-2.0

//! Rules for sources, checked on their text. Files that the host and the kernel share use nothing
//! that compiles on the host and fails only when the module is linked or loaded. Files of the
//! kernel side import each other in one direction, and so do those of the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Directories and files that both roots mount.
const SHARED: &[&str] = &[
    "src/account",
    "src/candidate.rs",
    "src/claims.rs",
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

/// Folders in which files import each other without a circle, each with the path of its module.
const LAYERED: &[(&str, &str)] = &[("src/glue", "crate::glue"), ("eval/src", "crate")];

/// Imports that may close a circle: folder, from where, to where, and why.
const EXCUSED: &[(&str, &str, &str, &str)] = &[];

/// Longest source file.
const MAX_LINES: usize = 450;

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
fn shared_sources_fit_on_a_few_screens() {
    for (name, text) in shared() {
        let lines = text.lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines");
    }
}

#[test]
fn shared_sources_are_found() {
    assert!(shared().len() > 20);
    assert!(uses("let x: u128 = 1;", "u128"));
    assert!(!uses("// u128 is missing", "u128"));
    assert!(!uses("let not_u128_at_all = 1;", "u128"));
}

/// A module, by its path below a folder: `["gpu", "bar"]`.
type Module = Vec<String>;

/// Which modules of a folder import which.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Code without comments and without the tests at the end of a file, which import what they test.
fn code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = code.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.split("//").next())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The paths that a `use` names, without their new names here.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![path.trim_end_matches("::self").to_string()];
    };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in group.chars() {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        match letter {
            ',' if depth == 0 => parts.push(String::new()),
            letter => parts.last_mut().unwrap().push(letter),
        }
    }
    let parts = parts.iter().filter(|part| !part.trim().is_empty());
    parts
        .flat_map(|part| paths(&format!("{prefix}{}", part.trim())))
        .collect()
}

/// All paths that code names and that may lead to another file: paths of `use`, and paths that
/// begin with `super`, `crate` or `self`.
fn named(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = String::new();
    for (number, part) in code.split("use ").enumerate() {
        match part.split_once(';').filter(|_| number != 0) {
            Some((tree, after)) => {
                found.extend(paths(
                    &tree.split_whitespace().collect::<Vec<_>>().join(" "),
                ));
                rest.push_str(after);
            }
            None => rest.push_str(part),
        }
    }
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let words = rest.split(|letter| !is_path(letter));
    let begins = |word: &&str| {
        ["super::", "crate::", "self::"]
            .iter()
            .any(|begin| word.starts_with(begin))
    };
    found.extend(words.filter(begins).map(str::to_string));
    found
}

/// Which module imports which below a folder with the module path `root`. An import of a
/// re-exported name counts as an import of the file that defines it, not of the file that
/// re-exports it.
fn imports(folder: &[(Module, String)], root: &str) -> Imports {
    let modules: BTreeSet<&Module> = folder.iter().map(|(module, _)| module).collect();
    // Segments from the root of the folder on.
    let resolve = |module: &Module, path: &str| -> Option<Module> {
        let (mut at, mut rest) = (module.clone(), path);
        if let Some(below) = path.strip_prefix(root) {
            (at, rest) = (Module::new(), below.trim_start_matches("::"));
        } else if path.starts_with("crate") {
            return None;
        }
        let mut segments = rest
            .split("::")
            .filter(|segment| !segment.is_empty())
            .peekable();
        while let Some(segment) = segments.next_if(|segment| ["super", "self"].contains(segment)) {
            if segment == "super" {
                at.pop()?;
            }
        }
        at.extend(segments.map(str::to_string));
        Some(at)
    };
    let file_of = |path: &Module| {
        let lengths = (0..=path.len()).rev();
        lengths
            .map(|length| path[..length].to_vec())
            .find(|module| modules.contains(module))
    };
    let mut exports = BTreeMap::new();
    for (module, code) in folder {
        for part in code.split("pub").skip(1) {
            let part = part.trim_start();
            let part = part
                .strip_prefix('(')
                .and_then(|part| part.split_once(')'))
                .map_or(part, |(_, part)| part);
            let Some(tree) = part
                .trim_start()
                .strip_prefix("use ")
                .and_then(|part| part.split(';').next())
            else {
                continue;
            };
            for path in paths(tree) {
                let (Some(to), Some(name)) = (resolve(module, &path), path.rsplit("::").next())
                else {
                    continue;
                };
                let mut here = module.clone();
                here.push(name.to_string());
                exports.insert(here, to);
            }
        }
    }
    let mut found = Imports::new();
    for (module, code) in folder {
        let to = found.entry(module.clone()).or_default();
        for path in named(code) {
            let Some(mut path) = resolve(module, &path) else {
                continue;
            };
            // A chain of re-exports has an end.
            for _ in 0..8 {
                let Some((length, target)) = (1..=path.len())
                    .find_map(|length| Some((length, exports.get(&path[..length])?)))
                else {
                    break;
                };
                path = [target.as_slice(), &path[length..]].concat();
            }
            to.extend(file_of(&path).filter(|target| target != module));
        }
    }
    found
}

/// Modules that import themselves through others: what is left after repeatedly removing modules
/// without imports, and modules that no other imports.
fn circle(mut imports: Imports) -> Vec<Module> {
    loop {
        let before = imports.len();
        let there: BTreeSet<Module> = imports.keys().cloned().collect();
        let wanted: BTreeSet<Module> = imports.values().flatten().cloned().collect();
        for targets in imports.values_mut() {
            targets.retain(|target| there.contains(target));
        }
        imports.retain(|module, targets| !targets.is_empty() && wanted.contains(module));
        if imports.len() == before {
            return imports.into_keys().collect();
        }
    }
}

#[test]
fn layered_folders_have_no_circle_of_imports() {
    for (folder, root) in LAYERED {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files: Vec<(Module, String)> = sources(&path)
            .iter()
            .map(|file| {
                let name = file.strip_prefix(&path).unwrap().with_extension("");
                let mut module: Module = name
                    .iter()
                    .map(|part| part.to_str().unwrap().to_string())
                    .collect();
                if module
                    .last()
                    .is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str()))
                {
                    module.pop();
                }
                (module, code(&fs::read_to_string(file).unwrap()))
            })
            .collect();
        assert!(files.len() > 20, "{folder}");
        let mut found = imports(&files, root);
        let excused = EXCUSED.iter().filter(|excused| excused.0 == *folder);
        for (_, from, to, _) in excused {
            let module = |path: &str| path.split('/').map(str::to_string).collect::<Module>();
            let targets = found.get_mut(&module(from));
            assert!(
                targets.is_some_and(|targets| targets.remove(&module(to))),
                "{from} does not import {to}"
            );
        }
        let names: Vec<String> = circle(found)
            .iter()
            .map(|module| module.join("/"))
            .collect();
        assert!(
            names.is_empty(),
            "{folder}: a circle through {}",
            names.join(", ")
        );
    }
}

#[test]
fn circles_are_found() {
    let files = |texts: &[(&str, &str)]| -> Vec<(Module, String)> {
        let file = |(path, text): &(&str, &str)| {
            (
                path.split('/')
                    .filter(|part| !part.is_empty())
                    .map(str::to_string)
                    .collect(),
                code(text),
            )
        };
        texts.iter().map(file).collect()
    };
    let through = |texts: &[(&str, &str)]| circle(imports(&files(texts), "crate::top")).len();
    let tree = [
        ("", "pub(crate) use a::One;"),
        ("a", "use super::b::{self, c::Two};"),
        ("b", "// use super::a::One;\npub mod c;"),
        ("b/c", "use crate::other::a::Three;"),
    ];
    assert_eq!(through(&tree), 0);
    let replaced = |at: usize, text| {
        let mut tree = tree;
        tree[at].1 = text;
        tree
    };
    assert_eq!(
        through(&replaced(3, "use crate::top::{b, a::One as Other};")),
        2
    );
    assert_eq!(
        through(&replaced(3, "fn f() { super::super::a::one() }")),
        2
    );
    // Through a re-export.
    assert_eq!(through(&replaced(3, "use crate::top::One;")), 2);
    // Tests import what they test.
    let tests = "#[cfg(test)]\nmod tests {\n    use super::super::a::One;\n}";
    assert_eq!(through(&replaced(3, tests)), 0);
    assert_eq!(
        through(&replaced(3, tests.trim_start_matches("#[cfg(test)]\n"))),
        2
    );
    // By the name of the folder's own module.
    assert_eq!(through(&replaced(2, "use super::four;")), 3);
}
