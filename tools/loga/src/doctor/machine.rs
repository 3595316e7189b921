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
    /// Contents by path, instead of files; of a link, what it leads to.
    #[cfg(test)]
    made: Option<BTreeMap<String, Vec<u8>>>,
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
            #[cfg(test)]
            made: None,
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
            made: None,
        }
    }

    /// One without files: contents by path.
    #[cfg(test)]
    pub(super) fn made(files: BTreeMap<String, Vec<u8>>, environment: &[(&str, &str)]) -> Self {
        let below = Self::below(Path::new("/"), environment);
        Self {
            made: Some(files),
            ..below
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Whether there is a file or folder.
    pub(super) fn has(&self, path: &str) -> bool {
        #[cfg(test)]
        if let Some(made) = &self.made {
            let path = path.trim_start_matches('/');
            let is_below = |file: &String| file.starts_with(&format!("{path}/"));
            return made.contains_key(path) || made.keys().any(is_below);
        }
        self.path(path).exists()
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        #[cfg(test)]
        if let Some(made) = &self.made {
            return made.get(path.trim_start_matches('/')).cloned();
        }
        fs::read(self.path(path)).ok()
    }

    /// What a small file says, without white space around it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        let bytes = self.read(path)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_string())
    }

    /// The last byte of a file.
    pub(super) fn last_byte(&self, path: &str) -> Option<u8> {
        self.read(path)?.last().copied()
    }

    /// Names in a folder, in order; none if it cannot be read.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        #[cfg(test)]
        if let Some(made) = &self.made {
            let folder = format!("{}/", path.trim_start_matches('/'));
            let below = made.keys().filter_map(|file| file.strip_prefix(&folder));
            let mut names: Vec<String> = below
                .filter_map(|rest| rest.split('/').next())
                .map(str::to_string)
                .collect();
            names.sort_unstable();
            names.dedup();
            return names;
        }
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
        #[cfg(test)]
        if let Some(made) = &self.made {
            let target = String::from_utf8(made.get(path.trim_start_matches('/'))?.clone()).ok()?;
            return Some(target.rsplit('/').next()?.to_string());
        }
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_string())
    }

    /// Whether the caller can open a device for reading and writing.
    pub(super) fn opens(&self, path: &str) -> bool {
        #[cfg(test)]
        if let Some(made) = &self.made {
            return made.contains_key(path.trim_start_matches('/'));
        }
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
