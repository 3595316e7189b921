// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The words that are read, in order, and what was found.
//!
//! Only words that reading does not change. Which ones depends on the family; of chips that are not
//! known, and of a guest's function, only the first three are read.

use super::bar0::Registers;
use super::decode::{engines, later_engines, Chip, Engine, Layout, ListSize, Status};
use crate::card::refusal::Refusal;
use serde::{Deserialize, Serialize};

/// PMC_BOOT_0, PMC_BOOT_1 and PMC_BOOT_42.
const BOOT: [(&str, u32); 3] = [("BOOT_0", 0), ("BOOT_1", 4), ("BOOT_42", 0xa00)];
/// NV_PTOP_DEVICE_INFO: offset and words.
const LIST: (u32, u32) = (0x2_2700, 64);
/// NV_PTOP_DEVICE_INFO_CFG, and where the rows begin.
const LATER_LIST: (u32, u32) = (0x2_24fc, 0x2_2800);
/// Most rows that are read.
const ROWS_MAX: u32 = 1024;
/// Status words of Kepler to Turing: offset, distance, most of them.
const STATUS: (u32, u32, u32) = (0x2640, 8, 16);
/// Most runlists that are looked at.
const RUNLISTS_MAX: usize = 64;
/// Status words of a runlist.
const STATUS_PER_RUNLIST: u32 = 3;
/// Distance of the status words of a runlist.
const STATUS_STRIDE: u32 = 0x40;
/// The usermode page: its class, and the GPU's time.
const USERMODE: [(&str, u32); 3] = [("CFG0", 0), ("TIME_0", 0x80), ("TIME_1", 0x84)];

/// A register and what it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// What it is called here.
    pub(crate) name: String,
    /// Where it is in BAR0.
    pub(crate) offset: u32,
    /// What it holds, or who refused.
    pub(crate) value: Result<u32, Refusal>,
}

/// A status word that could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StatusWord {
    /// Where it is in BAR0.
    pub(crate) offset: u32,
    /// What it looks like.
    pub(crate) layout: Layout,
    /// Its engine.
    pub(crate) engine: Engine,
    /// What it said.
    pub(crate) status: Status,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Survey {
    /// All words, in the order of reading.
    pub(crate) readings: Vec<Reading>,
    /// Which chip; nothing if its first word was refused.
    pub(crate) chip: Option<Chip>,
    /// Size of the later list of engines.
    pub(crate) list: Option<ListSize>,
    /// The engines.
    pub(crate) engines: Vec<Engine>,
    /// The status words of engines for graphics and compute.
    pub(crate) status_words: Vec<StatusWord>,
}

/// Offsets within a runlist's block: CHANNEL_CONFIG, DOORBELL_CONFIG, first status word.
const fn runlist_words(layout: Layout) -> [u32; 3] {
    match layout {
        Layout::RunlistOfGb20x => [0x148, 0x14c, 0x090],
        Layout::Fifo | Layout::Runlist => [0x004, 0x008, 0x200],
    }
}

/// Where the usermode page is.
const fn usermode(chip: Chip) -> Option<u32> {
    match chip.architecture {
        ..=0x13 => None,
        0x14 | 0x15 => Some(0x81_0000),
        _ => Some(0xbb_0000),
    }
}

/// The first words, those of the usermode page from Turing on, and those of these runlists at either
/// place: what can be asked of RM where BAR0 says nothing.
pub(crate) fn candidates(bases: &[u32]) -> Vec<(String, u32)> {
    let mut words: Vec<(String, u32)> = BOOT.map(|(name, at)| (name.to_owned(), at)).into();
    let usermode = USERMODE.map(|(name, at)| (format!("USERMODE {name}"), 0xbb_0000 + at));
    words.extend(usermode);
    for base in bases.iter().take(RUNLISTS_MAX) {
        for layout in [Layout::Runlist, Layout::RunlistOfGb20x] {
            words.extend(words_of(*base, layout));
        }
    }
    words
}

/// The words of a runlist, with their names.
fn words_of(base: u32, layout: Layout) -> Vec<(String, u32)> {
    let [channels, doorbell, status] = runlist_words(layout);
    let word = |what: &str, offset: u32| {
        let name = format!("RUNLIST {base:#x} {layout:?} {what}");
        (name, base.wrapping_add(offset))
    };
    let mut words = vec![
        word("CHANNEL_CONFIG", channels),
        word("DOORBELL_CONFIG", doorbell),
    ];
    for index in 0..STATUS_PER_RUNLIST {
        let offset = status + STATUS_STRIDE * index;
        words.push(word(&format!("STATUS0 {index}"), offset));
    }
    words
}

/// Reads these words, whatever they are.
pub(crate) fn read_words(
    registers: &mut dyn Registers,
    words: impl IntoIterator<Item = (String, u32)>,
) -> Vec<Reading> {
    let reading = |(name, offset)| Reading {
        name,
        offset,
        value: registers.read(offset),
    };
    words.into_iter().map(reading).collect()
}

/// Reads the words of this card. At most 2000 reads.
pub(crate) fn survey(registers: &mut dyn Registers) -> Survey {
    let mut work = Work {
        registers,
        found: Survey::default(),
    };
    work.all();
    work.found
}

/// A survey that is under way.
struct Work<'a> {
    registers: &'a mut dyn Registers,
    found: Survey,
}

impl Work<'_> {
    fn read(&mut self, name: impl Into<String>, offset: u32) -> Option<u32> {
        let value = self.registers.read(offset);
        let word = value.as_ref().ok().copied();
        self.found.readings.push(Reading {
            name: name.into(),
            offset,
            value,
        });
        word
    }

    fn all(&mut self) {
        let [boot0, boot1, _] = BOOT.map(|(name, offset)| self.read(name, offset));
        let Some(boot0) = boot0 else {
            return;
        };
        let chip = Chip::of(boot0, boot1.unwrap_or(0));
        self.found.chip = Some(chip);
        if chip.is_virtual {
            return;
        }
        match chip.layout() {
            None => return,
            Some(Layout::Fifo) => self.fifo(),
            Some(layout) => self.runlists(layout),
        }
        let Some(page) = usermode(chip) else {
            return;
        };
        for (name, offset) in USERMODE {
            self.read(format!("USERMODE {name}"), page + offset);
        }
    }

    fn fifo(&mut self) {
        let mut words = Vec::new();
        for at in 0..LIST.1 {
            let Some(word) = self.read(format!("PTOP {at}"), LIST.0 + 4 * at) else {
                break;
            };
            words.push(word);
        }
        self.found.engines = engines(&words);
        for engine in self.found.engines.clone() {
            let index = engine.status_index.map(u32::from);
            let Some(index) = index.filter(|index| *index < STATUS.2) else {
                continue;
            };
            let offset = STATUS.0 + STATUS.1 * index;
            let word = self.read(format!("ENGINE_STATUS {index}"), offset);
            self.note_status(word, offset, Layout::Fifo, engine);
        }
    }

    fn runlists(&mut self, expected: Layout) {
        let Some(word) = self.read("PTOP2 CFG", LATER_LIST.0) else {
            return;
        };
        let size = ListSize::of(word);
        self.found.list = Some(size);
        let mut rows = Vec::new();
        for at in 0..u32::from(size.rows).min(ROWS_MAX) {
            let Some(row) = self.read(format!("PTOP2 {at}"), LATER_LIST.1 + 4 * at) else {
                break;
            };
            rows.push(row);
        }
        self.found.engines = later_engines(&rows);
        let bases = self.found.engines.iter().filter_map(|one| one.runlist_base);
        let mut bases: Vec<u32> = bases.collect();
        bases.sort_unstable();
        bases.dedup();
        // What the chip should have comes first: a refused word gives up the page.
        let other = match expected {
            Layout::RunlistOfGb20x => Layout::Runlist,
            Layout::Fifo | Layout::Runlist => Layout::RunlistOfGb20x,
        };
        for base in bases.into_iter().take(RUNLISTS_MAX) {
            for layout in [expected, other] {
                self.runlist(base, layout, layout == expected);
            }
        }
    }

    fn runlist(&mut self, base: u32, layout: Layout, is_expected: bool) {
        for (at, (name, offset)) in words_of(base, layout).into_iter().enumerate() {
            let word = self.read(name, offset);
            // The first two are no status words.
            let index = at.checked_sub(2).filter(|_| is_expected);
            let engine = self.found.engines.iter().copied().find(|engine| {
                let at = engine.status_index.map(usize::from);
                engine.runlist_base == Some(base) && index.is_some() && at == index
            });
            if let Some(engine) = engine {
                self.note_status(word, offset, layout, engine);
            }
        }
    }

    /// Keeps the status word of an engine for graphics and compute.
    fn note_status(&mut self, word: Option<u32>, offset: u32, layout: Layout, engine: Engine) {
        let status = word.and_then(|word| Status::of(word, layout));
        if let Some(status) = status.filter(|_| engine.kind == 0) {
            self.found.status_words.push(StatusWord {
                offset,
                layout,
                engine,
                status,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bar0::tests::FakeCard;
    use super::super::decode::Context;
    use super::*;

    fn value(survey: &Survey, name: &str) -> Option<u32> {
        let reading = survey.readings.iter().find(|reading| reading.name == name);
        reading.and_then(|reading| reading.value.clone().ok())
    }

    fn ampere(status: &[(u32, u32)]) -> FakeCard {
        let card = FakeCard::new(&[
            (0, 0x1720_00a1),
            (0x2_24fc, 0x0073_0302),
            (0x2_2800, 0x8000_0040),
            (0x2_2804, 0xc040_0000),
            (0x2_2808, 0x00b0_0000),
            (0x2_2810, 0x9300_0041),
            (0x2_2814, 0xc010_4000),
            (0x2_2818, 0x00b0_0001),
            (0xb0_0004, 0x00a0_000b),
            (0xb0_0008, 0x0003_0000),
            (0xbb_0000, 0xc561),
            (0xbb_0084, 7),
        ]);
        status
            .iter()
            .for_each(|(offset, word)| card.set(*offset, *word));
        card
    }

    #[test]
    fn survey_of_ampere_finds_the_status_word_of_compute() {
        let card = ampere(&[(0xb0_0200, 0x8000_2005)]);
        let found = survey(&mut card.open());
        assert_eq!(found.engines.len(), 2);
        let [word] = found.status_words[..] else {
            panic!("{:?}", found.status_words);
        };
        assert_eq!((word.offset, word.layout), (0xb0_0200, Layout::Runlist));
        assert_eq!(
            (word.status.tsgid, word.status.context),
            (5, Context::Valid)
        );
        let name = "RUNLIST 0xb00000 Runlist DOORBELL_CONFIG";
        assert_eq!(value(&found, name), Some(0x0003_0000));
        assert_eq!(value(&found, "USERMODE CFG0"), Some(0xc561));
        assert_eq!(value(&found, "USERMODE TIME_1"), Some(7));
        assert!(found.readings.len() < 100);
    }

    #[test]
    fn survey_says_who_refused_the_status_word_and_goes_on() {
        let card = ampere(&[(0xb0_0200, 0xbadf_4100)]);
        let found = survey(&mut card.open());
        assert_eq!(found.status_words, []);
        assert_eq!(
            value(&found, "RUNLIST 0xb00000 Runlist CHANNEL_CONFIG"),
            Some(0x00a0_000b)
        );
        let refused = found
            .readings
            .iter()
            .filter(|reading| reading.value.is_err());
        assert_eq!(refused.count(), 3 + 5, "the rest of its page");
        assert_eq!(value(&found, "USERMODE CFG0"), Some(0xc561));
    }

    #[test]
    fn survey_of_gb20x_reads_the_word_where_it_has_moved() {
        let card = ampere(&[(0, 0x1b20_00a1), (0xb0_0090, 0x8000_2007), (0xb0_0148, 0xb)]);
        let found = survey(&mut card.open());
        let [word] = found.status_words[..] else {
            panic!("{:?}", found.status_words);
        };
        assert_eq!((word.offset, word.status.tsgid), (0xb0_0090, 7));
    }

    #[test]
    fn survey_of_turing_reads_the_only_block() {
        let card = FakeCard::new(&[
            (0, 0x1640_00a1),
            (0x2_2700, 0x8000_0032),
            (0x2_2704, 0x0000_0003),
            (0x2640, 0x8000_3007),
        ]);
        let found = survey(&mut card.open());
        let [word] = found.status_words[..] else {
            panic!("{:?}", found.status_words);
        };
        assert_eq!(
            (word.offset, word.layout, word.status.tsgid),
            (0x2640, Layout::Fifo, 7)
        );
    }

    #[test]
    fn survey_of_a_guest_or_an_unknown_chip_reads_three_words() {
        let guest = FakeCard::new(&[(0, 0x1720_00a1), (4, 0x2_0000)]);
        let unknown = FakeCard::new(&[(0, 0x0000_01a1)]);
        for card in [guest, unknown] {
            assert_eq!(survey(&mut card.open()).readings.len(), 3);
        }
    }

    #[test]
    fn survey_of_a_card_that_is_gone_has_only_refusals() {
        let card = FakeCard::new(&[(0, 0xffff_ffff), (4, 1)]);
        let found = survey(&mut card.open());
        assert_eq!((found.chip, found.readings.len()), (None, 3));
        assert!(found.readings.iter().all(|reading| reading.value.is_err()));
    }

    #[test]
    fn list_of_engines_that_claims_everything_is_bounded() {
        let card = ampere(&[(0x2_24fc, 0xfff3_0302)]);
        (0..1024).for_each(|at| card.set(0x2_2800 + 4 * at, 0x40b0_0000 | at << 10));
        for at in (0..1023).step_by(3) {
            card.set(0x2_2800 + 4 * at, 0x8000_0000);
            card.set(0x2_2804 + 4 * at, 0xc000_0000);
        }
        let found = survey(&mut card.open());
        assert_eq!(found.engines.len(), 341);
        assert!(found.readings.len() <= 2000, "{}", found.readings.len());
    }

    #[test]
    fn candidates_are_the_words_of_both_layouts() {
        let card = ampere(&[(0xb0_0200, 5), (0xb0_0090, 6), (0xb0_0148, 7)]);
        let found = read_words(&mut card.open(), candidates(&[0xb0_0000]));
        assert_eq!(found.len(), 3 + 3 + 2 * 5);
        let at = |offset| found.iter().find(|one| one.offset == offset);
        for (offset, word) in [
            (0, 0x1720_00a1),
            (0xb0_0200, 5),
            (0xb0_0090, 6),
            (0xb0_0148, 7),
        ] {
            assert_eq!(at(offset).unwrap().value, Ok(word));
        }
    }

    #[test]
    fn survey_survives_json() {
        let found = survey(&mut ampere(&[(0xb0_0200, 0xbadf_4100)]).open());
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Survey>(&text).unwrap(), found);
    }
}
