// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The subject that a caller means by the number of a process, user or cgroup.

use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::request::Named;
use crate::share::{Identity, Subject, NO_USER};
use kernel::prelude::*;

/// The subject of a setting.
pub(super) struct Chosen {
    pub(crate) subject: Subject,
    /// The process.
    pub(crate) process: Option<Process>,
    /// The identity of the process, or the place of the cgroup.
    pub(crate) within: Option<Identity>,
}

impl Chosen {
    /// Finds the subject. With `to_set` a cgroup must exist; a setting can also be cleared after
    /// its cgroup is gone.
    ///
    /// # Errors
    ///
    /// `ESRCH`.
    pub(crate) fn find(named: Named, to_set: bool) -> Result<Self> {
        let process = match named {
            Named::Caller => Process::of_caller()?,
            Named::Process(pid) => Process::find(pid)?,
            Named::User(uid) => {
                // SAFETY: Process context.
                let user = unsafe { ffi::loga_user_of(uid) };
                return match user {
                    u32::MAX => Err(ESRCH),
                    user => Ok(Self::group(Subject::User(user))),
                };
            }
            Named::Cgroup(id) => {
                let mut place = ffi::RawIdentity::default();
                // SAFETY: Process context, and a place to write to.
                let there = unsafe { ffi::loga_cgroup_place(id, &raw mut place) };
                if to_set && !there {
                    return Err(ESRCH);
                }
                return Ok(Self {
                    within: there.then_some(Identity {
                        process: 0,
                        cgroup: place.cgroup,
                        above: place.above,
                        user: NO_USER,
                    }),
                    ..Self::group(Subject::Cgroup(id))
                });
            }
        };
        let identity = process.identity().ok_or(ESRCH)?;
        Ok(Self {
            subject: Subject::Process(identity.process),
            process: Some(process),
            within: Some(identity),
        })
    }

    const fn group(subject: Subject) -> Self {
        Self {
            subject,
            process: None,
            within: None,
        }
    }

    /// Whether it is a process that has begun to exit by now.
    pub(super) fn is_gone(&self) -> bool {
        self.process
            .as_ref()
            .is_some_and(|process| process.identity().is_none())
    }
}
