// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Answers of a card: status words, channel states, the channel table, the clock.

use crate::input::Input;
use loga::ids::{Chid, MAX_CHANNELS};
use loga::regs;
use loga::regs::{
    ChannelState, DeviceGone, EngineStatus, Error, Mmio, Occupant, OccupantReader, Ring, Source,
    Work, ALL_ONES,
};
use std::cell::Cell;
use std::collections::HashMap;

/// Registers that the code reads: PMC_BOOT_0, the number of channels, the base of USERD, the status
/// words, the clock, the firmware's mailbox and context, and entries of the channel table.
const OFFSETS: [u32; 16] = [
    0, 0x2008, 0x2254, 0x2640, 0x2648, 0x9400, 0x9410, 0x40_9808, 0x40_9a0c, 0x40_9b00, 0x80_0000,
    0x80_0004, 0x80_0008, 0x80_000c, 0x80_0018, 0x80_001c,
];

/// A card with the registers of the input: some have a word, and some of them another one from the
/// second read on.
struct Card {
    words: HashMap<u32, (u32, u32)>,
    elsewhere: u32,
    reads: Cell<u32>,
}

impl Card {
    fn new(input: &mut Input<'_>) -> Self {
        let elsewhere = if input.u8() % 8 == 7 { ALL_ONES } else { 0 };
        let mut words = HashMap::new();
        for _ in 0..input.u8() % 24 {
            let which = input.u8();
            let offset = match which & 0x0f {
                15 => u32::from(input.u16()) << 3 | 0x80_0000 | (u32::from(which) >> 2 & 4),
                index => OFFSETS[usize::from(index)],
            };
            let first = input.u32();
            let second = if which & 0x20 != 0 {
                input.u32()
            } else {
                first
            };
            words.insert(offset, (first, second));
        }
        Card {
            words,
            elsewhere,
            reads: Cell::new(0),
        }
    }

    /// The words of a register at even and odd reads.
    fn word(&self, offset: u32) -> (u32, u32) {
        let elsewhere = (self.elsewhere, self.elsewhere);
        *self.words.get(&offset).unwrap_or(&elsewhere)
    }

    /// Whether every read of a register gives the same word.
    fn is_steady(&self) -> bool {
        self.words.values().all(|(first, second)| first == second)
    }
}

impl Mmio for Card {
    fn read32(&self, offset: u32) -> u32 {
        let reads = self.reads.get();
        self.reads.set(reads + 1);
        let (first, second) = self.word(offset);
        // The second word shows at odd reads, so that registers change between two polls.
        if reads % 2 == 0 {
            first
        } else {
            second
        }
    }
}

/// The charged channel by the manual's table: BUSY is bit 31, CTX_STATUS bits 15:13, the
/// current id bits 11:0 with its type in bit 12, the next one 27:16 with its type in bit 28.
fn by_the_manual(word: u32, loading: bool) -> Result<Occupant, DeviceGone> {
    let one = |id: u32| {
        let tsg = id & 0x1000 != 0;
        if tsg {
            let (id, context) = (loga::ids::TsgId::from_bits(id), 0);
            Occupant::Tsg { id, context }
        } else {
            Occupant::Channel(Chid::from_bits(id))
        }
    };
    if word == ALL_ONES {
        return Err(DeviceGone);
    }
    if word >> 31 == 0 {
        return Ok(Occupant::Idle);
    }
    Ok(match (word >> 13) & 7 {
        0 | 2 => Occupant::Unknown,
        5 => one(word >> 16),
        7 if loading => one(word >> 16),
        _ => one(word),
    })
}

/// Bytes are a status word, a channel state, and the registers of a card.
///
/// # Panics
///
/// A word is decoded in another way than in the manual, or a poll reads more than it may.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    words(input.u32(), input.u32());
    card(&Card::new(&mut input), &mut input);
}

fn words(status: u32, state: u32) {
    for loading in [false, true] {
        let decoded = EngineStatus::decode(status, loading);
        assert_eq!(decoded, by_the_manual(status, loading), "{status:#x}");
    }
    if !EngineStatus::needs_loading_bit(status) {
        assert_eq!(
            EngineStatus::decode(status, false),
            EngineStatus::decode(status, true)
        );
    }
    let channel = ChannelState::from_bits(state);
    let work = channel.work();
    if state & 1 << 28 == 0 {
        assert_eq!(work, Work::None, "{state:#x} is not busy");
    }
    let wants = matches!(work, Work::Waits | Work::Acquires);
    assert!(!wants || state & 1 != 0, "{state:#x} is disabled and waits");
    assert!(channel.runlist() < 16);
    assert_eq!(channel.is_compute(), channel.runlist() == 0);
    assert!(!channel.is_schedulable() || state & 1 != 0);
}

fn card(card: &Card, input: &mut Input<'_>) {
    let detected = regs::detect(card);
    // Two, and the list of engines.
    assert!(card.reads.get() <= 2 + 64);
    if let Some(base) = regs::userd_base(card) {
        assert!(base < 1 << 40, "{base:#x}");
        assert!(base % 4096 == 0, "{base:#x}");
    }
    let _ = Ring::read(card, Chid::from_bits(input.u16().into()));
    let _ = ChannelState::read(card, Chid::from_bits(input.u16().into()));
    let chip = match detected {
        Ok(chip) => chip,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let read_once = matches!(
                error,
                Error::UnknownChip { .. } | Error::UnsupportedChip { .. }
            );
            let second = !read_once && card.word(0x2008).1 == ALL_ONES;
            let gone = card.word(0).0 == ALL_ONES || second;
            assert_eq!(error == Error::DeviceGone, gone);
            return;
        }
    };
    assert!(
        (1..=MAX_CHANNELS).contains(&usize::from(chip.channels)),
        "{chip:?}"
    );
    for source in [Source::EngineStatus, Source::ChannelTable] {
        let mut reader = OccupantReader::new(source, &chip, input.u8() % 4);
        let mut last = None;
        for _ in 0..4 {
            let before = (reader.reads(), card.reads.get());
            let occupant = reader.read(card);
            let reads = card.reads.get() - before.1;
            assert_eq!(
                reader.reads() - before.0,
                u64::from(reads),
                "{source:?} miscounts"
            );
            let most = match source {
                // The word, and the loading bit, or the context of a TSG and the word again.
                Source::EngineStatus => 3,
                // Context, the entry known, the whole table, its state.
                Source::ChannelTable => u32::from(chip.channels) + 3,
            };
            assert!(reads <= most, "{reads} reads of {source:?}");
            if let Ok(Occupant::Channel(chid)) = occupant {
                let known = source == Source::EngineStatus || chid.get() < chip.channels;
                assert!(known, "{chid:?} of {chip:?}");
            }
            if card.is_steady() {
                assert!(
                    last.is_none_or(|last| last == occupant),
                    "{last:?}, then {occupant:?}"
                );
                last = Some(occupant);
            }
        }
    }
}
