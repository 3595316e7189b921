// SPDX-License-Identifier: GPL-2.0

//! Property: whatever an application or a dying device sends, parsers and registers return a
//! result.

use loga::ids::Chipset;
use loga::regs::{detect, userd_base, Chip, EngineStatus, Family, Mmio, OccupantReader, Source};
use loga::rm::{request_nr, request_size, Xfer};
use loga::track::call::parse;
use loga::track::submission::classify;
use proptest::prelude::*;
use std::cell::Cell;

/// A device that answers with noise.
struct NoisyMmio(Cell<u64>);

impl Mmio for NoisyMmio {
    fn read32(&self, offset: u32) -> u32 {
        let mut word = self.0.get() ^ u64::from(offset);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.0.set(word);
        if word % 31 == 0 {
            u32::MAX
        } else {
            word as u32
        }
    }
}

proptest! {
    #[test]
    fn parse_of_any_bytes_is_an_answer(
        cmd in any::<u32>(),
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = parse(request_nr(cmd), request_size(cmd), &bytes);
        let _ = parse(request_nr(cmd), bytes.len(), &bytes);
        let _ = Xfer::parse(&bytes);
    }

    #[test]
    fn classify_of_any_range_stays_within_the_chip(
        phys in any::<u64>(),
        len in any::<u64>(),
        start in any::<u64>(),
        end in any::<u64>(),
        base in any::<u64>(),
        slot in any::<u32>(),
        channels in any::<u16>(),
    ) {
        if let Some(range) = classify(phys, len, start..end, base, slot, channels) {
            prop_assert!(range.count >= 1);
            prop_assert!(u32::from(range.first.get()) + u32::from(range.count) <= channels.into());
        }
    }

    /// An address belongs to the channel with the slot that begins there.
    #[test]
    fn classify_of_a_slot_is_its_channel(chid in 0u64..4096, base_page in 0u64..1000) {
        let (bar1, base) = (0x2000_0000u64..0x4000_0000, base_page << 12);
        let phys = bar1.start + base + chid * 0x200;
        let range = classify(phys, 0x200, bar1, base, 0x200, 4096);
        prop_assert_eq!(
            range.map(|range| (u64::from(range.first.get()), range.count)),
            Some((chid, 1))
        );
    }

    #[test]
    fn decode_of_any_word_agrees_with_its_busy_bit(word in any::<u32>(), loading in any::<bool>()) {
        let idle = EngineStatus::decode(word, loading) == Ok(loga::regs::Occupant::Idle);
        prop_assert_eq!(idle, word >> 31 == 0);
    }

    #[test]
    fn noise_from_a_device_is_an_answer(seed in 1u64.., table in any::<bool>()) {
        let noise = NoisyMmio(Cell::new(seed));
        let _ = detect(&noise);
        let _ = userd_base(&noise);
        let chip = Chip {
            chipset: Chipset::new(0xf1),
            family: Family::Kepler,
            channels: 4096,
            userd_slot: Some(0x200),
            copy_engine: None,
        };
        let source = if table { Source::ChannelTable } else { Source::EngineStatus };
        let mut reader = OccupantReader::new(source, &chip, 0);
        for _ in 0..100 {
            let _ = reader.read(&noise);
        }
    }
}
