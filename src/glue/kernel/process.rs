// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Processes, users and cgroups: identity of a client, and how a caller sees it.

use super::ffi;
use crate::engaged::Prio;
use crate::share::{Identity, Subject};
use crate::uapi;
use crate::units::Ns;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::pid_namespace::PidNamespace;
use kernel::prelude::*;
use kernel::task::Kuid;

/// Ancestors of a process that are asked for: scripts that start scripts.
const ANCESTORS: usize = 8;

/// A reference on a thread group.
pub(crate) struct Process(NonNull<bindings::pid>);

// SAFETY: A `struct pid` may be used and put from any thread.
unsafe impl Send for Process {}

impl Process {
    /// The calling process.
    ///
    /// # Errors
    ///
    /// `ESRCH` if there is none: not in process context.
    pub(crate) fn of_caller() -> Result<Self> {
        // SAFETY: Returns the caller's thread group with a reference.
        let pid = NonNull::new(unsafe { ffi::loga_current_tgid() }).ok_or(ESRCH)?;
        Ok(Self(pid))
    }

    /// The process with this id, or with a thread of this id, in the caller's pid namespace.
    ///
    /// # Errors
    ///
    /// `ESRCH`.
    pub(crate) fn find(pid: i32) -> Result<Self> {
        // SAFETY: Process context; returns a thread group with a reference, or null.
        let pid = NonNull::new(unsafe { ffi::loga_find_tgid(pid) }).ok_or(ESRCH)?;
        Ok(Self(pid))
    }

    /// Its number in the pid namespace of the caller; 0 where it has none.
    pub(crate) fn number(&self) -> i32 {
        // SAFETY: The reference that this value stands for.
        unsafe { bindings::pid_vnr(self.0.as_ptr()) }
    }

    /// Its number in a pid namespace; 0 where it has none.
    pub(crate) fn number_in(&self, namespace: &PidNamespace) -> i32 {
        // SAFETY: The reference that this value stands for, and a namespace that exists.
        unsafe { bindings::pid_nr_ns(self.0.as_ptr(), namespace.as_ptr()) }
    }

    /// Its identity: user and cgroups; `None` once it has begun to exit.
    pub(crate) fn identity(&self) -> Option<Identity> {
        let mut identity = ffi::RawIdentity::default();
        // SAFETY: The reference that this value stands for.
        let alive = unsafe { ffi::loga_process_identity(self.0.as_ptr(), &raw mut identity) };
        alive.then_some(Identity {
            process: identity.key,
            cgroup: identity.cgroup,
            above: identity.above,
            user: identity.uid,
        })
    }

    /// Keys of the processes that it descends from, the nearest first, at most [`ANCESTORS`].
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = u64> {
        let mut keys = [0; ANCESTORS];
        // CAST: a small constant.
        let most = ANCESTORS as u32;
        // SAFETY: The reference that this value stands for, and a buffer for so many keys.
        let count =
            unsafe { ffi::loga_process_ancestors(self.0.as_ptr(), keys.as_mut_ptr(), most) };
        // CAST: at most ANCESTORS.
        keys.into_iter().take(count as usize)
    }

    /// Pointer for kernel functions; valid as long as this value.
    pub(crate) fn as_ptr(&self) -> *mut bindings::pid {
        self.0.as_ptr()
    }
}

impl Process {
    /// Name of its first thread; zeroes if it has ended.
    pub(crate) fn comm(&self) -> [u8; uapi::COMM_LEN] {
        let mut comm = [0; uapi::COMM_LEN];
        // SAFETY: The reference that this value stands for, and a buffer of the length that the
        // function fills.
        unsafe { ffi::loga_process_comm(self.0.as_ptr(), comm.as_mut_ptr()) };
        comm
    }

    /// Time that its threads were on a processor; zero once it has begun to exit.
    pub(crate) fn cpu_time(&self) -> Ns {
        // SAFETY: The reference that this value stands for.
        Ns::new(unsafe { ffi::loga_process_cpu_time(self.0.as_ptr()) })
    }

    /// Its number in the initial pid namespace.
    pub(crate) fn initial_number(&self) -> i32 {
        // SAFETY: The reference that this value stands for.
        unsafe { ffi::loga_pid_number(self.0.as_ptr()) }
    }
}

impl Clone for Process {
    fn clone(&self) -> Self {
        // SAFETY: The reference that this value stands for; the new value stands for another.
        unsafe { ffi::loga_get_pid(self.0.as_ptr()) };
        Self(self.0)
    }
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: The reference that this value stands for.
        unsafe { bindings::put_pid(self.0.as_ptr()) };
    }
}

/// Whether the process with this key has not begun to exit.
pub(crate) fn is_alive(key: u64) -> bool {
    // SAFETY: Any context that may use RCU.
    unsafe { ffi::loga_pid_of_key(key) >= 0 }
}

/// Whether something that is set for this subject can still take effect: a process has not begun to
/// exit, a cgroup is there. Users are always there.
pub(crate) fn exists(subject: Subject) -> bool {
    match subject {
        Subject::Process(key) => is_alive(key),
        Subject::User(_) => true,
        // SAFETY: Process context, or a thread of the kernel.
        Subject::Cgroup(id) => !unsafe { ffi::loga_cgroup_is_gone(id) },
    }
}

/// Number of a process in the caller's pid namespace; 0 if it has none there, or has exited.
pub(crate) fn number_of(key: u64) -> u64 {
    // SAFETY: Any context that may use RCU.
    u64::try_from(unsafe { ffi::loga_pid_of_key(key) }).unwrap_or(0)
}

/// A user id as the caller's user namespace shows it.
pub(crate) fn shown_uid(user: u32) -> u32 {
    Kuid::from_raw(bindings::kuid_t { val: user }).into_uid_in_current_ns()
}

/// The cgroup of a process as the caller's cgroup namespace shows it: 0 for one outside. `root`
/// is the root of that namespace.
pub(crate) fn shown_cgroup(identity: &Identity, root: u64) -> u64 {
    if identity.is_in(root) {
        identity.cgroup
    } else {
        0
    }
}

/// The root of the caller's cgroup namespace. Process context.
pub(crate) fn cgroup_root() -> u64 {
    // SAFETY: Process context.
    unsafe { ffi::loga_caller_cgroup_root() }
}

/// The priority of the calling thread: 19 minus its nice value. Any context of a process.
pub(crate) fn caller_prio() -> Prio {
    // SAFETY: Without conditions.
    let nice = unsafe { ffi::loga_caller_nice() };
    let prio = u32::try_from(19_i32.saturating_sub(nice)).unwrap_or(0);
    Prio::new(prio).unwrap_or(Prio::LOWEST)
}
