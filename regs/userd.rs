// SPDX-License-Identifier: GPL-2.0

//! Where in BAR1 the submission slots (USERD) of the channels lie.
//!
//! Sources: gk20a `fifo_bar1_base`; nouveau `engine/fifo/gk104.c`.

use super::{Mmio, ALL_ONES};

/// Bytes per channel on Kepler, Maxwell and Pascal: eight channels in a page.
pub const USERD_SLOT: u32 = 0x200;

/// Base of the area: bits 27:0 are its address in BAR1, in pages of 4 KiB.
const USERD_BASE: u32 = 0x00_2254;
/// The base is valid.
const VALID: u32 = 1 << 28;
const PAGE_SHIFT: u32 = 12;

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
    fn userd_base_not_yet_set_is_nothing() {
        assert_eq!(userd_base(&FakeMmio::new([(0x2254, 0x7d60)])), None);
        assert_eq!(userd_base(&FakeMmio::new([(0x2254, 0xffff_ffff)])), None);
    }
}
