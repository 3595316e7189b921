// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Structures of the interface on their way to and from user space, and numbers in them.

use crate::engaged::{Cause, Kind, Misses, Mode, Row, Void, Waits};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{number_of, shown_uid};
use crate::share::{Class, Subject, ThrottledBy};
use crate::uapi::{self, Event, Header};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice};

/// A structure of [`uapi`] on its way to or from user space.
#[repr(transparent)]
pub(super) struct Wire<T>(pub(crate) T);

macro_rules! wire {
    ($($structure:ty),+ $(,)?) => { $(
        // SAFETY: The structures of `uapi` have no padding and no pointers.
        unsafe impl AsBytes for Wire<$structure> {}
        // SAFETY: As above, and every bit pattern is valid.
        unsafe impl FromBytes for Wire<$structure> {}
    )+ };
}

wire!(
    Header,
    uapi::Snapshot,
    uapi::Client,
    uapi::Group,
    uapi::Channel,
    uapi::SetShare,
    uapi::ListShares,
    uapi::Share,
    uapi::ReadTotals,
    uapi::Total,
    uapi::Configure,
    uapi::Subscribe,
    uapi::SetSpec,
    uapi::ListSpecs,
    uapi::ListedSpec,
    uapi::Claim,
    Event,
);

/// Writes element `at` of a table in user memory.
pub(super) fn put<T: Copy>(table: u64, at: usize, element: &T) -> Result
where
    Wire<T>: AsBytes,
{
    let offset = at.checked_mul(size_of::<T>()).ok_or(EFAULT)?;
    let address = usize::try_from(table)
        .ok()
        .and_then(|table| table.checked_add(offset))
        .ok_or(EFAULT)?;
    UserSlice::new(UserPtr::from_addr(address), size_of::<T>())
        .writer()
        .write(&Wire(*element))
}

/// What clients waited for, as the interface has it.
pub(super) fn wait_numbers(waits: &Waits) -> uapi::SubmissionWaits {
    uapi::SubmissionWaits {
        running_ns: waits.of(Cause::Running).get(),
        budget_ns: waits.of(Cause::Budget).get(),
        order_ns: waits.of(Cause::Order).get(),
        linger_ns: waits.of(Cause::Linger).get(),
    }
}

/// Deadlines that were missed, as the interface has them.
pub(super) fn miss_numbers(misses: &Misses) -> uapi::Misses {
    uapi::Misses {
        promised: misses.promised,
        own: misses.void(Void::Own),
        foreign: misses.void(Void::Foreign),
        fallback: misses.void(Void::Fallback),
        order: misses.void(Void::Order),
    }
}

/// The number of a throttle's cause in a snapshot and an event.
pub(super) const fn throttled_by_number(by: Option<ThrottledBy>) -> u32 {
    match by {
        None => uapi::THROTTLED_BY_NONE,
        Some(ThrottledBy::Policy) => uapi::THROTTLED_BY_POLICY,
        Some(ThrottledBy::Limit) => uapi::THROTTLED_BY_LIMIT,
        Some(ThrottledBy::Class) => uapi::THROTTLED_BY_CLASS,
        Some(ThrottledBy::Reserve) => uapi::THROTTLED_BY_RESERVE,
    }
}

/// Kind and number of a subject, as the caller sees it.
pub(super) fn subject_numbers(subject: Subject) -> (u32, u64) {
    match subject {
        Subject::Process(key) => (uapi::SUBJECT_PROCESS, number_of(key)),
        Subject::User(user) => (uapi::SUBJECT_USER, shown_uid(user).into()),
        Subject::Cgroup(id) => (uapi::SUBJECT_CGROUP, id),
    }
}

/// A spec as the caller sees it.
pub(super) fn spec_numbers(row: &Row) -> uapi::Spec {
    let (subject, id) = subject_numbers(row.subject);
    let terms = row.spec.reserve;
    let ns = |time: Option<Ns>| time.map_or(0, Ns::get);
    let early = terms.filter(|terms| terms.deadline < terms.period);
    uapi::Spec {
        subject,
        mode: match row.spec.mode {
            Mode::Ht => uapi::MODE_HT,
            Mode::Prt => uapi::MODE_PRT,
            Mode::Protected => uapi::MODE_PROTECTED,
        },
        id,
        prio: row
            .spec
            .prio
            .map_or(uapi::PRIO_BY_NICE, |prio| prio.get().into()),
        kind: match terms.map(|terms| terms.kind) {
            None => uapi::RESERVE_NONE,
            Some(Kind::Pe) => uapi::RESERVE_PE,
            Some(Kind::Ae) => uapi::RESERVE_AE,
            Some(Kind::Cbs) => uapi::RESERVE_CBS,
        },
        capacity_ns: ns(terms.map(|terms| terms.capacity)),
        period_ns: ns(terms.map(|terms| terms.period)),
        longest_ns: ns(terms.and_then(|terms| terms.longest)),
        deadline_ns: ns(early.map(|terms| terms.deadline)),
        // CAST: at most 10000.
        commands: terms.map_or(0, |terms| terms.commands as u32),
        flags: match terms {
            Some(terms) if !terms.hard => uapi::SPEC_SOFT,
            _ => 0,
        },
        lease_ms: row
            .until
            .map_or(0, |until| ms_left(until.saturating_sub(ffi::now()))),
        reserved: 0,
    }
}

/// What is left of a lease, in milliseconds: at least one, as it is not over.
fn ms_left(left: Ns) -> u32 {
    let ms = left.get().div_ceil(1_000_000).max(1);
    // Leases are shorter.
    u32::try_from(ms).unwrap_or(u32::MAX)
}

/// A name in a structure of the interface, cut to fit.
pub(super) fn zero_terminated<const N: usize>(name: &str) -> [u8; N] {
    let mut bytes = [0; N];
    for (to, from) in bytes.iter_mut().take(N.saturating_sub(1)).zip(name.bytes()) {
        *to = from;
    }
    bytes
}

/// The number of a class in a structure of the interface.
pub(super) const fn class_number(class: Class) -> u32 {
    match class {
        Class::Normal => uapi::CLASS_NORMAL,
        Class::Idle => uapi::CLASS_IDLE,
    }
}
