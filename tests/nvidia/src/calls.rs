// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The driver's calls, as bytes.
//!
//! Branches 470 and 550 agree in all calls used here.

use libc::c_void;
use loga::rm::{self, class, nr};
use std::fs::{File, OpenOptions};
use std::io::Error;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

/// Number and size of a call.
pub(crate) type Call = (u32, usize);

/// NV_ESC_CHECK_VERSION_STR, with `nv_ioctl_rm_api_version_t`.
pub(crate) const CHECK_VERSION: Call = (nr::CHECK_VERSION_STR, size_of::<rm::ApiVersion>());
/// NV_ESC_CARD_INFO, with room for all cards.
pub(crate) const CARD_INFO: Call = (nr::CARD_INFO, rm::CARDS_MAX * size_of::<rm::CardInfo>());
/// NV_ESC_REGISTER_FD with `nv_ioctl_register_fd_t`.
pub(crate) const REGISTER_FD: Call = (nr::REGISTER_FD, size_of::<rm::RegisterFd>());
/// NV_ESC_WAIT_OPEN_COMPLETE with `nv_ioctl_wait_open_complete_t`; 550 has it, 470 does not.
pub(crate) const WAIT_OPEN_COMPLETE: Call = (218, 8);
/// NV_ESC_RM_ALLOC with NVOS21_PARAMETERS.
pub(crate) const RM_ALLOC: Call = (nr::ALLOC, size_of::<rm::Alloc>());
/// NV_ESC_RM_FREE with NVOS00_PARAMETERS.
pub(crate) const RM_FREE: Call = (nr::FREE, size_of::<rm::Free>());
/// NV_ESC_IOCTL_XFER_CMD with `nv_ioctl_xfer_t`.
pub(crate) const XFER: Call = (nr::XFER_CMD, size_of::<rm::Xfer>());
/// NV_ESC_RM_MAP_MEMORY with `nv_ioctl_nvos33_parameters_with_fd`.
pub(crate) const MAP_MEMORY: Call = (nr::MAP_MEMORY, size_of::<rm::MapMemoryFd>());
/// A call that the driver does not have.
pub(crate) const UNKNOWN: Call = (0x7e, 16);

pub(crate) fn open(node: &str, flags: i32) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(node)
}

/// The argument of the version check.
pub(crate) fn version(text: &str) -> Vec<u8> {
    let mut bytes = vec![0; CHECK_VERSION.1];
    bytes[8..8 + text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// The argument that makes an RM client; its handle comes back in bytes 8 to 11.
pub(crate) fn client() -> Vec<u8> {
    let mut bytes = vec![0; RM_ALLOC.1];
    bytes[12..16].copy_from_slice(&class::ROOT_CLIENT.to_le_bytes());
    bytes
}

/// The argument that frees an RM client.
pub(crate) fn free(handle: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; RM_FREE.1];
    bytes[..4].copy_from_slice(handle);
    bytes[8..12].copy_from_slice(handle);
    bytes
}

/// Makes one call; returns its result and the structure afterwards.
pub(crate) fn make(file: &File, (nr, size): Call, argument: &[u8]) -> (String, Vec<u8>) {
    let mut bytes = argument.to_vec();
    assert!(bytes.len() >= size, "the driver may write {size} bytes");
    let cmd = rm::request(nr, size).into();
    // SAFETY: `bytes` has at least `size` bytes, which is all that the driver may touch.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), cmd, bytes.as_mut_ptr()) };
    let answer = if answer < 0 {
        Error::last_os_error().to_string()
    } else {
        answer.to_string()
    };
    (answer, bytes)
}

/// Maps the beginning of a file.
pub(crate) fn mapping(file: &File, size: usize, sharing: i32) -> Result<*mut c_void, Error> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let (anywhere, fd) = (std::ptr::null_mut(), file.as_raw_fd());
    // SAFETY: Asks for a new range; nothing existing is touched.
    let address = unsafe { libc::mmap(anywhere, size, access, sharing, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(Error::last_os_error());
    }
    Ok(address)
}

/// Whether an unprepared mapping can be made. It is removed again.
pub(crate) fn map(file: &File, sharing: i32) -> String {
    match mapping(file, super::PAGE, sharing) {
        Ok(address) => {
            // SAFETY: The range was made above and nothing else refers to it.
            unsafe { libc::munmap(address, super::PAGE) };
            "mapped".to_owned()
        }
        Err(error) => error.to_string(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}
