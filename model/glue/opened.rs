// SPDX-License-Identifier: GPL-2.0

//! Open files of the nodes: what they carry, and which a process has.

use super::memory::Memory;
use super::params::Branch;
use super::pci::GPUS_MAX;
use super::space::Listener;
use crate::rm;
use core::sync::atomic::{AtomicPtr, Ordering};
use kernel::bindings;
use kernel::ffi::{c_int, c_uint};
use kernel::prelude::*;
use kernel::sync::{Arc, Mutex};
use kernel::types::Opaque;

/// The nodes' operations, once the nodes are there.
pub(super) static OWN: AtomicPtr<bindings::file_operations> = AtomicPtr::new(core::ptr::null_mut());

/// What MAP_MEMORY attached to a file.
#[derive(Clone)]
pub enum MapTarget {
    /// System memory from an offset on.
    Memory(Arc<Memory>, u64, u64),
    /// Uncached pages of the card: physical address and length.
    Card(u64, u64),
}

impl MapTarget {
    /// Bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            MapTarget::Memory(_, _, length) | MapTarget::Card(_, length) => *length,
        }
    }
}

/// Mode bits of the file type, and the value for character devices. Source: `uapi/linux/stat.h`.
const S_IFMT: u16 = 0o170000;

/// As above.
const S_IFCHR: u16 = 0o020000;

/// What an open file carries in `private_data`.
#[pin_data]
pub struct Private {
    /// Whether it is a control file; else it is a GPU's.
    pub control: bool,
    /// Which GPU's; 0 for control files.
    pub gpu: usize,
    /// Number of the file, never reused.
    pub id: u64,
    /// What mmap will map; set once (470) by MAP_MEMORY.
    #[pin]
    pub target: Mutex<Option<MapTarget>>,
    /// Completions for this file.
    pub listener: Arc<Listener>,
    /// Address space of the file's mappings (470 and later, GPU files).
    #[pin]
    pub(super) mapping: Opaque<bindings::address_space>,
}

/// Major and minor of a file of a character device.
///
/// # Safety
///
/// `file` is a valid open file.
pub(super) unsafe fn device(file: *const bindings::file) -> Option<(u32, u32)> {
    // SAFETY: The caller's promise; an open file's inode stays.
    let (mode, device) = unsafe { ((*(*file).f_inode).i_mode, (*(*file).f_inode).i_rdev) };
    // 20 bits of minor number: `include/linux/kdev_t.h`.
    (mode & S_IFMT == S_IFCHR).then_some((device >> 20, device & 0xf_ffff))
}

/// What a file of this driver carries.
///
/// The check is the one of 470 (`nv_get_file_private`): major and minor, not the operations.
///
/// # Safety
///
/// `file` is a valid open file, and stays open during `'a`.
pub unsafe fn private<'a>(file: *const bindings::file) -> Option<Pin<&'a Private>> {
    // SAFETY: The caller's promise.
    let (major, minor) = unsafe { device(file) }?;
    if major != rm::MAJOR || (minor != rm::CTL_MINOR && minor as usize >= GPUS_MAX) {
        return None;
    }
    // SAFETY: An open file of major 195 was opened by `open`, which stored a pinned box that
    // `release` frees at the last close.
    unsafe {
        (*file)
            .private_data
            .cast::<Private>()
            .as_ref()
            .map(|private| Pin::new_unchecked(private))
    }
}

/// Whether the calling process has a GPU open, as 470 and later ask before giving it a device.
///
/// 550 and later also want the file to have the driver's own operations.
pub fn process_has_gpu_open(branch: Branch, gpu: usize) -> bool {
    let wanted = (branch == Branch::B550, gpu);
    // SAFETY: `current` has its table of files during a system call; `is_gpu` follows the
    // callback's contract.
    let found = unsafe {
        bindings::iterate_fd(
            (*bindings::get_current()).files,
            0,
            Some(is_gpu),
            (&raw const wanted).cast(),
        )
    };
    found != 0
}

unsafe extern "C" fn is_gpu(
    wanted: *const kernel::ffi::c_void,
    file: *mut bindings::file,
    _fd: c_uint,
) -> c_int {
    // SAFETY: `process_has_gpu_open` passes a pair; the file is valid during the callback.
    let ((own, number), device, f_op) =
        unsafe { (*wanted.cast::<(bool, usize)>(), device(file), (*file).f_op) };
    let gpu = device.is_some_and(|(major, minor)| major == rm::MAJOR && minor as usize == number);
    c_int::from(gpu && (!own || core::ptr::eq(f_op, OWN.load(Ordering::Acquire))))
}
