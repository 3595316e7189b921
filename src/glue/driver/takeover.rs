// SPDX-License-Identifier: GPL-2.0

//! [glue] Mappings that the driver makes: selects those that LoGA takes over, and the process that
//! pays for each.

use super::files::FileRecord;
use super::mapping::Fresh;
use super::tracker::Tracker;
use crate::glue::gpu::absence::Away;
use crate::glue::gpu::holdings::{Claimant, Taken};
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;

/// Page size of the host.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;

impl Tracker {
    /// Makes an area that the driver is about to map inaccessible, if it may be a page whose
    /// owner is throttled or asked about each store: a store before LoGA takes the area over would
    /// pass the gate. True if it did.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, before the driver's own.
    pub(super) unsafe fn hide(
        &self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> bool {
        // SAFETY: The file is in use by the caller.
        let index = self.gpu_of_minor(unsafe { ffi::loga_file_minor(file) });
        let gpu = index.and_then(|index| self.gpu(index));
        // SAFETY: The area is under construction.
        gpu.is_some_and(|gpu| gpu.stops_stores()) && unsafe { ffi::loga_hide(vma) }
    }

    /// Checks a mapping that the driver has made, and takes it over if it maps a submission page.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, after the driver's own has set `vma` up, with the
    /// result of [`hide`](Self::hide).
    ///
    /// # Errors
    ///
    /// `EPERM` for a mapping of submission pages that no application needs; `EMFILE` for more
    /// mappings than one client may have. On a failure of LoGA the mapping stays the driver's, and
    /// is counted.
    pub(crate) unsafe fn mapped(
        &self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
        hidden: bool,
    ) -> Result {
        if hidden {
            // SAFETY: The area was hidden.
            unsafe { ffi::loga_unhide(vma) };
        }
        // SAFETY: The caller's promise.
        let taken = unsafe { self.take_over(file, vma) };
        if hidden && taken == Ok(false) {
            // SAFETY: The area is under construction, and only the driver's.
            to_result(unsafe { ffi::loga_refill(vma) })?;
        }
        taken.map(|_| ())
    }

    /// As [`mapped`](Self::mapped); returns whether LoGA took the area over.
    unsafe fn take_over(
        &self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> Result<bool> {
        // SAFETY: The caller passes an area under construction.
        let (flags, start, end) = unsafe {
            let range = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
            (
                (*vma).__bindgen_anon_2.vm_flags,
                range.vm_start,
                range.vm_end,
            )
        };
        // CAST: flags in the low 32 bits. A private mapping stays the driver's: stores through it
        // go to a copy, and do not reach the device.
        let kind = (bindings::VM_SHARED | bindings::VM_MAYWRITE) as usize;
        let is_private = flags & kind == bindings::VM_MAYWRITE as usize;
        if flags & (bindings::VM_PFNMAP as usize) == 0 || is_private {
            return Ok(false);
        }
        // SAFETY: As above, and it is a PFN mapping.
        let Some(physical) = (unsafe { first_frame(vma, start) }) else {
            return Ok(false);
        };
        let len = end.saturating_sub(start) as u64;
        let mut bound = self
            .gpus()
            .filter(|gpu| !gpu.device.is_away_for(Away::Unbound));
        let found = bound.find_map(|gpu| {
            let (page, count) = gpu.submission_pages(physical, len)?;
            Some((gpu, page, count))
        });
        let Some((gpu, page, count)) = found else {
            return Ok(false);
        };
        if !self.is_managed(file)? {
            return Ok(false);
        }
        // The driver maps the slots of one channel. A mapping of several pages could have several
        // owners.
        if count != 1 {
            return Err(EPERM);
        }
        let fresh = match self.claim(gpu, page, file) {
            Ok(Some(taken)) => taken,
            Ok(None) => return Ok(false),
            Err(error) if error == EMFILE => return Err(error),
            Err(_) => {
                gpu.mapping_unmanaged();
                return Ok(false);
            }
        };
        if !fresh.copied {
            // SAFETY: The area is under construction.
            unsafe { ffi::loga_do_not_copy(vma) };
        }
        let fresh = Fresh {
            // CAST: physical page numbers fit a word of the machine.
            first_pfn: (physical / PAGE) as usize,
            page,
            gate: fresh.gate,
            gpu: gpu.clone(),
        };
        // SAFETY: The caller's promise.
        if unsafe { fresh.wrap(file, vma) }.is_err() {
            gpu.unmapped(page);
            gpu.mapping_unmanaged();
            return Ok(false);
        }
        Ok(true)
    }

    /// Records the mapping of a page through a file. `None` while LoGA takes no new mappings.
    fn claim(&self, gpu: &Gpu, page: u16, file: *mut bindings::file) -> Result<Option<Taken>> {
        let caller = Process::of_caller()?;
        let (claimant, closed) = {
            let files = self.files.lock();
            let record = files.open.get(&(file as usize));
            (claimant(record, caller), files.closed)
        };
        if closed {
            return Ok(None);
        }
        gpu.take(page, &claimant).map(Some)
    }

    /// Whether LoGA saw the file being opened. A file that it did not see is counted, once.
    ///
    /// # Errors
    ///
    /// `EPERM` for the control node, through which submission pages are not mapped: its
    /// mappings could not be revoked one by one.
    fn is_managed(&self, file: *mut bindings::file) -> Result<bool> {
        // SAFETY: The file is in use by the caller.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let Some(index) = self.gpu_of_minor(minor) else {
            return Err(EPERM);
        };
        let record = FileRecord {
            gpu: Some(index),
            managed: false,
            opener: None,
            allocator: None,
            space: None,
        };
        let node = RBTreeNode::new(file as usize, record, GFP_KERNEL_ACCOUNT);
        let mut files = self.files.lock();
        if let Some(record) = files.open.get(&(file as usize)) {
            return Ok(record.managed);
        }
        if let Ok(node) = node {
            files.open.insert(node);
            drop(files);
            if let Some(gpu) = self.gpu(index) {
                gpu.file_unmanaged();
            }
        }
        Ok(false)
    }
}

/// The process that becomes the owner of a page mapped through a file: the one that allocates
/// through the control file whose ioctl prepared the mapping, else the one that opened the file,
/// else the caller. A process of another user than the caller's never pays for the page.
fn claimant(record: Option<&FileRecord>, caller: Process) -> Claimant {
    let user = |process: &Process| process.identity().map(|identity| identity.user);
    let own = user(&caller);
    let is_own = |process: &&Process| own.is_some() && user(process) == own;
    let allocator = record.and_then(|record| record.allocator.as_ref());
    let allocator = allocator.filter(is_own);
    let opener = record.and_then(|record| record.opener.as_ref());
    Claimant {
        proven: allocator.is_some(),
        process: allocator
            .or(opener.filter(is_own))
            .cloned()
            .unwrap_or(caller),
    }
}

/// Physical address of the first page, if the driver has filled it in.
///
/// # Safety
///
/// `vma` must be a PFN mapping under construction in `mmap`.
unsafe fn first_frame(vma: *mut bindings::vm_area_struct, address: usize) -> Option<u64> {
    let mut walk = bindings::follow_pfnmap_args {
        vma,
        address,
        ..pin_init::zeroed()
    };
    // SAFETY: The caller's promise; `mmap_lock` is held during `mmap`.
    if unsafe { bindings::follow_pfnmap_start(&raw mut walk) } != 0 {
        return None;
    }
    let frame = walk.pfn as u64;
    // SAFETY: The walk was started.
    unsafe { bindings::follow_pfnmap_end(&raw mut walk) };
    frame.checked_mul(PAGE)
}
