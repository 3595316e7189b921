// SPDX-License-Identifier: GPL-2.0

//! [glue] What LoGA's functions in the driver's `file_operations` do: follow files,
//! RM calls and mappings. Every call goes to the driver first and its answer goes
//! back unchanged; LoGA looks at what the driver accepted.

use super::gate::{self, Pages};
use super::gpu::{Gpu, Handles};
use super::hook::InWrapper;
use super::params::Settings;
use super::{bar, ffi};
use crate::track::rm;
use core::ptr::NonNull;
use kernel::bindings;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::rbtree::{RBTree, RBTreeNode};
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;
use kernel::uaccess::{UserPtr, UserSlice};

/// Page size of the host.
const PAGE: u64 = kernel::page::PAGE_SIZE as u64;
/// RM mappings announced by an ioctl whose `mmap` has not come yet; the oldest is forgotten.
const MAX_ANNOUNCED: usize = 1024;

/// Follows the files of one attachment.
#[pin_data]
pub(super) struct Tracker {
    gpus: Gpus,
    #[pin]
    files: Mutex<Files>,
}

/// GPUs being looked after; their threads end with it.
struct Gpus(KVec<Arc<Gpu>>);

impl Drop for Gpus {
    fn drop(&mut self) {
        for gpu in self.0.iter() {
            gpu.stop();
        }
    }
}

struct Files {
    open: RBTree<usize, FileRecord>,
    announced: KVec<Announced>,
    /// Files that own an address space of LoGA's: they pin the attachment.
    adopted: u32,
    closed: bool,
}

struct FileRecord {
    gpu: usize,
    managed: bool,
    /// Address space that LoGA gave the file, where the driver gives none.
    space: Option<KBox<Space>>,
}

/// An address space of LoGA's.
struct Space(Opaque<bindings::address_space>);

// SAFETY: Only its allocation is LoGA's; everything in it belongs to the memory management,
// which uses it from any thread.
unsafe impl Send for Space {}

/// A mapping that `MAP_MEMORY` prepared.
#[derive(Clone, Copy)]
struct Announced {
    /// The file it is to be mapped through; null on branches without.
    file: *const bindings::file,
    /// The process that asked.
    tgid: i32,
    /// CPU physical address.
    linear: u64,
    handles: Handles,
}

// SAFETY: The file pointer is only compared.
unsafe impl Send for Announced {}

impl Tracker {
    /// Finds the GPUs and starts their threads. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a GPU, `EOPNOTSUPP` for a chip that LoGA does not know, `ENOMEM`.
    pub(super) fn start(settings: &Settings) -> Result<Arc<Self>> {
        let mut gpus = Gpus(KVec::new());
        for (index, found) in bar::find_gpus()?.into_iter().enumerate() {
            gpus.0
                .push(Gpu::start(index, found, settings)?, GFP_KERNEL)?;
        }
        if gpus.0.is_empty() {
            pr_err!("no NVIDIA GPU on the PCI bus\n");
            return Err(ENODEV);
        }
        Arc::pin_init(
            pin_init!(Self {
                gpus,
                files <- new_mutex!(Files {
                    open: RBTree::new(),
                    announced: KVec::new(),
                    adopted: 0,
                    closed: false,
                }),
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
        for gpu in self.gpus.0.iter() {
            gpu.stop();
        }
    }

    fn opened(&self, file: *mut bindings::file) {
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

    fn closing(&self, file: *mut bindings::file) -> Option<FileRecord> {
        for gpu in self.gpus.0.iter() {
            gpu.rm_closed(file as usize);
        }
        let mut files = self.files.lock();
        files
            .announced
            .retain(|entry| !core::ptr::eq(entry.file, file));
        files.open.remove(&(file as usize))
    }

    fn closed(&self, file: *mut bindings::file, record: FileRecord) {
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

    /// Looks at an RM call that the driver has answered.
    fn after_ioctl(&self, file: *mut bindings::file, cmd: u32, arg: usize) {
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
        let mut files = self.files.lock();
        if files.announced.len() >= MAX_ANNOUNCED {
            let _ = files.announced.remove(0);
        }
        // Without memory the mapping is found by its physical address alone.
        let _ = files.announced.push(entry, GFP_KERNEL);
    }

    /// Looks at a mapping that the driver has made.
    ///
    /// # Safety
    ///
    /// To be called inside `mmap` of `file`, after the driver's own has set `vma` up.
    unsafe fn mapped(
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

impl Files {
    /// Gives a file an address space of its own, so that its mappings can be found.
    fn adopt(&mut self, file: *mut bindings::file) {
        let Some(record) = self.open.get_mut(&(file as usize)) else {
            return;
        };
        let Ok(space) = KBox::new(Space(Opaque::zeroed()), GFP_KERNEL) else {
            record.managed = false;
            return;
        };
        // SAFETY: The pointer is this module's own structure.
        if !unsafe { bindings::try_module_get(crate::this_module()) } {
            record.managed = false;
            return;
        }
        // SAFETY: The file has just been opened: nobody has mapped through it yet. The space
        // lives until the file is released.
        unsafe { ffi::loga_own_mapping(space.0.get(), file) };
        record.space = Some(space);
        self.adopted += 1;
    }

    /// The announcement that belongs to a mapping through `file`, taken out.
    fn take(&mut self, file: *const bindings::file, frame: Option<u64>) -> Option<Announced> {
        let tgid = current_tgid();
        let position = self.announced.iter().rposition(|entry| {
            core::ptr::eq(entry.file, file)
                || (entry.file.is_null()
                    && entry.tgid == tgid
                    && Some(entry.linear & !(PAGE - 1)) == frame)
        })?;
        self.announced.remove(position).ok()
    }
}

/// The process of the caller, as the initial namespace numbers it.
fn current_tgid() -> i32 {
    // SAFETY: Only called in process context.
    unsafe { (*kernel::task::Task::current_raw()).tgid }
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

/// Reads an RM call of interest from the caller, unwrapping `XFER_CMD`.
fn read_call(cmd: u32, arg: usize) -> Option<rm::Call> {
    let (mut nr, mut size, mut address) = (rm::ioc_nr(cmd), rm::ioc_size(cmd), arg);
    let mut bytes = [0u8; rm::MAX_PARSED];
    if nr == rm::NR_XFER {
        let outer = bytes.get_mut(..size)?;
        read_user(address, outer)?;
        let inner = rm::Xfer::parse(outer)?;
        nr = inner.nr();
        size = usize::try_from(inner.size).ok()?;
        address = usize::try_from(inner.ptr).ok()?;
    }
    if !matches!(nr, rm::NR_MAP_MEMORY | rm::NR_FREE) {
        return None;
    }
    let bytes = bytes.get_mut(..size)?;
    read_user(address, bytes)?;
    rm::parse(nr, size, bytes)
}

fn read_user(address: usize, into: &mut [u8]) -> Option<()> {
    UserSlice::new(UserPtr::from_addr(address), into.len())
        .reader()
        .read_slice(into)
        .ok()
}

/// `open` of every node of the driver.
pub(super) unsafe extern "C" fn open(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.open)(inode, file) };
    if answer == 0 {
        tracker.opened(file);
    }
    answer
}

/// `release` of every node of the driver.
pub(super) unsafe extern "C" fn release(
    inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // Forgotten first: the driver frees the address space of the file.
    let record = tracker.closing(file);
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.release)(inode, file) };
    if let Some(record) = record {
        tracker.closed(file, record);
    }
    answer
}

/// `unlocked_ioctl` of every node of the driver.
pub(super) unsafe extern "C" fn ioctl(
    file: *mut bindings::file,
    cmd: c_uint,
    arg: usize,
) -> c_long {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.ioctl)(file, cmd, arg) };
    if answer == 0 {
        tracker.after_ioctl(file, cmd, arg);
    }
    answer
}

/// `compat_ioctl` of every node of the driver, if it has one.
pub(super) unsafe extern "C" fn compat_ioctl(
    file: *mut bindings::file,
    cmd: c_uint,
    arg: usize,
) -> c_long {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    let Some(ioctl) = driver.compat_ioctl else {
        return ENOTTY.to_errno() as c_long;
    };
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { ioctl(file, cmd, arg) };
    if answer == 0 {
        tracker.after_ioctl(file, cmd, arg);
    }
    answer
}

/// `mmap` of every node of the driver.
pub(super) unsafe extern "C" fn mmap(
    file: *mut bindings::file,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.mmap)(file, vma) };
    // Anything but 0 is a refusal; one branch returns positive status codes.
    if answer != 0 {
        return answer;
    }
    // SAFETY: The driver has just set the area up for this file.
    match unsafe { tracker.mapped(file, vma) } {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
