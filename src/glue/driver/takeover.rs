// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Mappings that the driver makes: selects those that LoGA takes over, and the process that
//! pays for each.

use super::files::FileRecord;
use super::mapping::NewMapping;
use super::tracker::Tracker;
use crate::glue::gpu::device::absence::Away;
use crate::glue::gpu::mappings::Claimant;
use crate::glue::gpu::submission_pages::TakenPage;
use crate::glue::gpu::unmanaged::Unmanaged;
use crate::glue::gpu::{Gpu, Mapped};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::Arc;

/// Page size of the host.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;

impl Tracker {
    /// Makes an area that the driver is about to map inaccessible, if it may be a page whose
    /// owner is throttled or asked about each store: a store before LoGA takes the area over would
    /// pass the gate. An area of one page always: through a mapping that LoGA refuses, a store
    /// would be charged to nobody. True if it did.
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
        let Some(gpu) = index.and_then(|index| self.gpu(index)) else {
            return false;
        };
        // SAFETY: The area is under construction.
        let is_page = unsafe { Area::of(vma) }.len() == PAGE;
        // SAFETY: As above.
        (is_page || gpu.stops_stores()) && unsafe { ffi::loga_hide(vma) }
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
    /// mappings than one client may have; `ENFILE` for more clients than a GPU may have; `ENOMEM`
    /// if the caller's memory cgroup is full.
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

    /// As [`mapped`](Self::mapped); returns whether LoGA took the area over. Where it did not, the
    /// area is no submission page, or is counted.
    unsafe fn take_over(
        &self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> Result<bool> {
        // SAFETY: The caller passes an area under construction.
        let area = unsafe { Area::of(vma) };
        // CAST: flags in the low 32 bits. A private mapping stays the driver's: stores through it
        // go to a copy, and do not reach the device.
        let kind = (bindings::VM_SHARED | bindings::VM_MAYWRITE) as usize;
        let is_private = area.flags & kind == bindings::VM_MAYWRITE as usize;
        if area.flags & (bindings::VM_PFNMAP as usize) == 0 || is_private {
            return Ok(false);
        }
        // SAFETY: As above, and it is a PFN mapping.
        let Some(physical) = (unsafe { first_frame(vma, area.start) }) else {
            // SAFETY: The file is in use by the caller.
            let minor = unsafe { ffi::loga_file_minor(file) };
            let gpu = self.gpu_of_minor(minor).and_then(|at| self.gpu(at));
            if let Some(gpu) = gpu.filter(|_| area.len() == PAGE) {
                gpu.mapping_unmanaged(Unmanaged::Empty);
            }
            return Ok(false);
        };
        let Some((gpu, page, count)) = self.slots_at(physical, area.len()) else {
            return Ok(false);
        };
        if !self.is_managed(file)? {
            gpu.mapping_unmanaged(Unmanaged::OldFile);
            return Ok(false);
        }
        // The driver maps the slots of one channel. A mapping of several pages could have several
        // owners.
        if count != 1 {
            return Err(EPERM);
        }
        let taken = self.claim(gpu, page, file)?;
        if !taken.copied {
            // SAFETY: The area is under construction.
            unsafe { ffi::loga_do_not_copy(vma) };
        }
        let mapping = NewMapping {
            // CAST: physical page numbers fit a word of the machine.
            first_pfn: (physical / PAGE) as usize,
            page,
            gate: taken.gate,
            gpu: gpu.clone(),
        };
        // SAFETY: The caller's promise.
        let Err(error) = (unsafe { mapping.wrap(file, vma) }) else {
            return Ok(true);
        };
        // Channels of the page stay charged to its owner.
        gpu.unmapped(page);
        if error != ENODEV {
            return Err(error);
        }
        gpu.mapping_unmanaged(Unmanaged::Unloading);
        Ok(false)
    }

    /// The submission pages in a physical range: their GPU, number of the first, and count. A range
    /// that may be such pages is counted.
    fn slots_at(&self, physical: u64, len: u64) -> Option<(&Arc<Gpu>, u16, u16)> {
        let bound = |gpu: &&Arc<Gpu>| !gpu.device.is_away_for(Away::Unbound);
        for gpu in self.gpus().filter(bound) {
            match gpu.range(physical, len) {
                Mapped::Slots { first, count } => return Some((gpu, first, count)),
                Mapped::Unknown => {
                    gpu.mapping_unmanaged(Unmanaged::Blind);
                    return None;
                }
                Mapped::Other => {}
            }
        }
        None
    }

    /// Records the mapping of a page through a file. A detach that has begun gives up.
    fn claim(&self, gpu: &Gpu, page: u16, file: *mut bindings::file) -> Result<TakenPage> {
        let caller = Process::of_caller()?;
        let claimant = {
            let mut files = self.files.lock();
            files.closed = false;
            claimant(files.open.get(&(file as usize)), caller.clone())
        };
        match gpu.take(page, &claimant) {
            // It has begun to exit meanwhile. The caller has not, and is of the same user.
            Err(error) if error == ESRCH => gpu.take(
                page,
                &Claimant {
                    process: caller,
                    proven: claimant.proven,
                },
            ),
            taken => taken,
        }
    }

    /// Whether LoGA saw the file being opened. A file that it did not see is counted, once.
    ///
    /// # Errors
    ///
    /// `EPERM` for the control node, through which submission pages are not mapped: its
    /// mappings could not be revoked one by one. `ENOMEM`.
    fn is_managed(&self, file: *mut bindings::file) -> Result<bool> {
        // SAFETY: The file is in use by the caller.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let Some(index) = self.gpu_of_minor(minor) else {
            return Err(EPERM);
        };
        if let Some(record) = self.files.lock().open.get(&(file as usize)) {
            return Ok(record.managed);
        }
        let record = FileRecord {
            gpu: Some(index),
            managed: false,
            opener: None,
            allocator: None,
            space: None,
        };
        let node = RBTreeNode::new(file as usize, record, GFP_KERNEL_ACCOUNT)?;
        let mut files = self.files.lock();
        // Another thread may map it for the first time, too.
        if files.open.get(&(file as usize)).is_none() {
            files.open.insert(node);
            drop(files);
            if let Some(gpu) = self.gpu(index) {
                gpu.file_unmanaged();
            }
        }
        Ok(false)
    }
}

/// An area under construction.
struct Area {
    flags: usize,
    start: usize,
    end: usize,
}

impl Area {
    /// # Safety
    ///
    /// `vma` must be an area under construction in `mmap`.
    unsafe fn of(vma: *const bindings::vm_area_struct) -> Self {
        // SAFETY: The caller's promise: there is no other writer.
        unsafe {
            let range = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
            Self {
                flags: (*vma).__bindgen_anon_2.vm_flags,
                start: range.vm_start,
                end: range.vm_end,
            }
        }
    }

    const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start) as u64
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
