// SPDX-License-Identifier: GPL-2.0

//! [pure] The few RM calls that LoGA has to understand.
//!
//! The driver looks at the number and the size of an ioctl only, so this does too.
//! Bytes are little endian, as on every machine that this driver runs on. A field
//! is read only if the size says that it is there.
//!
//! Sources: driver 470 `nv-ioctl-numbers.h`; open driver 515 `nv_escape.h`, `nvos.h`.

/// RM_FREE.
pub const NR_FREE: u8 = 0x29;
/// RM_ALLOC.
pub const NR_ALLOC: u8 = 0x2b;
/// MAP_MEMORY.
pub const NR_MAP_MEMORY: u8 = 0x4e;
/// IOCTL_XFER_CMD: the real call is elsewhere, see [`Xfer`].
pub const NR_XFER: u8 = 211;

/// Largest argument that the driver accepts through [`Xfer`].
pub const MAX_ARGUMENT: usize = 16384;
/// Largest argument that has to be copied for [`parse`].
pub const MAX_PARSED: usize = SIZE_MAP_MEMORY_FD;

/// `NVOS00_PARAMETERS`.
const SIZE_FREE: usize = 16;
/// `NVOS21_PARAMETERS`: the short form of RM_ALLOC.
const SIZE_ALLOC: usize = 32;
/// `NVOS64_PARAMETERS`: the long form of RM_ALLOC.
const SIZE_ALLOC_LONG: usize = 48;
/// As [`SIZE_ALLOC_LONG`], in branches up to 515.
const SIZE_ALLOC_LONG_515: usize = 40;
/// `NVOS33_PARAMETERS`.
const SIZE_MAP_MEMORY: usize = 48;
/// `nv_ioctl_nvos33_parameters_with_fd`.
const SIZE_MAP_MEMORY_FD: usize = 56;
/// `nv_ioctl_xfer_t`.
const SIZE_XFER: usize = 16;

/// Number of an ioctl command (`_IOC_NR`).
pub const fn ioc_nr(cmd: u32) -> u8 {
    // CAST: the low eight bits.
    (cmd & 0xff) as u8
}

/// Size of the argument of an ioctl command (`_IOC_SIZE`).
pub const fn ioc_size(cmd: u32) -> usize {
    // CAST: 14 bits fit.
    ((cmd >> 16) & 0x3fff) as usize
}

/// An RM call that matters here, as its caller makes it. Nothing is read of what comes back:
/// the caller can write there as well as the driver.
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
pub fn parse(nr: u8, size: usize, bytes: &[u8]) -> Option<Call> {
    let bytes = bytes.get(..size)?;
    match (nr, size) {
        (NR_ALLOC, SIZE_ALLOC | SIZE_ALLOC_LONG | SIZE_ALLOC_LONG_515) => Some(Call::Alloc),
        (NR_MAP_MEMORY, SIZE_MAP_MEMORY | SIZE_MAP_MEMORY_FD) => Some(Call::MapMemory {
            // CAST: the field is a signed file descriptor.
            fd: u32_at(bytes, 48).map(|fd| fd as i32),
        }),
        (NR_FREE, SIZE_FREE) => Some(Call::Free),
        _ => None,
    }
}

/// Whether [`parse`] may understand a call of this number.
pub const fn is_of_interest(nr: u8) -> bool {
    matches!(nr, NR_ALLOC | NR_MAP_MEMORY | NR_FREE)
}

/// The argument of IOCTL_XFER_CMD: a call whose size does not fit an ioctl number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xfer {
    /// Number of the real call.
    pub cmd: u32,
    /// Size of its argument.
    pub size: u32,
    /// User address of its argument.
    pub ptr: u64,
}

impl Xfer {
    /// Understands the argument of an ioctl with number [`NR_XFER`].
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != SIZE_XFER {
            return None;
        }
        Some(Self {
            cmd: u32_at(bytes, 0)?,
            size: u32_at(bytes, 4)?,
            ptr: u64_at(bytes, 8)?,
        })
    }

    /// Number of the real call, as the driver takes it.
    pub const fn nr(&self) -> u8 {
        ioc_nr(self.cmd)
    }
}

/// The 32-bit number at a byte offset.
fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

/// The 64-bit number at a byte offset.
fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_track_rm))]
mod tests {
    use super::*;

    /// An argument whose bytes say where they are.
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
            assert_eq!(parse(NR_ALLOC, size, &argument()), Some(Call::Alloc));
        }
        assert_eq!(parse(NR_FREE, 16, &argument()), Some(Call::Free));
    }

    #[test]
    fn parse_map_memory_reads_the_file_if_there_is_one() {
        let call = |size| parse(NR_MAP_MEMORY, size, &argument());
        let fd = Some(0x3332_3130);
        assert_eq!(call(56), Some(Call::MapMemory { fd }));
        assert_eq!(call(48), Some(Call::MapMemory { fd: None }));
    }

    #[test]
    fn parse_of_an_odd_size_or_number_is_nothing() {
        for size in [0, 1, 31, 33, 57, 64] {
            assert_eq!(parse(NR_ALLOC, size, &argument()), None);
            assert_eq!(parse(NR_MAP_MEMORY, size, &argument()), None);
        }
        assert_eq!(parse(0x2a, 32, &argument()), None);
        assert!(!is_of_interest(0x2a) && is_of_interest(NR_MAP_MEMORY));
    }

    #[test]
    fn parse_of_fewer_bytes_than_the_size_is_nothing() {
        assert_eq!(parse(NR_MAP_MEMORY, 56, &argument()[..55]), None);
        assert_eq!(parse(NR_MAP_MEMORY, usize::MAX, &argument()), None);
    }

    #[test]
    fn xfer_names_the_real_call() {
        let mut bytes = [0; 16];
        bytes[0] = NR_MAP_MEMORY;
        bytes[4] = 56;
        bytes[8] = 0x10;
        let xfer = Xfer::parse(&bytes);
        assert_eq!(
            xfer,
            Some(Xfer {
                cmd: 0x4e,
                size: 56,
                ptr: 0x10
            })
        );
        assert_eq!(xfer.map(|xfer| xfer.nr()), Some(NR_MAP_MEMORY));
        assert_eq!(Xfer::parse(&bytes[..15]), None);
    }

    #[test]
    fn ioc_fields_of_a_command_are_separated() {
        assert_eq!(ioc_nr(0xc038_464e), NR_MAP_MEMORY);
        assert_eq!(ioc_size(0xc038_464e), 56);
    }
}
