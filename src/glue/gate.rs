// SPDX-License-Identifier: GPL-2.0

//! [glue] The gate: takes the submission pages of a client away, and gives them back.
//!
//! Revoking removes the page-table entries of every mapping of the client's
//! submission pages, in every process that shares them. The next store to such a
//! page faults; the fault handler sleeps, with no lock held, until the client is
//! released, a signal comes, or the bound on holding runs out. It then lets the
//! processor try again, and that fault is answered by the driver itself.
//!
//! Each mapping has a `vm_operations_struct` of its own, a copy of the driver's
//! with LoGA's functions in front, so that `vma->vm_ops` leads to the record
//! without touching what belongs to the driver.

use super::events;
use super::ffi;
use super::gpu::Gpu;
use super::trace;
use crate::ids::ClientId;
use crate::units::Ns;
use core::mem::offset_of;
use kernel::bindings;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::atomic::{Acquire, Atomic, Full, Relaxed, Release};
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;

/// Longest time a fault waits for a release that does not come, beyond what the last decision
/// promised.
const HOLD_GRACE: Ns = Ns::from_ms(2_000);
const NS_PER_MS: u64 = 1_000_000;

/// Where one client waits while it is held back.
#[pin_data]
pub(super) struct Gate {
    /// 1 while held back. Set with `mappings` locked, cleared by anyone.
    held: Atomic<u32>,
    /// Until when a fault may wait, in ns.
    until: Atomic<u64>,
    /// Faults that waited longer than that and let everybody pass.
    overruns: Atomic<u64>,
    /// Threads that sleep in a fault.
    sleepers: Atomic<u32>,
    #[pin]
    queue: Opaque<bindings::wait_queue_head_t>,
    #[pin]
    mappings: Mutex<KVec<MappingRef>>,
}

/// A live mapping and the file it belongs to, whose address space it is zapped through.
struct MappingRef {
    mapping: *const Mapping,
    file: *mut bindings::file,
}

// SAFETY: Both pointers stay valid while the element is in the list (see `Mapping::close`)
// and are only used with the list locked.
unsafe impl Send for MappingRef {}
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
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                held: Atomic::new(0),
                until: Atomic::new(0),
                overruns: Atomic::new(0),
                sleepers: Atomic::new(0),
                queue <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a wait queue head that is not in use yet.
                    unsafe { ffi::loga_init_waitqueue(slot) }
                }),
                mappings <- new_mutex!(KVec::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes the submission pages away. After the return no process of the client can
    /// submit before [`restore`](Self::restore). Until `until`, somebody has to decide anew.
    /// May sleep.
    pub(super) fn revoke(&self, until: Ns) {
        let mappings = self.mappings.lock();
        self.keep_shut(until);
        self.held.store(1, Release);
        for entry in mappings.iter() {
            // SAFETY: While the element is in the list its file is open, and so is the
            // address space that the file points to.
            unsafe { bindings::unmap_mapping_range((*entry.file).f_mapping, 0, 0, 1) };
        }
    }

    /// Notes that the hold was decided anew and goes on. Any context.
    pub(super) fn keep_shut(&self, until: Ns) {
        self.until
            .store(until.saturating_add(HOLD_GRACE).get(), Relaxed);
    }

    /// Lets the client submit again and wakes those who wait. Any context that may sleep.
    pub(super) fn restore(&self) {
        self.held.store(0, Release);
        // SAFETY: The queue was initialised in `new`.
        unsafe { ffi::loga_wake_all(self.queue.get()) };
    }

    /// Faults that waited past the bound; each let the client pass.
    pub(super) fn overruns(&self) -> u64 {
        self.overruns.load(Relaxed)
    }

    /// Whether a thread of the client sleeps because it is held back. Any context.
    pub(super) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Relaxed) != 0
    }

    /// Waits for the release. No lock may be held. 0 when released, `-ETIME` when everybody
    /// was let pass instead, else the caller has a signal to see to.
    fn wait(&self, user: bool) -> c_int {
        loop {
            let left = Ns::new(self.until.load(Relaxed)).saturating_sub(ffi::now());
            let left_ms = u32::try_from(left.get().div_ceil(NS_PER_MS)).unwrap_or(u32::MAX);
            // SAFETY: Queue and flag live as long as `self`; `Atomic<u32>` has the layout of
            // `u32`.
            let result = unsafe {
                ffi::loga_gate_wait(
                    self.queue.get(),
                    core::ptr::from_ref(&self.held).cast(),
                    user,
                    left_ms,
                )
            };
            if result != ETIME.to_errno() {
                return result;
            }
            // The hold may have been decided anew meanwhile.
            if left.is_zero() {
                break;
            }
        }
        // TIMEOUT: the main thread did not decide in time; no application may hang for that.
        if self.held.xchg(0, Full) == 0 {
            return 0;
        }
        self.overruns.fetch_add(1, Relaxed);
        self.restore();
        ETIME.to_errno()
    }
}

/// What a mapping of submission pages shows.
#[derive(Clone, Copy)]
pub(super) struct Pages {
    /// Physical page of the first one.
    pub(super) first_pfn: usize,
    /// First channel whose slot lies in them.
    pub(super) first_chid: u16,
    /// Number of channel slots in them.
    pub(super) slots: u16,
}

/// One mapping of submission pages: what was mapped by one `mmap`, with all parts and copies.
///
/// # Invariants
///
/// While `parts` is not 0, `gate.mappings` holds an element for it, a reference on this
/// module is held for it, and `file` is open.
#[repr(C)]
pub(super) struct Mapping {
    /// LoGA's functions; `vma->vm_ops` points here.
    ops: bindings::vm_operations_struct,
    /// The driver's functions, or null where it has none.
    driver: *const bindings::vm_operations_struct,
    /// Areas that use this record: splits, moves and forks add to it.
    parts: Atomic<i32>,
    /// Page offset of the first page at `mmap` time; survives splitting and moving.
    first_pgoff: usize,
    pages: Pages,
    client: ClientId,
    gate: Arc<Gate>,
    gpu: Arc<Gpu>,
}

/// Memory for one mapping, the element that lists it included.
pub(super) const MAPPING_BYTES: usize = size_of::<Mapping>() + size_of::<MappingRef>();

/// What [`wrap`] needs to know of a fresh mapping.
pub(super) struct Fresh {
    pub(super) pages: Pages,
    pub(super) client: ClientId,
    pub(super) gate: Arc<Gate>,
    pub(super) gpu: Arc<Gpu>,
}

/// Puts LoGA in front of a mapping that the driver has just made, and empties it: each
/// first touch then comes through the gate.
///
/// # Safety
///
/// To be called inside `mmap` of `file`, after the driver's own has set `vma` up.
///
/// # Errors
///
/// `ENOMEM`, `ENODEV` if this module is being unloaded. The area is then as the driver made it.
pub(super) unsafe fn wrap(
    file: *mut bindings::file,
    vma: *mut bindings::vm_area_struct,
    fresh: Fresh,
) -> Result {
    // SAFETY: The caller passes an area under construction, which nobody else writes to.
    let driver = unsafe { (*vma).vm_ops };
    let mut ops: bindings::vm_operations_struct = if driver.is_null() {
        pin_init::zeroed()
    } else {
        // SAFETY: A non-null `vm_ops` points to a valid structure.
        unsafe { *driver }
    };
    ops.open = Some(open);
    ops.close = Some(close);
    ops.fault = Some(fault);
    ops.map_pages = None;
    ops.access = ops.access.map(|_| access as _);

    // SAFETY: As above.
    let (start, end, first_pgoff) = unsafe {
        let range = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
        (range.vm_start, range.vm_end, (*vma).vm_pgoff)
    };
    let gate = fresh.gate.clone();
    let mapping = KBox::new(
        Mapping {
            ops,
            driver,
            parts: Atomic::new(1),
            first_pgoff,
            pages: fresh.pages,
            client: fresh.client,
            gate: fresh.gate,
            gpu: fresh.gpu,
        },
        GFP_KERNEL,
    )?;
    let mut list = gate.mappings.lock();
    list.reserve(1, GFP_KERNEL)?;
    // SAFETY: The pointer is this module's own structure.
    if !unsafe { bindings::try_module_get(crate::this_module()) } {
        return Err(ENODEV);
    }
    let mapping = KBox::into_raw(mapping);
    // INVARIANT: The element and the module reference are there, and the area holds the file.
    list.push(MappingRef { mapping, file }, GFP_KERNEL)?;
    drop(list);
    // SAFETY: `mapping` lives until the last area that points to it is closed.
    unsafe { (*vma).vm_ops = &raw const (*mapping).ops };
    // SAFETY: The area is a PFN mapping (checked by the caller) and the range is all of it.
    unsafe { bindings::zap_special_vma_range(vma, start, end.saturating_sub(start)) };
    Ok(())
}

/// # Safety
///
/// `vma` must have been set up by [`wrap`], or be a part or copy of such an area.
unsafe fn mapping_of<'a>(vma: *const bindings::vm_area_struct) -> &'a Mapping {
    const { assert!(offset_of!(Mapping, ops) == 0) };
    // SAFETY: `vm_ops` of such an area points to the first field of a `Mapping`.
    unsafe { &*(*vma).vm_ops.cast::<Mapping>() }
}

impl Mapping {
    /// The driver's functions.
    fn driver(&self) -> Option<&bindings::vm_operations_struct> {
        // SAFETY: Null, or the driver's static structure; the area's file holds the driver.
        unsafe { self.driver.as_ref() }
    }

    /// Answers a fault while the client may run.
    ///
    /// # Safety
    ///
    /// `vmf` must be a fault on an area of this mapping that is being handled.
    unsafe fn fill(&self, vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
        // SAFETY: The caller passes a fault being handled; its fields are set by the kernel.
        let (vma, address, pgoff) = unsafe {
            let cause = &(*vmf).__bindgen_anon_1;
            (cause.vma, cause.address, cause.pgoff)
        };
        if let Some(fault) = self.driver().and_then(|ops| ops.fault) {
            // SAFETY: The driver's own handler, called for its own area.
            let answer = unsafe { fault(vmf) };
            // SAFETY: `fill` runs with the fault lock held, so the area is there.
            let is_tail = unsafe { (*vma).vm_pgoff } != self.first_pgoff;
            // A driver refuses the tail of a split area, which it filled at mmap time and
            // LoGA emptied; that one is LoGA's to refill.
            if !(is_tail && answer & bindings::vm_fault_reason_VM_FAULT_SIGBUS != 0) {
                return answer;
            }
        }
        let page = pgoff.wrapping_sub(self.first_pgoff);
        // SAFETY: The page lies in the mapping, and its frame is the one the driver chose.
        unsafe { bindings::vmf_insert_pfn(vma, address, self.pages.first_pfn.wrapping_add(page)) }
    }
}

unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: Installed by `wrap` only.
    let mapping = unsafe { mapping_of(vma) };
    mapping.parts.fetch_add(1, Relaxed);
    if let Some(open) = mapping.driver().and_then(|ops| ops.open) {
        // SAFETY: The driver's own function, called for its own area.
        unsafe { open(vma) };
    }
}

unsafe extern "C" fn close(vma: *mut bindings::vm_area_struct) {
    // SAFETY: Installed by `wrap` only.
    let mapping = unsafe { mapping_of(vma) };
    if let Some(close) = mapping.driver().and_then(|ops| ops.close) {
        // SAFETY: The driver's own function, called for its own area.
        unsafe { close(vma) };
    }
    if mapping.parts.fetch_sub(1, Full) != 1 {
        return;
    }
    let record = core::ptr::from_ref(mapping);
    mapping
        .gate
        .mappings
        .lock()
        .retain(|entry| entry.mapping != record);
    mapping.gpu.unmapped(mapping.client, mapping.pages);
    // SAFETY: The last area is gone and the list forgot the record, so this is the only pointer;
    // it came from a `KBox`.
    drop(unsafe { KBox::from_raw(record.cast_mut()) });
    // SAFETY: The reference taken in `wrap`. Unloading waits for tasks that are still in here
    // (`hook::detach`).
    unsafe { bindings::module_put(crate::this_module()) };
}

unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: Installed by `wrap` only; the kernel passes a fault on such an area.
    let mapping = unsafe { mapping_of((*vmf).__bindgen_anon_1.vma) };
    {
        // Held across check and insertion, so that no entry appears behind a revocation.
        let _mappings = mapping.gate.mappings.lock();
        if mapping.gate.held.load(Acquire) == 0 {
            // SAFETY: `vmf` is a fault on an area of this mapping.
            return unsafe { mapping.fill(vmf) };
        }
    }
    // SAFETY: `vmf` is the fault being handled.
    let flags = unsafe { (*vmf).flags };
    // SAFETY: As above.
    if !unsafe { ffi::loga_fault_may_wait(vmf) } {
        return if flags & bindings::fault_flag_FAULT_FLAG_ALLOW_RETRY != 0 {
            bindings::vm_fault_reason_VM_FAULT_RETRY
        } else {
            bindings::vm_fault_reason_VM_FAULT_SIGBUS
        };
    }
    let gate = mapping.gate.clone();
    let (gpu, client) = (mapping.gpu.number(), mapping.client.get());
    // SAFETY: The handler may drop the lock (checked above); area and record are not touched
    // any more, and `gate` is held by a reference of its own.
    unsafe { ffi::loga_release_fault_lock(vmf) };
    trace::fault_wait_begin(gpu, client);
    let since = ffi::now();
    gate.sleepers.fetch_add(1, Relaxed);
    let result = gate.wait(flags & bindings::fault_flag_FAULT_FLAG_USER != 0);
    gate.sleepers.fetch_sub(1, Relaxed);
    let waited = ffi::now().saturating_sub(since);
    if result == ETIME.to_errno() {
        let reason = trace::Reason::FaultOverrun(waited);
        trace::gpu_fallback(gpu, &reason);
        events::fallback(gpu, &reason);
    }
    trace::fault_wait_end(gpu, client, waited.get(), result);
    bindings::vm_fault_reason_VM_FAULT_RETRY
}

/// Debuggers write through this without a page-table entry: not while the client is held.
unsafe extern "C" fn access(
    vma: *mut bindings::vm_area_struct,
    addr: usize,
    buf: *mut c_void,
    len: c_int,
    write: c_int,
) -> c_int {
    // SAFETY: Installed by `wrap` only.
    let mapping = unsafe { mapping_of(vma) };
    if write != 0 && mapping.gate.held.load(Acquire) != 0 {
        return EAGAIN.to_errno();
    }
    match mapping.driver().and_then(|ops| ops.access) {
        // SAFETY: The driver's own function, called for its own area.
        Some(access) => unsafe { access(vma, addr, buf, len, write) },
        None => EIO.to_errno(),
    }
}
