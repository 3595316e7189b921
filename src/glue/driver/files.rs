// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The table of the driver's open files.

use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use kernel::alloc::flags::GFP_KERNEL_ACCOUNT;
use kernel::bindings;
use kernel::prelude::*;
use kernel::rbtree::RBTree;
use kernel::types::Opaque;

/// Open files of the driver.
pub(super) struct Files {
    pub(crate) open: RBTree<usize, FileRecord>,
    /// Files with an address space made by LoGA: they pin the attachment.
    pub(super) adopted: u32,
    /// LoGA is about to leave the driver, and no mapping has come since it tries to.
    pub(super) closed: bool,
}

/// An open file of the driver.
pub(super) struct FileRecord {
    /// Index of its GPU; `None` for the control node.
    pub(crate) gpu: Option<usize>,
    pub(super) managed: bool,
    /// The process that opened it, if LoGA saw that.
    pub(crate) opener: Option<Process>,
    /// Of a control file: the process that allocates through it. Of a GPU's file: the allocator of
    /// the control file whose ioctl prepared this file for mapping.
    pub(super) allocator: Option<Process>,
    /// Address space that LoGA gave the file, if the driver gave none.
    pub(crate) space: Option<KBox<Space>>,
}

/// An address space made by LoGA.
pub(super) struct Space(Opaque<bindings::address_space>);

// SAFETY: LoGA only owns the allocation; the contents belong to the memory management, which uses
// them from any thread.
unsafe impl Send for Space {}

impl Space {
    /// Allocates one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<KBox<Self>> {
        Ok(KBox::new(Self(Opaque::zeroed()), GFP_KERNEL_ACCOUNT)?)
    }
}

impl Files {
    /// No file open.
    pub(crate) fn new() -> Self {
        Self {
            open: RBTree::new(),
            adopted: 0,
            closed: false,
        }
    }

    /// The record of a file.
    pub(crate) fn get_mut(&mut self, file: *const bindings::file) -> Option<&mut FileRecord> {
        self.open.get_mut(&(file as usize))
    }

    /// Removes the record of a file that is being closed.
    pub(crate) fn forget(&mut self, file: *const bindings::file) -> Option<FileRecord> {
        self.open.remove(&(file as usize))
    }

    /// Gives a file an address space of its own, through which its mappings are found.
    pub(super) fn adopt(&mut self, file: *mut bindings::file, space: KBox<Space>) {
        let Some(record) = self.get_mut(file) else {
            return;
        };
        // SAFETY: The pointer is this module's own structure.
        if !unsafe { bindings::try_module_get(crate::this_module()) } {
            record.managed = false;
            return;
        }
        // SAFETY: The file has just been opened and has no mappings yet. The space lives until
        // the file is released.
        unsafe { ffi::loga_own_mapping(space.0.get(), file) };
        record.space = Some(space);
        self.adopted = self.adopted.saturating_add(1);
    }

    /// Records that the calling process allocates through a control file. The first process to do
    /// so is kept.
    pub(super) fn note_allocator(&mut self, ctl: *const bindings::file, caller: Process) {
        let record = self.get_mut(ctl).filter(|record| record.gpu.is_none());
        if let Some(record) = record.filter(|record| record.allocator.is_none()) {
            record.allocator = Some(caller);
        }
    }

    /// Records that an ioctl on the control file `ctl` prepared a GPU's file for mapping.
    pub(super) fn note_prepared(
        &mut self,
        ctl: *const bindings::file,
        file: *const bindings::file,
    ) {
        let record = self.open.get(&(ctl as usize));
        let record = record.filter(|record| record.gpu.is_none());
        let Some(allocator) = record.and_then(|record| record.allocator.clone()) else {
            return;
        };
        let prepared = self.get_mut(file).filter(|record| record.gpu.is_some());
        if let Some(prepared) = prepared {
            prepared.allocator = Some(allocator);
        }
    }
}
