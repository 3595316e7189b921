// SPDX-License-Identifier: GPL-2.0

//! The nodes: open, release, poll, and their registration under major 195.
//!
//! There is one `file_operations` object for all nodes, in writable data and without `const`, as
//! in every branch of the real driver (470 `nvidia/nv-frontend.c`, 550 `nvidia/nv.c`).

use super::opened::{device, private, Private, OWN};
use super::params::Branch;
use super::pci::card_with;
use super::space::Listener;
use super::{ioctl, mapping, stand};
use crate::rm;
use core::sync::atomic::{AtomicU64, Ordering};
use kernel::ffi::{c_int, c_uint};
use kernel::fs::File;
use kernel::prelude::*;
use kernel::sync::poll::PollTable;
use kernel::types::Opaque;
use kernel::{bindings, new_mutex};

/// Numbers the files.
static FILES: AtomicU64 = AtomicU64::new(1);

/// SAFETY of every use: written only by [`Nodes::new`] before it is registered, and by a module
/// that hooks the driver, member by member, as with the real driver's object.
static mut OPERATIONS: bindings::file_operations = bindings::file_operations {
    open: Some(open),
    release: Some(release),
    unlocked_ioctl: Some(unlocked_ioctl),
    compat_ioctl: Some(unlocked_ioctl),
    mmap: Some(mapping::mmap),
    poll: Some(poll),
    // SAFETY: All-zero bytes are a valid value: null pointers and no functions.
    ..unsafe { core::mem::MaybeUninit::zeroed().assume_init() }
};

/// The nodes' operations, as `f_op` shows them.
pub fn operations() -> *const bindings::file_operations {
    &raw const OPERATIONS
}

/// The registered nodes.
pub struct Nodes {
    branch: Branch,
}

impl Nodes {
    /// Registers major 195 as the branch does: one range, or GPUs and control apart.
    pub fn new(module: &'static ThisModule, branch: Branch) -> Result<Self> {
        // SAFETY: Nothing uses the object before it is registered below.
        unsafe { (&raw mut OPERATIONS.owner).write(module.as_ptr()) };
        OWN.store(operations().cast_mut(), Ordering::Release);
        match branch {
            Branch::B340 | Branch::B470 => register(0, 256, c"nvidia-frontend")?,
            Branch::B550 => {
                register(0, 248, c"nvidia")?;
                if let Err(error) = register(rm::CTL_MINOR, 1, c"nvidiactl") {
                    unregister(0, 248, c"nvidia");
                    return Err(error);
                }
            }
        }
        Ok(Self { branch })
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        match self.branch {
            Branch::B340 | Branch::B470 => unregister(0, 256, c"nvidia-frontend"),
            Branch::B550 => {
                unregister(rm::CTL_MINOR, 1, c"nvidiactl");
                unregister(0, 248, c"nvidia");
            }
        }
    }
}

fn register(minor: u32, count: u32, name: &'static CStr) -> Result {
    // SAFETY: Name and operations live as long as the module; `unregister` is called before.
    let error = unsafe {
        bindings::__register_chrdev(rm::MAJOR, minor, count, name.as_char_ptr(), operations())
    };
    if error < 0 {
        pr_err!(
            "cannot register major {}: is another NVIDIA driver loaded?\n",
            rm::MAJOR
        );
    }
    kernel::error::to_result(error.min(0))
}

fn unregister(minor: u32, count: u32, name: &'static CStr) {
    // SAFETY: The range was registered under this name.
    unsafe { bindings::__unregister_chrdev(rm::MAJOR, minor, count, name.as_char_ptr()) };
}

unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: The VFS passes a valid inode and file.
    let device = unsafe { device(file) };
    let Some(stand) = stand() else {
        return ENODEV.to_errno();
    };
    // An open that does its work and fails then undoes it itself: nothing else would be seen.
    if super::params::fail_open() {
        return EIO.to_errno();
    }
    let (control, gpu) = match device {
        Some((_, rm::CTL_MINOR)) => (true, 0),
        Some((_, minor)) => match card_with(minor) {
            Some(gpu) => (false, gpu),
            None => return ENODEV.to_errno(),
        },
        None => return ENODEV.to_errno(),
    };
    let private = match new_private(control, gpu) {
        Ok(private) => private,
        Err(error) => return error.to_errno(),
    };
    // 470 `nv_init_mapping_revocation`: GPU files get an address space of their own, so that
    // the driver can revoke mappings file by file.
    if !control && stand.params.branch != Branch::B340 {
        let mapping = private.mapping.get();
        // SAFETY: The object is pinned and lives until `release`; the inode is valid and has a
        // mapping.
        unsafe {
            bindings::address_space_init_once(mapping);
            (*mapping).host = inode;
            (*mapping).a_ops = (*(*inode).i_mapping).a_ops;
            (*file).f_mapping = mapping;
        }
    }
    // SAFETY: The box is only read through `private` and freed by `release`; it stays pinned.
    unsafe {
        let private = KBox::into_raw(Pin::into_inner_unchecked(private));
        (*file).private_data = private.cast();
    }
    0
}

fn new_private(control: bool, gpu: usize) -> Result<Pin<KBox<Private>>> {
    let listener = Listener::new()?;
    KBox::pin_init(
        pin_init!(Private {
            control,
            gpu,
            id: FILES.fetch_add(1, Ordering::Relaxed),
            target <- new_mutex!(None, "loga_model_target"),
            listener,
            mapping: Opaque::zeroed(),
        }),
        GFP_KERNEL,
    )
}

unsafe extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    // SAFETY: `open` stored a box; this is the last use of the file.
    let private = unsafe {
        let private = (*file).private_data.cast::<Private>();
        (*file).private_data = core::ptr::null_mut();
        Pin::new_unchecked(KBox::from_raw(private))
    };
    if let (true, Some(stand)) = (private.control, stand()) {
        for card in stand.cards.iter() {
            card.rm.lock().close_file(&card.machine, private.id);
        }
    }
    0
}

unsafe extern "C" fn unlocked_ioctl(
    file: *mut bindings::file,
    request: c_uint,
    argument: usize,
) -> isize {
    // SAFETY: The VFS holds the file during the call.
    let private = unsafe { private(file) };
    let (Some(private), Some(stand)) = (private, stand()) else {
        return ENODEV.to_errno() as isize;
    };
    match ioctl::call(stand, &private, request, argument) {
        Ok(()) => 0,
        Err(error) => error.to_errno() as isize,
    }
}

unsafe extern "C" fn poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: The VFS holds the file and passes null or a valid table.
    let (private, table) = unsafe { (private(file), PollTable::from_raw(table)) };
    let Some(private) = private else {
        return bindings::POLLERR;
    };
    let Ok(wait) = private.listener.wait() else {
        return bindings::POLLERR;
    };
    // SAFETY: As above; the position lock is not used by these files.
    table.register_wait(unsafe { File::from_raw_file(file) }, wait);
    if private.listener.pending() == 0 {
        return 0;
    }
    bindings::POLLIN | bindings::POLLPRI | bindings::POLLRDNORM
}
