// SPDX-License-Identifier: GPL-2.0

//! `[double]` Which chip the card says it is.
//!
//! The state machine always behaves as a GK110B: an identity changes only the registers by which
//! drivers and LoGA tell chips apart.

use super::regs;

/// What the identifying registers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChipIdentity {
    /// PMC_BOOT_0.
    pub boot_0: u32,
    /// PMC_BOOT_42.
    pub boot_42: u32,
    /// The number of channels, in a register of chips from GM200 on; 0 on others.
    pub channels: u32,
}

impl ChipIdentity {
    /// GK110B revision A1, the chip that the state machine imitates.
    pub const GK110B: Self = Self {
        boot_0: regs::PMC_BOOT_0_GK110B,
        boot_42: regs::PMC_BOOT_42_GK110B,
        channels: 0,
    };

    /// GM204 revision A1.
    const GM204: Self = Self {
        boot_0: 0x1240_00a1,
        boot_42: 0x124a_1000,
        channels: 0x800,
    };

    /// The chip of a PCI device id, for the ids in the table. Source: nouveau
    /// `engine/device/base.c` and the PCI ids of the cards.
    pub fn of_device(device: u16) -> Option<Self> {
        match device {
            // GeForce GTX TITAN Black, GTX 780 Ti, Tesla K40m.
            0x100c | 0x100a | 0x1023 => Some(Self::GK110B),
            // GeForce GTX 970, GTX 980.
            0x13c2 | 0x13c0 => Some(Self::GM204),
            _ => None,
        }
    }
}

#[cfg(any(test, model_kunit))]
#[cfg_attr(model_kunit, kernel::macros::kunit_tests(loga_model_chip))]
mod tests {
    use super::*;

    #[test]
    fn device_of_a_known_card_gives_its_chip() {
        let boot_0 = |device| ChipIdentity::of_device(device).map(|chip| chip.boot_0 >> 20 & 0x1ff);
        assert_eq!(boot_0(0x100c), Some(0xf1));
        assert_eq!(boot_0(0x13c2), Some(0x124));
        assert_eq!(boot_0(0x1234), None);
    }
}
