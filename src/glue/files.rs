// SPDX-License-Identifier: GPL-2.0

//! [glue] The table of the driver's open files, and of mappings that are prepared.

use super::books::Handles;
use super::ffi;
use super::process::Process;
use super::PAGE;
use kernel::bindings;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::types::Opaque;

/// RM mappings announced by an ioctl whose `mmap` has not come yet; the oldest is forgotten.
const MAX_ANNOUNCED: usize = 1024;

/// The files of the driver that are open, and the mappings they are about to have.
pub(super) struct Files {
    pub(super) open: RBTree<usize, FileRecord>,
    pub(super) announced: KVec<Announced>,
    /// Files that own an address space of LoGA's: they pin the attachment.
    pub(super) adopted: u32,
    pub(super) closed: bool,
}

/// An open file of a GPU.
pub(super) struct FileRecord {
    pub(super) gpu: usize,
    pub(super) managed: bool,
    /// The process that opened it, if LoGA saw that.
    pub(super) process: Option<Process>,
    /// Address space that LoGA gave the file, where the driver gives none.
    pub(super) space: Option<KBox<Space>>,
}

/// An address space of LoGA's.
pub(super) struct Space(Opaque<bindings::address_space>);

// SAFETY: Only its allocation is LoGA's; everything in it belongs to the memory management,
// which uses it from any thread.
unsafe impl Send for Space {}

/// A mapping that `MAP_MEMORY` prepared.
#[derive(Clone, Copy)]
pub(super) struct Announced {
    /// The file it is to be mapped through; null on branches without.
    pub(super) file: *const bindings::file,
    /// The process that asked.
    pub(super) tgid: i32,
    /// CPU physical address.
    pub(super) linear: u64,
    pub(super) handles: Handles,
}

// SAFETY: The file pointer is only compared.
unsafe impl Send for Announced {}

impl Files {
    /// No file open.
    pub(super) fn new() -> Self {
        Self {
            open: RBTree::new(),
            announced: KVec::new(),
            adopted: 0,
            closed: false,
        }
    }

    /// Remembers a mapping that will be made.
    pub(super) fn announce(&mut self, entry: Announced) {
        if self.announced.len() >= MAX_ANNOUNCED {
            let _ = self.announced.remove(0);
        }
        // Without memory the mapping is found by its physical address alone.
        let _ = self.announced.push(entry, GFP_KERNEL);
    }

    /// Forgets a file that is being closed.
    pub(super) fn forget(&mut self, file: *const bindings::file) -> Option<FileRecord> {
        self.announced
            .retain(|entry| !core::ptr::eq(entry.file, file));
        self.open.remove(&(file as usize))
    }

    /// Gives a file an address space of its own, so that its mappings can be found.
    pub(super) fn adopt(&mut self, file: *mut bindings::file) {
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
    pub(super) fn take(
        &mut self,
        file: *const bindings::file,
        frame: Option<u64>,
    ) -> Option<Announced> {
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
pub(super) fn current_tgid() -> i32 {
    // SAFETY: Only called in process context.
    unsafe { (*kernel::task::Task::current_raw()).tgid }
}
