// SPDX-License-Identifier: GPL-2.0

//! Which chip this is, from PMC_BOOT_0, and what follows from it.
//!
//! Sources: gv100 `dev_master` (PMC_BOOT_0); nouveau `engine/device/base.c` (chip
//! table), `engine/fifo/{gk104,gk110,gk208,gk20a,gm107,gm200}.c` (channel counts).

use super::device_info::copy_engine;
use super::register::register;
use super::{Error, Mmio, USERD_SLOT};
use crate::ids::{Chipset, MAX_CHANNELS};
use core::fmt;

register! {
    /// Which chip this is. Source: gv100 `dev_master`.
    Boot0 = NV_PMC_BOOT_0 @ 0x00_0000 {
        /// All of it.
        31:0 word;
        /// ARCHITECTURE 28:24 and IMPLEMENTATION 23:20.
        28:20 chipset;
    }

    /// Number of channels on GM200 and later chips up to Turing; no manual names it. Source:
    /// nouveau `engine/fifo/gm200.c`.
    ChannelCount = CHANNEL_COUNT @ 0x00_2008 {
        /// All of it.
        31:0 count;
    }
}

/// Generation of a GPU, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// G80 to GT2xx.
    Tesla,
    /// GF1xx.
    Fermi,
    /// GK1xx, GK2xx.
    Kepler,
    /// GM1xx, GM2xx.
    Maxwell,
    /// GP1xx.
    Pascal,
    /// GV1xx.
    Volta,
    /// TU1xx.
    Turing,
    /// GA1xx.
    Ampere,
    /// AD1xx.
    Ada,
    /// GH1xx.
    Hopper,
    /// GB1xx, GB2xx.
    Blackwell,
}

impl Family {
    /// The family of a chip, by its architecture (bits 8:4 of the id). Sources: open-gpu-kernel-modules
    /// `nv_arch.h`, nouveau `engine/device/base.c`.
    pub const fn of(chipset: Chipset) -> Option<Self> {
        Some(match chipset.get() >> 4 {
            0x05 | 0x08..=0x0a => Family::Tesla,
            0x0c | 0x0d => Family::Fermi,
            0x0e..=0x10 => Family::Kepler,
            0x11 | 0x12 => Family::Maxwell,
            0x13 => Family::Pascal,
            0x14 | 0x15 => Family::Volta,
            0x16 => Family::Turing,
            0x17 => Family::Ampere,
            0x18 => Family::Hopper,
            0x19 => Family::Ada,
            0x1a | 0x1b => Family::Blackwell,
            _ => return None,
        })
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Tesla => "Tesla",
            Family::Fermi => "Fermi",
            Family::Kepler => "Kepler",
            Family::Maxwell => "Maxwell",
            Family::Pascal => "Pascal",
            Family::Volta => "Volta",
            Family::Turing => "Turing",
            Family::Ampere => "Ampere",
            Family::Ada => "Ada",
            Family::Hopper => "Hopper",
            Family::Blackwell => "Blackwell",
        })
    }
}

/// What LoGA has to know about a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// Its id.
    pub chipset: Chipset,
    /// Its generation.
    pub family: Family,
    /// Channels it has.
    pub channels: u16,
    /// Bytes per channel in the USERD area of BAR1; nothing where submissions go
    /// through a doorbell (Volta and later).
    pub userd_slot: Option<u32>,
    /// Index of the status word of its first copy engine, if it lists one.
    pub copy_engine: Option<u8>,
}

impl Chip {
    /// This chip, if LoGA can follow its submissions.
    ///
    /// # Errors
    ///
    /// [`Error::UnsupportedChip`] where they go through a doorbell.
    pub fn followed(self) -> Result<Self, Error> {
        let chipset = self.chipset;
        self.userd_slot
            .map(|_| self)
            .ok_or(Error::UnsupportedChip { chipset })
    }
}

/// Where the number of channels comes from.
enum Channels {
    Fixed(u16),
    Register,
}

/// Finds out which chip this is.
///
/// # Errors
///
/// [`Error::DeviceGone`], [`Error::UnsupportedChip`] for chips with other layouts of the status
/// word (Fermi; Ampere and later), [`Error::UnknownChip`], [`Error::Implausible`] when the chip
/// reports an impossible number of channels.
pub fn detect(mmio: &impl Mmio) -> Result<Chip, Error> {
    let boot0 = Boot0::read(mmio)?;
    // CAST: nine bits fit 16.
    let chipset = Chipset::new(boot0.chipset() as u16);
    let (family, channels) = match chipset.get() {
        0xe4 | 0xe6 | 0xe7 | 0xf0 | 0xf1 => (Family::Kepler, Channels::Fixed(4096)),
        0x106 | 0x108 => (Family::Kepler, Channels::Fixed(1024)),
        0xea => (Family::Kepler, Channels::Fixed(128)),
        // The count of GM108 is taken from GM107, unverified.
        0x117 | 0x118 => (Family::Maxwell, Channels::Fixed(2048)),
        0x120 | 0x124 | 0x126 | 0x12b => (Family::Maxwell, Channels::Register),
        0x130 | 0x132 | 0x134 | 0x136 | 0x137 | 0x138 | 0x13b => {
            (Family::Pascal, Channels::Register)
        }
        0x140 => (Family::Volta, Channels::Register),
        0x162 | 0x164 | 0x166 | 0x167 | 0x168 => (Family::Turing, Channels::Register),
        0xc0..=0xd9 | 0x170..=0x1bf => return Err(Error::UnsupportedChip { chipset }),
        _ => {
            return Err(Error::UnknownChip {
                boot0: boot0.word(),
            })
        }
    };
    let channels = match channels {
        Channels::Fixed(count) => count,
        Channels::Register => channel_count(mmio)?,
    };
    let userd_slot = match family {
        Family::Kepler | Family::Maxwell | Family::Pascal => Some(USERD_SLOT),
        _ => None,
    };
    Ok(Chip {
        chipset,
        family,
        channels,
        userd_slot,
        copy_engine: copy_engine(mmio),
    })
}

/// The number of channels a chip reports.
fn channel_count(mmio: &impl Mmio) -> Result<u16, Error> {
    let value = ChannelCount::read(mmio)?.count();
    match u16::try_from(value) {
        Ok(count) if count > 0 && usize::from(count) <= MAX_CHANNELS => Ok(count),
        _ => Err(Error::Implausible {
            offset: ChannelCount::OFFSET,
            value,
        }),
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_chip))]
mod tests {
    use super::super::FakeMmio;
    use super::*;

    #[test]
    fn detect_gk110b_has_4096_channels() {
        let chip = detect(&FakeMmio::new([(0, 0x0f10_00a1)]));
        assert_eq!(
            chip,
            Ok(Chip {
                chipset: Chipset::new(0xf1),
                family: Family::Kepler,
                channels: 4096,
                userd_slot: Some(0x200),
                copy_engine: None,
            })
        );
    }

    #[test]
    fn detect_gk208_has_1024_channels() {
        let chip = detect(&FakeMmio::new([(0, 0x1080_00a1)]));
        assert_eq!(chip.map(|chip| chip.channels), Ok(1024));
    }

    #[test]
    fn detect_turing_reads_the_channel_count() {
        let chip = detect(&FakeMmio::new([(0, 0x1640_00a1), (0x2008, 4096)]));
        assert_eq!(chip.map(|chip| chip.channels), Ok(4096));
        assert_eq!(chip.map(|chip| chip.userd_slot), Ok(None));
    }

    #[test]
    fn followed_with_a_doorbell_is_refused() {
        let chip = detect(&FakeMmio::new([(0, 0x1640_00a1), (0x2008, 4096)]));
        let chipset = Chipset::new(0x164);
        let followed = chip.and_then(Chip::followed);
        assert_eq!(followed, Err(Error::UnsupportedChip { chipset }));
        let kepler = detect(&FakeMmio::new([(0, 0x0f10_00a1)]));
        assert_eq!(kepler.and_then(Chip::followed), kepler);
    }

    #[test]
    fn detect_with_an_absurd_channel_count_refuses() {
        let chip = detect(&FakeMmio::new([(0, 0x1300_00a1), (0x2008, 5000)]));
        assert_eq!(
            chip,
            Err(Error::Implausible {
                offset: 0x2008,
                value: 5000
            })
        );
        assert!(detect(&FakeMmio::new([(0, 0x1300_00a1)])).is_err());
    }

    #[test]
    fn detect_fermi_and_ampere_refuses() {
        for chipset in [0xc0u32, 0xd9, 0x170, 0x180, 0x1b7] {
            let chip = detect(&FakeMmio::new([(0, chipset << 20)]));
            // CAST: nine bits fit 16.
            let chipset = Chipset::new(chipset as u16);
            assert_eq!(chip, Err(Error::UnsupportedChip { chipset }));
        }
    }

    #[test]
    fn family_of_a_chip_is_that_of_its_architecture() {
        for (chipset, family) in [
            (0x50, Some(Family::Tesla)),
            (0xd9, Some(Family::Fermi)),
            (0xf2, Some(Family::Kepler)),
            (0x106, Some(Family::Kepler)),
            (0x12b, Some(Family::Maxwell)),
            (0x134, Some(Family::Pascal)),
            (0x140, Some(Family::Volta)),
            (0x168, Some(Family::Turing)),
            (0x170, Some(Family::Ampere)),
            (0x180, Some(Family::Hopper)),
            (0x192, Some(Family::Ada)),
            (0x1b2, Some(Family::Blackwell)),
            (0x1c0, None),
        ] {
            assert_eq!(Family::of(Chipset::new(chipset)), family);
        }
    }

    #[test]
    fn detect_garbage_refuses() {
        let chip = detect(&FakeMmio::new([(0, 0x0050_0000)]));
        assert_eq!(chip, Err(Error::UnknownChip { boot0: 0x0050_0000 }));
    }

    #[test]
    fn detect_all_ones_is_a_lost_device() {
        let chip = detect(&FakeMmio::new([(0, 0xffff_ffff)]));
        assert_eq!(chip, Err(Error::DeviceGone));
    }
}
