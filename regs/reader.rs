// SPDX-License-Identifier: GPL-2.0

//! One read of the occupant of an engine, from either source.
//!
//! A status word that names a TSG does not say which channel runs, so the firmware's pointer to the
//! current context is read with it. That NVIDIA's firmware keeps the pointer is *unverified*.
//!
//! Sources: the loading bit: nouveau `engine/gr/gf100.c` (with NVIDIA's firmware); the pointer:
//! gk20a `gr_fecs_current_ctx`.

use super::register::register;
use super::{ChannelTable, Chip, EngineStatus, Error, Mmio, Occupant, Reading};
use crate::names::named;

register! {
    /// Word in which NVIDIA's context-switch firmware shows what it does. Source: nouveau
    /// `engine/gr/gf100.c`.
    Mailbox = FECS_MAILBOX @ 0x40_9808 {
        /// It is loading the next context.
        19:19 loading => bool;
    }
}

register! {
    /// The context that the compute engine executes, according to the context-switch firmware.
    /// Source: gk20a `gr_fecs_current_ctx`.
    CurrentCtx = FECS_CURRENT_CTX @ 0x40_9b00 {
        /// VALID: there is one.
        31:31 valid => bool;
        /// PTR and TARGET: address and memory kind of its instance block.
        29:0 context;
    }
}

/// No status word that [`OccupantReader`] keeps: all ones are an error.
const UNSETTLED: u32 = super::ALL_ONES;

named! {
    /// Where observations come from.
    pub enum Source of "source" {
        /// The engine's status word: one read.
        #[default]
        EngineStatus = "engine-status",
        /// The current-context pointer and the channel table, as in the paper.
        ChannelTable = "channel-table",
    }
}

/// Offset of the status word of the compute engine.
const COMPUTE: u32 = EngineStatus::offset(0);

/// Reads what is on one engine.
pub struct OccupantReader {
    source: Source,
    /// Offset of the engine's status word.
    offset: u32,
    last: Reading,
    /// The word whose meaning `last` has and need not be asked for again.
    settled: u32,
    table: ChannelTable,
    reads: u64,
}

impl OccupantReader {
    /// A reader of `engine` of `chip`; engine 0 is compute. The channel table shows engine 0 only.
    pub const fn new(source: Source, chip: &Chip, engine: u8) -> Self {
        Self::of_channels(source, chip.channels, engine)
    }

    const fn of_channels(source: Source, channels: u16, engine: u8) -> Self {
        Self {
            source,
            offset: EngineStatus::offset(engine),
            last: Reading {
                word: 0,
                occupant: Occupant::Idle,
            },
            settled: 0,
            table: ChannelTable::new(channels),
            reads: 0,
        }
    }

    /// What is on the engine now. Never sleeps; one register read for
    /// [`Source::EngineStatus`] (two while a context is being switched, three when a TSG comes).
    ///
    /// # Errors
    ///
    /// [`Error::DeviceGone`].
    #[inline]
    pub fn read(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        match self.source {
            Source::EngineStatus => self.read_status(mmio),
            Source::ChannelTable => self.read_table(mmio),
        }
    }

    /// Register reads made so far.
    pub const fn reads(&self) -> u64 {
        self.reads
    }

    /// Where observations come from.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The last status word and what it meant; meaningless for the channel table.
    pub const fn last(&self) -> Reading {
        self.last
    }

    fn read_status(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        let word = mmio.read32(self.offset);
        self.reads = self.reads.saturating_add(1);
        // The meaning of a word in a switch changes while the word stays the same.
        let needs_loading = EngineStatus::needs_loading_bit(word);
        if word == self.settled && !needs_loading {
            return Ok(self.last.occupant);
        }
        let loading = needs_loading && {
            self.reads = self.reads.saturating_add(1);
            Mailbox::read(mmio)?.loading()
        };
        let mut occupant = EngineStatus::decode(word, loading)?;
        self.settled = word;
        if let Occupant::Tsg { context, .. } = &mut occupant {
            if self.offset == COMPUTE && EngineStatus::shows_tsg(word) {
                *context = self.read_context(mmio, word)?;
            }
        }
        self.last = Reading { word, occupant };
        Ok(occupant)
    }

    /// The context of the TSG that the engine's status word names; 0 if it is not there any more,
    /// or the firmware has not stored it yet: it is asked for again then.
    #[inline(never)]
    fn read_context(&mut self, mmio: &impl Mmio, word: u32) -> Result<u32, Error> {
        self.reads = self.reads.saturating_add(1);
        self.settled = UNSETTLED;
        let current = CurrentCtx::read(mmio)?;
        if !current.valid() {
            return Ok(0);
        }
        self.reads = self.reads.saturating_add(1);
        if mmio.read32(self.offset) != word {
            return Ok(0);
        }
        self.settled = word;
        Ok(current.context())
    }

    fn read_table(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        let counted = Counted {
            mmio,
            reads: core::cell::Cell::new(0),
        };
        let occupant = self.table.read(&counted);
        self.reads = self.reads.saturating_add(counted.reads.get());
        Ok(occupant?)
    }
}

/// What is on the compute engine now, by its status word.
///
/// # Errors
///
/// [`Error::DeviceGone`].
pub fn occupant(mmio: &impl Mmio) -> Result<Occupant, Error> {
    OccupantReader::of_channels(Source::EngineStatus, 0, 0).read(mmio)
}

/// Counts the reads that pass through.
struct Counted<'a, M: Mmio> {
    mmio: &'a M,
    reads: core::cell::Cell<u64>,
}

impl<M: Mmio> Mmio for Counted<'_, M> {
    fn read32(&self, offset: u32) -> u32 {
        self.reads.set(self.reads.get().saturating_add(1));
        self.mmio.read32(offset)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_reader))]
mod tests {
    use super::super::{FakeMmio, Family, USERD_SLOT};
    use super::*;
    use crate::ids::{Chid, Chipset, TsgId};

    const CHIP: Chip = Chip {
        chipset: Chipset::new(0xf1),
        family: Family::Kepler,
        channels: 16,
        userd_slot: Some(USERD_SLOT),
        copy_engine: None,
    };

    fn channel(chid: u32) -> Result<Occupant, Error> {
        Ok(Occupant::Channel(Chid::from_bits(chid)))
    }

    #[test]
    fn read_of_the_status_word_takes_one_read() {
        let mut reader = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
        let mut mmio = FakeMmio::new([(0x2640, 0x8000_2005)]);
        assert_eq!(reader.read(&mmio), channel(5));
        assert_eq!(reader.read(&mmio), channel(5));
        mmio.set(0x2640, 0x8000_2006);
        assert_eq!(reader.read(&mmio), channel(6));
        assert_eq!(mmio.reads(), 3);
        assert_eq!(reader.reads(), 3);
    }

    #[test]
    fn read_without_a_reader_is_that_of_a_new_one() {
        let mmio = FakeMmio::new([(0x2640, 0x8000_3007), (0x40_9b00, 0xa000_1234)]);
        let mut reader = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
        assert_eq!(occupant(&mmio), reader.read(&mmio));
        assert_eq!(mmio.reads(), 6);
    }

    #[test]
    fn read_in_a_switch_follows_the_firmware_each_time() {
        let mut reader = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
        let mut mmio = FakeMmio::new([(0x2640, 0x8009_e005), (0x40_9808, 0)]);
        assert_eq!(reader.read(&mmio), channel(5));
        mmio.set(0x40_9808, 0x0008_0000);
        assert_eq!(reader.read(&mmio), channel(9));
        assert_eq!(reader.reads(), 4);
    }

    #[test]
    fn read_of_a_tsg_has_the_context_of_its_channel() {
        let mut reader = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
        let mut mmio = FakeMmio::new([(0x2640, 0x8000_3007), (0x40_9b00, 0)]);
        let tsg = |context| {
            let id = TsgId::from_bits(7);
            Ok(Occupant::Tsg { id, context })
        };
        // The firmware has not stored it yet.
        assert_eq!(reader.read(&mmio), tsg(0));
        mmio.set(0x40_9b00, 0xa000_1234);
        assert_eq!(reader.read(&mmio), tsg(0x2000_1234));
        assert_eq!((reader.reads(), mmio.reads()), (5, 5));
        // Known from now on.
        assert_eq!(reader.read(&mmio), tsg(0x2000_1234));
        assert_eq!(reader.reads(), 6);
        // While its context is being saved, the pointer may be that of the next one.
        mmio.set(0x2640, 0x8000_d007);
        mmio.set(0x40_9b00, 0xa000_5678);
        assert_eq!(reader.read(&mmio), tsg(0));
        // Other engines have no such pointer.
        let mut copies = OccupantReader::new(Source::EngineStatus, &CHIP, 4);
        let mmio = FakeMmio::new([(0x2660, 0x8000_3007), (0x40_9b00, 0xa000_1234)]);
        assert_eq!((copies.read(&mmio), mmio.reads()), (tsg(0), 1));
    }

    #[test]
    fn read_of_a_lost_device_fails_every_time() {
        for source in [Source::EngineStatus, Source::ChannelTable] {
            let mut reader = OccupantReader::new(source, &CHIP, 0);
            let mmio = FakeMmio::new([(0x2640, 0xffff_ffff), (0x40_9a0c, 0xffff_ffff)]);
            assert_eq!(reader.read(&mmio), Err(Error::DeviceGone));
            assert_eq!(reader.read(&mmio), Err(Error::DeviceGone));
        }
    }

    #[test]
    fn read_by_both_sources_agrees() {
        let mmio = FakeMmio::new([
            (0x2640, 0x8000_2003),
            (0x40_9a0c, 0x2000_1234),
            (0x80_0018, 0xa000_1234),
            (0x80_001c, 0x1700_0001),
        ]);
        let mut status = OccupantReader::new(Source::EngineStatus, &CHIP, 0);
        let mut table = OccupantReader::new(Source::ChannelTable, &CHIP, 0);
        assert_eq!(status.read(&mmio), table.read(&mmio));
        assert_eq!(table.reads(), 1 + 4 + 1);
    }

    #[test]
    fn source_by_name_of_nothing_known_is_refused() {
        for name in Source::NAMES {
            assert!(Source::by_name(name).is_ok_and(|source| source.name() == *name));
        }
        assert!(Source::by_name("ptimer").is_err());
    }
}
