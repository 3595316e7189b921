// SPDX-License-Identifier: GPL-2.0

//! [tool] Calls of the driver: number, size, argument.

use crate::input::Input;
use loga::track::rm;
use loga::track::rm::Call;

/// A field of an argument: where it is, how many bytes, and what was read.
type Field = (usize, usize, u64);

/// What the structures of the driver's headers say about a call that was understood.
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

/// The number that lies somewhere.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let field = bytes[at..at + length].iter().rev();
    field.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Bytes are a command, a size that may differ from the one in the command, and the argument.
///
/// # Panics
///
/// A field is not what the bytes say, or a call is understood that is not all there.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (cmd, other) = (input.u32(), input.u8());
    let bytes = input.rest();
    let (nr, said) = (rm::ioc_nr(cmd), rm::ioc_size(cmd));
    assert_eq!(u32::from(nr), cmd & 0xff);
    assert!(said < 1 << 14 && said == (cmd >> 16) as usize & 0x3fff);
    for size in [said, other.into(), bytes.len()] {
        let Some(call) = rm::parse(nr, size, bytes) else {
            continue;
        };
        assert!(size <= bytes.len(), "{call:?} of {} bytes", bytes.len());
        assert!(size <= rm::MAX_PARSED, "{call:?} of {size} bytes");
        assert!(rm::is_of_interest(nr), "{call:?} by {nr:#x}");
        for (at, length, value) in fields(&call, size) {
            assert!(at + length <= size, "{call:?}: a field at {at}");
            assert_eq!(number(bytes, at, length), value, "{call:?}: {at}");
        }
        // What lies behind the argument does not matter, and without its last byte it is none.
        assert_eq!(rm::parse(nr, size, &bytes[..size]), Some(call));
        assert_eq!(rm::parse(nr, size, &bytes[..size - 1]), None);
    }
    if let Some(xfer) = rm::Xfer::parse(bytes) {
        assert_eq!(bytes.len(), 16);
        assert_eq!(number(bytes, 0, 4), u64::from(xfer.cmd));
        assert_eq!(number(bytes, 4, 4), u64::from(xfer.size));
        assert_eq!(number(bytes, 8, 8), xfer.ptr);
        assert_eq!(xfer.nr(), bytes[0]);
    } else {
        assert_ne!(bytes.len(), 16);
    }
}
