// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The search for the names of cgroups.

use crate::names::Name;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most cgroups that are searched for their names.
pub(super) const CGROUPS_MAX: usize = 65_536;
/// Deepest cgroups that are; each level on the way takes an open file.
const DEPTH_MAX: usize = 32;
/// Where users make cgroups.
const OF_USERS: &str = "user.slice";

/// What a search for cgroups found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Paths by number.
    pub paths: HashMap<u64, Name>,
    /// Whether it ended early, since there are too many cgroups: the others may be there.
    pub cut: bool,
    /// Whether there is no cgroup that it did not look at, unless it found all that were wanted.
    whole: bool,
}

impl Found {
    /// Whether a cgroup is sure to be gone. Number 0 stands for all that the caller's namespace
    /// lacks.
    pub fn is_gone(&self, id: u64) -> bool {
        self.whole && id != 0 && !self.paths.contains_key(&id)
    }
}

/// Searches `most` cgroups at most. Users may make cgroups in `user.slice`, as many and with names as
/// long as they like: it comes last, and only the way to one folder is kept at a time.
pub(super) fn search(root: &Path, most: usize, wanted: Option<&BTreeSet<u64>>) -> Found {
    let mut search = Search {
        root,
        wanted,
        left: most,
        paths: HashMap::new(),
        closed: false,
    };
    let mut first = below(root);
    first.sort_by_key(|path| path.ends_with(OF_USERS));
    search.note(root);
    for top in first {
        search.note(&top);
        search.below(&top);
    }
    let cut = search.left == 0 && !search.has_all();
    Found {
        cut,
        whole: !cut && !search.closed,
        paths: search.paths,
    }
}

/// A search that is under way.
struct Search<'a> {
    root: &'a Path,
    /// Numbers of cgroups, or nothing for all.
    wanted: Option<&'a BTreeSet<u64>>,
    /// Cgroups that may still be looked at.
    left: usize,
    paths: HashMap<u64, Name>,
    /// Whether some are too deep, or may not be looked at.
    closed: bool,
}

impl Search<'_> {
    fn has_all(&self) -> bool {
        self.wanted
            .is_some_and(|wanted| self.paths.len() >= wanted.len())
    }

    fn is_over(&self) -> bool {
        self.left == 0 || self.has_all()
    }

    /// Looks at a cgroup.
    fn note(&mut self, path: &Path) {
        if self.is_over() {
            return;
        }
        self.left = self.left.saturating_sub(1);
        // One that went away meanwhile has no name any more.
        let Ok(id) = fs::symlink_metadata(path).map(|data| data.ino()) else {
            return;
        };
        if self.wanted.is_none_or(|wanted| wanted.contains(&id)) {
            self.paths.insert(id, shown(self.root, path));
        }
    }

    /// Looks at what is below a cgroup.
    fn below(&mut self, top: &Path) {
        let mut way: Vec<fs::ReadDir> = self.open(top).into_iter().collect();
        while let Some(folder) = way.last_mut().filter(|_| !self.is_over()) {
            match folder.next() {
                None => drop(way.pop()),
                Some(Ok(entry)) if is_folder(&entry) => {
                    self.note(&entry.path());
                    if way.len() < DEPTH_MAX {
                        way.extend(self.open(&entry.path()));
                    } else {
                        self.closed = true;
                    }
                }
                Some(_) => {}
            }
        }
    }

    fn open(&mut self, folder: &Path) -> Option<fs::ReadDir> {
        let opened = fs::read_dir(folder);
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        self.closed |= opened.as_ref().is_err_and(|error| !gone(error));
        opened.ok()
    }
}

fn is_folder(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// Folders in a folder.
pub(super) fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(is_folder)
        .map(|entry| entry.path())
        .collect()
}

/// The path of a cgroup below the mount point.
pub(super) fn shown(root: &Path, path: &Path) -> Name {
    let path = path.strip_prefix(root).unwrap_or(path);
    [b"/", path.as_os_str().as_bytes()].concat().into()
}
