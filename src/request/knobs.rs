// SPDX-License-Identifier: GPL-2.0

//! [pure] Knobs that a caller turns.

use super::gpu;
use crate::account::Accounting;
use crate::engine::Config;
use crate::error::{in_range, Error};
use crate::policies::{self, PolicyKind};
use crate::share::{GroupBy, MAX_LEVELS};
use crate::uapi::{
    Configure, Refusal, ACCOUNTING_AUTO, ACCOUNTING_SPARSE, GROUP_BY_CGROUP, GROUP_BY_PROCESS,
    GROUP_BY_USER, KNOB_ACCOUNTING, KNOB_CGROUP_DEPTH, KNOB_ENFORCE, KNOB_GROUP_BY, KNOB_POLICY,
    KNOB_POLL_MS, KNOB_RANDOMIZE, KNOB_RATIO, KNOB_SCALE, MAX_CGROUP_DEPTH, REFUSED_NAME,
    SCALE_ACTIVE,
};

/// What [`Configure::mask`] may have.
const KNOB_ALL: u32 = (1 << 9) - 1;

// CAST: a small number.
const _: () = assert!(MAX_CGROUP_DEPTH as usize + 1 == MAX_LEVELS);

/// A [`Configure`] that has been checked. What is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knobs {
    /// Index of the GPU; nothing for all.
    pub gpu: Option<u32>,
    /// Who decides.
    pub policy: Option<PolicyKind>,
    /// Whether decisions are carried out.
    pub enforce: Option<bool>,
    /// Polling phase per channel or client.
    pub poll_ms: Option<u32>,
    /// Non-polling phase in polling phases.
    pub ratio: Option<u32>,
    /// Whether lengths vary.
    pub randomize: Option<bool>,
    /// Between what the GPU is divided.
    pub group_by: Option<GroupBy>,
    /// How time is accounted; nothing inside: it follows from the other knobs.
    pub accounting: Option<Option<Accounting>>,
    /// Whether phases grow with active clients, not with allocated channels.
    pub scale_active: Option<bool>,
    /// Level of groups by cgroup.
    pub cgroup_depth: Option<u32>,
}

impl Configure {
    /// Checks everything.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<Knobs, Refusal> {
        if self.mask & !KNOB_ALL != 0 || self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        if self.mask == 0 {
            return Err(Error::NothingToSet.into());
        }
        let given = |bit: u32, name: &'static str, value: u32, min: u32, max: u32| {
            if self.mask & bit == 0 {
                return Ok(None);
            }
            in_range(name, value.into(), min.into(), max.into())
                .map(|()| Some(value))
                .map_err(Refusal::from)
        };
        let switch = |bit, name, value| {
            given(bit, name, value, 0, 1).map(|knob| knob.map(|value| value == 1))
        };
        let (poll, ratio) = (Config::MAX_POLL_MS, Config::MAX_RATIO);
        let grouping = given(KNOB_GROUP_BY, "group_by", self.group_by, 0, GROUP_BY_CGROUP)?;
        let (way, most) = (self.accounting, ACCOUNTING_AUTO);
        let accounting = given(KNOB_ACCOUNTING, "accounting", way, 0, most)?;
        let scale = given(KNOB_SCALE, "scale", self.scale, 0, SCALE_ACTIVE)?;
        let (bit, depth) = (KNOB_CGROUP_DEPTH, self.cgroup_depth);
        Ok(Knobs {
            cgroup_depth: given(bit, "cgroup_depth", depth, 0, MAX_CGROUP_DEPTH)?,
            gpu: gpu(self.gpu),
            policy: self.policy()?,
            enforce: switch(KNOB_ENFORCE, "enforce", self.enforce)?,
            poll_ms: given(KNOB_POLL_MS, "poll_ms", self.poll_ms, 1, poll)?,
            ratio: given(KNOB_RATIO, "ratio", self.ratio, 1, ratio)?,
            randomize: switch(KNOB_RANDOMIZE, "randomize", self.randomize)?,
            group_by: grouping.map(group_by),
            accounting: accounting.map(|kind| match kind {
                ACCOUNTING_AUTO => None,
                ACCOUNTING_SPARSE => Some(Accounting::Sparse),
                _ => Some(Accounting::Burst),
            }),
            scale_active: scale.map(|scale| scale == SCALE_ACTIVE),
        })
    }

    fn policy(&self) -> Result<Option<PolicyKind>, Refusal> {
        if self.mask & KNOB_POLICY == 0 {
            return Ok(None);
        }
        let bad = Refusal::of(REFUSED_NAME);
        let end = self.policy.iter().position(|byte| *byte == 0).ok_or(bad)?;
        let name = core::str::from_utf8(self.policy.get(..end).ok_or(bad)?).map_err(|_| bad)?;
        Ok(Some(policies::by_name(name)?))
    }
}

const fn group_by(raw: u32) -> GroupBy {
    match raw {
        GROUP_BY_USER => GroupBy::User,
        GROUP_BY_CGROUP => GroupBy::Cgroup,
        _ => GroupBy::Process,
    }
}

/// The number of a kind of groups.
pub const fn group_by_number(kind: GroupBy) -> u32 {
    match kind {
        GroupBy::Process => GROUP_BY_PROCESS,
        GroupBy::User => GROUP_BY_USER,
        GroupBy::Cgroup => GROUP_BY_CGROUP,
    }
}
