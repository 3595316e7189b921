// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Calls of the driver: number, size, argument.

use crate::input::Input;
use loga::rm::{request_nr, request_size, Xfer};
use loga::track::call::{self, Call};

/// A field of an argument: its place, its length in bytes, and its value.
type Field = (usize, usize, u64);

/// Checks a parsed call against the structures of the driver's headers.
fn fields(call: &Call, size: usize) -> Vec<Field> {
    match *call {
        Call::MapMemory { fd } => {
            assert_eq!(fd.is_some(), size == 56, "a descriptor of {size} bytes");
            // CAST: the field is a signed descriptor.
            let fd = fd.map(|fd| (48, 4, u64::from(fd as u32)));
            fd.into_iter().collect()
        }
        Call::Alloc | Call::Free => Vec::new(),
    }
}

/// The number at a place in the bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let field = bytes[at..at + length].iter().rev();
    field.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Bytes are a command, a size that may differ from the one in the command, and the argument.
///
/// # Panics
///
/// A field differs from the bytes, or an incomplete call is accepted.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (cmd, other) = (input.u32(), input.u8());
    let bytes = input.rest();
    let (nr, said) = (request_nr(cmd), request_size(cmd));
    assert_eq!(nr, cmd & 0xff);
    assert!(said < 1 << 14);
    assert!(said == (cmd >> 16) as usize & 0x3fff);
    for size in [said, other.into(), bytes.len()] {
        let Some(understood) = call::parse(nr, size, bytes) else {
            continue;
        };
        assert!(
            size <= bytes.len(),
            "{understood:?} of {} bytes",
            bytes.len()
        );
        assert!(size <= call::MAX_PARSED, "{understood:?} of {size} bytes");
        assert!(call::is_of_interest(nr), "{understood:?} by {nr:#x}");
        for (at, length, value) in fields(&understood, size) {
            assert!(at + length <= size, "{understood:?}: a field at {at}");
            assert_eq!(number(bytes, at, length), value, "{understood:?}: {at}");
        }
        // What lies behind the argument does not matter, and without its last byte it is none.
        assert_eq!(call::parse(nr, size, &bytes[..size]), Some(understood));
        assert_eq!(call::parse(nr, size, &bytes[..size - 1]), None);
    }
    if let Some(xfer) = Xfer::parse(bytes) {
        assert_eq!(bytes.len(), 16);
        assert_eq!(number(bytes, 0, 4), u64::from(xfer.cmd));
        assert_eq!(number(bytes, 4, 4), u64::from(xfer.size));
        assert_eq!(number(bytes, 8, 8), xfer.ptr);
        assert_eq!(request_nr(xfer.cmd), u32::from(bytes[0]));
    } else {
        assert_ne!(bytes.len(), 16);
    }
}
