// SPDX-License-Identifier: GPL-2.0

//! `[glue]` `/dev/loga`: its file operations, and arguments on their way to and from user space.
//!
//! All users may open it; `permission` decides what each may do. No lock is held while user
//! memory is accessed.

use super::calls;
use super::claim;
use super::listeners::{batch, Listener};
use super::refused::Refused;
use super::specs;
use super::wire::{put, Wire};
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::shown_uid;
use crate::uapi::{self, Call, Event, Header};
use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::{Arc, ArcBorrow};
use kernel::transmute::{AsBytes, FromBytes};
use kernel::uaccess::{UserPtr, UserSlice};

/// The control device, while this lives.
pub(crate) struct ControlDevice(());

impl ControlDevice {
    /// Registers it. Called once, before LoGA follows a GPU.
    ///
    /// # Errors
    ///
    /// Those of `misc_register`.
    pub(crate) fn register() -> Result<Self> {
        super::listeners::prepare()?;
        // SAFETY: Called once, at load; `drop` takes it back.
        let registered = to_result(unsafe { ffi::loga_control_register() });
        if registered.is_err() {
            super::listeners::finish();
        }
        registered.map(|()| Self(()))
    }
}

impl Drop for ControlDevice {
    fn drop(&mut self) {
        // SAFETY: Registered by `register`; open files hold the module, so there are none.
        unsafe { ffi::loga_control_deregister() };
        super::listeners::finish();
    }
}

/// The listener of an open file.
///
/// # Safety
///
/// `file` must be an open file of the control device.
unsafe fn listener<'a>(file: *mut bindings::file) -> ArcBorrow<'a, Listener> {
    // SAFETY: Set by `loga_control_open`, given up by `loga_control_release`.
    unsafe { ArcBorrow::from_raw((*file).private_data.cast::<Listener>()) }
}

#[no_mangle]
unsafe extern "C" fn loga_control_open(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    match Listener::new() {
        Ok(listener) => {
            // SAFETY: The file is being opened, and has no other user.
            unsafe { (*file).private_data = Arc::into_raw(listener).cast_mut().cast() };
            0
        }
        Err(error) => error.to_errno(),
    }
}

#[no_mangle]
unsafe extern "C" fn loga_control_release(
    _inode: *mut bindings::inode,
    file: *mut bindings::file,
) -> c_int {
    // SAFETY: The reference from `loga_control_open`; the file is used no more.
    let listener: Arc<Listener> =
        unsafe { Arc::from_raw((*file).private_data.cast_const().cast()) };
    listener.unsubscribe();
    0
}

#[no_mangle]
unsafe extern "C" fn loga_control_read(
    file: *mut bindings::file,
    buf: *mut c_char,
    len: usize,
    _pos: *mut bindings::loff_t,
) -> isize {
    // SAFETY: The VFS passes an open file.
    let (listener, flags) = unsafe { (listener(file), (*file).f_flags) };
    let wait = flags & bindings::O_NONBLOCK == 0;
    match read(&listener, buf as usize, len, wait) {
        // CAST: at most a batch.
        Ok(read) => read as isize,
        Err(error) => error.to_errno() as isize,
    }
}

/// Delivers whole events. Events that cannot be written to user memory are lost, and show as a gap
/// in the sequence.
fn read(listener: &Listener, buf: usize, len: usize, wait: bool) -> Result<usize> {
    let mut events = batch();
    let room = len / size_of::<Event>();
    let room = room.min(events.len());
    let out = events.get_mut(..room).ok_or(EINVAL)?;
    if out.is_empty() {
        return Err(EINVAL);
    }
    let count = listener.take(out, wait)?;
    for (at, event) in out.iter_mut().take(count).enumerate() {
        if event.client != 0 {
            event.uid = shown_uid(event.uid);
        }
        // CAST: an address of user space.
        put(buf as u64, at, event)?;
    }
    Ok(count.saturating_mul(size_of::<Event>()))
}

#[no_mangle]
unsafe extern "C" fn loga_control_poll(
    file: *mut bindings::file,
    table: *mut bindings::poll_table_struct,
) -> bindings::__poll_t {
    // SAFETY: The VFS passes an open file.
    let listener = unsafe { listener(file) };
    // SAFETY: The VFS passes the file of this listener, and the table of this call.
    if unsafe { listener.poll(file, table) } {
        bindings::POLLIN | bindings::POLLRDNORM
    } else {
        0
    }
}

#[no_mangle]
unsafe extern "C" fn loga_control_ioctl(
    file: *mut bindings::file,
    cmd: c_uint,
    arg: usize,
) -> c_long {
    // SAFETY: The VFS passes an open file.
    let listener = unsafe { listener(file) };
    let result = call(&listener.into(), cmd, arg);
    // CAST: an errno.
    result.map_or_else(|error| error.to_errno(), |()| 0) as c_long
}

fn call(listener: &Arc<Listener>, cmd: u32, arg: usize) -> Result {
    let call = Call::of(cmd).ok_or(ENOTTY)?;
    check_header(call, cmd, arg)?;
    match call {
        Call::Snapshot => carry(arg, |snapshot| calls::snapshot(listener, snapshot)),
        Call::SetShare => carry(arg, |set| answer(calls::set_share(set), &mut set.refusal)),
        Call::ListShares => carry(arg, |list| calls::list_shares(listener, list)),
        Call::SetSpec => carry(arg, |set| answer(specs::set(set), &mut set.refusal)),
        Call::ListSpecs => carry(arg, specs::list),
        Call::Claim => carry(arg, |claim| answer(claim::claim(claim), &mut claim.refusal)),
        Call::ReadTotals => carry(arg, |totals| {
            answer(calls::read_totals(listener, totals), &mut totals.refusal)
        }),
        Call::Configure => carry(arg, |knobs| {
            answer(calls::configure(knobs), &mut knobs.refusal)
        }),
        Call::Subscribe => carry(arg, |what| {
            answer(calls::subscribe(listener, what), &mut what.refusal)
        }),
    }
}

/// Refuses an argument of the wrong version or size, and returns the right ones to the caller.
fn check_header(call: Call, cmd: u32, arg: usize) -> Result {
    let len = uapi::arg_size(cmd);
    if len < size_of::<Header>() {
        return Err(EINVAL);
    }
    let user = UserSlice::new(UserPtr::from_addr(arg), size_of::<Header>());
    let (mut reader, mut writer) = user.reader_writer();
    let Wire(header) = reader.read::<Wire<Header>>()?;
    call.check(cmd, header).or_else(|right| {
        writer.write(&Wire(right))?;
        Err(EINVAL)
    })
}

/// Reads an argument, carries the call out, and writes the argument back. A refused one contains
/// the reason. What each call needs of the stack is its own: inlined, [`call`] would need the sum.
#[inline(never)]
fn carry<T>(arg: usize, answer: impl FnOnce(&mut T) -> Result) -> Result
where
    Wire<T>: AsBytes + FromBytes,
{
    let user = UserSlice::new(UserPtr::from_addr(arg), size_of::<T>());
    let (mut reader, mut writer) = user.reader_writer();
    let mut argument = reader.read::<Wire<T>>()?;
    let result = answer(&mut argument.0);
    writer.write(&argument)?;
    result
}

/// Stores the reason of a refusal in the argument.
fn answer(result: Result<(), Refused>, why: &mut uapi::Refusal) -> Result {
    match result {
        Ok(()) => Ok(()),
        Err(refused) => {
            *why = refused.why;
            Err(refused.errno)
        }
    }
}
