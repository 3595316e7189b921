// SPDX-License-Identifier: GPL-2.0

//! [glue] The gate of a page: takes a submission page away, and gives it back.
//!
//! Revoking removes the page-table entries of every mapping of the page, in every process that
//! shares them. The next store to such a page faults; the fault handler sleeps, with no lock
//! throttled, until the page is released, a signal comes, or the bound on throttling runs out. It
//! then lets the processor try again, and that fault is answered by the driver itself. A fault
//! of kernel code, which may hold any lock, never sleeps: the system call gets `EFAULT`.
//!
//! The gate belongs to the page, not to the process that mapped it: a mapping that outlives its
//! process, or the page's owner, still waits where the present owner waits.
//!
//! A gate is shut in two steps. The flag is set with the books locked, so that decisions about
//! the page follow each other in order; the entries are removed afterwards, without that lock. A
//! fault looks at the flag with `files` locked until its entry is there, and removing the
//! entries takes that lock after the flag is set: no entry appears behind a revocation.

use crate::glue::kernel::ffi;
use crate::units::Ns;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;

/// Longest time a fault waits for a release that does not come, beyond what the last decision
/// promised: a change of settings may make the period longer than it was planned.
const THROTTLE_GRACE: Ns = Ns::from_ms(250);
const NS_PER_MS: u64 = 1_000_000;

/// Where the users of one page wait while its owner is throttled.
#[pin_data]
pub(crate) struct Gate {
    /// 1 while the owner is throttled.
    shut: Atomic<u32>,
    /// Until when a fault may wait, in ns.
    until: Atomic<u64>,
    /// Number of the owner, for traces.
    client: Atomic<u64>,
    /// Threads that sleep in a fault.
    sleepers: Atomic<u32>,
    /// 1 while the main thread, or another, is to remove the entries or to wake the sleepers.
    turning: Atomic<u32>,
    #[pin]
    queue: Opaque<bindings::wait_queue_head_t>,
    #[pin]
    files: Mutex<KVec<MappedFile>>,
}

/// A file through which the page is mapped: its address space reaches all those mappings.
pub(crate) struct MappedFile {
    file: *mut bindings::file,
    mappings: u32,
}

// SAFETY: The file is open while the element is in the list (see `Mapping`), and is only used
// with the list locked.
unsafe impl Send for MappedFile {}
// SAFETY: The wait queue has a lock of its own; everything else is `Sync`.
unsafe impl Sync for Gate {}
// SAFETY: Nothing in a gate belongs to a thread.
unsafe impl Send for Gate {}

impl Gate {
    /// An open gate.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                shut: Atomic::new(0),
                until: Atomic::new(0),
                client: Atomic::new(0),
                sleepers: Atomic::new(0),
                turning: Atomic::new(0),
                queue <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                    unsafe { ffi::loga_init_waitqueue(slot) }
                }),
                files <- new_mutex!(KVec::new()),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Says whose page it is now. Any context.
    pub(super) fn set_client(&self, client: u64) {
        self.client.store(client, Relaxed);
    }

    /// From now on no fault gets an entry; until `until`, somebody has to decide anew. The
    /// entries that are there go with [`turn`](Self::turn). Any context.
    pub(crate) fn shut(&self, until: Ns) {
        self.keep_shut(until);
        self.shut.store(1, Release);
    }

    /// Notes that the decision was made anew and stands. Any context.
    pub(super) fn keep_shut(&self, until: Ns) {
        self.until
            .store(until.saturating_add(THROTTLE_GRACE).get(), Relaxed);
    }

    /// From now on faults get their entries; those that wait are woken by
    /// [`turn`](Self::turn). Any context.
    pub(crate) fn open(&self) {
        self.shut.store(0, Release);
    }

    /// Whether the entries are to be removed, or have been.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Acquire) != 0
    }

    /// Notes that [`turn`](Self::turn) is to be called. False if that is noted already.
    pub(super) fn begin_turn(&self) -> bool {
        self.turning.xchg(1, Full) == 0
    }

    /// Removes the entries if the gate is shut, wakes the sleepers if it is open: as often as
    /// one likes, in any order with other callers. May sleep; no lock of LoGA's may be held.
    pub(super) fn turn(&self) {
        // Ordered before the look at the flag: a change after that is noted anew.
        self.turning.xchg(0, Full);
        if !self.is_shut() {
            // SAFETY: The queue was initialised in `new`.
            unsafe { ffi::loga_wake_all(self.queue.get()) };
            return;
        }
        let files = self.files.lock();
        for entry in files.iter() {
            // SAFETY: While the element is in the list its file is open, and so is the
            // address space that the file points to.
            unsafe { bindings::unmap_mapping_range((*entry.file).f_mapping, 0, 0, 1) };
        }
    }

    /// Whether a thread sleeps because the owner is throttled. Any context.
    pub(super) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Relaxed) != 0
    }

    /// Number of the owner, for traces.
    pub(crate) fn client(&self) -> u64 {
        self.client.load(Relaxed)
    }

    /// Keeps revocations out while it is held.
    pub(crate) fn lock(&self) -> impl Sized + '_ {
        self.files.lock()
    }

    /// Notes a mapping through a file.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing is noted then.
    pub(crate) fn add_file(&self, file: *mut bindings::file) -> Result {
        let mut files = self.files.lock();
        match files.iter_mut().find(|entry| entry.file == file) {
            Some(entry) => entry.mappings = entry.mappings.saturating_add(1),
            None => files.push(MappedFile { file, mappings: 1 }, GFP_KERNEL_ACCOUNT)?,
        }
        Ok(())
    }

    /// Forgets a mapping through a file.
    pub(crate) fn remove_file(&self, file: *mut bindings::file) {
        let mut files = self.files.lock();
        if let Some(entry) = files.iter_mut().find(|entry| entry.file == file) {
            entry.mappings = entry.mappings.saturating_sub(1);
        }
        files.retain(|entry| entry.mappings != 0);
    }

    /// Waits for the release, in a fault of user code. No lock may be held. 0 when released,
    /// `-ETIME` when the bound was reached and the page was given back instead, else the caller
    /// has a signal to see to.
    pub(crate) fn wait(&self) -> c_int {
        self.sleepers.fetch_add(1, Relaxed);
        let result = self.wait_for_release();
        self.sleepers.fetch_sub(1, Relaxed);
        result
    }

    fn wait_for_release(&self) -> c_int {
        loop {
            let left = Ns::new(self.until.load(Relaxed)).saturating_sub(ffi::now());
            let left_ms = u32::try_from(left.get().div_ceil(NS_PER_MS)).unwrap_or(u32::MAX);
            // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of
            // `u32`.
            let result = unsafe {
                ffi::loga_gate_wait(
                    self.queue.get(),
                    core::ptr::from_ref(&self.shut).cast(),
                    left_ms,
                )
            };
            if result != ETIME.to_errno() {
                return result;
            }
            // It may have been decided anew meanwhile.
            if left.is_zero() {
                break;
            }
        }
        // TIMEOUT: the main thread did not decide in time; no application may hang for that.
        if self.shut.xchg(0, Full) == 0 {
            return 0;
        }
        self.turn();
        ETIME.to_errno()
    }
}
