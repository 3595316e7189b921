// SPDX-License-Identifier: GPL-2.0

//! Where in BAR1 the submission slots (USERD) of the channels lie, and reading the indices of the
//! command ring from a slot; [`submit`] has the layout of a slot.
//!
//! Sources: gk20a `fifo_bar1_base`; nouveau `engine/fifo/gk104.c`.

use super::register::register;
use super::Mmio;
use crate::ids::Chid;
use crate::rm::submit;

/// Bytes per channel on Kepler, Maxwell and Pascal: eight channels in a page.
// CAST: less than a page.
pub const USERD_SLOT: u32 = submit::USERD_SLOT as u32;

/// The base is in pages of 4 KiB.
const PAGE_SHIFT: u32 = 12;

// CAST (both): within a slot.
register! {
    /// Where in BAR1 the area is. Source: gk20a `fifo_bar1_base`.
    Bar1Base = NV_PFIFO_BAR1_BASE @ 0x00_2254 {
        /// The driver has set it.
        28:28 valid => bool;
        /// Its address, in pages.
        27:0 page;
    }

    /// In the slot of a channel: index of the next command to be fetched. Source:
    /// open-gpu-kernel-modules `class/cla06f.h`.
    GpGet = GP_GET[Chid, stride = USERD_SLOT] @ (submit::USERD_GP_GET as u32) {
        /// All of it.
        31:0 index;
    }

    /// In the slot of a channel: index of the next command to be written. Source:
    /// open-gpu-kernel-modules `class/cla06f.h`.
    GpPut = GP_PUT[Chid, stride = USERD_SLOT] @ (submit::USERD_GP_PUT as u32) {
        /// All of it.
        31:0 index;
    }
}

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
        Some(Self {
            get: GpGet::read(slots, chid).ok()?.index(),
            put: Self::read_put(slots, chid)?,
        })
    }

    /// Reads GP_PUT alone, as [`Ring::read`].
    pub fn read_put(slots: &impl Mmio, chid: Chid) -> Option<u32> {
        Some(GpPut::read(slots, chid).ok()?.index())
    }
}

/// Offset of the USERD area in BAR1, or nothing while the driver has not set it or
/// the device is gone.
pub fn userd_base(mmio: &impl Mmio) -> Option<u64> {
    let base = Bar1Base::read(mmio).ok()?;
    base.valid().then(|| u64::from(base.page()) << PAGE_SHIFT)
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
