// SPDX-License-Identifier: GPL-2.0

//! One read of the occupant of a copy engine.
//!
//! A copy engine is measured beside the compute engine, so nothing that it shows is an error: a
//! word that tells nothing leaves its time unmeasured, and no more.
//!
//! Source of the rule for a context switch: nouveau `engine/fifo/gk104.c`. Only the compute engine
//! has firmware that tells whether the next context is being loaded; on others the old one counts.

use super::{is_refused, EngineStatus, Mmio, Occupant, Reading};

/// Reads what is on one copy engine.
#[derive(Clone, Copy, Debug)]
pub struct CopyReader {
    /// Offset of the engine's status word.
    offset: u32,
    last: Reading,
    reads: u64,
}

impl CopyReader {
    /// A reader of this engine: [`Chip::copy_engine`](super::Chip).
    pub const fn new(engine: u8) -> Self {
        Self {
            offset: EngineStatus::offset(engine),
            last: Reading {
                word: 0,
                occupant: Occupant::Idle,
            },
            reads: 0,
        }
    }

    /// What is on the engine now. Never sleeps; one register read. Nothing if the word tells
    /// nothing: the read was refused, or the device is gone.
    #[inline]
    pub fn read(&mut self, mmio: &impl Mmio) -> Option<Occupant> {
        let word = mmio.read32(self.offset);
        self.reads = self.reads.saturating_add(1);
        if word == self.last.word {
            return Some(self.last.occupant);
        }
        if is_refused(word) {
            return None;
        }
        let occupant = EngineStatus::decode(word, false).ok()?;
        self.last = Reading { word, occupant };
        Some(occupant)
    }

    /// Register reads made so far.
    pub const fn reads(&self) -> u64 {
        self.reads
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_copy_reader))]
mod tests {
    use super::super::FakeMmio;
    use super::*;
    use crate::ids::Chid;

    fn channel(id: u32) -> Option<Occupant> {
        Some(Occupant::Channel(Chid::from_bits(id)))
    }

    #[test]
    fn read_takes_one_read_of_the_engine_s_own_word() {
        let mmio = FakeMmio::new([(0x2640, 0x8000_2003), (0x2660, 0x8000_2005)]);
        let mut reader = CopyReader::new(4);
        assert_eq!(reader.read(&mmio), channel(5));
        assert_eq!(reader.read(&mmio), channel(5));
        assert_eq!((mmio.reads(), reader.reads()), (2, 2));
    }

    #[test]
    fn read_in_a_switch_is_the_old_context_without_a_second_read() {
        let mmio = FakeMmio::new([(0x2660, 0x8009_e005), (0x40_9808, 0x0008_0000)]);
        assert_eq!(CopyReader::new(4).read(&mmio), channel(5));
        assert_eq!(mmio.reads(), 1);
    }

    #[test]
    fn read_that_is_refused_or_gone_tells_nothing_and_is_tried_again() {
        let mut mmio = FakeMmio::new([(0x2660, 0xbadf_1100)]);
        let mut reader = CopyReader::new(4);
        assert_eq!(reader.read(&mmio), None);
        assert_eq!(reader.read(&mmio), None);
        mmio.set(0x2660, 0xffff_ffff);
        assert_eq!(reader.read(&mmio), None);
        mmio.set(0x2660, 0x8000_2005);
        assert_eq!(reader.read(&mmio), channel(5));
    }
}
