// SPDX-License-Identifier: GPL-2.0

//! [glue] Follows the driver's files, RM calls and mappings.

use super::books::Handles;
use super::files::{current_tgid, Announced, FileRecord, Files};
use super::gate::{self, Pages};
use super::gpu::Gpu;
use super::members::read_call;
use super::params::{PollerKind, Settings};
use super::process::Process;
use super::shared_poller::SharedPoller;
use super::{bar, ffi, PAGE};
use crate::track::rm;
use crate::units::Ns;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::RBTreeNode;
use kernel::sync::{Arc, Mutex};

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
    /// `ENODEV` without a GPU, `EOPNOTSUPP` for a chip that LoGA does not know, `ENOMEM`.
    pub(super) fn start(settings: &Settings) -> Result<Arc<Self>> {
        let shared = match settings.poller {
            PollerKind::PerGpu => None,
            PollerKind::Shared => {
                let cpu = settings.poller_cpus.first().copied().flatten();
                Some(SharedPoller::start(cpu)?)
            }
        };
        let mut gpus = Gpus(KVec::new(), shared);
        for (index, found) in bar::find_gpus()?.into_iter().enumerate() {
            let shared = gpus.1.clone();
            let gpu = Gpu::start(index, found, settings, shared)?;
            gpus.0.push(gpu, GFP_KERNEL)?;
        }
        if gpus.0.is_empty() {
            pr_err!("no NVIDIA GPU on the PCI bus\n");
            return Err(ENODEV);
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
        // SAFETY: (both) the driver's `open` has just succeeded on this file.
        let minor = unsafe { ffi::loga_file_minor(file) } as usize;
        let Some(gpu) = self.gpus.0.get(minor) else {
            return;
        };
        gpu.file_opened();
        // A file without a record is passed through: LoGA fails open.
        let Ok(node) = RBTreeNode::new(
            file as usize,
            FileRecord {
                gpu: minor,
                managed: true,
                process: Process::of_caller().ok(),
                space: None,
            },
            GFP_KERNEL,
        ) else {
            return;
        };
        let mut files = self.files.lock();
        files.open.insert(node);
        // SAFETY: As above.
        if unsafe { ffi::loga_shares_inode_mapping(file) } && !files.closed {
            files.adopt(file);
        }
    }

    pub(super) fn closing(&self, file: *mut bindings::file) -> Option<FileRecord> {
        for gpu in self.gpus.0.iter() {
            gpu.rm_closed(file as usize);
        }
        self.files.lock().forget(file)
    }

    pub(super) fn closed(&self, file: *mut bindings::file, record: FileRecord) {
        if let Some(space) = record.space {
            // SAFETY: The file is being released: no area uses it, and nobody else can.
            unsafe { ffi::loga_return_mapping(file) };
            drop(space);
            self.files.lock().adopted -= 1;
            // SAFETY: The reference from `adopt`; `detach` waits for this call to come out.
            unsafe { bindings::module_put(crate::this_module()) };
        }
        if let Some(gpu) = self.gpus.0.get(record.gpu) {
            gpu.file_closed();
        }
    }

    /// What the process that opened a file of a GPU has used of that GPU.
    pub(super) fn usage(&self, file: *mut bindings::file) -> Option<Usage> {
        let files = self.files.lock();
        let record = files.open.get(&(file as usize))?;
        let gpu = self.gpus.0.get(record.gpu)?;
        let process = record.process.as_ref()?;
        Some(Usage {
            address: gpu.address,
            client: gpu.books.lock().used_by(process),
        })
    }

    /// Looks at an RM call that the driver has answered.
    pub(super) fn after_ioctl(&self, file: *mut bindings::file, cmd: u32, arg: usize) {
        match read_call(cmd, arg) {
            Some(rm::Call::MapMemory {
                root,
                device,
                memory,
                linear,
                status: 0,
                fd,
                ..
            }) => {
                let handles = Handles {
                    via: file as usize,
                    client: root,
                    device,
                    object: memory,
                };
                self.announce(linear, fd, handles);
            }
            Some(rm::Call::Free {
                root,
                handle,
                status: 0,
                ..
            }) => {
                for gpu in self.gpus.0.iter() {
                    gpu.freed(file as usize, root, handle);
                }
            }
            _ => {}
        }
    }

    fn announce(&self, linear: u64, fd: Option<i32>, handles: Handles) {
        if !self
            .gpus
            .0
            .iter()
            .any(|gpu| gpu.submission_pages(linear, 1).is_some())
        {
            return;
        }
        let file = match fd {
            // SAFETY: A file or null; only compared after the reference is dropped. Its record
            // is removed from the list when the file is released.
            Some(fd) => unsafe {
                // CAST: file descriptors are not negative; -1 becomes one that is not open.
                let file = bindings::fget(fd as c_uint);
                if let Some(file) = NonNull::new(file) {
                    bindings::fput(file.as_ptr());
                }
                file.cast_const()
            },
            None => core::ptr::null(),
        };
        let entry = Announced {
            file,
            tgid: current_tgid(),
            linear,
            handles,
        };
        self.files.lock().announce(entry);
    }

    /// Looks at a mapping that the driver has made.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, after the driver's own has set `vma` up.
    pub(super) unsafe fn mapped(
        &self,
        file: *mut bindings::file,
        vma: *mut bindings::vm_area_struct,
    ) -> Result {
        // SAFETY: The caller passes an area under construction.
        let (flags, start, end) = unsafe {
            let range = &(*vma).__bindgen_anon_1.__bindgen_anon_1;
            (
                (*vma).__bindgen_anon_2.vm_flags,
                range.vm_start,
                range.vm_end,
            )
        };
        // CAST: a flag in the low 32 bits.
        if flags & (bindings::VM_PFNMAP as usize) == 0 || !self.is_managed(file) {
            return Ok(());
        }
        // SAFETY: As above, and it is a PFN mapping.
        let frame = unsafe { first_frame(vma, start) };
        let announced = self.files.lock().take(file, frame);
        let Some(physical) = frame.or(announced.map(|entry| entry.linear & !(PAGE - 1))) else {
            return Ok(());
        };
        let len = end.saturating_sub(start) as u64;
        let Some((gpu, pages)) = self.gpus.0.iter().find_map(|gpu| {
            let pages = gpu.submission_pages(physical, len)?;
            // The announced address says which slot of the page it is.
            let exact = announced
                .filter(|entry| entry.linear & !(PAGE - 1) == physical)
                .and_then(|entry| gpu.submission_pages(entry.linear, 1))
                .unwrap_or(pages);
            let first_pfn = pages.first_pfn;
            Some((gpu, Pages { first_pfn, ..exact }))
        }) else {
            return Ok(());
        };
        // A private writable mapping of device pages cannot be refilled after a fault.
        // CAST: flags in the low 32 bits.
        let shared_or_may_write = (bindings::VM_SHARED | bindings::VM_MAYWRITE) as usize;
        if flags & shared_or_may_write == bindings::VM_MAYWRITE as usize {
            return Err(EINVAL);
        }
        let (client, gate) = {
            let files = self.files.lock();
            if files.closed {
                return Ok(());
            }
            gpu.adopt(pages, announced.map(|entry| entry.handles))?
        };
        let fresh = gate::Fresh {
            pages,
            client,
            gate,
            gpu: gpu.clone(),
        };
        // SAFETY: The caller's promise.
        unsafe { gate::wrap(file, vma, fresh) }.inspect_err(|_| gpu.unmapped(client, pages))
    }

    /// Whether the file was opened under LoGA's eyes. One that was not is counted, once.
    fn is_managed(&self, file: *mut bindings::file) -> bool {
        // SAFETY: The file is in use by the caller.
        let minor = unsafe { ffi::loga_file_minor(file) } as usize;
        let Some(gpu) = self.gpus.0.get(minor) else {
            return false;
        };
        let mut files = self.files.lock();
        if let Some(record) = files.open.get(&(file as usize)) {
            return record.managed;
        }
        let record = FileRecord {
            gpu: minor,
            managed: false,
            process: None,
            space: None,
        };
        if let Ok(None) = files
            .open
            .try_create_and_insert(file as usize, record, GFP_KERNEL)
        {
            gpu.file_unmanaged();
        }
        false
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
