// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Mappings of submission pages, and the faults on them.
//!
//! Each mapping has a `vm_operations_struct` of its own, a copy of the driver's
//! with LoGA's functions in front, so that `vma->vm_ops` leads to the record
//! without touching what belongs to the driver.

use crate::glue::control::events;
use crate::glue::gpu::gates::gate::{Gate, MappedFile};
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::trace;
use core::mem::offset_of;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Full, Relaxed};
use kernel::sync::Arc;

/// One mapping of a submission page: what was mapped by one `mmap`, with all parts and copies.
///
/// # Invariants
///
/// While `parts` is not 0, the file is open and in `gate.files`, and a reference on this module
/// is held for the mapping.
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
    /// Physical page of the first one, as the driver mapped it.
    first_pfn: usize,
    /// Number of the submission page, see [`crate::track::pages`].
    page: u16,
    file: *mut bindings::file,
    gate: Arc<Gate>,
    gpu: Arc<Gpu>,
}

/// Memory for one mapping, including the list element of its file.
pub(crate) const MAPPING_BYTES: usize = size_of::<Mapping>() + size_of::<MappedFile>();

/// Input of [`NewMapping::wrap`]: a new mapping.
pub(super) struct NewMapping {
    /// Physical page of the first one.
    pub(super) first_pfn: usize,
    /// Number of the submission page.
    pub(crate) page: u16,
    pub(crate) gate: Arc<Gate>,
    pub(crate) gpu: Arc<Gpu>,
}

impl NewMapping {
    /// Puts LoGA in front of a mapping that the driver has just made, and empties it: each
    /// first touch then comes through the gate.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, after the driver's own has set `vma` up as a PFN
    /// mapping.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENODEV` if this module is being unloaded. The area is then as the driver made
    /// it.
    pub(super) unsafe fn wrap(
        self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> Result {
        // SAFETY: The caller passes an area under construction, which has no other writer.
        let (driver, start, end, first_pgoff) = unsafe {
            let range = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
            ((*vma).vm_ops, range.vm_start, range.vm_end, (*vma).vm_pgoff)
        };
        // SAFETY: Null, or the driver's own structure.
        let mut ops = unsafe { driver.as_ref() }.map_or_else(pin_init::zeroed, |ops| *ops);
        ops.open = Some(open);
        ops.close = Some(close);
        ops.fault = Some(fault);
        ops.pfn_mkwrite = Some(make_writable);
        // Nothing but `fault` makes entries.
        ops.map_pages = None;
        ops.huge_fault = None;
        ops.access = ops.access.map(|_| access as _);
        let mapping = KBox::new(
            Mapping {
                ops,
                driver,
                parts: Atomic::new(1),
                first_pgoff,
                first_pfn: self.first_pfn,
                page: self.page,
                file,
                gate: self.gate,
                gpu: self.gpu,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        mapping.gate.add_file(file)?;
        // SAFETY: The pointer is this module's own structure.
        if !unsafe { bindings::try_module_get(crate::this_module()) } {
            mapping.gate.remove_file(file);
            return Err(ENODEV);
        }
        // INVARIANT: Both are there, and the area holds the file.
        let mapping = KBox::into_raw(mapping);
        // SAFETY: `mapping` lives until the last area that points to it is closed.
        unsafe { (*vma).vm_ops = &raw const (*mapping).ops };
        // SAFETY: The caller's promise; the range is all of the area.
        unsafe { ffi::loga_zap(vma, start, end.saturating_sub(start)) };
        Ok(())
    }
}

/// # Safety
///
/// `vma` must have been set up by [`NewMapping::wrap`], or be a part or copy of such an area.
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

    /// Does what a fault needs before anything is decided, with no lock of LoGA's: it may wait for
    /// memory, which is charged to the caller, and for locks of the driver. The driver makes its
    /// entry, through which nobody can store (see [`open`](Self::open)); in any case the page tables
    /// are made for one. Whether the entry is still to be made; an error is the answer to the fault.
    ///
    /// # Safety
    ///
    /// `vmf` must be a fault on an area of this mapping that is being handled. `self` and the
    /// area may be gone afterwards if the answer is an error.
    unsafe fn prepare(
        &self,
        vmf: *mut bindings::vm_fault,
    ) -> core::result::Result<bool, bindings::vm_fault_t> {
        // SAFETY: The caller passes a fault being handled; its fields are set by the kernel.
        let (vma, address) = unsafe {
            let cause = &(*vmf).__bindgen_anon_1;
            (cause.vma, cause.address)
        };
        // SAFETY: The area is there until the driver drops the lock.
        let is_tail = unsafe { (*vma).vm_pgoff } != self.first_pgoff;
        let mut is_missing = true;
        if let Some(fault) = self.driver().and_then(|ops| ops.fault) {
            // SAFETY: The driver's own handler, called for its own area.
            let answer = unsafe { fault(vmf) };
            is_missing = answer != bindings::vm_fault_reason_VM_FAULT_NOPAGE;
            // A driver refuses the tail of a split area, which it filled at mmap time and
            // LoGA emptied; that one is LoGA's to refill.
            let is_refilled = is_tail && answer == bindings::vm_fault_reason_VM_FAULT_SIGBUS;
            if is_missing && !is_refilled {
                return Err(answer);
            }
        }
        // The driver may have made neither, and have the fault come again.
        // SAFETY: The page lies in the area, and its lock is held: a refusal does not drop it.
        match unsafe { ffi::loga_make_tables(vma, address) } {
            0 => Ok(is_missing),
            _ => Err(bindings::vm_fault_reason_VM_FAULT_OOM),
        }
    }

    /// Stores what a debugger writes, up to the end of a page: how much that is, or an error. Not by the
    /// driver's function, which waits for memory: the owner may be throttled between a check and the store.
    ///
    /// # Safety
    ///
    /// The address must lie in the area, which is one of this mapping and whose lock is held; the buffer
    /// must have this length.
    unsafe fn store(
        &self,
        vma: *mut bindings::vm_area_struct,
        addr: usize,
        buf: *mut c_void,
        len: c_int,
    ) -> c_int {
        // SAFETY: The area is there.
        let (start, first) = unsafe {
            (
                (*vma).__bindgen_anon_1.__bindgen_anon_1.vm_start,
                (*vma).vm_pgoff,
            )
        };
        let page = first
            .wrapping_sub(self.first_pgoff)
            .wrapping_add(addr.wrapping_sub(start) / kernel::page::PAGE_SIZE);
        let room = kernel::page::PAGE_SIZE.saturating_sub(addr % kernel::page::PAGE_SIZE);
        let len = usize::try_from(len).unwrap_or(0).min(room);
        // SAFETY: The frame is the one that the driver chose for the page.
        let frame = unsafe { ffi::loga_map_frame(self.first_pfn.wrapping_add(page)) };
        if frame.is_null() {
            return ENOMEM.to_errno();
        }
        // Held across check and store, as in `fault`.
        let kept_out = self.gate.lock_if(true);
        let stored = if self.gate.is_shut() || self.gate.wait_queue().is_some() {
            EAGAIN.to_errno()
        } else {
            // CAST: less than a page.
            // SAFETY: The frame is mapped, and the caller's promise.
            unsafe { ffi::loga_store(vma, addr, frame, buf, len as u32) }
        };
        drop(kept_out);
        // SAFETY: Mapped above.
        unsafe { ffi::loga_unmap_frame(frame) };
        stored
    }

    /// Lets the caller pass: gives the page an entry, if it `is_missing`, and lets stores through, if
    /// it is to be `writable`. Neither allocates nor sleeps. The driver may have taken its own entry
    /// away since: then the fault comes again.
    ///
    /// # Safety
    ///
    /// As [`prepare`](Self::prepare), which has answered `is_missing`; the gate must be locked.
    unsafe fn open(
        &self,
        vmf: *mut bindings::vm_fault,
        is_missing: bool,
        writable: bool,
    ) -> bindings::vm_fault_t {
        // SAFETY: The caller passes a fault being handled; its fields are set by the kernel.
        let (vma, address, pgoff) = unsafe {
            let cause = &(*vmf).__bindgen_anon_1;
            (cause.vma, cause.address, cause.pgoff)
        };
        let page = pgoff.wrapping_sub(self.first_pgoff);
        let frame = if is_missing {
            self.first_pfn.wrapping_add(page)
        } else {
            0
        };
        // SAFETY: The page lies in the mapping, and its frame is the one the driver chose.
        unsafe { ffi::loga_open_entry(vma, address, frame, writable) }
    }
}

unsafe extern "C" fn open(vma: *mut bindings::vm_area_struct) {
    // SAFETY: Installed by `wrap` only.
    let mapping = unsafe { mapping_of(vma) };
    mapping.parts.fetch_add(1, Relaxed);
    if !mapping.gpu.copied(mapping.page) {
        // SAFETY: The area is being made, by `fork` or in the caller's address space.
        unsafe { ffi::loga_copy_no_more(vma) };
    }
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
    if mapping.parts.fetch_add(-1, Full) != 1 {
        mapping.gpu.unmapped(mapping.page);
        return;
    }
    mapping.gate.remove_file(mapping.file);
    mapping.gpu.unmapped(mapping.page);
    let record = core::ptr::from_ref(mapping).cast_mut();
    // SAFETY: The last area is gone and the list forgot the file, so this is the only pointer;
    // it came from a `KBox`.
    drop(unsafe { KBox::from_raw(record) });
    // SAFETY: The reference taken in `wrap`. Unloading waits for tasks that are still in here
    // (`hook::detach`).
    unsafe { bindings::module_put(crate::this_module()) };
}

/// The page has an entry that cannot be written through: it goes, and the store faults again. To make
/// it writable here would race with a revocation, after which another thread makes the same entry.
unsafe extern "C" fn make_writable(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: Installed by `wrap` only; the kernel passes a fault on such an area.
    let (vma, address) = unsafe {
        let cause = &(*vmf).__bindgen_anon_1;
        (cause.vma, cause.address)
    };
    // SAFETY: The page lies in the area, whose lock the fault holds.
    unsafe { remove_entry(vma, address) };
    bindings::vm_fault_reason_VM_FAULT_NOPAGE
}

/// Removes the entry of the page with an address.
///
/// # Safety
///
/// The page must lie in the area, whose lock the caller holds.
unsafe fn remove_entry(vma: *mut bindings::vm_area_struct, address: usize) {
    let page = address & !(kernel::page::PAGE_SIZE.wrapping_sub(1));
    // SAFETY: The caller's promise.
    unsafe { ffi::loga_zap(vma, page, kernel::page::PAGE_SIZE) };
}

/// How long a thread sleeps that found the gate locked.
const SHORTLY_NS: u64 = 20_000;

/// How a thread waits whose store does not pass.
enum Sleep {
    /// At this wait queue, or at the gate.
    At(Option<usize>),
    /// It tries again.
    Shortly,
}

unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: Installed by `wrap` only; the kernel passes a fault on such an area.
    let mapping = unsafe { mapping_of((*vmf).__bindgen_anon_1.vma) };
    // SAFETY: `vmf` is the fault being handled.
    let flags = unsafe { (*vmf).flags };
    let stores = flags & bindings::fault_flag_FAULT_FLAG_WRITE != 0;
    // Kernel code that touches the page may hold locks that others need. No application uses
    // a submission page as a buffer.
    let may_sleep = flags & bindings::fault_flag_FAULT_FLAG_USER != 0
        // SAFETY: `vmf` is the fault being handled.
        && unsafe { ffi::loga_fault_may_wait(vmf) };
    // A reference of its own: the mapping may go with the fault lock.
    let gate = mapping.gate.clone();
    // A client that has to wait does not need the gate for that.
    let waits =
        |at: &usize| stores && may_sleep && !gate.is_shut() && mapping.gpu.engaged.queue(*at);
    let queued = gate.wait_queue().filter(waits);
    let is_missing = if queued.is_some() || gate.is_shut() {
        None
    } else {
        // SAFETY: `vmf` is a fault on an area of this mapping.
        match unsafe { mapping.prepare(vmf) } {
            Ok(is_missing) => Some(is_missing),
            Err(answer) => return answer,
        }
    };
    // Where to sleep, if it is not the gate.
    let wait_queue = if queued.is_some() {
        Sleep::At(queued)
    } else if is_missing.is_none() {
        Sleep::At(None)
    } else if let Some(_kept_out) = gate.lock_if(!may_sleep) {
        // Held across check and insertion, so that no entry that can be written through appears after a
        // revocation.
        let decides = mapping.gpu.decides(&gate, stores);
        let (passes, wait_queue) = match (gate.is_shut(), decides) {
            (true, _) => (false, None),
            (false, Some(at)) if stores => (may_sleep && mapping.gpu.enter(&gate, at), decides),
            (false, _) => (true, None),
        };
        if let Some(is_missing) = is_missing.filter(|_| passes) {
            // SAFETY: `vmf` is a fault on an area of this mapping; the gate is locked.
            return unsafe { mapping.open(vmf, is_missing, stores || decides.is_none()) };
        }
        Sleep::At(wait_queue)
    } else {
        Sleep::Shortly
    };
    if stores && is_missing == Some(false) {
        // The driver's entry, so that the store faults once when it may pass.
        // SAFETY: The area of the fault, whose lock is held.
        unsafe {
            let cause = &(*vmf).__bindgen_anon_1;
            remove_entry(cause.vma, cause.address);
        }
    }
    if !may_sleep {
        let retries =
            bindings::fault_flag_FAULT_FLAG_USER | bindings::fault_flag_FAULT_FLAG_ALLOW_RETRY;
        return if flags & retries == retries {
            bindings::vm_fault_reason_VM_FAULT_RETRY
        } else {
            bindings::vm_fault_reason_VM_FAULT_SIGBUS
        };
    }
    let gpu = mapping.gpu.clone();
    // SAFETY: The mapping holds a reference already, so this one is granted.
    unsafe { bindings::__module_get(crate::this_module()) };
    // SAFETY: The handler may drop the lock (checked above); area and record are not used any
    // more, and `gpu` and `gate` are references of their own.
    unsafe { ffi::loga_release_fault_lock(vmf) };
    match wait_queue {
        Sleep::At(wait_queue) => sleep(&gpu, &gate, wait_queue),
        // SAFETY: No lock is held.
        Sleep::Shortly => unsafe { ffi::loga_thread_sleep_ns(SHORTLY_NS) },
    }
    drop((gpu, gate));
    // SAFETY: The reference from above. Unloading waits for tasks in this function.
    unsafe { bindings::module_put(crate::this_module()) };
    bindings::vm_fault_reason_VM_FAULT_RETRY
}

/// Waits until the gate opens, or until the client may try again, and traces the wait.
fn sleep(gpu: &Gpu, gate: &Arc<Gate>, wait_queue: Option<usize>) {
    let (number, client) = (gpu.device.number(), gate.client());
    trace::fault_wait_begin(number, client);
    let since = ffi::now();
    let result = match wait_queue {
        Some(wait_queue) => {
            gate.turn_waits().begin(since);
            let result = gpu.engaged.wait(wait_queue);
            gate.turn_waits().end(ffi::now());
            result
        }
        None => gate.wait(),
    };
    let waited = ffi::now().saturating_sub(since);
    if result == ffi::TIMED_OUT {
        gpu.overruns.fetch_add(1, Relaxed);
        let reason = match wait_queue {
            Some(_) => trace::Reason::Silent(waited),
            None => trace::Reason::FaultOverrun(waited),
        };
        trace::gpu_fallback(number, &reason);
        events::fallback(number, &reason);
    }
    trace::fault_wait_end(number, client, waited.get(), result);
}

/// Debuggers read and write through this. What they write is refused while the owner is throttled, or
/// each store is decided on.
unsafe extern "C" fn access(
    vma: *mut bindings::vm_area_struct,
    addr: usize,
    buf: *mut c_void,
    len: c_int,
    write: c_int,
) -> c_int {
    // SAFETY: Installed by `wrap` only.
    let mapping = unsafe { mapping_of(vma) };
    match mapping.driver().and_then(|ops| ops.access) {
        // SAFETY: The kernel passes a buffer of this length, and an area whose lock it holds.
        Some(_) if write != 0 => unsafe { mapping.store(vma, addr, buf, len) },
        // SAFETY: The driver's own function, called for its own area.
        Some(access) => unsafe { access(vma, addr, buf, len, write) },
        None => EIO.to_errno(),
    }
}
