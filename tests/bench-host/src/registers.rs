// SPDX-License-Identifier: GPL-2.0

//! `[double]` `FakeRegisters`: the registers that a poll reads, and what their reads would cost.

use loga::regs::Mmio;
use std::cell::Cell;
use std::time::Duration;

/// Time of a read across the bus: the processor waits for it. An assumption, the usual order of
/// magnitude for an uncached read of a PCI Express device.
pub const READ: Duration = Duration::from_micros(1);

/// Channels that the prototype read.
pub const CHANNELS: u16 = 96;

const ENGINE_STATUS: u32 = 0x2640;
const ENGINE_ENABLED: u32 = 0x2644;
const CURRENT_CONTEXT: u32 = 0x40_9a0c;
const TABLE: u32 = 0x80_0000;
const TABLE_END: u32 = TABLE + 8 * CHANNELS as u32;
/// A channel's context is its number plus this one.
const CONTEXT: u32 = 0x2000_1000;
const BOUND: u32 = 1 << 31;
const BUSY: u32 = 1 << 28;

/// A Kepler GPU that runs one channel.
#[derive(Debug, Default)]
pub struct FakeRegisters {
    running: Cell<u16>,
    reads: Cell<u64>,
}

impl FakeRegisters {
    /// Lets this channel run; [`CHANNELS`] is one that the table does not have.
    pub fn run(&self, channel: u16) {
        self.running.set(channel);
    }

    /// Reads since the last call.
    pub fn take_reads(&self) -> u64 {
        self.reads.take()
    }
}

impl Mmio for FakeRegisters {
    fn read32(&self, offset: u32) -> u32 {
        self.reads.set(self.reads.get() + 1);
        let running = u32::from(self.running.get());
        match offset {
            ENGINE_STATUS => 0x8000_2000 | running,
            ENGINE_ENABLED => 1,
            CURRENT_CONTEXT => CONTEXT + running,
            TABLE..TABLE_END => {
                let channel = (offset - TABLE) / 8;
                match offset % 8 {
                    0 => BOUND | (CONTEXT + channel),
                    _ if channel == running => BUSY,
                    _ => 0,
                }
            }
            _ => 0,
        }
    }
}

/// The measured time plus that of the reads, which cost nothing here.
pub fn modelled(measured: Duration, reads: u64) -> Duration {
    // CAST: a benchmark makes fewer.
    let reads = u32::try_from(reads).unwrap_or(u32::MAX);
    measured + READ * reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use loga::ids::{Chid, Chipset};
    use loga::regs::{Chip, Family, Occupant, OccupantReader, Source, USERD_SLOT};

    #[test]
    fn both_sources_see_the_same_channel() {
        let chip = Chip {
            chipset: Chipset::new(0xf1),
            family: Family::Kepler,
            channels: CHANNELS,
            userd_slot: Some(USERD_SLOT),
            copy_engine: None,
        };
        for source in [Source::EngineStatus, Source::ChannelTable] {
            let registers = FakeRegisters::default();
            let mut reader = OccupantReader::new(source, &chip, 0);
            for channel in [0, 5, 95] {
                registers.run(channel);
                let seen = Occupant::Channel(Chid::from_bits(channel.into()));
                assert_eq!(reader.read(&registers), Ok(seen));
            }
        }
    }

    #[test]
    fn modelled_time_is_a_microsecond_a_read_more() {
        let time = modelled(Duration::from_nanos(70), 3);
        assert_eq!(time, Duration::from_nanos(3070));
    }
}
