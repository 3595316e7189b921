// SPDX-License-Identifier: GPL-2.0

//! [pure] Setting weights, limits and classes; totals; policy and knobs.

use super::refusal::{Refusal, REFUSED_NAME};
use super::snapshot::{
    ACCOUNTING_AUTO, ACCOUNTING_SPARSE, CLASS_IDLE, CLASS_NORMAL, GROUP_BY_CGROUP,
    GROUP_BY_PROCESS, GROUP_BY_USER, POLICY_NAME_LEN, SCALE_ACTIVE,
};
use super::ALL_GPUS;
use crate::account::Accounting;
use crate::engine::Config;
use crate::error::in_range;
use crate::policies::{self, PolicyKind};
use crate::share::{Change, Class, GroupBy, Kind, MAX_LEVELS};

/// Argument of [`super::IOC_SET_SHARE`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SetShare {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<SetShare>()`.
    pub size: u32,
    /// In: index of the GPU, or [`ALL_GPUS`]: then either all of them take it or none.
    pub gpu: u32,
    /// In: one of `ACTION_*`.
    pub action: u32,
    /// In: one of `SUBJECT_*`.
    pub subject: u32,
    /// In: for [`ACTION_SET`], bits `SHARE_*`: which of the fields below to set.
    pub mask: u32,
    /// In: process id (0: the caller) or user id in the namespaces of the caller, or the inode
    /// number of the cgroup's directory in cgroup v2.
    pub id: u64,
    /// In: weight, 1 to 10000.
    pub weight: u32,
    /// In: hard limit in percent of a GPU, 1 to 100; 100 is none.
    pub limit_pct: u32,
    /// In: one of `CLASS_*`.
    pub class: u32,
    /// In: zero.
    pub reserved: u32,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// Set the fields in `mask`.
pub const ACTION_SET: u32 = 0;
/// Forget what is set for the subject; without `CAP_SYS_ADMIN`, what its user lowered.
pub const ACTION_CLEAR: u32 = 1;

/// A process.
pub const SUBJECT_PROCESS: u32 = 0;
/// All processes of a user.
pub const SUBJECT_USER: u32 = 1;
/// All processes of a cgroup and of those below it.
pub const SUBJECT_CGROUP: u32 = 2;

/// [`SetShare::weight`] is given.
pub const SHARE_WEIGHT: u32 = 1 << 0;
/// [`SetShare::limit_pct`] is given.
pub const SHARE_LIMIT: u32 = 1 << 1;
/// [`SetShare::class`] is given.
pub const SHARE_CLASS: u32 = 1 << 2;
/// In a [`Share`]: the user of the process lowered the weight.
pub const SHARE_LOWERED_WEIGHT: u32 = 1 << 8;
/// In a [`Share`]: the user of the process lowered the limit.
pub const SHARE_LOWERED_LIMIT: u32 = 1 << 9;
/// In a [`Share`]: the user of the process set the class.
pub const SHARE_LOWERED_CLASS: u32 = 1 << 10;
const SHARE_ALL: u32 = SHARE_WEIGHT | SHARE_LIMIT | SHARE_CLASS;

/// For whom a [`SetShare`] is, as the caller named it.
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
    /// For whom.
    pub named: Named,
    /// What to set; nothing to clear.
    pub change: Option<Change>,
}

impl SetShare {
    /// Checks everything that can be checked without knowing who exists.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<ShareRequest, Refusal> {
        if self.reserved != 0 || self.mask & !SHARE_ALL != 0 || self.refusal != Refusal::default() {
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
        };
        // Says what is wrong with the numbers before anybody looks for the subject.
        change.apply(&crate::share::Setting::default())?;
        Ok(change)
    }
}

/// A subject as its caller named it.
fn named(subject: u32, id: u64) -> Result<Named, Refusal> {
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

/// Nothing for all GPUs.
const fn gpu(index: u32) -> Option<u32> {
    if index == ALL_GPUS {
        None
    } else {
        Some(index)
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

/// Argument of [`super::IOC_LIST_SHARES`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListShares {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<ListShares>()`.
    pub size: u32,
    /// In: index of the GPU.
    pub gpu: u32,
    /// In: room in `shares`, in elements. Out: how many there are.
    pub count: u32,
    /// In: address of an array of [`Share`].
    pub shares: u64,
}

/// What is set for one process, user or cgroup.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// One of `SUBJECT_*`.
    pub subject: u32,
    /// Bits `SHARE_*`: which of the fields below are set.
    pub mask: u32,
    /// As [`SetShare::id`]; 0 for a process or user that the caller's namespaces lack.
    pub id: u64,
    /// Weight.
    pub weight: u32,
    /// Hard limit in percent of a GPU.
    pub limit_pct: u32,
    /// One of `CLASS_*`.
    pub class: u32,
    /// 1 if the limit holds its processes back now.
    pub exhausted: u32,
}

/// Argument of [`super::IOC_READ_TOTALS`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadTotals {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<ReadTotals>()`.
    pub size: u32,
    /// In: index of the GPU.
    pub gpu: u32,
    /// In: bits `TOTALS_*`.
    pub flags: u32,
    /// In: [`SUBJECT_USER`] or [`SUBJECT_CGROUP`].
    pub kind: u32,
    /// In: room in `totals`, in elements. Out: how many there are; what had no room is
    /// neither copied nor reset.
    pub count: u32,
    /// In: address of an array of [`Total`].
    pub totals: u64,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// What is read begins anew. To change.
pub const TOTALS_RESET: u32 = 1 << 0;

impl ReadTotals {
    /// Checks what is in, and says what to read and whether to reset it.
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

/// What all processes of one user or cgroup got, those that exited included.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    /// User id in the namespace of the caller, or cgroup id.
    pub id: u64,
    /// [`TOTAL_OTHERS`] or zero.
    pub flags: u64,
    /// As of a client.
    pub measured_ns: u64,
    /// As of a client.
    pub gpu_time_ns: u64,
    /// As of a client.
    pub entitled_ns: u64,
    /// As of a client.
    pub waited_ns: u64,
    /// As of a client.
    pub held_ns: u64,
    /// As of a client.
    pub held_count: u64,
    /// As of a client.
    pub runs: u64,
    /// Processes that have begun to use the GPU.
    pub processes: u64,
    /// When this total began.
    pub since_ns: u64,
    /// When something was added last.
    pub last_ns: u64,
}

/// This is the total of all for whom there was no room.
pub const TOTAL_OTHERS: u64 = 1 << 0;

/// Argument of [`super::IOC_CONFIGURE`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Configure {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<Configure>()`.
    pub size: u32,
    /// In: index of the GPU, or [`ALL_GPUS`].
    pub gpu: u32,
    /// In: bits `KNOB_*`: which of the fields below to set.
    pub mask: u32,
    /// In: name of the policy, zero-terminated.
    pub policy: [u8; POLICY_NAME_LEN],
    /// In: 0 or 1.
    pub enforce: u32,
    /// In: 1 to 1000.
    pub poll_ms: u32,
    /// In: 1 to 1000.
    pub ratio: u32,
    /// In: 0 or 1.
    pub randomize: u32,
    /// In: one of `GROUP_BY_*`.
    pub group_by: u32,
    /// In: one of `ACCOUNTING_*`, [`ACCOUNTING_AUTO`] too.
    pub accounting: u32,
    /// In: one of `SCALE_*`.
    pub scale: u32,
    /// In: level of groups by cgroup, 1 for those in the root, up to [`MAX_CGROUP_DEPTH`]; 0: the
    /// nearest cgroup around a process for which a weight is set, else level 1.
    pub cgroup_depth: u32,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// [`Configure::policy`] is given.
pub const KNOB_POLICY: u32 = 1 << 0;
/// [`Configure::enforce`] is given.
pub const KNOB_ENFORCE: u32 = 1 << 1;
/// [`Configure::poll_ms`] is given.
pub const KNOB_POLL_MS: u32 = 1 << 2;
/// [`Configure::ratio`] is given.
pub const KNOB_RATIO: u32 = 1 << 3;
/// [`Configure::randomize`] is given.
pub const KNOB_RANDOMIZE: u32 = 1 << 4;
/// [`Configure::group_by`] is given.
pub const KNOB_GROUP_BY: u32 = 1 << 5;
/// [`Configure::accounting`] is given.
pub const KNOB_ACCOUNTING: u32 = 1 << 6;
/// [`Configure::scale`] is given.
pub const KNOB_SCALE: u32 = 1 << 7;
/// [`Configure::cgroup_depth`] is given.
pub const KNOB_CGROUP_DEPTH: u32 = 1 << 8;
const KNOB_ALL: u32 = (1 << 9) - 1;

/// Largest [`Configure::cgroup_depth`].
// CAST: a small number.
pub const MAX_CGROUP_DEPTH: u32 = MAX_LEVELS as u32 - 1;

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
            return Err(crate::error::Error::NothingToSet.into());
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

const _: () = assert!(size_of::<SetShare>() == 48 + 32);
const _: () = assert!(size_of::<ListShares>() == 24);
const _: () = assert!(size_of::<Share>() == 32);
const _: () = assert!(size_of::<ReadTotals>() == 32 + 32);
const _: () = assert!(size_of::<Total>() == 96);
const _: () = assert!(size_of::<Configure>() == 64 + 32);
