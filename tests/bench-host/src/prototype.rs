// SPDX-License-Identifier: GPL-2.0

//! `[double]` `PrototypePoll`: the poll of the paper's prototype, which finds the running channel.
//!
//! Source: LoGA paper, 4.1: the dispatcher's word says whether a context runs, the compute engine's
//! pointer which one, and the channel table, read from its start until an entry names that context,
//! which channel. Every poll does all of it.

use crate::registers::CHANNELS;
use loga::ids::Chid;
use loga::regs::{Mmio, Occupant};

const ENGINE_ENABLED: u32 = 0x2644;
const CURRENT_CONTEXT: u32 = 0x40_9a0c;
const TABLE: u32 = 0x80_0000;
const CONTEXT_MASK: u32 = 0x3fff_ffff;

/// One poll.
pub fn sample(mmio: &impl Mmio) -> Occupant {
    if mmio.read32(ENGINE_ENABLED) & 1 == 0 {
        return Occupant::Idle;
    }
    let context = mmio.read32(CURRENT_CONTEXT) & CONTEXT_MASK;
    for channel in 0..u32::from(CHANNELS) {
        if mmio.read32(TABLE + 8 * channel) & CONTEXT_MASK == context {
            return Occupant::Channel(Chid::from_bits(channel));
        }
    }
    Occupant::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::FakeRegisters;

    #[test]
    fn sample_reads_up_to_the_running_channel() {
        let registers = FakeRegisters::default();
        for (channel, reads) in [(0, 3), (47, 50), (95, 98)] {
            registers.run(channel);
            let seen = Occupant::Channel(Chid::from_bits(channel.into()));
            assert_eq!(sample(&registers), seen);
            assert_eq!(registers.take_reads(), reads);
        }
    }

    #[test]
    fn sample_of_a_foreign_context_reads_the_whole_table() {
        let registers = FakeRegisters::default();
        registers.run(CHANNELS);
        assert_eq!(sample(&registers), Occupant::Unknown);
        assert_eq!(registers.take_reads(), 98);
    }
}
