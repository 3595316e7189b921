// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The gate of a page: takes a submission page away, and gives it back.
//!
//! Revoking removes the page-table entries of every mapping of the page, in every process that
//! shares them. The next store to such a page faults; the fault handler sleeps, with no lock
//! held, until the page is released, a signal comes, or the bound on throttling runs out. The
//! processor then retries the store, and the driver itself answers that fault. A fault of kernel
//! code, which may hold any lock, never sleeps: the system call gets `EFAULT`.
//!
//! The gate belongs to the page, not to the process that mapped it: threads with a mapping that
//! outlives its process, or the page's owner, wait at the gate of the present owner.
//!
//! A gate is shut in two steps. The flag is set with the books locked, which orders decisions
//! about the page; the entries are removed afterwards, without that lock. The tables for an entry,
//! and the driver's entry, which loads can use only, are made without any lock. Then a fault checks
//! the flag and lets stores through under the lock of `files`, and removing the entries takes that
//! lock after the flag is set: no entry that can be written through appears after a revocation.

use super::revocation::{try_zap, Pending};
use super::turn_waits::TurnWaits;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::{new_pi_mutex, PiMutex};
use crate::glue::kernel::process::Process;
use crate::glue::kernel::store_queue::{apart, StoreQueue, Whom};
use crate::ids::Chid;
use crate::track::pages::{self, SLOTS};
use crate::units::Ns;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::Arc;
use kernel::workqueue::{impl_has_work, new_work, Queue, Work, WorkItem};

/// Time that a fault waits for a late release, beyond what the last decision promised: a change of
/// settings may make the period longer than planned.
const THROTTLE_GRACE: Ns = Ns::from_ms(250);
/// Elements that a list of files has room for at first.
const FIRST_FILES: usize = 4;
/// TIMEOUT: other threads may use up the room while it is made; this bounds the retries.
const TRIES: usize = 8;
/// The owner's submissions are not decided on.
const NO_QUEUE: u32 = u32::MAX;
/// What is known of the channels of a page, below the number of times that it was doubted.
const KINDS: u64 = 3;
/// Nothing: the page has none, or they were not read.
const UNKNOWN: u64 = 0;
/// One computes at least.
const COMPUTES: u64 = 1;
/// All of them copy.
const COPIES: u64 = 2;
/// Doubted once more.
const DOUBT: u64 = KINDS + 1;

/// A page of submission slots.
pub(crate) type Page = pages::Page<Arc<Gate>>;

/// Where threads that touch one page wait while its owner is throttled.
#[pin_data]
pub(crate) struct Gate {
    /// 1 while the owner is throttled.
    shut: Atomic<u32>,
    /// Until when a fault may wait, in ns.
    until: Atomic<u64>,
    /// Number of the owner, for traces.
    client: Atomic<u64>,
    /// 1 while a call of [`apply`](Self::apply) is pending.
    updating: Atomic<u32>,
    /// Number of the page.
    page: u16,
    /// What is known of its channels, see [`KINDS`].
    kinds: Atomic<u64>,
    /// Wait queue of the owner in [`Engaged`](crate::glue::engaged::scheduler::Engaged), or
    /// [`NO_QUEUE`].
    wait_queue: Atomic<u32>,
    /// What the policy has to know of waits there.
    turn_waits: TurnWaits,
    #[pin]
    queue: StoreQueue,
    /// What of the entries a thread of the workqueue has still to remove.
    pending: Pending,
    #[pin]
    work: Work<Gate>,
    #[pin]
    files: PiMutex<KVec<MappedFile>>,
}

impl_has_work! {
    impl HasWork<Self> for Gate { self.work }
}

/// A file through which the page is mapped: its address space reaches all those mappings.
pub(crate) struct MappedFile {
    file: *mut bindings::file,
    mappings: u32,
    /// Number of the last revocation of the workqueue that has come to it.
    revoked: u64,
}

// SAFETY: The file is open while the element is in the list (see `Mapping`), and is only used
// with the list locked.
unsafe impl Send for MappedFile {}

impl WorkItem for Gate {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.revoke_patiently();
    }
}

impl Gate {
    /// An open gate, of the page with this number. Its memory is charged to nobody: a GPU has at
    /// most [`MAX_PAGES`](crate::track::pages::MAX_PAGES) of them, and one thread makes one at a
    /// time.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(page: u16) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                shut: Atomic::new(0),
                until: Atomic::new(0),
                client: Atomic::new(0),
                updating: Atomic::new(0),
                page,
                kinds: Atomic::new(UNKNOWN),
                wait_queue: Atomic::new(NO_QUEUE),
                turn_waits: TurnWaits::new(),
                queue <- StoreQueue::new(),
                pending: Pending::new(),
                work <- new_work!("loga_revoke"),
                files <- new_pi_mutex!(KVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the number of the page's owner. Any context.
    pub(in crate::glue::gpu) fn set_client(&self, client: u64) {
        self.client.store(client, Relaxed);
    }

    /// Sets the wait queue of the page's owner. [`apply`](Self::apply) removes the existing
    /// entries. Any context.
    pub(crate) fn set_wait_queue(&self, wait_queue: Option<usize>) {
        let wait_queue = wait_queue.and_then(|wait_queue| u32::try_from(wait_queue).ok());
        self.wait_queue
            .store(wait_queue.unwrap_or(NO_QUEUE), Release);
    }

    /// What is known of its channels, for [`set_kinds`](Self::set_kinds): to be read before them.
    pub(in crate::glue::gpu) fn kinds(&self) -> u64 {
        self.kinds.load(Acquire)
    }

    /// Sets which slots have a channel, and which of these one that computes, as read after `before`;
    /// without effect if that was doubted or set since. Any context.
    pub(in crate::glue::gpu) fn set_kinds(&self, before: u64, live: u8, computes: u8) {
        let kinds = match (live, computes) {
            (0, _) => UNKNOWN,
            (_, 0) => COPIES,
            _ => COMPUTES,
        };
        // Whoever was faster has read it as well, or doubts it.
        let _ = self.kinds.cmpxchg(before, before & !KINDS | kinds, Full);
    }

    /// A channel may have been allocated in the page. True if all that it has were known to copy:
    /// [`apply`](Self::apply) removes the existing entries. Any context.
    pub(in crate::glue::gpu) fn doubt(&self) -> bool {
        let mut before = self.kinds();
        // TIMEOUT: each pass but the last, others have set it.
        while before & KINDS != COMPUTES {
            let doubted = (before & !KINDS).wrapping_add(DOUBT);
            match self.kinds.cmpxchg(before, doubted, Full) {
                Ok(_) => return before & KINDS == COPIES,
                Err(other) => before = other,
            }
        }
        false
    }

    /// Whether it is not known what its channels do. Any context.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.kinds() & KINDS == UNKNOWN
    }

    /// Whether one of its channels is known to compute. Any context.
    pub(crate) fn computes(&self) -> bool {
        self.kinds() & KINDS == COMPUTES
    }

    /// The wait queue of the owner, if its stores are decided on. Those to a page of which all
    /// channels are known to copy are not: they do not wait for kernels.
    pub(crate) fn wait_queue(&self) -> Option<usize> {
        let wait_queue = self.wait_queue.load(Acquire);
        let copies = self.kinds() & KINDS == COPIES;
        (wait_queue != NO_QUEUE && !copies).then_some(wait_queue as usize)
    }

    /// How long threads wait for their turn to store to the page.
    pub(crate) const fn turn_waits(&self) -> &TurnWaits {
        &self.turn_waits
    }

    /// Number of the page.
    pub(in crate::glue::gpu) const fn page(&self) -> u16 {
        self.page
    }

    /// The channels that the page can have, each with its slot: those that are allocated after it was
    /// mapped are submitted to through the same entries.
    pub(crate) fn channels(&self) -> impl Iterator<Item = (usize, Chid)> {
        let page = self.page;
        // CAST (both): eight.
        (0..SLOTS as u16).filter_map(move |slot| {
            let first = page.checked_mul(SLOTS as u16)?;
            Some((slot.into(), Chid::new(first.checked_add(slot)?)?))
        })
    }

    /// From now on no fault gets an entry. The main thread has to decide again by `until`.
    /// [`apply`](Self::apply) removes the existing entries. Any context.
    pub(crate) fn shut(&self, until: Ns) {
        self.keep_shut(until);
        self.shut.store(1, Release);
    }

    /// Extends the time: the next decision left the gate shut. Any context.
    pub(in crate::glue::gpu) fn keep_shut(&self, until: Ns) {
        self.until
            .store(until.saturating_add(THROTTLE_GRACE).get(), Relaxed);
    }

    /// From now on faults get their entries; [`apply`](Self::apply) wakes those that wait. Any
    /// context.
    pub(crate) fn open(&self) {
        self.shut.store(0, Release);
    }

    /// Whether the gate is shut; its entries may still be there.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut.load(Acquire) != 0
    }

    /// Marks a pending call of [`apply`](Self::apply). False if it is marked already.
    pub(in crate::glue::gpu) fn begin_update(&self) -> bool {
        self.updating.xchg(1, Full) == 0
    }

    /// Removes the entries if the gate is shut or each store is decided on, and wakes the sleepers
    /// if it is open. Idempotent, and callable by several threads. May sleep; no lock of LoGA's may
    /// be held.
    pub(in crate::glue::gpu) fn apply(self: &Arc<Self>) {
        // Ordered before reading the flag: a later change marks another call.
        self.updating.xchg(0, Full);
        if !self.is_shut() {
            self.queue.wake(Whom::All);
            if self.wait_queue().is_none() {
                return;
            }
        }
        self.revoke();
    }

    /// Removes the entries: at once, unless that needs a lock which somebody has; a thread of the
    /// workqueue waits for that one. Whether they are gone. May sleep; no lock of LoGA's may be held.
    fn revoke(self: &Arc<Self>) -> bool {
        let files = self.files.lock();
        let left = files.iter().filter(|entry| !try_zap(entry.file)).count();
        drop(files);
        if left == 0 {
            return true;
        }
        self.pending.hand_over();
        // SAFETY: The workqueue is there while the module is loaded.
        let queue = unsafe { Queue::from_raw(ffi::loga_revocations()) };
        // A call that is queued already removes them too.
        let _ = queue.enqueue::<Arc<Self>, 0>(self.clone());
        false
    }

    /// Removes the entries, and waits until they are gone, for a millisecond at most: whether they are.
    /// May sleep; no lock of LoGA's may be held.
    pub(crate) fn revoke_in_time(self: &Arc<Self>) -> bool {
        self.revoke() || self.pending.wait()
    }

    /// Waits until the entries that were to be removed so far are gone, as
    /// [`revoke_in_time`](Self::revoke_in_time).
    pub(in crate::glue::gpu) fn settle(&self) -> bool {
        self.pending.wait()
    }

    /// Whether the page stays open although it was to be closed. Any context.
    pub(in crate::glue::gpu) fn is_stuck(&self) -> bool {
        self.pending.is_stuck()
    }

    /// Whether it is stuck, or was at the last decision. Any context.
    pub(crate) fn stays_open(&self) -> bool {
        self.pending.is_stuck() || self.pending.is_named()
    }

    /// Whether that is to be told: once.
    pub(in crate::glue::gpu) fn is_to_be_named(&self) -> bool {
        self.pending.is_to_be_named()
    }

    /// Removes the entries, and waits for whatever lock that needs. Called by a thread of the
    /// workqueue.
    fn revoke_patiently(&self) {
        let number = self.pending.number();
        // TIMEOUT: each pass marks an element of the list.
        while let Some(file) = self.next_file(number) {
            // SAFETY: The reference from `next_file` keeps the file open, and its address space.
            unsafe { bindings::unmap_mapping_range((*file).f_mapping, 0, 0, 1) };
            // SAFETY: The same reference.
            unsafe { bindings::fput(file) };
        }
        self.pending.end(number);
    }

    /// The next file whose entries a revocation has to remove, with a reference: the list is not
    /// locked while its lock is waited for.
    fn next_file(&self, number: u64) -> Option<*mut bindings::file> {
        let mut files = self.files.lock();
        let entry = files.iter_mut().find(|entry| entry.revoked != number)?;
        entry.revoked = number;
        // SAFETY: While the element is in the list its file is open.
        Some(unsafe { ffi::loga_hold_file(entry.file) })
    }

    /// Whether a thread sleeps at the gate, or waits for its turn. Any context.
    pub(in crate::glue::gpu) fn has_sleepers(&self) -> bool {
        self.queue.sleepers() != 0 || self.turn_waits.any()
    }

    /// Number of the owner, for traces.
    pub(crate) fn client(&self) -> u64 {
        self.client.load(Relaxed)
    }

    /// Number of a living process that has the page mapped, in the caller's pid namespace: this one,
    /// or any. May sleep.
    pub(in crate::glue::gpu) fn user(&self, wanted: Option<&Process>) -> Option<i32> {
        let wanted = wanted.map_or(core::ptr::null(), |process| process.as_ptr().cast_const());
        let files = self.files.lock();
        // SAFETY: While the element is in the list its file is open; null, or a process.
        let user = |entry: &MappedFile| unsafe { ffi::loga_file_user(entry.file, wanted) };
        files.iter().map(user).find(|number| *number != 0)
    }

    /// Blocks revocations while the guard lives, which must neither allocate nor wait for the driver.
    /// Unless `patient`, only if nobody has it locked: threads that fault and can try again do not
    /// queue before a revocation.
    pub(crate) fn lock_if(&self, patient: bool) -> Option<impl Sized + '_> {
        let locked = self.files.try_lock();
        locked.or_else(|| patient.then(|| self.files.lock()))
    }

    /// Adds a mapping through a file. May sleep; memory is charged to the caller.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; nothing has changed then.
    pub(crate) fn add_file(&self, file: *mut bindings::file) -> Result {
        // Allocated and freed without the lock, for which revocations and faults wait.
        let mut room = KVec::<MappedFile>::new();
        for _ in 0..TRIES {
            let mut files = self.files.lock();
            if let Some(entry) = files.iter_mut().find(|entry| entry.file == file) {
                entry.mappings = entry.mappings.saturating_add(1);
                return Ok(());
            }
            let count = files.len();
            if count == files.capacity() && count < room.capacity() {
                core::mem::swap(&mut *files, &mut room);
                for entry in room.drain_all() {
                    // There is room: checked above.
                    let _ = files.push_within_capacity(entry);
                }
            }
            if count < files.capacity() {
                // There is room: checked above.
                let _ = files.push_within_capacity(MappedFile {
                    file,
                    mappings: 1,
                    revoked: 0,
                });
                return Ok(());
            }
            drop(files);
            let wanted = count.saturating_mul(2).max(FIRST_FILES);
            room = KVec::with_capacity(wanted, GFP_KERNEL_ACCOUNT)?;
        }
        Err(ENOMEM)
    }

    /// Removes a mapping through a file.
    pub(crate) fn remove_file(&self, file: *mut bindings::file) {
        let mut files = self.files.lock();
        if let Some(entry) = files.iter_mut().find(|entry| entry.file == file) {
            entry.mappings = entry.mappings.saturating_sub(1);
        }
        files.retain(|entry| entry.mappings != 0);
    }

    /// Waits for the release, in a fault of user code. No lock may be held. 0 when released,
    /// `-ETIME` when the bound was reached and the gate was opened for it, else a signal is
    /// pending.
    pub(crate) fn wait(self: &Arc<Self>) -> c_int {
        let longer = apart(self.queue.sleepers());
        loop {
            let until = Ns::new(self.until.load(Relaxed)).saturating_add(longer);
            let left = until.saturating_sub(ffi::now());
            let result = self.queue.wait(&self.shut, left);
            if result != ffi::TIMED_OUT {
                return result;
            }
            // A newer decision may have extended the time.
            if left.is_zero() {
                break;
            }
        }
        // TIMEOUT: the main thread did not decide in time; no application may hang because of it.
        if self.shut.xchg(0, Full) == 0 {
            return 0;
        }
        self.apply();
        ffi::TIMED_OUT
    }
}
