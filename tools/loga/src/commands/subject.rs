// SPDX-License-Identifier: GPL-2.0

//! [tool] The process, user or cgroup that something is set for, by the options that name it.

use super::Failure;
use crate::cli::Whom;
use crate::directory::Directory;
use crate::error::Error;
use crate::names;
use loga::uapi;
use std::collections::HashMap;
use std::fmt;

/// The process, user or cgroup that something is set for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) kind: u32,
    pub(super) id: u64,
    /// As it was given.
    pub(super) name: String,
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
            name: pid.to_string(),
        }
    }

    /// The subject that options name.
    ///
    /// # Errors
    ///
    /// [`Failure::Said`] if there is none.
    pub(super) fn find(whom: &Whom, directory: &Directory) -> Result<Self, Failure> {
        let said = Failure::Said;
        match (&whom.pid, &whom.user, &whom.cgroup) {
            (Some(pid), _, _) => Ok(Self::process(*pid)),
            (_, Some(user), _) => Ok(Subject {
                kind: uapi::SUBJECT_USER,
                id: directory.user_id(user).map_err(said)?.into(),
                name: user.clone(),
            }),
            (_, _, Some(cgroup)) => Ok(Subject {
                kind: uapi::SUBJECT_CGROUP,
                id: directory.cgroup_id(cgroup).map_err(said)?,
                name: cgroup.clone(),
            }),
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
            Error::Refused(refusal) => Failure::Said(match refusal.code {
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

/// Name of a subject in a list of the kernel, if it has one.
pub(super) fn name_of(
    kind: u32,
    id: u64,
    directory: &Directory,
    paths: &HashMap<u64, String>,
) -> Option<String> {
    match kind {
        uapi::SUBJECT_USER => u32::try_from(id).ok().map(|id| directory.user(id)),
        uapi::SUBJECT_CGROUP => paths.get(&id).cloned(),
        _ => None,
    }
}
