// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Reads the argument of an ioctl before the driver does.
//!
//! Other threads of the caller may change the argument in between, so it shows what the caller
//! claims, not what the driver does: nothing that LoGA protects may depend on it. It is read
//! without faults: a page that does not arrive would keep the call inside LoGA.

use crate::rm;
use crate::track::call::{self, Call};
use kernel::bindings;

/// Reads an RM call of interest, unwrapping `XFER_CMD`.
pub(crate) fn read(cmd: u32, arg: usize) -> Option<Call> {
    let (mut nr, mut size, mut address) = (rm::request_nr(cmd), rm::request_size(cmd), arg);
    let mut bytes = [0u8; call::MAX_PARSED];
    if nr == rm::nr::XFER_CMD {
        let outer = bytes.get_mut(..size)?;
        read_user(address, outer)?;
        let inner = rm::Xfer::parse(outer)?;
        nr = rm::request_nr(inner.cmd);
        size = usize::try_from(inner.size).ok()?;
        address = usize::try_from(inner.ptr).ok()?;
    }
    if !call::is_of_interest(nr) {
        return None;
    }
    let bytes = bytes.get_mut(..size)?;
    read_user(address, bytes)?;
    call::parse(nr, size, bytes)
}

/// Copies from user memory that is present; `None` if a page of it is not.
fn read_user(address: usize, into: &mut [u8]) -> Option<()> {
    // SAFETY: The buffer has this length; the address is checked by the call.
    let refused = unsafe {
        bindings::copy_from_user_nofault(
            into.as_mut_ptr().cast(),
            core::ptr::without_provenance(address),
            into.len(),
        )
    };
    (refused == 0).then_some(())
}
