// SPDX-License-Identifier: GPL-2.0

//! The pages: which there are, their headings, the text below each, and their links.

use std::fs;
use std::path::{Path, PathBuf};

/// A page of Markdown.
pub(crate) struct Page {
    /// Its path below the root of the repository.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

/// A link of a page.
pub(crate) struct Link {
    /// What is shown.
    pub(crate) label: String,
    /// Where it leads, as it is written.
    pub(crate) target: String,
}

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and all pages of `docs`, in the order of their names.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/abi"] {
        let entries = fs::read_dir(root().join(folder)).expect("a folder");
        let files = entries
            .flatten()
            .filter(|entry| entry.path().is_file())
            .filter_map(|entry| entry.file_name().into_string().ok());
        paths.extend(files.map(|name| format!("{folder}/{name}")));
    }
    paths.sort();
    paths.into_iter().map(Page::read).collect()
}

impl Page {
    /// Reads the page at this path below the root.
    pub(crate) fn read(path: String) -> Self {
        let text = fs::read_to_string(root().join(&path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path, text }
    }

    /// Its lines with whether each stands in a block of code between fences.
    fn lines(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut inside = false;
        self.text.lines().map(move |line| {
            let fence = line.trim_start().starts_with("```");
            let code = inside || fence;
            inside ^= fence;
            (line, code)
        })
    }

    /// Its links, but for those to other hosts.
    pub(crate) fn links(&self) -> Vec<Link> {
        let prose = self
            .lines()
            .filter(|(line, code)| !code && !line.starts_with("    "));
        prose.flat_map(|(line, _)| links_of(line)).collect()
    }

    /// The anchors of its headings, as GitHub makes them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (line, code) in self.lines() {
            if let (Some((_, title)), false) = (heading(line), code) {
                let plain = anchor(title);
                let same = |number: usize| match number {
                    0 => plain.clone(),
                    number => format!("{plain}-{number}"),
                };
                let free = (0..).map(same).find(|name| !anchors.contains(name));
                anchors.extend(free);
            }
        }
        anchors
    }

    /// What stands below the heading with this anchor, up to the next one that is not below it.
    pub(crate) fn below(&self, wanted: &str) -> Option<String> {
        let mut level = None;
        let mut found = Vec::new();
        for (line, code) in self.lines() {
            let title = heading(line).filter(|_| !code);
            match (level, title) {
                (None, Some((depth, title))) if anchor(title) == wanted => level = Some(depth),
                (Some(depth), Some((next, _))) if next <= depth => break,
                (Some(_), _) => found.push(line),
                (None, _) => {}
            }
        }
        level.map(|_| found.join("\n"))
    }

    /// The file that a target of one of its links names, and the anchor in it.
    pub(crate) fn resolve<'a>(&self, target: &'a str) -> (PathBuf, Option<&'a str>) {
        let (file, anchor) = match target.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (target, None),
        };
        let own = Path::new(&self.path);
        let mut path = match file {
            "" => return (own.to_path_buf(), anchor),
            _ => own.parent().unwrap_or(own).to_path_buf(),
        };
        for part in file.split('/') {
            match part {
                ".." => drop(path.pop()),
                part => path.push(part),
            }
        }
        (path, anchor)
    }
}

/// The depth and the title of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let depth = line.bytes().take_while(|byte| *byte == b'#').count();
    let title = line.get(depth..)?.strip_prefix(' ')?;
    (depth > 0).then_some((depth, title))
}

/// The anchor of a title: lower case, without signs, with hyphens for spaces.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

fn links_of(line: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (at, _) in line.match_indices("](") {
        let target = line[at + 2..].split(')').next().unwrap_or_default();
        let label = line[..at].rsplit('[').next().unwrap_or_default();
        if !target.contains("://") {
            links.push(Link {
                label: label.to_owned(),
                target: target.to_owned(),
            });
        }
    }
    links
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor("Numbers beyond 2^53"), "numbers-beyond-253");
    assert_eq!(anchor("What `loga stat` prints"), "what-loga-stat-prints");
    assert_eq!(anchor("The paper's, and"), "the-papers-and");
}
