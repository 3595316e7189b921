// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The file of what is raised: written before a weight is, so that an agent that is killed
//! leaves nothing raised that is not in it. A line is the number of the cgroup's folder, its weight
//! before, its weight since, and its path to the end of the line: a cgroup has no line break in its
//! name.

use super::cgroups::Cgroup;
use crate::names::Name;
use crate::replace::{replace, New};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::unistd::Uid;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A cgroup that is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) cgroup: Cgroup,
    /// Its weight before.
    pub(super) before: u32,
    /// What the agent has set.
    pub(super) since: u32,
}

/// The file, which this agent alone writes.
#[derive(Debug)]
pub(super) struct Noted {
    path: PathBuf,
    /// Held as long as the agent runs.
    _lock: Flock<File>,
}

impl Noted {
    /// Opens the file in a folder, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// A line that says why that failed: another agent uses it, or other users could change it.
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let name = Name::from(folder);
        let said = |error: io::Error| format!("the folder {name}: {error}");
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(said(error)),
            _ => {}
        }
        let found = fs::symlink_metadata(folder).map_err(said)?;
        let is_own = found.is_dir() && found.uid() == Uid::effective().as_raw();
        if !is_own || found.mode() & 0o022 != 0 {
            return Err(format!(
                "the folder {name} may be changed by others: want one of the caller with mode 0700"
            ));
        }
        let file = File::create(folder.join("lock")).map_err(said)?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => {
                format!("another `loga agent cpu` uses the folder {name}: want one agent at a time")
            }
            errno => said(errno.into()),
        })?;
        Ok(Self {
            path: folder.join("raised"),
            _lock: lock,
        })
    }

    /// What stands in it. Lines that are no entries are passed over.
    ///
    /// # Errors
    ///
    /// A line that says why it cannot be read.
    pub(super) fn read(&self) -> Result<Vec<Entry>, String> {
        match fs::read(&self.path) {
            Ok(text) => Ok(text
                .split(|byte| *byte == b'\n')
                .filter_map(entry)
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(format!("{}: {error}", Name::from(self.path.as_path()))),
        }
    }

    /// Replaces what stands in it; without entries it is removed.
    ///
    /// # Errors
    ///
    /// A line that says why that failed.
    pub(super) fn write<'a>(&self, entries: impl Iterator<Item = &'a Entry>) -> Result<(), String> {
        let mut text = Vec::new();
        for entry in entries {
            let Entry {
                cgroup,
                before,
                since,
            } = entry;
            text.extend_from_slice(format!("{} {before} {since} ", cgroup.inode).as_bytes());
            text.extend_from_slice(cgroup.path.as_os_str().as_bytes());
            text.push(b'\n');
        }
        let written = match text.is_empty() {
            true => fs::remove_file(&self.path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            }),
            false => {
                let new = New {
                    ending: ".new",
                    mode: 0o600,
                    owner: None,
                };
                replace(&self.path, &new, &text)
            }
        };
        written.map_err(|error| format!("{}: {error}", Name::from(self.path.as_path())))
    }
}

/// The entry of a line.
fn entry(line: &[u8]) -> Option<Entry> {
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let mut number = || {
        std::str::from_utf8(fields.next()?)
            .ok()?
            .parse::<u64>()
            .ok()
    };
    let (inode, before, since) = (number()?, number()?, number()?);
    let path = PathBuf::from(OsStr::from_bytes(fields.next()?));
    Some(Entry {
        cgroup: Cgroup { path, inode },
        before: u32::try_from(before).ok()?,
        since: u32::try_from(since).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{symlink, PermissionsExt};
    use tempfile::TempDir;

    fn noted(run: &TempDir) -> Noted {
        Noted::open(&run.path().join("loga-cpu")).expect("opened")
    }

    #[test]
    fn lines_of_the_file_that_are_none_are_passed_over() {
        let run = tempfile::tempdir().expect("a folder");
        let noted = noted(&run);
        let file = run.path().join("loga-cpu/raised");
        fs::write(
            &file,
            b"7 100 1000 with space/\xff\nx 1 2 a\n1 2\n\n3 99999999999 1 b\n",
        )
        .expect("a file");
        let read = noted.read().expect("read");
        assert_eq!(read.len(), 1);
        assert_eq!(
            (read[0].cgroup.inode, read[0].before, read[0].since),
            (7, 100, 1000)
        );
        noted.write(read.iter()).expect("written");
        assert_eq!(
            fs::read(&file).expect("a file"),
            b"7 100 1000 with space/\xff\n"
        );
    }

    #[test]
    fn second_agent_is_refused() {
        let run = tempfile::tempdir().expect("a folder");
        let first = noted(&run);
        let said = Noted::open(&run.path().join("loga-cpu")).expect_err("refused");
        assert!(said.contains("another `loga agent cpu` uses"), "{said}");
        drop(first);
        noted(&run);
    }

    #[test]
    fn folder_that_others_may_change_is_refused() {
        let run = tempfile::tempdir().expect("a folder");
        let folder = run.path().join("loga-cpu");
        drop(noted(&run));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("set");
        let said = Noted::open(&folder).expect_err("refused");
        assert!(
            said.ends_with("may be changed by others: want one of the caller with mode 0700"),
            "{said}"
        );
        let link = run.path().join("link");
        symlink(run.path(), &link).expect("a link");
        assert!(Noted::open(&link).is_err());
    }
}
