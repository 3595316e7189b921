// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the Prolog leaves for the TaskEpilog, as the job's user, and for the Epilog.

use super::node::{Job, NodeJob};
use crate::names::Name;
use crate::replace::{replace, New};
use serde::{Deserialize, Serialize};
use std::fs;
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Ending of the name of a note for the Epilog.
pub(super) const OF_JOB: &str = "job";
/// Ending of the name of the copy that the job's user may read.
pub(super) const OF_USER: &str = "user";
/// Most notes that are looked through.
const MAX_NOTES: usize = 1024;

/// What the Prolog leaves for the Epilog.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(in super::super) struct Note {
    pub(in super::super) uid: u32,
    /// The job's exact name for Slurm's commands, if the Prolog could ask for it.
    #[serde(default)]
    pub(in super::super) name: Option<String>,
    /// What the user got before the job, if that is known.
    pub(in super::super) before_ns: Option<u64>,
    /// The job's cgroup.
    pub(in super::super) cgroup: Option<u64>,
    /// Whether something is set for it.
    #[serde(default)]
    pub(in super::super) is_set: bool,
    /// What cgroups got of which the module has forgotten the names, if that is known.
    #[serde(default)]
    pub(in super::super) others_ns: Option<u64>,
    /// Whether other jobs of the user were there before.
    pub(in super::super) beside: bool,
    /// The node's GPUs of types of ours, in the order of their numbers.
    #[serde(default)]
    pub(in super::super) gpus: Vec<u32>,
    /// Whether it asks for shards of no type.
    #[serde(default)]
    pub(in super::super) loose: bool,
}

impl NodeJob<'_> {
    /// Where a note is.
    pub(super) fn note(&self, ending: &str) -> PathBuf {
        self.arguments.notes.join(self.job.note(ending))
    }

    /// Where the number of the user's last job here is.
    pub(super) fn last(&self) -> PathBuf {
        let name = format!("{}-{}.last", self.job.node, self.job.uid);
        self.arguments.notes.join(name)
    }

    pub(super) fn save(&self, note: &Note) -> Result<(), String> {
        let text = serde_json::to_string(note).map_err(|error| error.to_string())?;
        let write = |path: PathBuf, mode, owner, text: &str| {
            let new = New {
                ending: ".new",
                mode,
                owner,
            };
            replace(&path, &new, text.as_bytes())
                .map_err(|error| format!("{}: {error}", Name::from(&path)))
        };
        write(self.note(OF_JOB), 0o600, None, &text)?;
        write(self.last(), 0o644, None, &self.job.id.to_string())?;
        // Nothing that root believes is read from it.
        write(self.note(OF_USER), 0o600, Some(note.uid), &text)
    }

    /// Whether other jobs of the user are here.
    pub(super) fn has_others(&self) -> bool {
        let entries = fs::read_dir(&self.arguments.notes).into_iter().flatten();
        let of_node = format!("{}-", self.job.node);
        let is_other = |path: &PathBuf| {
            let name = path.file_stem().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(&of_node))
                && path.extension().is_some_and(|ending| ending == OF_JOB)
                && *path != self.note(OF_JOB)
        };
        let paths = entries.flatten().map(|entry| entry.path()).filter(is_other);
        paths.take(MAX_NOTES).any(|path| {
            let text = fs::read(path).unwrap_or_default();
            let note = serde_json::from_slice::<Note>(&text);
            note.is_ok_and(|note| note.uid == self.job.uid)
        })
    }
}

/// What the Prolog left for the job's user.
///
/// # Errors
///
/// There is nothing, in one line.
pub(in super::super) fn note_for_user(notes: &Path, job: &Job) -> Result<Note, String> {
    let path = notes.join(job.note(OF_USER));
    let text = fs::read(&path).map_err(|error| format!("{}: {error}", Name::from(&path)))?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

impl Job {
    /// The name of a note.
    fn note(&self, ending: &str) -> String {
        format!("{}-{}.{ending}", self.node, self.id)
    }
}

/// Makes the folder of the notes. One in which other users can write would let them choose what root
/// reads, and whose file root writes.
pub(super) fn make_closed(folder: &Path) -> Result<(), String> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o711).create(folder);
    let data = made.and_then(|()| fs::symlink_metadata(folder));
    let data = data.map_err(|error| format!("{}: {error}", Name::from(folder)))?;
    let own = data.uid() == nix::unistd::geteuid().as_raw();
    if data.is_dir() && own && data.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(format!(
        "{}: want a folder that only the user of the Prolog can write",
        Name::from(folder)
    ))
}
