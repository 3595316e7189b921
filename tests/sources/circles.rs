// SPDX-License-Identifier: GPL-2.0

//! Rules for imports: the files of a tree import each other in one direction.

use super::sources;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that import each other without a circle.
struct Tree {
    name: &'static str,
    /// The path of its root module.
    root: &'static str,
    /// Folders, and where each is mounted below the root. The longest that holds a file counts.
    mounts: &'static [(&'static str, &'static str)],
    /// What of these folders is no part of it.
    without: &'static [&'static str],
    /// Whether what a file re-exports counts as imported by it. In a tree where it does not, the
    /// file of a folder may have what all files of the folder use.
    reexports: bool,
}

const TREES: &[Tree] = &[
    Tree {
        name: "pure",
        root: "crate",
        mounts: &[
            ("src", ""),
            ("regs", "regs"),
            ("policies", "policies"),
            ("policies/placement", "placement"),
        ],
        without: &["src/glue", "src/loga_main.rs"],
        reexports: false,
    },
    Tree {
        name: "glue",
        root: "crate::glue",
        mounts: &[("src/glue", "")],
        without: &[],
        reexports: true,
    },
    Tree {
        name: "model",
        root: "crate",
        mounts: &[("model", ""), ("src/rm", "rm")],
        without: &["model/model_main.rs"],
        reexports: false,
    },
    Tree {
        name: "eval",
        root: "crate",
        mounts: &[("eval/src", "")],
        without: &[],
        reexports: true,
    },
    Tree {
        name: "command",
        root: "crate",
        mounts: &[("tools/loga/src", "")],
        without: &["tools/loga/src/main.rs"],
        reexports: false,
    },
    Tree {
        name: "throttle",
        root: "crate",
        mounts: &[("throttle/src", "")],
        without: &["throttle/src/main.rs"],
        reexports: false,
    },
];

/// Imports that may close a circle: tree, from where, to where, and why.
const EXCUSED: &[(&str, &str, &str, &str)] = &[];

/// A module, by its path below a folder: `["gpu", "bar"]`.
type Module = Vec<String>;

/// Which modules of a folder import which.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Code without comments and without what only tests have, which import what they test; and the
/// modules of tests that are files of their own.
fn code(text: &str) -> (String, Vec<String>) {
    let lines = text.lines().filter_map(|line| line.split("//").next());
    let all = lines.collect::<Vec<_>>().join("\n");
    // To be visible in a folder is no import of it.
    let mut visible = all.split("pub(in ");
    let first = visible.next().unwrap_or_default().to_string();
    let all = visible.fold(first, |all, part| {
        let after = part.split_once(')').map_or(part, |(_, after)| after);
        format!("{all}pub {after}")
    });
    let (mut kept, mut tests) = (String::new(), Vec::new());
    let mut rest = all.as_str();
    let begins = |rest: &str| {
        let begins = ["#[cfg(test)]", "#[cfg(any(test,"];
        begins.iter().filter_map(|begin| rest.find(begin)).min()
    };
    while let Some(at) = begins(rest) {
        kept.push_str(&rest[..at]);
        rest = &rest[at..];
        let (mut depth, mut ended) = (0, false);
        let end = rest.find(|letter: char| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            ended = depth == 0 && matches!(letter, '}' | ';');
            ended
        });
        let (item, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        let file = item
            .strip_suffix(';')
            .and_then(|item| item.rsplit_once("mod "));
        tests.extend(file.map(|(_, name)| name.to_string()));
        rest = after;
    }
    kept.push_str(rest);
    (kept, tests)
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
/// begin with `super`, `crate` or `self`; with those that it re-exports, if they count.
fn named(code: &str, reexports: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = String::new();
    for (number, part) in code.split("use ").enumerate() {
        match part.split_once(';').filter(|_| number != 0) {
            Some((tree, after)) => {
                let is_public = rest.rsplit(['\n', ';']).next();
                let is_public = is_public.is_some_and(|line| line.trim_start().starts_with("pub"));
                let tree = tree.split_whitespace().collect::<Vec<_>>().join(" ");
                if reexports || !is_public {
                    found.extend(paths(&tree));
                }
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

/// Which module imports which below the module path `root`, of files and their texts. An import of a
/// re-exported name counts as an import of the file that defines it, not of the file that
/// re-exports it.
fn imports(files: &[(Module, String)], root: &str, reexports: bool) -> Imports {
    let all = files.iter().map(|(module, text)| (module, code(text)));
    let all: Vec<(&Module, (String, Vec<String>))> = all.collect();
    let of_tests: BTreeSet<Module> = all
        .iter()
        .flat_map(|(module, (_, tests))| {
            let file = |name: &String| [module.as_slice(), std::slice::from_ref(name)].concat();
            tests.iter().map(file)
        })
        .collect();
    let folder: Vec<(&Module, String)> = all
        .into_iter()
        .filter(|(module, _)| !of_tests.contains(*module))
        .map(|(module, (code, _))| (module, code))
        .collect();
    let modules: BTreeSet<&Module> = folder.iter().map(|(module, _)| *module).collect();
    // Segments from the root of the folder on.
    let resolve = |module: &Module, path: &str| -> Option<Module> {
        let (mut at, mut rest) = (module.to_vec(), path);
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
    for (module, code) in &folder {
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
                let mut here = module.to_vec();
                here.push(name.to_string());
                exports.insert(here, to);
            }
        }
    }
    let mut found = Imports::new();
    for (module, code) in &folder {
        let to = found.entry((*module).clone()).or_default();
        for path in named(code, reexports) {
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
            to.extend(file_of(&path).filter(|target| target != *module));
        }
    }
    found
}

/// The modules that import themselves through others, each with those of its imports that do so
/// with it.
fn circle(imports: &Imports) -> Imports {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|from| {
            let (mut found, mut next) = (BTreeSet::new(), vec![from]);
            while let Some(at) = next.pop() {
                let targets = imports.get(at).into_iter().flatten();
                next.extend(targets.filter(|target| found.insert(*target)));
            }
            (from, found)
        })
        .collect();
    let reaches = |from: &Module, to: &Module| reached[from].contains(to);
    imports
        .iter()
        .filter(|(from, _)| reaches(from, from))
        .map(|(from, to)| {
            let back = to.iter().filter(|to| reaches(to, from)).cloned();
            (from.clone(), back.collect())
        })
        .collect()
}

impl Tree {
    /// Its files by their modules, with their texts.
    fn files(&self) -> Vec<(Module, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders: BTreeSet<&str> = self.mounts.iter().map(|(folder, _)| *folder).collect();
        let all = folders
            .iter()
            .flat_map(|folder| sources(&root.join(folder)));
        let all: BTreeSet<PathBuf> = all.collect();
        all.iter()
            .filter_map(|file| {
                let path = file.strip_prefix(root).unwrap();
                if self.without.iter().any(|without| path.starts_with(without)) {
                    return None;
                }
                let holds = self
                    .mounts
                    .iter()
                    .filter(|(folder, _)| path.starts_with(folder));
                let (folder, at) = holds.max_by_key(|(folder, _)| folder.len())?;
                let below = path.strip_prefix(folder).unwrap().with_extension("");
                let below = below.iter().map(|part| part.to_str().unwrap().to_string());
                let mut module: Module = segments(at).into_iter().chain(below).collect();
                let is_folder = |last: &String| ["mod", "lib", "main"].contains(&last.as_str());
                if module.last().is_some_and(is_folder) {
                    module.pop();
                }
                Some((module, fs::read_to_string(file).unwrap()))
            })
            .collect()
    }
}

/// `a/b` as a module.
fn segments(path: &str) -> Module {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.map(str::to_string).collect()
}

#[test]
fn files_have_no_circle_of_imports() {
    for tree in TREES {
        let name = tree.name;
        let files = tree.files();
        assert!(files.len() > 20, "{name}");
        let mut found = imports(&files, tree.root, tree.reexports);
        for (_, from, to, _) in EXCUSED.iter().filter(|excused| excused.0 == name) {
            let targets = found.get_mut(&segments(from));
            assert!(
                targets.is_some_and(|targets| targets.remove(&segments(to))),
                "{from} does not import {to}"
            );
        }
        let circle = circle(&found);
        let lines = circle.iter().map(|(from, to)| {
            let to: Vec<String> = to.iter().map(|module| module.join("/")).collect();
            format!("{} imports {}", from.join("/"), to.join(", "))
        });
        let lines: Vec<String> = lines.collect();
        assert!(lines.is_empty(), "{name}: a circle:\n{}", lines.join("\n"));
    }
}

#[test]
fn circles_are_found() {
    let files = |texts: &[(&str, &str)]| -> Vec<(Module, String)> {
        let file = |(path, text): &(&str, &str)| (segments(path), text.to_string());
        texts.iter().map(file).collect()
    };
    let through =
        |texts: &[(&str, &str)]| circle(&imports(&files(texts), "crate::top", true)).len();
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
    // By the name of the folder's own module, where re-exports count.
    let own = replaced(2, "use super::four;");
    assert_eq!(through(&own), 3);
    assert!(circle(&imports(&files(&own), "crate::top", false)).is_empty());
    // Files of tests are no part of the tree.
    let tests = replaced(
        2,
        "#[cfg(test)]\nmod c;\n#[cfg(any(test, kunit))]\nuse super::a;",
    );
    let found = imports(&files(&tests), "crate::top", true);
    assert!(circle(&found).is_empty());
    assert!(found.len() == 3);
}
