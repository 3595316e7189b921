// SPDX-License-Identifier: GPL-2.0

//! `[tool]` One round of questions on every node, each answer a line.

use crate::calls::{self, Call};
use std::fs::File;

pub(crate) fn ask_all(version: &str) {
    for node in ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"] {
        match calls::open(node, 0) {
            Ok(file) => {
                println!("{node}: opened");
                questions(&file, version);
            }
            Err(error) => println!("{node}: {error}"),
        }
    }
}

/// All questions that one file is asked.
fn questions(file: &File, version: &str) {
    let ask = |what, call, argument: &[u8]| ask(file, what, call, argument);
    let check = calls::CHECK_VERSION;
    ask("version", check, &calls::version(version));
    ask("another version", check, &calls::version("1.0"));
    ask("cards", calls::CARD_INFO, &[0; calls::CARD_INFO.1]);
    let client = ask("client", calls::RM_ALLOC, &calls::client());
    ask("an unknown call", calls::UNKNOWN, &[0; calls::UNKNOWN.1]);
    let too_few = (calls::RM_ALLOC.0, 8);
    ask("a client in too few bytes", too_few, &[0; 8]);
    let handle = &client[8..12];
    let mut map = vec![0; calls::MAP_MEMORY.1];
    map[..4].copy_from_slice(handle);
    ask("a mapping of nothing", calls::MAP_MEMORY, &map);
    through_xfer(file, version);
    let mapped = calls::map(file, libc::MAP_SHARED);
    println!("a mapping that was not prepared: {mapped}");
    ask("free", calls::RM_FREE, &calls::free(handle));
}

/// Makes one call, prints its answer and returns the structure.
fn ask(file: &File, what: &str, call: Call, argument: &[u8]) -> Vec<u8> {
    let (answer, bytes) = calls::make(file, call, argument);
    println!("{what}: {answer} {}", calls::hex(&bytes));
    bytes
}

/// The version check again, wrapped as calls with large arguments are.
fn through_xfer(file: &File, version: &str) {
    let mut inner = calls::version(version);
    let (nr, size) = calls::CHECK_VERSION;
    let mut outer = vec![0; calls::XFER.1];
    outer[..4].copy_from_slice(&nr.to_le_bytes());
    outer[4..8].copy_from_slice(&(size as u32).to_le_bytes());
    outer[8..].copy_from_slice(&(inner.as_mut_ptr() as u64).to_le_bytes());
    let (answer, outer) = calls::make(file, calls::XFER, &outer);
    // Without the address, which is different in every process.
    println!(
        "version through XFER_CMD: {answer} {} {}",
        calls::hex(&outer[..8]),
        calls::hex(&inner)
    );
}
