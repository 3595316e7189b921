// SPDX-License-Identifier: GPL-2.0

//! NV_PTOP_DEVICE_INFO of Kepler to Turing: the chip's list of its engines, of which LoGA takes the
//! index of the first copy engine's status word.
//!
//! An engine is a chain of words of several types. Its index is a field of its chain, not the
//! position in the list.
//!
//! Sources: tu104 `dev_top`; nouveau `subdev/top/gk104.c`. That the list can be read on hardware is
//! *unverified*; a chip that shows no copy engine has none here.

use super::register::register;
use super::Mmio;

register! {
    /// One word of the list. Source: tu104 `dev_top`; the fields of ENUM: nouveau
    /// `subdev/top/gk104.c`.
    DeviceInfo = NV_PTOP_DEVICE_INFO[u8, stride = 4] @ 0x02_2700 {
        /// CHAIN: the entry goes on with the next word.
        31:31 goes_on => bool;
        /// ENTRY: the type of the word.
        1:0 entry => Entry;
        /// ENGINE_ENUM of an ENUM word, the index of the status word.
        29:26 engine;
        /// ENGINE of an ENUM word: the index is valid.
        5:5 has_engine => bool;
        /// TYPE_ENUM of an ENGINE_TYPE word.
        30:2 kind;
        /// INST_ID of a DATA word: which one of several engines of one type.
        29:26 instance;
    }
}

/// Words of the list.
const WORDS: u8 = 64;
/// TYPE_ENUM of the first copy engine before Pascal.
const COPY0: u32 = 1;
/// TYPE_ENUM of all copy engines from Pascal on; the instance tells which one.
const LCE: u32 = 19;

/// Type of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    NotValid,
    Data,
    Enum,
    EngineType,
}

impl Entry {
    const fn from_bits(bits: u32) -> Self {
        match bits {
            1 => Self::Data,
            2 => Self::Enum,
            3 => Self::EngineType,
            _ => Self::NotValid,
        }
    }
}

/// Index of the status word of the first copy engine, if the chip lists one. At most 64 reads.
pub(super) fn copy_engine(mmio: &impl Mmio) -> Option<u8> {
    let (mut engine, mut instance, mut kind) = (None, 0, None);
    for at in 0..WORDS {
        let word = mmio.read32(DeviceInfo::offset(at));
        if super::is_refused(word) {
            return None;
        }
        let word = DeviceInfo::from_bits(word);
        match word.entry() {
            Entry::NotValid => continue,
            Entry::Data => instance = word.instance(),
            // CAST: four bits.
            Entry::Enum => engine = word.has_engine().then_some(word.engine() as u8),
            Entry::EngineType => kind = Some(word.kind()),
        }
        if word.goes_on() {
            continue;
        }
        if kind == Some(COPY0) || (kind == Some(LCE) && instance == 0) {
            return engine;
        }
        (engine, instance, kind) = (None, 0, None);
    }
    None
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_device_info))]
mod tests {
    use super::super::FakeMmio;
    use super::*;

    const GR: [(u32, u32); 2] = [(0x2_2700, 0x8000_0032), (0x2_2704, 3)];

    #[test]
    fn copy_engine_of_kepler_has_the_index_of_its_chain() {
        let [one, two] = GR;
        let copy = [(0x2_2708, 0x9020_0032), (0x2_270c, 7)];
        let mmio = FakeMmio::new([one, two, copy[0], copy[1]]);
        assert_eq!(copy_engine(&mmio), Some(4));
        assert_eq!(mmio.reads(), 4);
    }

    #[test]
    fn copy_engine_behind_a_hole_and_in_another_order_is_found() {
        // Instance 1 first, then a word that is not valid, then instance 0 with its type first.
        let mmio = FakeMmio::new([
            (0x2_2700, 0x8400_0001),
            (0x2_2704, 0x8000_004f),
            (0x2_2708, 0x1400_0022),
            (0x2_2714, 0x8000_004f),
            (0x2_2718, 0x8000_0001),
            (0x2_271c, 0x1800_0022),
        ]);
        assert_eq!(copy_engine(&mmio), Some(6));
    }

    #[test]
    fn chip_without_a_copy_engine_has_none() {
        let [one, two] = GR;
        assert_eq!(copy_engine(&FakeMmio::new([one, two])), None);
        let mmio = FakeMmio::new([]);
        assert_eq!(copy_engine(&mmio), None);
        assert_eq!(mmio.reads(), 64);
    }

    #[test]
    fn copy_engine_without_a_valid_index_is_none() {
        let mmio = FakeMmio::new([(0x2_2700, 0x9000_0002), (0x2_2704, 7)]);
        assert_eq!(copy_engine(&mmio), None);
    }

    #[test]
    fn list_that_is_refused_or_gone_has_none() {
        for word in [0xbadf_1100, 0xffff_ffff] {
            let mmio = FakeMmio::new([(0x2_2700, word), (0x2_2704, 0x9020_0032), (0x2_2708, 7)]);
            assert_eq!(copy_engine(&mmio), None);
            assert_eq!(mmio.reads(), 1);
        }
    }
}
