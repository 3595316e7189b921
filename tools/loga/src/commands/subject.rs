// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The process, user or cgroup that something is set for, by the options that name it.

use super::Failure;
use crate::cli::Whom;
use crate::directory::{Directory, Found};
use crate::error::Error;
use crate::names;
use crate::names::Name;
use loga::uapi;
use std::collections::BTreeSet;
use std::fmt;

/// The process, user or cgroup that something is set for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) kind: u32,
    pub(super) id: u64,
    /// As it was given, but for quotes.
    pub(super) name: Name,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", names::subject(self.kind), self.name)
    }
}

impl Subject {
    /// The process with this number.
    pub(super) fn process(pid: i32) -> Self {
        Subject {
            kind: uapi::SUBJECT_PROCESS,
            // Numbers of processes are positive.
            id: u64::from(pid.unsigned_abs()),
            name: pid.to_string().into(),
        }
    }

    /// The subject that options name.
    ///
    /// # Errors
    ///
    /// [`Failure::Text`] if there is none.
    pub(super) fn find(whom: &Whom, directory: &Directory) -> Result<Self, Failure> {
        let said = Failure::Text;
        match (&whom.pid, &whom.user, &whom.cgroup) {
            (Some(pid), _, _) => Ok(Self::process(*pid)),
            (_, Some(user), _) => {
                let (uid, name) = directory.named_user(user).map_err(said)?;
                let (kind, id) = (uapi::SUBJECT_USER, uid.into());
                Ok(Subject { kind, id, name })
            }
            (_, _, Some(cgroup)) => {
                let (id, name) = directory.named_cgroup(cgroup).map_err(said)?;
                let kind = uapi::SUBJECT_CGROUP;
                Ok(Subject { kind, id, name })
            }
            _ => Err(said("want --pid, --user or --cgroup".to_string())),
        }
    }

    /// The call that sets a spec for it.
    pub(super) fn with(&self, spec: uapi::Spec, gpu: u32) -> uapi::SetSpec {
        uapi::SetSpec {
            gpu,
            action: uapi::ACTION_SET,
            spec: uapi::Spec {
                subject: self.kind,
                id: self.id,
                ..spec
            },
            ..Default::default()
        }
    }

    /// The call that takes its spec back.
    pub(super) fn cleared(&self, gpu: u32) -> uapi::SetSpec {
        uapi::SetSpec {
            action: uapi::ACTION_CLEAR,
            ..self.with(uapi::Spec::default(), gpu)
        }
    }

    /// Adds the subject to a refusal. `list` is the command that shows what is set.
    pub(super) fn explain(&self, error: Error, list: &str) -> Failure {
        match error {
            Error::Refused(refusal) => Failure::Text(match refusal.code {
                uapi::REFUSED_UNKNOWN_SUBJECT => {
                    format!("there is no {self}: want one that exists and that you can see")
                }
                uapi::REFUSED_NOT_SET => {
                    format!("nothing is set for {self}: `{list}` says what is set")
                }
                _ => format!("{self}: {refusal}"),
            }),
            other => Failure::Device(other),
        }
    }
}

/// Names of users and cgroups that the kernel lists.
pub(super) struct Listed<'a> {
    directory: &'a Directory,
    found: Found,
}

impl<'a> Listed<'a> {
    /// Of subjects by kind and number.
    pub(super) fn of(
        directory: &'a Directory,
        subjects: impl IntoIterator<Item = (u32, u64)>,
    ) -> Self {
        let subjects = subjects.into_iter();
        let cgroups = subjects.filter(|(kind, _)| *kind == uapi::SUBJECT_CGROUP);
        let wanted: BTreeSet<u64> = cgroups.map(|(_, id)| id).collect();
        let found = match wanted.is_empty() {
            true => Found::default(),
            false => directory.cgroup_paths_of(&wanted),
        };
        Self { directory, found }
    }

    /// The name; nothing for a process, and for a cgroup without a path.
    pub(super) fn name(&self, kind: u32, id: u64) -> Option<Name> {
        match kind {
            uapi::SUBJECT_USER => u32::try_from(id).ok().map(|id| self.directory.user(id)),
            uapi::SUBJECT_CGROUP => self.found.paths.get(&id).cloned(),
            _ => None,
        }
    }

    /// What stands in a table: the name, else the number, and of a cgroup whether it was removed.
    pub(super) fn shown(&self, kind: u32, id: u64) -> String {
        match self.name(kind, id) {
            Some(name) => name.to_string(),
            None if kind == uapi::SUBJECT_CGROUP && self.found.is_gone(id) => {
                format!("removed cgroup {id}")
            }
            None => id.to_string(),
        }
    }

    /// The name of the nearest of the cgroups around a cgroup, which are in order from the root on.
    pub(super) fn nearest(&self, above: &[u64]) -> Option<Name> {
        let mut inward = above.iter().rev().filter(|id| **id != 0);
        inward.find_map(|id| self.name(uapi::SUBJECT_CGROUP, *id))
    }
}
