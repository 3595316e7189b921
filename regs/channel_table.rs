// SPDX-License-Identifier: GPL-2.0

//! The channel table (NV_PCCSR) of Kepler to Turing, and the pointer that the
//! context-switch firmware keeps to the current context.
//!
//! This is the path of the prototype, kept to cross-check the status word. The
//! pointer has no valid bit and is stale while no context is on the engine
//! (nouveau firmware; NVIDIA's unverified), so the channel's own state decides
//! whether anything runs.
//!
//! Sources: gk20a `ccsr`, `gr_fecs_arb_ctx_ptr`; gv100 `dev_fifo`; LoGA paper, 4.1.

use super::channel_state::{ChannelInst, ChannelState};
use super::register::register;
use super::{DeviceGone, Mmio, Occupant};
use crate::ids::Chid;

register! {
    /// The current context according to the context-switch firmware. Source: gk20a
    /// `gr_fecs_arb_ctx_ptr`.
    ArbCtxPtr = FECS_ARB_CTX_PTR @ 0x40_9a0c {
        /// Address and memory kind of its instance block.
        29:0 context;
    }
}

/// Contexts remembered.
const CACHED: usize = 64;
/// Reads after which a context that is in no entry is searched for again: a
/// search reads the whole table.
const SEARCH_AGAIN: u32 = 1024;

/// Reads the channel table and remembers which entry belongs to which context.
pub struct ChannelTable {
    channels: u16,
    /// Contexts and their channels; a context of zero is an empty place.
    cache: [(u32, Chid); CACHED],
    /// Place that is overwritten next.
    oldest: usize,
    /// Context that is in no entry, and reads left before the next search.
    missing: (u32, u32),
}

impl ChannelTable {
    /// A table with this many entries.
    pub const fn new(channels: u16) -> Self {
        Self {
            channels,
            cache: [(0, Chid::from_bits(0)); CACHED],
            oldest: 0,
            missing: (0, 0),
        }
    }

    /// Reads which channel is on the compute engine: three reads when the context is known, the
    /// whole table at most when it is not.
    ///
    /// # Errors
    ///
    /// [`DeviceGone`] when a register holds all ones.
    pub fn read(&mut self, mmio: &impl Mmio) -> Result<Occupant, DeviceGone> {
        let context = ArbCtxPtr::read(mmio)?.context();
        if context == 0 {
            return Ok(Occupant::Idle);
        }
        let Some(chid) = self.find(mmio, context)? else {
            return Ok(Occupant::Idle);
        };
        Ok(if ChannelState::read(mmio, chid)?.busy() {
            Occupant::Channel(chid)
        } else {
            Occupant::Idle
        })
    }

    /// The channel of a context: from the cache if its entry still says so.
    fn find(&mut self, mmio: &impl Mmio, context: u32) -> Result<Option<Chid>, DeviceGone> {
        if let Some(known) = self.cache.iter_mut().find(|known| known.0 == context) {
            let chid = known.1;
            if ChannelInst::read(mmio, chid)?.context() == context {
                return Ok(Some(chid));
            }
            known.0 = 0;
        }
        if self.missing.0 == context && self.missing.1 > 0 {
            self.missing.1 = self.missing.1.saturating_sub(1);
            return Ok(None);
        }
        let found = self.search(mmio, context)?;
        match found {
            Some(chid) => self.remember(context, chid),
            None => self.missing = (context, SEARCH_AGAIN),
        }
        Ok(found)
    }

    /// Searches the whole table for a context.
    fn search(&self, mmio: &impl Mmio, context: u32) -> Result<Option<Chid>, DeviceGone> {
        for chid in (0..self.channels).filter_map(Chid::new) {
            if ChannelInst::read(mmio, chid)?.context() == context {
                return Ok(Some(chid));
            }
        }
        Ok(None)
    }

    /// Puts a context into the cache, in the place of the oldest.
    fn remember(&mut self, context: u32, chid: Chid) {
        if let Some(place) = self.cache.get_mut(self.oldest) {
            *place = (context, chid);
        }
        self.oldest = (self.oldest + 1) % CACHED;
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_regs_channel_table))]
mod tests {
    use super::super::FakeMmio;
    use super::*;

    const INST_3: u32 = 0x80_0018;
    const STATE_3: u32 = 0x80_001c;
    const INST_5: u32 = 0x80_0028;
    const STATE_5: u32 = 0x80_002c;

    fn mmio() -> FakeMmio<5> {
        FakeMmio::new([
            (ArbCtxPtr::OFFSET, 0x2000_1234),
            (INST_3, 0xa000_1234),
            (STATE_3, 0x1700_0001),
            (INST_5, 0xa000_5678),
            (STATE_5, 0x0000_0001),
        ])
    }

    fn busy(chid: u32) -> Result<Occupant, DeviceGone> {
        Ok(Occupant::Channel(Chid::from_bits(chid)))
    }

    #[test]
    fn read_of_a_busy_context_is_its_channel() {
        assert_eq!(ChannelTable::new(8).read(&mmio()), busy(3));
    }

    #[test]
    fn read_of_a_known_context_takes_three_reads() {
        let (mut table, mmio) = (ChannelTable::new(8), mmio());
        assert_eq!(table.read(&mmio), busy(3));
        let before = mmio.reads();
        assert_eq!(table.read(&mmio), busy(3));
        assert_eq!(mmio.reads() - before, 3);
    }

    // Regression: the prototype took the interface-enable bit for busy, so that a
    // drained channel was charged for ever.
    #[test]
    fn read_of_a_drained_context_is_idle() {
        let mut mmio = mmio();
        mmio.set(ArbCtxPtr::OFFSET, 0x2000_5678);
        assert_eq!(ChannelTable::new(8).read(&mmio), Ok(Occupant::Idle));
    }

    #[test]
    fn read_after_the_entry_changed_searches_again() {
        let (mut table, mut mmio) = (ChannelTable::new(8), mmio());
        assert_eq!(table.read(&mmio), busy(3));
        mmio.set(INST_3, 0);
        mmio.set(INST_5, 0xa000_1234);
        mmio.set(STATE_5, 0x1700_0001);
        assert_eq!(table.read(&mmio), busy(5));
    }

    #[test]
    fn read_of_a_context_in_no_entry_searches_rarely() {
        let (mut table, mut mmio) = (ChannelTable::new(8), mmio());
        mmio.set(ArbCtxPtr::OFFSET, 0x2000_9999);
        assert_eq!(table.read(&mmio), Ok(Occupant::Idle));
        let before = mmio.reads();
        assert_eq!(table.read(&mmio), Ok(Occupant::Idle));
        assert_eq!(mmio.reads() - before, 1);
    }

    #[test]
    fn read_without_context_is_idle() {
        assert_eq!(
            ChannelTable::new(8).read(&FakeMmio::new([])),
            Ok(Occupant::Idle)
        );
    }

    #[test]
    fn read_of_all_ones_anywhere_is_a_lost_device() {
        for register in [ArbCtxPtr::OFFSET, INST_3, STATE_3] {
            let mut mmio = mmio();
            mmio.set(register, 0xffff_ffff);
            assert_eq!(ChannelTable::new(8).read(&mmio), Err(DeviceGone));
        }
    }

    #[test]
    fn cache_with_more_contexts_than_places_still_finds_all() {
        let mut table = ChannelTable::new(8);
        for context in 0..200 {
            table.remember(context, Chid::from_bits(1));
        }
        assert_eq!(table.read(&mmio()), busy(3));
    }
}
