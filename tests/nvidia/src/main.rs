// SPDX-License-Identifier: GPL-2.0

//! [tool] `loga-nvidia`: a client of the real driver 470 that goes as far as the driver goes
//! without a GPU, and prints every answer byte by byte. Two runs against an equally fresh driver
//! print the same; so they must with LoGA in between.
//!
//! Calls, numbers and sizes: the open part of the driver, `nv-ioctl-numbers.h`, `nv-ioctl.h`,
//! `nv.c`, branch 470.

use std::fs::{File, OpenOptions};
use std::io::Error;
use std::os::fd::AsRawFd;

/// Version that the driver under test expects its clients to have.
const VERSION: &[u8] = b"470.256.02";

/// NV_ESC_CHECK_VERSION_STR, with `nv_ioctl_rm_api_version_t`.
const CHECK_VERSION: (u32, usize) = (210, 72);
/// NV_ESC_CARD_INFO, with room for 32 cards of 72 bytes.
const CARD_INFO: (u32, usize) = (200, 32 * 72);
/// NV_ESC_RM_ALLOC with NVOS21_PARAMETERS.
const RM_ALLOC: (u32, usize) = (0x2b, 32);
/// NV_ESC_RM_FREE with NVOS00_PARAMETERS.
const RM_FREE: (u32, usize) = (0x29, 16);
/// NV_ESC_IOCTL_XFER_CMD with `nv_ioctl_xfer_t`.
const XFER: (u32, usize) = (211, 16);
/// NV_ESC_RM_MAP_MEMORY with `nv_ioctl_nvos33_parameters_with_fd`.
const MAP_MEMORY: (u32, usize) = (0x4e, 56);
/// Class NV01_ROOT_CLIENT.
const ROOT_CLIENT: u32 = 0x41;

fn main() {
    for node in ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"] {
        match open(node) {
            Ok(file) => {
                println!("{node}: opened");
                questions(&file);
            }
            Err(error) => println!("{node}: {error}"),
        }
    }
}

fn open(node: &str) -> Result<File, Error> {
    OpenOptions::new().read(true).write(true).open(node)
}

/// All questions that one file is asked.
fn questions(file: &File) {
    ask(file, "version", CHECK_VERSION, &version(VERSION));
    ask(file, "another version", CHECK_VERSION, &version(b"1.0"));
    ask(file, "cards", CARD_INFO, &[0; CARD_INFO.1]);
    let mut alloc = vec![0; RM_ALLOC.1];
    alloc[12..16].copy_from_slice(&ROOT_CLIENT.to_le_bytes());
    let client = ask(file, "client", RM_ALLOC, &alloc);
    ask(file, "an unknown call", (0x7e, 16), &[0; 16]);
    ask(file, "a client in too few bytes", (RM_ALLOC.0, 8), &[0; 8]);
    let handle = &client[8..12];
    let mut map = vec![0; MAP_MEMORY.1];
    map[..4].copy_from_slice(handle);
    ask(file, "a mapping of nothing", MAP_MEMORY, &map);
    through_xfer(file);
    mapping(file);
    let mut free = vec![0; RM_FREE.1];
    free[..4].copy_from_slice(handle);
    free[8..12].copy_from_slice(handle);
    ask(file, "free", RM_FREE, &free);
}

fn version(text: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; CHECK_VERSION.1];
    bytes[8..8 + text.len()].copy_from_slice(text);
    bytes
}

/// Makes one call, prints its answer and returns the structure.
fn ask(file: &File, what: &str, (nr, size): (u32, usize), argument: &[u8]) -> Vec<u8> {
    let mut bytes = argument.to_vec();
    let answer = call(file, nr, size, bytes.as_mut_ptr());
    println!("{what}: {answer} {}", hex(&bytes));
    bytes
}

/// The version check again, wrapped as calls with large arguments are.
fn through_xfer(file: &File) {
    let mut inner = version(VERSION);
    let mut outer = vec![0; XFER.1];
    outer[..4].copy_from_slice(&CHECK_VERSION.0.to_le_bytes());
    outer[4..8].copy_from_slice(&(CHECK_VERSION.1 as u32).to_le_bytes());
    outer[8..].copy_from_slice(&(inner.as_mut_ptr() as u64).to_le_bytes());
    let answer = call(file, XFER.0, XFER.1, outer.as_mut_ptr());
    // Without the address, which is different in every process.
    println!(
        "version through XFER_CMD: {answer} {} {}",
        hex(&outer[..8]),
        hex(&inner)
    );
}

/// A mapping that was not prepared.
fn mapping(file: &File) {
    // SAFETY: Asks for a new range; nothing existing is touched.
    let address = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    let answer = if address == libc::MAP_FAILED {
        Error::last_os_error().to_string()
    } else {
        "mapped".to_owned()
    };
    println!("a mapping that was not prepared: {answer}");
}

/// The ioctl itself: `_IOWR('F', nr, size)`.
fn call(file: &File, nr: u32, size: usize, argument: *mut u8) -> String {
    let cmd = (3 << 30) | ((size as u64) << 16) | (u64::from(b'F') << 8) | u64::from(nr);
    // SAFETY: `argument` points to at least `size` bytes of the caller's.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), cmd, argument) };
    if answer < 0 {
        Error::last_os_error().to_string()
    } else {
        answer.to_string()
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}
