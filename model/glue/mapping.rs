// SPDX-License-Identifier: GPL-2.0

//! mmap and page faults, as the branches do them.
//!
//! - 470 and later: a file maps what MAP_MEMORY attached to it, offset 0, exact size; a fault
//!   refills the whole mapping (470 `nvidia/nv-mmap.c`).
//! - 340: the offset is the physical address; there is no fault handler (340 `nv-mmap.c`).

use super::opened::{self, MapTarget, Private};
use super::params::Branch;
use super::{params, stand, Stand, PAGE};
use crate::gpu::regs;
use crate::rm::submit;
use kernel::ffi::c_int;
use kernel::prelude::*;
use kernel::{bindings, pr_warn_once};

#[allow(improper_ctypes)]
extern "C" {
    fn loga_model_set_uncached(vma: *mut bindings::vm_area_struct);
    fn loga_model_is_cow(vma: *mut bindings::vm_area_struct) -> bool;
}

/// Operations that nothing changes.
#[repr(transparent)]
struct Operations(bindings::vm_operations_struct);

// SAFETY: The objects are only read; what they point at, if anything, is constant.
unsafe impl Sync for Operations {}

/// Operations of card mappings of 470 and later.
static CARD_OPERATIONS: Operations = Operations(bindings::vm_operations_struct {
    open: Some(opened),
    close: Some(closed),
    fault: Some(fault),
    access: Some(bindings::generic_access_phys),
    // SAFETY: All-zero bytes are a valid value: no functions.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
});

/// Operations of card mappings of 340.
static CARD_OPERATIONS_340: Operations = Operations(bindings::vm_operations_struct {
    open: Some(opened),
    close: Some(closed),
    access: Some(bindings::generic_access_phys),
    // SAFETY: As above.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
});

/// The real driver's operations touch `vm_private_data` here if it is set; it is not for pages of
/// the card, and a module that sets it breaks the driver.
unsafe extern "C" fn opened(vma: *mut bindings::vm_area_struct) {
    // SAFETY: The memory manager passes a valid area.
    if !unsafe { (*vma).vm_private_data }.is_null() {
        pr_warn_once!("vm_private_data of a mapping of the card was overwritten\n");
    }
}

unsafe extern "C" fn closed(vma: *mut bindings::vm_area_struct) {
    // SAFETY: As in `opened`.
    unsafe { opened(vma) };
}

/// `mmap` of all nodes.
pub unsafe extern "C" fn mmap(
    file: *mut bindings::file,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    let failure = match params::fail_mmap() {
        0 => None,
        // 470 `nv-mmap.c`: a failed state check returns a positive RM status from mmap.
        2 => Some(0x0f),
        _ => Some(ENXIO.to_errno()),
    };
    if let (Some(failure), false) = (failure, params::fail_after()) {
        return failure;
    }
    // SAFETY: The VFS holds the file during the call.
    let private = unsafe { opened::private(file) };
    let (Some(private), Some(stand)) = (private, stand()) else {
        return ENODEV.to_errno();
    };
    // SAFETY: The memory manager passes an area it is setting up, write-locked.
    let result = unsafe { map(stand, &private, vma) };
    match failure {
        Some(failure) => failure,
        None => result.map_or_else(|error| error.to_errno(), |()| 0),
    }
}

/// Start, length in bytes and page offset of an area.
///
/// # Safety
///
/// `vma` is valid.
unsafe fn extent(vma: *mut bindings::vm_area_struct) -> (usize, u64, u64) {
    // SAFETY: The caller's promise; start and end are always valid in the union.
    unsafe {
        let range = (*vma).__bindgen_anon_1.__bindgen_anon_1;
        let length = range.vm_end - range.vm_start;
        (range.vm_start, length as u64, (*vma).vm_pgoff as u64)
    }
}

/// # Safety
///
/// `vma` is being set up by mmap: it is valid and write-locked.
unsafe fn map(stand: &Stand, private: &Private, vma: *mut bindings::vm_area_struct) -> Result {
    let branch = stand.params.branch;
    // SAFETY: The caller's promise.
    let (start, length, page_offset) = unsafe { extent(vma) };
    let target = if branch == Branch::B340 {
        target_340(stand, private, page_offset << 12, length)?
    } else {
        let target = private.target.lock().clone().ok_or(EINVAL)?;
        if page_offset != 0 {
            return Err(EINVAL);
        }
        if target.length() != length {
            return Err(ENXIO);
        }
        target
    };
    match target {
        MapTarget::Memory(memory, offset, _) => {
            if branch == Branch::B340 {
                // SAFETY: The caller's promise. `remap_vmalloc_range` wants no page offset left.
                unsafe { (*vma).vm_pgoff = 0 };
            }
            // SAFETY: The caller's promise.
            unsafe { memory.map(vma, offset) }
        }
        MapTarget::Card(physical, _) => {
            let operations = match branch {
                Branch::B340 => &raw const CARD_OPERATIONS_340.0,
                Branch::B470 | Branch::B550 => &raw const CARD_OPERATIONS.0,
            };
            // SAFETY: The caller's promise; the range lies in the card's BAR1.
            let error = unsafe {
                loga_model_set_uncached(vma);
                (*vma).vm_ops = operations;
                bindings::remap_pfn_range(
                    vma,
                    start,
                    (physical >> 12) as usize,
                    length as usize,
                    (*vma).vm_page_prot,
                )
            };
            kernel::error::to_result(error)
        }
    }
}

/// What 340 finds at a physical address: USERD pages of the caller, or its system memory.
fn target_340(stand: &Stand, private: &Private, physical: u64, length: u64) -> Result<MapTarget> {
    let pid = kernel::current!().group_leader().pid();
    if private.control {
        let mut cards = stand.cards.iter();
        let memory = cards.find_map(|card| card.rm.lock().memory_at(pid, physical));
        return Ok(MapTarget::Memory(memory.ok_or(EINVAL)?, 0, length));
    }
    let card = stand.cards.get(private.gpu).ok_or(ENODEV)?;
    let rm = card.rm.lock();
    let userd = card.machine.at.bar1 + card.machine.at.userd;
    let offset = physical.checked_sub(userd).ok_or(EINVAL)?;
    let size = u64::from(regs::CHANNELS) * submit::USERD_SLOT;
    let inside = offset.checked_add(length).is_some_and(|end| end <= size);
    let pages = offset / PAGE..offset.saturating_add(length) / PAGE;
    // CAST: pages of USERD number 512.
    if !inside
        || !pages
            .into_iter()
            .all(|page| rm.owns_userd_page(pid, page as usize))
    {
        return Err(EINVAL);
    }
    Ok(MapTarget::Card(physical, length))
}

/// Refills the whole mapping, as `nvidia_fault` of 470 does.
unsafe extern "C" fn fault(vmf: *mut bindings::vm_fault) -> bindings::vm_fault_t {
    // SAFETY: The memory manager passes a valid fault whose area and file stay during the call.
    let (vma, cow) = unsafe {
        let vma = (*vmf).__bindgen_anon_1.vma;
        (vma, loga_model_is_cow(vma))
    };
    // SAFETY: As above.
    let (private, (start, length, page_offset)) =
        unsafe { (opened::private((*vma).vm_file), extent(vma)) };
    let target = private.and_then(|private| private.target.lock().clone());
    // A private writable mapping must not get pages this way: the kernel checks with BUG_ON.
    let (Some(MapTarget::Card(physical, mapped)), 0, false) = (target, page_offset, cow) else {
        return bindings::vm_fault_reason_VM_FAULT_SIGBUS;
    };
    for offset in (0..length.min(mapped)).step_by(PAGE as usize) {
        // SAFETY: The address lies inside the area, whose flags `remap_pfn_range` has set; the
        // page belongs to the card.
        let outcome = unsafe {
            bindings::vmf_insert_pfn_prot(
                vma,
                start + offset as usize,
                ((physical + offset) >> 12) as usize,
                (*vma).vm_page_prot,
            )
        };
        if outcome != bindings::vm_fault_reason_VM_FAULT_NOPAGE {
            return outcome;
        }
    }
    bindings::vm_fault_reason_VM_FAULT_NOPAGE
}
