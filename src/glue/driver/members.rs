// SPDX-License-Identifier: GPL-2.0

//! `[glue]` LoGA's functions in the driver's `file_operations`. Every call goes to
//! the driver, and its answer goes back unchanged.

use super::inside::{InWrapper, Pinned};
use super::operations::Members;
use super::rm_call;
use crate::glue::control::permission::Reader;
use crate::glue::kernel::ffi::Ioctl;
use crate::rm;
use crate::track::call;
use kernel::bindings;
use kernel::prelude::*;
use kernel::seq_file::SeqFile;
use kernel::seq_print;

/// LoGA's functions.
pub(super) const OURS: Members = Members {
    open,
    release,
    ioctl,
    compat_ioctl: Some(compat_ioctl),
    mmap,
    show_fdinfo: Some(show_fdinfo),
};

/// `open` of every node of the driver.
unsafe extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    if tracker.denies(file) {
        // As a device cgroup answers.
        return EPERM.to_errno();
    }
    let room = match tracker.room_for(file) {
        Ok(room) => room,
        Err(error) => return error.to_errno(),
    };
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.open)(inode, file) };
    if answer == 0 {
        tracker.opened(file, room);
    }
    answer
}

/// `release` of every node of the driver.
unsafe extern "C" fn release(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // Forgotten first: the driver frees the address space of the file.
    let record = tracker.closing(file);
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.release)(inode, file) };
    tracker.closed(file, record);
    answer
}

/// `unlocked_ioctl` of every node of the driver.
unsafe extern "C" fn ioctl(file: *mut bindings::file, cmd: c_uint, arg: usize) -> c_long {
    // SAFETY: The VFS's arguments, passed on.
    unsafe { call(|driver| Some(driver.ioctl), file, cmd, arg) }
}

/// `compat_ioctl` of every node of the driver, if it has one.
unsafe extern "C" fn compat_ioctl(file: *mut bindings::file, cmd: c_uint, arg: usize) -> c_long {
    // SAFETY: The VFS's arguments, passed on.
    unsafe { call(|driver| driver.compat_ioctl, file, cmd, arg) }
}

/// # Safety
///
/// The arguments must be those of an ioctl on an open file of the driver.
unsafe fn call(
    choose: fn(&Members) -> Option<Ioctl>,
    file: *mut bindings::file,
    cmd: c_uint,
    arg: usize,
) -> c_long {
    let _returns_here = Pinned::enter();
    let Some(ioctl) = choose(InWrapper::enter().current().1) else {
        return ENOTTY.to_errno() as c_long;
    };
    // Read before the call: the driver may block long, and the caller may change its argument.
    let asked = rm_call::read(cmd, arg);
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { ioctl(file, cmd, arg) };
    let asked = asked.filter(|_| answer == 0);
    // By the number in the request, which the caller cannot change.
    let may_allocate = call::may_allocate(rm::request_nr(cmd));
    if asked.is_none() && !may_allocate {
        return answer;
    }
    let inside = InWrapper::enter();
    if let Some(tracker) = inside.tracker() {
        if let Some(call) = asked {
            tracker.called(file, &call);
        }
        if may_allocate {
            tracker.may_have_allocated(file);
        }
    }
    answer
}

/// `mmap` of every node of the driver.
unsafe extern "C" fn mmap(file: *mut bindings::file, vma: *mut bindings::vm_area_struct) -> c_int {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    // SAFETY: The area is under construction.
    let hidden = unsafe { tracker.hide(file, vma) };
    // SAFETY: The driver's own function with the arguments meant for it.
    let answer = unsafe { (driver.mmap)(file, vma) };
    // Anything but 0 is a refusal; one branch returns positive status codes.
    if answer != 0 {
        return answer;
    }
    // SAFETY: The driver has just set the area up for this file.
    unsafe { tracker.mapped(file, vma, hidden) }.map_or_else(|error| error.to_errno(), |()| 0)
}

/// `show_fdinfo` of every node of the driver: what the driver prints, then the keys of
/// Documentation/gpu/drm-usage-stats.rst for the process that opened the file.
unsafe extern "C" fn show_fdinfo(seq: *mut bindings::seq_file, file: *mut bindings::file) {
    let inside = InWrapper::enter();
    let (tracker, driver) = inside.current();
    if let Some(show) = driver.show_fdinfo {
        // SAFETY: The driver's own function with the arguments meant for it.
        unsafe { show(seq, file) };
    }
    let Some(usage) = tracker.usage(file, Reader::calling().all) else {
        return;
    };
    // SAFETY: The caller's own sequence, which has no other writer during the call.
    let seq = unsafe { SeqFile::from_raw(seq) };
    let at = usage.address;
    seq_print!(
        seq,
        "drm-driver:\tnvidia\ndrm-pdev:\t{:04x}:{:02x}:{:02x}.{:x}\n",
        at.domain,
        at.bus,
        at.devfn >> 3,
        at.devfn & 7
    );
    if let Some(used) = usage.client {
        seq_print!(
            seq,
            "drm-client-id:\t{}\ndrm-engine-compute:\t{} ns\n",
            used.client,
            used.gpu_time.get()
        );
        if let Some(time) = used.copy_time {
            seq_print!(seq, "drm-engine-copy:\t{} ns\n", time.get());
        }
    }
}
