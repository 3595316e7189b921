// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The few RM calls that LoGA has to understand.
//!
//! The driver distinguishes ioctls by number and size only, and so does this file.
//! Bytes are little endian, as on every machine that this driver runs on. A field
//! is read only if the size says that it is there.
//!
//! Numbers and sizes are those of [`crate::rm`].

use crate::rm::{nr, Alloc, AllocLong, Free, MapMemory, MapMemoryFd, ALLOC_LONG_SIZE_LATER};
use core::mem::size_of;

/// Largest argument that has to be copied for [`parse`].
pub const MAX_PARSED: usize = size_of::<MapMemoryFd>();

const ALLOC: usize = size_of::<Alloc>();
const ALLOC_LONG: usize = size_of::<AllocLong>();
const FREE: usize = size_of::<Free>();
const MAP_MEMORY: usize = size_of::<MapMemory>();
const MAP_MEMORY_FD: usize = size_of::<MapMemoryFd>();

/// An RM call that matters here, as its caller makes it. LoGA does not read the results: the caller
/// can write there as well as the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// An object is allocated.
    Alloc,
    /// An object is to be mapped into the caller.
    MapMemory {
        /// File that the mapping is prepared on, where the branch has one.
        fd: Option<i32>,
    },
    /// An object and its children are freed.
    Free,
}

/// Understands a call by its number, the size it was made with and its argument.
///
/// Nothing for other calls, for sizes that no branch knows, and when fewer than
/// `size` bytes are given.
pub fn parse(nr: u32, size: usize, bytes: &[u8]) -> Option<Call> {
    let bytes = bytes.get(..size)?;
    match (nr, size) {
        (nr::ALLOC, ALLOC | ALLOC_LONG | ALLOC_LONG_SIZE_LATER) => Some(Call::Alloc),
        (nr::MAP_MEMORY, MAP_MEMORY | MAP_MEMORY_FD) => Some(Call::MapMemory {
            fd: MapMemoryFd::parse_fd(bytes),
        }),
        (nr::FREE, FREE) => Some(Call::Free),
        _ => None,
    }
}

/// Whether [`parse`] may understand a call of this number.
pub const fn is_of_interest(nr: u32) -> bool {
    matches!(nr, nr::ALLOC | nr::MAP_MEMORY | nr::FREE)
}

/// Whether a request of this number may allocate, whatever its argument says.
pub const fn may_allocate(nr: u32) -> bool {
    matches!(nr, nr::ALLOC | nr::XFER_CMD)
}

/// Users that may have got a channel by a call that [`may_allocate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocators {
    /// The one that called.
    pub caller: u32,
    /// The one whose process allocates through the file. Nothing if that process has ended and owns no
    /// page: anybody may leave such a file behind, so that it concerns nobody but the caller.
    pub through: Option<u32>,
}

impl Allocators {
    /// Whether a page of this user may have got a channel.
    pub fn include(&self, user: u32) -> bool {
        user == self.caller || Some(user) == self.through
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_track_call))]
mod tests {
    use super::*;

    /// An argument in which each byte is its own position.
    fn argument() -> [u8; 64] {
        let mut bytes = [0; 64];
        for (index, byte) in (0u8..).zip(bytes.iter_mut()) {
            *byte = index;
        }
        bytes
    }

    #[test]
    fn parse_of_alloc_and_free_takes_all_their_sizes() {
        for size in [32, 40, 48] {
            assert_eq!(parse(nr::ALLOC, size, &argument()), Some(Call::Alloc));
        }
        assert_eq!(parse(nr::FREE, 16, &argument()), Some(Call::Free));
    }

    #[test]
    fn parse_map_memory_reads_the_file_if_there_is_one() {
        let call = |size| parse(nr::MAP_MEMORY, size, &argument());
        let fd = Some(0x3332_3130);
        assert_eq!(call(56), Some(Call::MapMemory { fd }));
        assert_eq!(call(48), Some(Call::MapMemory { fd: None }));
    }

    #[test]
    fn parse_of_an_odd_size_or_number_is_nothing() {
        for size in [0, 1, 31, 33, 57, 64] {
            assert_eq!(parse(nr::ALLOC, size, &argument()), None);
            assert_eq!(parse(nr::MAP_MEMORY, size, &argument()), None);
        }
        assert_eq!(parse(0x2a, 32, &argument()), None);
        assert!(!is_of_interest(0x2a));
        assert!(is_of_interest(nr::MAP_MEMORY));
    }

    #[test]
    fn parse_of_fewer_bytes_than_the_size_is_nothing() {
        assert_eq!(parse(nr::MAP_MEMORY, 56, &argument()[..55]), None);
        assert_eq!(parse(nr::MAP_MEMORY, usize::MAX, &argument()), None);
    }

    #[test]
    fn call_through_a_file_that_an_ended_process_left_concerns_the_caller_alone() {
        let left = Allocators {
            caller: 1000,
            through: None,
        };
        assert!(left.include(1000));
        assert!(!left.include(1001));
        assert!(!left.include(0));
        let passed = Allocators {
            through: Some(1001),
            ..left
        };
        assert!(passed.include(1000));
        assert!(passed.include(1001));
        assert!(!passed.include(1002));
    }
}
