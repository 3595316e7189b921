// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Weights, limits and classes that a caller sets, and totals that it reads.

use super::gpu;
use crate::error::in_range;
use crate::share::{Change, Class, Kind, Setting};
use crate::uapi::{
    ReadTotals, Refusal, SetShare, ACCESS_ALLOWED, ACCESS_DENIED, ACTION_CLEAR, ACTION_SET,
    CLASS_IDLE, CLASS_NORMAL, SHARE_ACCESS, SHARE_CLASS, SHARE_LIMIT, SHARE_TARGET, SHARE_WEIGHT,
    SUBJECT_CGROUP, SUBJECT_PROCESS, SUBJECT_USER, TOTALS_RESET,
};

/// What [`SetShare::mask`] may have.
const SHARE_ALL: u32 = SHARE_WEIGHT | SHARE_LIMIT | SHARE_CLASS | SHARE_TARGET | SHARE_ACCESS;

/// The subject of a [`SetShare`], as the caller named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The process of this id, in the pid namespace of the caller.
    Process(i32),
    /// The calling process.
    Caller,
    /// The user of this id, in the user namespace of the caller.
    User(u32),
    /// The cgroup of this id.
    Cgroup(u64),
}

/// A [`SetShare`] that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRequest {
    /// Index of the GPU; nothing for all.
    pub gpu: Option<u32>,
    /// The subject.
    pub named: Named,
    /// What to set; nothing to clear.
    pub change: Option<Change>,
}

impl SetShare {
    /// Checks everything that can be checked without knowing which subjects exist.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<ShareRequest, Refusal> {
        let reserved = self.mask & !SHARE_ALL != 0 || self.reserved != 0;
        if reserved || self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        in_range("action", self.action.into(), 0, ACTION_CLEAR.into())?;
        Ok(ShareRequest {
            gpu: gpu(self.gpu),
            named: named(self.subject, self.id)?,
            change: match self.action {
                ACTION_SET => Some(self.change()?),
                _ => None,
            },
        })
    }

    fn change(&self) -> Result<Change, Refusal> {
        let given = |bit: u32, value: u32| (self.mask & bit != 0).then_some(value);
        let change = Change {
            weight: given(SHARE_WEIGHT, self.weight),
            limit: given(SHARE_LIMIT, self.limit_pct),
            class: given(SHARE_CLASS, self.class).map(class).transpose()?,
            target: given(SHARE_TARGET, self.target_pct),
            denied: given(SHARE_ACCESS, self.access).map(denied).transpose()?,
        };
        // Refuses wrong numbers before the subject is looked up.
        change.apply(&Setting::default())?;
        Ok(change)
    }
}

/// A subject as its caller named it.
pub(super) fn named(subject: u32, id: u64) -> Result<Named, Refusal> {
    let unknown = Refusal::unknown_subject(id);
    match subject {
        SUBJECT_PROCESS if id == 0 => Ok(Named::Caller),
        SUBJECT_PROCESS => i32::try_from(id).map(Named::Process).map_err(|_| unknown),
        // The largest one is no user.
        SUBJECT_USER => match u32::try_from(id) {
            Ok(user) if user != u32::MAX => Ok(Named::User(user)),
            _ => Err(unknown),
        },
        SUBJECT_CGROUP if id == 0 => Err(unknown),
        SUBJECT_CGROUP => Ok(Named::Cgroup(id)),
        other => {
            in_range("subject", other.into(), 0, SUBJECT_CGROUP.into())?;
            Err(unknown)
        }
    }
}

fn class(raw: u32) -> Result<Class, Refusal> {
    in_range("class", raw.into(), CLASS_NORMAL.into(), CLASS_IDLE.into())?;
    Ok(if raw == CLASS_IDLE {
        Class::Idle
    } else {
        Class::Normal
    })
}

fn denied(raw: u32) -> Result<bool, Refusal> {
    let (least, most) = (ACCESS_ALLOWED.into(), ACCESS_DENIED.into());
    in_range("access", raw.into(), least, most)?;
    Ok(raw == ACCESS_DENIED)
}

impl ReadTotals {
    /// Checks the fields, and returns what to read and whether to reset it.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<(Kind, bool), Refusal> {
        if self.flags & !TOTALS_RESET != 0 || self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        let (least, most) = (SUBJECT_USER.into(), SUBJECT_CGROUP.into());
        in_range("kind", self.kind.into(), least, most)?;
        let kind = match self.kind {
            SUBJECT_USER => Kind::User,
            _ => Kind::Cgroup,
        };
        Ok((kind, self.flags & TOTALS_RESET != 0))
    }
}
