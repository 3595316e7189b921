// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Processes as selectors see them.

use crate::names::Name;
use crate::processes::Processes;

/// A process as a selector sees it.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Running {
    /// Its number.
    pub pid: i32,
    /// Its name, cut to 15 bytes.
    pub comm: Name,
    /// Its program, if this caller may see it.
    pub exe: Option<Name>,
}

impl Running {
    /// The process with this number, if it is there.
    pub(super) fn find(pid: i32, processes: &Processes) -> Option<Self> {
        Some(Self {
            pid,
            comm: processes.name(pid)?,
            exe: processes
                .executable(pid)
                .ok()
                .map(|path| path.as_path().into()),
        })
    }

    /// All processes.
    pub(super) fn all(processes: &Processes) -> Vec<Self> {
        let all = processes.all().into_iter();
        all.filter_map(|pid| Self::find(pid, processes)).collect()
    }
}
