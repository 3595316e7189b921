// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Removing the page-table entries of a page, without waiting for a lock that a tenant holds.
//!
//! The kernel's lock of the areas of a file (`i_mmap_rwsem`) has to be held for reading. A thread of
//! a tenant has it for writing whenever it maps or unmaps an area of that file, inherits no priority,
//! and may not run for seconds. No thread of LoGA that decides waits for it: if it is free, the
//! entries are removed at once; else a thread of a workqueue waits for it, one for each page, and
//! the page counts as open until that has ended. A page that is open for longer than [`BOUND`] is
//! *stuck*: it stays open alone, and is named in an event.

use crate::glue::kernel::ffi;
use crate::units::Ns;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};

/// How long a window that closes waits for its entries.
pub(in crate::glue::gpu) const BOUND: Ns = Ns::from_ms(1);
/// Between two looks whether they are gone.
const LOOK_NS: u64 = 50_000;

/// The workqueue, while the module is loaded.
pub(crate) struct Revocations(());

impl Revocations {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn begin() -> Result<Self> {
        // SAFETY: Called once, by the module's `init`.
        match unsafe { ffi::loga_start_revocations() } {
            0 => Ok(Self(())),
            _ => Err(ENOMEM),
        }
    }
}

impl Drop for Revocations {
    fn drop(&mut self) {
        // SAFETY: Made by `begin`; no page is left that could be handed to it.
        unsafe { ffi::loga_end_revocations() };
    }
}

/// What of a page a thread of the workqueue has still to remove.
pub(in crate::glue::gpu) struct Pending {
    /// Number of the last revocation that was handed over.
    wanted: Atomic<u64>,
    /// Number of the last one that has ended.
    done: Atomic<u64>,
    /// When the one that is waited for was handed over, in ns; 0 without one.
    since: Atomic<u64>,
    /// 1: the page was named.
    named: Atomic<u32>,
}

impl Pending {
    pub(in crate::glue::gpu) const fn new() -> Self {
        Self {
            wanted: Atomic::new(0),
            done: Atomic::new(0),
            since: Atomic::new(0),
            named: Atomic::new(0),
        }
    }

    /// A revocation is handed over.
    pub(in crate::glue::gpu) fn hand_over(&self) {
        self.wanted.fetch_add(1, Full);
        // Whoever was faster has noted it.
        let _ = self.since.cmpxchg(0, ffi::now().get(), Full);
    }

    /// Number of the revocations so far.
    pub(in crate::glue::gpu) fn number(&self) -> u64 {
        self.wanted.load(Acquire)
    }

    /// All revocations up to this number have ended.
    pub(in crate::glue::gpu) fn end(&self, number: u64) {
        self.done.store(number, Release);
        self.since.store(0, Release);
        if self.number() != number {
            self.since.store(ffi::now().get(), Release);
        }
    }

    /// Whether the page is open for longer than [`BOUND`], although it was to be closed.
    pub(in crate::glue::gpu) fn is_stuck(&self) -> bool {
        let since = Ns::new(self.since.load(Relaxed));
        !since.is_zero() && ffi::now().saturating_sub(since) > BOUND
    }

    /// Whether the page is stuck, and was not named yet since it is.
    pub(in crate::glue::gpu) fn is_to_be_named(&self) -> bool {
        match self.is_stuck() {
            true => self.named.xchg(1, Full) == 0,
            false => {
                self.named.store(0, Relaxed);
                false
            }
        }
    }

    /// Whether the page was stuck when that was last looked up.
    pub(in crate::glue::gpu) fn is_named(&self) -> bool {
        self.named.load(Relaxed) != 0
    }

    /// Waits until the revocations so far have ended, for [`BOUND`] at most. Whether they have.
    pub(in crate::glue::gpu) fn wait(&self) -> bool {
        let number = self.number();
        // TIMEOUT: the bound, from the first one on.
        while self.done.load(Acquire) < number {
            if self.is_stuck() {
                return false;
            }
            // SAFETY: Called with no lock held.
            unsafe { ffi::loga_thread_sleep_ns(LOOK_NS) };
        }
        true
    }
}

/// Removes all entries of the areas of a file, if nobody has its lock. Some may be left if not.
pub(in crate::glue::gpu) fn try_zap(file: *mut bindings::file) -> bool {
    // SAFETY: The caller's list holds the file open, and so the address space that it points to.
    unsafe { ffi::loga_try_zap((*file).f_mapping) }
}
