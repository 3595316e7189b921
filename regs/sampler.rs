// SPDX-License-Identifier: GPL-2.0

//! One look at an engine, by either source.
//!
//! Source of the loading bit: nouveau `engine/gr/gf100.c` (with NVIDIA's firmware).

use super::{read_alive, ChannelTable, Chip, EngineStatus, Error, Mmio, Occupant, Sample};

/// Word in which NVIDIA's context-switch firmware shows what it does.
const FECS_MAILBOX: u32 = 0x40_9808;
/// It is loading the next context.
const FECS_LOADING: u32 = 0x0008_0000;

/// Where observations come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The engine's status word: one read.
    #[default]
    EngineStatus,
    /// The current-context pointer and the channel table, as in the paper.
    ChannelTable,
}

impl Source {
    /// Names of all sources.
    pub const NAMES: &'static [&'static str] = &["engine-status", "channel-table"];

    /// Name by which it is selected.
    pub const fn name(self) -> &'static str {
        match self {
            Source::EngineStatus => "engine-status",
            Source::ChannelTable => "channel-table",
        }
    }

    /// The source with this name.
    ///
    /// # Errors
    ///
    /// [`crate::error::Error::UnknownSource`] if there is none.
    pub fn by_name(name: &str) -> Result<Self, crate::error::Error> {
        [Source::EngineStatus, Source::ChannelTable]
            .into_iter()
            .find(|source| source.name() == name)
            .ok_or(crate::error::Error::UnknownSource)
    }
}

/// Looks at one engine again and again.
pub struct Sampler {
    source: Source,
    /// Offset of the engine's status word.
    offset: u32,
    last: Sample,
    table: ChannelTable,
    reads: u64,
}

impl Sampler {
    /// Looks at `engine` of `chip`; engine 0 is compute. The channel table can tell
    /// about engine 0 only.
    pub const fn new(source: Source, chip: &Chip, engine: u8) -> Self {
        Self {
            source,
            offset: EngineStatus::offset(engine),
            last: Sample {
                word: 0,
                occupant: Occupant::Idle,
            },
            table: ChannelTable::new(chip.channels),
            reads: 0,
        }
    }

    /// Who holds the engine now. Never sleeps; one register read for
    /// [`Source::EngineStatus`] (two while a context is being switched).
    ///
    /// # Errors
    ///
    /// [`Error::DeviceGone`].
    #[inline]
    pub fn sample(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        match self.source {
            Source::EngineStatus => self.sample_status(mmio),
            Source::ChannelTable => self.sample_table(mmio),
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
    pub const fn last(&self) -> Sample {
        self.last
    }

    fn sample_status(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        let word = mmio.read32(self.offset);
        self.reads = self.reads.saturating_add(1);
        // The meaning of a word in a switch changes while the word stays the same.
        let needs_loading = EngineStatus::needs_loading_bit(word);
        if word == self.last.word && !needs_loading {
            return Ok(self.last.occupant);
        }
        let loading = needs_loading && {
            self.reads = self.reads.saturating_add(1);
            read_alive(mmio, FECS_MAILBOX)? & FECS_LOADING != 0
        };
        let occupant = EngineStatus::decode(word, loading)?;
        self.last = Sample { word, occupant };
        Ok(occupant)
    }

    fn sample_table(&mut self, mmio: &impl Mmio) -> Result<Occupant, Error> {
        let counted = Counted {
            mmio,
            reads: core::cell::Cell::new(0),
        };
        let occupant = self.table.sample(&counted);
        self.reads = self.reads.saturating_add(counted.reads.get());
        Ok(occupant?)
    }
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
