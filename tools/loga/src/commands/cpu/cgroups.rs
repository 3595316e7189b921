// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The cgroups of processes, and their weights on the processors.

use crate::directory;
use crate::names::Name;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The file with a weight.
const WEIGHT: &str = "cpu.weight";

/// Why the weight of a cgroup cannot be raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It has been removed, or its process has ended.
    Gone,
    /// What is in its way, and what would be right.
    Line(String),
}

/// Cgroups of version 2, and the processes in them.
#[derive(Clone, Debug)]
pub struct Cgroups {
    proc: PathBuf,
    root: PathBuf,
}

/// A cgroup: its place below the root, and the number of its folder, which tells it from a later
/// one of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cgroup {
    pub(super) path: PathBuf,
    pub(super) inode: u64,
}

impl Cgroup {
    /// As it is printed.
    pub(super) fn name(&self) -> Name {
        Path::new("/").join(&self.path).as_path().into()
    }
}

impl Cgroups {
    /// Those of this machine.
    ///
    /// # Errors
    ///
    /// A line that says that none are mounted.
    pub fn of_system() -> Result<Self, String> {
        let proc = PathBuf::from("/proc");
        let root = directory::cgroups_of_system()?;
        Ok(Self { proc, root })
    }

    #[cfg(test)]
    pub(super) fn below(proc: &Path, root: &Path) -> Self {
        Self {
            proc: proc.to_path_buf(),
            root: root.to_path_buf(),
        }
    }

    /// The cgroup of a process.
    ///
    /// # Errors
    ///
    /// Why it has none that could be raised.
    pub(super) fn of_process(&self, pid: i32) -> Result<Cgroup, Obstacle> {
        let text = fs::read(self.proc.join(format!("{pid}/cgroup"))).map_err(|_| Obstacle::Gone)?;
        let mut lines = text.split(|byte| *byte == b'\n');
        let path = lines.find_map(|line| line.strip_prefix(b"0::/"));
        let path = path.ok_or_else(|| {
            Obstacle::Line(format!(
                "process {pid} is in no cgroup of version 2: want that hierarchy alone, as systemd mounts it"
            ))
        })?;
        if path.is_empty() {
            return Err(Obstacle::Line(format!(
                "process {pid} is in the cgroup /, which has no weight: want it in one of its own, such as by `systemd-run --scope`"
            )));
        }
        self.find(Path::new(OsStr::from_bytes(path)))
    }

    /// The cgroup at a place below the root.
    ///
    /// # Errors
    ///
    /// Why it cannot be raised.
    pub(super) fn find(&self, path: &Path) -> Result<Cgroup, Obstacle> {
        // One above is outside of the namespace of the caller.
        if !path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(Obstacle::Line(format!(
                "the cgroup {} is not below {}: want the agent in the namespace of the host",
                Name::from(path),
                Name::from(self.root.as_path())
            )));
        }
        let folder = fs::metadata(self.root.join(path)).map_err(|_| Obstacle::Gone)?;
        Ok(Cgroup {
            path: path.to_path_buf(),
            inode: folder.ino(),
        })
    }

    /// The weight of a cgroup.
    ///
    /// # Errors
    ///
    /// Why it has none.
    pub(super) fn weight(&self, cgroup: &Cgroup) -> Result<u32, Obstacle> {
        self.check(cgroup)?;
        let text =
            fs::read_to_string(self.file(cgroup)).map_err(|error| self.why(cgroup, &error))?;
        match text.trim().parse() {
            // By cpu.idle: a weight cannot be set then.
            Ok(0) => Err(Obstacle::Line(format!(
                "the cgroup {} runs when no other does (cpu.idle): want 0 there",
                cgroup.name()
            ))),
            Ok(weight) => Ok(weight),
            Err(_) => Err(Obstacle::Line(format!(
                "{WEIGHT} of the cgroup {} is no number",
                cgroup.name()
            ))),
        }
    }

    /// Sets the weight of a cgroup.
    ///
    /// # Errors
    ///
    /// Why that failed.
    pub(super) fn set_weight(&self, cgroup: &Cgroup, weight: u32) -> Result<(), Obstacle> {
        self.check(cgroup)?;
        fs::write(self.file(cgroup), weight.to_string()).map_err(|error| self.why(cgroup, &error))
    }

    fn file(&self, cgroup: &Cgroup) -> PathBuf {
        self.root.join(&cgroup.path).join(WEIGHT)
    }

    /// Another cgroup may have taken its name.
    fn check(&self, cgroup: &Cgroup) -> Result<(), Obstacle> {
        match self.find(&cgroup.path)? == *cgroup {
            true => Ok(()),
            false => Err(Obstacle::Gone),
        }
    }

    /// What an error at its weight means.
    fn why(&self, cgroup: &Cgroup, error: &io::Error) -> Obstacle {
        let name = cgroup.name();
        let above = Path::new("/").join(cgroup.path.parent().unwrap_or(Path::new("")));
        match error.kind() {
            io::ErrorKind::NotFound if self.check(cgroup).is_err() => Obstacle::Gone,
            io::ErrorKind::NotFound => Obstacle::Line(format!(
                "the cgroup {name} has no {WEIGHT}: want +cpu in cgroup.subtree_control of {}, and a kernel with CONFIG_FAIR_GROUP_SCHED",
                Name::from(above.as_path())
            )),
            io::ErrorKind::PermissionDenied => Obstacle::Line(format!(
                "{WEIGHT} of the cgroup {name} may not be written: want root, or the user that owns it"
            )),
            // The file of a cgroup that is being removed.
            _ if error.raw_os_error() == Some(libc::ENODEV) => Obstacle::Gone,
            _ => Obstacle::Line(format!("{WEIGHT} of the cgroup {name}: {error}")),
        }
    }
}
