// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Files of a machine.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

/// A machine by its files and the caller's environment.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    root: PathBuf,
    environment: BTreeMap<String, String>,
    /// Whether standard output is a terminal.
    pub(super) terminal: bool,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        Self {
            root: PathBuf::from("/"),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| {
                    Some((name.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            terminal: std::io::stdout().is_terminal(),
        }
    }

    /// One with its files below a folder.
    #[cfg(test)]
    pub(super) fn below(root: &Path, environment: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
        Self {
            root: root.to_path_buf(),
            environment: environment.iter().map(pair).collect(),
            terminal: true,
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is a file or folder.
    pub(super) fn has(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// What a small file says, without white space around it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = fs::read(self.path(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_string())
    }

    /// The last byte of a file.
    pub(super) fn last_byte(&self, path: &str) -> Option<u8> {
        fs::read(self.path(path)).ok()?.last().copied()
    }

    /// Names in a folder, in order; none if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    /// The last part of what a link leads to.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }

    /// Whether the caller can open a device for reading and writing.
    pub(super) fn opens(&self, path: &str) -> bool {
        let options = fs::File::options()
            .read(true)
            .write(true)
            .open(self.path(path));
        options.is_ok()
    }

    /// A variable of the environment, unless it is empty.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.environment.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }
}
