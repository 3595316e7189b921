// SPDX-License-Identifier: GPL-2.0

//! Where in BAR1 the submission slots (USERD) of the channels lie, and reading a slot's indices
//! of the ring of commands; what a slot has where is in [`submit`].
//!
//! Sources: gk20a `fifo_bar1_base`; nouveau `engine/fifo/gk104.c`.

use super::{read_alive, Mmio, ALL_ONES};
use crate::ids::Chid;
use crate::rm::submit;

/// Bytes per channel on Kepler, Maxwell and Pascal: eight channels in a page.
// CAST: less than a page.
pub const USERD_SLOT: u32 = submit::USERD_SLOT as u32;

/// Base of the area: bits 27:0 are its address in BAR1, in pages of 4 KiB.
const USERD_BASE: u32 = 0x00_2254;
/// The base is valid.
const VALID: u32 = 1 << 28;
const PAGE_SHIFT: u32 = 12;
// CAST (both): within a slot.
/// In a slot: index of the next command to be fetched.
const GP_GET: u32 = submit::USERD_GP_GET as u32;
/// In a slot: index of the next command to be written.
const GP_PUT: u32 = submit::USERD_GP_PUT as u32;

/// Where a channel is in its ring of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// GP_GET.
    pub get: u32,
    /// GP_PUT.
    pub put: u32,
}

impl Ring {
    /// Reads both indices of a channel from `slots`, the window on the slots of all channels.
    /// Nothing if the device is gone.
    pub fn read(slots: &impl Mmio, chid: Chid) -> Option<Self> {
        // CAST: widening.
        let slot = USERD_SLOT * chid.get() as u32;
        Some(Self {
            get: read_alive(slots, slot + GP_GET).ok()?,
            put: read_alive(slots, slot + GP_PUT).ok()?,
        })
    }
}

/// Offset of the USERD area in BAR1, or nothing while the driver has not set it or
/// the device is gone.
pub fn userd_base(mmio: &impl Mmio) -> Option<u64> {
    let word = mmio.read32(USERD_BASE);
    if word == ALL_ONES || word & VALID == 0 {
        return None;
    }
    Some(u64::from(word & 0x0fff_ffff) << PAGE_SHIFT)
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_userd))]
mod tests {
    use super::super::FakeMmio;
    use super::*;

    #[test]
    fn userd_base_of_a_kepler_is_in_bytes() {
        let mmio = FakeMmio::new([(0x2254, 0x1000_7d60)]);
        assert_eq!(userd_base(&mmio), Some(0x7d6_0000));
    }

    #[test]
    fn ring_of_a_channel_is_in_its_slot() {
        let mmio = FakeMmio::new([(0x688, 7), (0x68c, 9), (0x88c, u32::MAX)]);
        let ring = |chid| Ring::read(&mmio, Chid::from_bits(chid));
        assert_eq!(ring(3), Some(Ring { get: 7, put: 9 }));
        assert_eq!(ring(4), None);
    }

    #[test]
    fn userd_base_not_yet_set_is_nothing() {
        assert_eq!(userd_base(&FakeMmio::new([(0x2254, 0x7d60)])), None);
        assert_eq!(userd_base(&FakeMmio::new([(0x2254, 0xffff_ffff)])), None);
    }
}
