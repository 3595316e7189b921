// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What each caller may read and change: the only place that checks it.
//!
//! | caller | may |
//! |---|---|
//! | any user | read its own clients, events and total; lower its own processes; claim for itself |
//! | with `CAP_PERFMON` or `CAP_SYS_ADMIN` | read everything |
//! | with `CAP_SYS_ADMIN` | change everything: settings, knobs, the hooks |
//!
//! Capabilities count in the initial user namespace. User 0 without them is a user like any
//! other. The user of a process, and of a caller, is the one that made its user namespace, if
//! a user did: `user_of` in `process.c`. A caller may lower the processes that it may `kill(2)`.

use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::uapi;
use kernel::prelude::*;

/// The clients that a caller may read about.
#[derive(Clone, Copy)]
pub(crate) struct Reader {
    /// The calling user, in the initial namespace.
    pub(crate) user: u32,
    /// It may read about all.
    pub(crate) all: bool,
}

impl Reader {
    /// The calling process. Process context.
    pub(crate) fn calling() -> Self {
        Self {
            // SAFETY: Process context.
            user: unsafe { ffi::loga_caller_user() },
            // SAFETY: Process context.
            all: unsafe { ffi::loga_caller_reads_all() },
        }
    }

    /// Whether it may read about clients of a user.
    pub(super) const fn may_see(&self, owner: u32) -> bool {
        uapi::may_see(owner, self.user, self.all)
    }
}

/// Whether the caller may change everything. Process context.
pub(super) fn may_change() -> bool {
    // SAFETY: Process context.
    unsafe { ffi::loga_caller_may_change() }
}

/// Refuses a caller that may not change everything.
///
/// # Errors
///
/// `EPERM`.
pub(super) fn require_change() -> Result {
    if may_change() {
        Ok(())
    } else {
        Err(EPERM)
    }
}

/// Whether the caller may lower the settings of a process. Process context.
pub(super) fn may_lower(process: &Process) -> bool {
    // SAFETY: Process context, and the reference that the value stands for.
    unsafe { ffi::loga_caller_may_lower(process.as_ptr()) }
}
