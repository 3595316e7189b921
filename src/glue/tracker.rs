// SPDX-License-Identifier: GPL-2.0

//! [glue] Follows the driver's files, RM calls and mappings.

use super::driver::Driver;
use super::ffi::{self, Card};
use super::files::{FileRecord, Files, Space};
use super::gpu::Gpu;
use super::holdings::{Claimant, Taken};
use super::mapping::Fresh;
use super::minors;
use super::params::{PollerKind, Settings};
use super::presence::Away;
use super::process::Process;
use super::shared_poller::SharedPoller;
use super::{bar, PAGE};
use crate::track::call::Call;
use crate::units::Ns;
use core::ptr::NonNull;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::error::to_result;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::atomic::Relaxed;
use kernel::sync::{Arc, Mutex};

/// Minor number of the control node.
const CONTROL_MINOR: u32 = 255;

/// Follows the files of one attachment.
#[pin_data]
pub(super) struct Tracker {
    gpus: Gpus,
    #[pin]
    files: Mutex<Files>,
}

/// GPUs being looked after; their threads end with it.
struct Gpus(KVec<Arc<Gpu>>, Option<Arc<SharedPoller>>);

impl Gpus {
    /// Ends all threads. May sleep.
    fn stop(&self) {
        for gpu in self.0.iter() {
            gpu.stop();
        }
        if let Some(shared) = &self.1 {
            shared.stop();
        }
    }
}

/// What `fdinfo` of a file tells.
pub(super) struct Usage {
    pub(super) address: bar::Address,
    /// Number and GPU time of the client, once the process is one.
    pub(super) client: Option<(u64, Ns)>,
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Tracker {
    /// Finds the GPUs and starts their threads. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the driver has no GPU, `EOPNOTSUPP` if LoGA follows none of them, `ENOMEM`.
    pub(super) fn start(settings: &Settings, driver: &Driver) -> Result<Arc<Self>> {
        let shared = match settings.poller {
            PollerKind::PerGpu => None,
            PollerKind::Shared => {
                let cpu = settings.poller_cpus.first().copied().flatten();
                Some(SharedPoller::start(cpu)?)
            }
        };
        let mut gpus = Gpus(KVec::new(), shared);
        let mut refused = false;
        for found in minors::numbered(bar::find_gpus(driver.owner())?, &driver.cards()) {
            let shared = gpus.1.clone();
            match Gpu::start(gpus.0.len(), found, settings, shared) {
                Ok(gpu) => gpus.0.push(gpu, GFP_KERNEL)?,
                Err(error) if error == EOPNOTSUPP => refused = true,
                Err(error) => return Err(error),
            }
        }
        if gpus.0.is_empty() {
            pr_err!("module {} drives no GPU that LoGA follows\n", driver.name());
            return Err(if refused { EOPNOTSUPP } else { ENODEV });
        }
        Arc::pin_init(
            pin_init!(Self {
                gpus,
                files <- new_mutex!(Files::new()),
            }),
            GFP_KERNEL,
        )
    }

    /// All GPUs.
    pub(super) fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus.0
    }

    /// The GPU with this index.
    pub(super) fn gpu(&self, index: usize) -> Option<&Arc<Gpu>> {
        self.gpus.0.get(index)
    }

    /// Sends GPUs away that are not bound to the driver's module.
    pub(super) fn look_who_is_bound(&self, owner: *const bindings::module) {
        for gpu in self.gpus.0.iter() {
            if !gpu.bar0.is_bound_to(owner) {
                gpu.go_away(Away::Unbound);
            }
        }
    }

    /// Takes GPUs back that the driver has again, and notes the minors that it gave them.
    pub(super) fn look_again(&self, owner: *const bindings::module, cards: &[Card]) {
        for gpu in self.gpus.0.iter() {
            if !cards.is_empty() {
                gpu.set_minor(minors::of(&gpu.address, cards));
            }
            if gpu.is_away_for(Away::Unbound) && gpu.bar0.is_bound_to(owner) {
                gpu.come_back(Away::Unbound);
                pr_info!("{}: followed again\n", gpu.address);
            }
        }
    }

    /// A processor has come back: pollers that were bound to it belong there.
    pub(super) fn cpu_came(&self, cpu: u32) {
        for gpu in self.gpus.0.iter() {
            gpu.bind_again(cpu);
        }
        if let Some(shared) = &self.gpus.1 {
            shared.bind_again(cpu);
        }
    }

    /// The GPU whose node has this minor.
    fn gpu_of_minor(&self, minor: u32) -> Option<usize> {
        let has = |gpu: &Arc<Gpu>| gpu.minor() == Some(minor);
        self.gpus.0.iter().position(has)
    }

    /// Takes new mappings again.
    pub(super) fn reopen(&self) {
        self.files.lock().closed = false;
    }

    /// Takes no new mapping any more.
    ///
    /// # Errors
    ///
    /// `EBUSY` while something of LoGA's is in use; then nothing is changed.
    pub(super) fn close(&self) -> Result {
        let mut files = self.files.lock();
        if files.adopted != 0 || self.gpus.0.iter().any(|gpu| gpu.has_mappings()) {
            return Err(EBUSY);
        }
        files.closed = true;
        Ok(())
    }

    /// Ends the threads. After this no register is read. May sleep.
    pub(super) fn stop(&self) {
        self.gpus.stop();
    }

    pub(super) fn opened(&self, file: *mut bindings::file) {
        // SAFETY: The driver's `open` has just succeeded on this file.
        let minor = unsafe { ffi::loga_file_minor(file) };
        let index = self.gpu_of_minor(minor);
        if index.is_none() && minor != CONTROL_MINOR {
            return;
        }
        // SAFETY: As above.
        let wants_space = index.is_some() && unsafe { ffi::loga_shares_inode_mapping(file) };
        let space = wants_space.then(|| Space::new().ok()).flatten();
        // A file without a record is passed through: LoGA fails open.
        let Ok(node) = RBTreeNode::new(
            file as usize,
            FileRecord {
                gpu: index,
                managed: !wants_space || space.is_some(),
                opener: Process::of_caller().ok(),
                allocator: None,
                space: None,
            },
            GFP_KERNEL_ACCOUNT,
        ) else {
            return;
        };
        // What is counted here is taken back with the record.
        if let Some(gpu) = index.and_then(|index| self.gpu(index)) {
            gpu.file_opened();
        }
        let mut files = self.files.lock();
        files.open.insert(node);
        if let Some(space) = space.filter(|_| !files.closed) {
            files.adopt(file, space);
        }
    }

    pub(super) fn closing(&self, file: *mut bindings::file) -> Option<FileRecord> {
        self.files.lock().forget(file)
    }

    /// Notes that a file is closed, after the driver has.
    pub(super) fn closed(&self, file: *mut bindings::file, record: Option<FileRecord>) {
        let Some(record) = record else {
            return;
        };
        if let Some(space) = record.space {
            // SAFETY: The file is being released: no area uses it, and nobody else can.
            unsafe { ffi::loga_return_mapping(file) };
            drop(space);
            let mut files = self.files.lock();
            files.adopted = files.adopted.saturating_sub(1);
            drop(files);
            // SAFETY: The reference from `adopt`; `detach` waits for this call to come out.
            unsafe { bindings::module_put(crate::this_module()) };
        }
        match record.gpu.and_then(|index| self.gpu(index)) {
            Some(gpu) => gpu.file_closed(record.opener.as_ref()),
            // The driver has freed the RM clients of the control file.
            None => self.note_freed(),
        }
    }

    /// What the process that opened a file of a GPU has used of that GPU.
    pub(super) fn usage(&self, file: *mut bindings::file) -> Option<Usage> {
        let files = self.files.lock();
        let record = files.open.get(&(file as usize))?;
        let gpu = self.gpu(record.gpu?)?;
        let process = record.opener.as_ref()?;
        Some(Usage {
            address: gpu.address,
            client: gpu.books.lock().used_by(process),
        })
    }

    /// Notes an RM call that the driver has answered, as its caller had asked it.
    pub(super) fn called(&self, file: *mut bindings::file, call: &Call) {
        match *call {
            Call::Alloc => {
                if let Ok(caller) = Process::of_caller() {
                    self.files.lock().note_allocator(file, caller);
                }
            }
            Call::MapMemory { fd: Some(fd) } => {
                // SAFETY: Process context. CAST: file descriptors are not negative; -1 becomes
                // one that is not open.
                let Some(prepared) = NonNull::new(unsafe { bindings::fget(fd as c_uint) }) else {
                    return;
                };
                self.files.lock().note_prepared(file, prepared.as_ptr());
                // SAFETY: The reference from `fget`.
                unsafe { bindings::fput(prepared.as_ptr()) };
            }
            Call::MapMemory { fd: None } => {}
            Call::Free => self.note_freed(),
        }
    }

    /// Channels may have been freed: their pages are read again at the next decision.
    fn note_freed(&self) {
        for gpu in self.gpus() {
            gpu.freed.store(1, Relaxed);
        }
    }

    /// Makes an area inaccessible that the driver is about to map, if it may be a page whose
    /// owner is throttled: a store in the moment before LoGA takes the area over would pass.
    /// Whether it did.
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
        gpu.is_some_and(|gpu| gpu.throttled.load(Relaxed) != 0) && unsafe { ffi::loga_hide(vma) }
    }

    /// Looks at a mapping that the driver has made, and takes it over if it is one of a
    /// submission page.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, after the driver's own has set `vma` up, with what
    /// [`hide`](Self::hide) returned.
    ///
    /// # Errors
    ///
    /// `EPERM` for a mapping of submission pages that no application needs; `EMFILE` for more
    /// mappings than one client may have. A failure of LoGA's own leaves the mapping to the
    /// driver and is counted.
    pub(super) unsafe fn mapped(
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
        if hidden && taken != Ok(true) {
            // SAFETY: The area is under construction, and the driver's alone.
            to_result(unsafe { ffi::loga_refill(vma) })?;
        }
        taken.map(|_| ())
    }

    /// As [`mapped`](Self::mapped); whether the area is LoGA's now.
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
        // CAST: flags in the low 32 bits. A private mapping is the driver's alone: what is
        // stored through it is copied, and does not reach the device.
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
        let found = self.gpus().iter().find_map(|gpu| {
            let (page, count) = gpu.submission_pages(physical, len)?;
            Some((gpu, page, count))
        });
        let Some((gpu, page, count)) = found else {
            return Ok(false);
        };
        if !self.is_managed(file)? {
            return Ok(false);
        }
        // The driver maps the slots of one channel. A mapping of several pages would be one of
        // several owners.
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

    /// Notes the mapping of a page through a file. Nothing while LoGA takes no new ones.
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

    /// Whether the file was opened under LoGA's eyes. One that was not is counted, once.
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

/// Who a mapping through a file gives its page to: the process that allocates through the
/// control file on which the driver was asked, else the one that opened the file, else the
/// caller. A process of another user than the caller's never pays for it.
fn claimant(record: Option<&FileRecord>, caller: Process) -> Claimant {
    let user = |process: &Process| process.who().map(|who| who.user);
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
