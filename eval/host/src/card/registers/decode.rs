// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the words of the registers mean, by family.
//!
//! Sources: open-gpu-kernel-modules 595 `nv_ref.h` (PMC_BOOT), `ampere/ga100/dev_top.h` and
//! `blackwell/gb100/dev_top.h` (PTOP2); open-gpu-doc `ga100/dev_runlist`, `tu104/dev_top`,
//! `tu104/dev_fifo`; nvgpu `ga10b` (runlist); for GB20x nvgpu's header of GB20C as a public index
//! has it, *unverified*.

use loga::ids::TsgId;
use loga::regs::{EngineStatus, Occupant, ALL_ONES};
use serde::{Deserialize, Serialize};

/// Whether a read was refused: a register that is not there or may not be read answers 0xBADxxxxx.
pub(crate) const fn is_refused(word: u32) -> bool {
    word >> 20 == 0xbad
}

/// What is known of a chip before anything else is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chip {
    /// Number of the architecture: 0x16 is Turing, 0x1b is GB20x.
    pub(crate) architecture: u8,
    /// Number within the architecture.
    pub(crate) implementation: u8,
    /// Whether this is a function for a guest, which has none of the registers.
    pub(crate) is_virtual: bool,
}

impl Chip {
    /// The chip from PMC_BOOT_0 and PMC_BOOT_1.
    pub(crate) const fn of(boot0: u32, boot1: u32) -> Self {
        // CAST: six and four bits.
        Chip {
            architecture: ((boot0 >> 3 & 0x20) | (boot0 >> 24 & 0x1f)) as u8,
            implementation: (boot0 >> 20 & 0xf) as u8,
            is_virtual: boot1 >> 16 & 3 != 0 || boot1 >> 8 & 1 != 0,
        }
    }

    /// Where its status words are, and what they look like; nothing for chips that are not known.
    pub(crate) const fn layout(self) -> Option<Layout> {
        match self.architecture {
            0x0e..=0x16 => Some(Layout::Fifo),
            0x17..=0x1a => Some(Layout::Runlist),
            0x1b => Some(Layout::RunlistOfGb20x),
            _ => None,
        }
    }
}

/// Where a family has its status words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Layout {
    /// Kepler to Turing: one block for all engines.
    Fifo,
    /// Ampere to GB10x: in each runlist's block, as the manual of GA100 has it.
    Runlist,
    /// GB20x: in each runlist's block, elsewhere.
    RunlistOfGb20x,
}

/// What a context is doing on the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Context {
    /// There is none.
    Invalid,
    /// It is there.
    Valid,
    /// It is saved.
    Save,
    /// The next one is loaded.
    Load,
    /// It is saved, then the next one is loaded.
    Switch,
    /// A code that no manual names.
    Other(u8),
}

/// A status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Group on the engine.
    pub(crate) tsgid: u16,
    /// What it is doing there.
    pub(crate) context: Context,
    /// Group that comes next.
    pub(crate) next: u16,
    /// Whether the engine works.
    pub(crate) is_busy: bool,
}

impl Status {
    /// The fields of a word; nothing if the read was refused or the card is gone.
    pub(crate) const fn of(word: u32, layout: Layout) -> Option<Self> {
        if is_refused(word) || word == ALL_ONES {
            return None;
        }
        let is_fifo = matches!(layout, Layout::Fifo);
        let context = match word >> 13 & 7 {
            0 => Context::Invalid,
            1 => Context::Valid,
            5 if is_fifo => Context::Load,
            6 if is_fifo => Context::Save,
            5 => Context::Save,
            6 => Context::Load,
            7 => Context::Switch,
            // CAST: three bits.
            other => Context::Other(other as u8),
        };
        // CAST: twelve bits.
        Some(Status {
            tsgid: (word & 0xfff) as u16,
            context,
            next: (word >> 16 & 0xfff) as u16,
            is_busy: word >> 31 == 1,
        })
    }
}

/// Who is charged while the engine shows this word; nothing if the read was refused or the card is
/// gone.
///
/// Kepler to Turing are decoded by the module's own code. There and later, the old context is
/// charged for a whole switch: the firmware's word that tells more is not read.
pub(crate) fn occupant(word: u32, layout: Layout) -> Option<Occupant> {
    let status = Status::of(word, layout)?;
    if layout == Layout::Fifo {
        return EngineStatus::decode(word, false).ok();
    }
    let id = match status.context {
        _ if !status.is_busy => return Some(Occupant::Idle),
        Context::Invalid | Context::Other(_) => return Some(Occupant::Unknown),
        Context::Load => status.next,
        Context::Valid | Context::Save | Context::Switch => status.tsgid,
    };
    Some(Occupant::Tsg {
        id: TsgId::from_bits(id.into()),
        context: 0,
    })
}

/// An engine of the list of Kepler to Turing, or of the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Engine {
    /// Type: 0 is graphics and compute, 19 a copy engine.
    pub(crate) kind: u32,
    /// Which one of several of the type.
    pub(crate) instance: u8,
    /// Index of the status word: in the only block, or in the runlist's.
    pub(crate) status_index: Option<u8>,
    /// Runlist id; not in the later list.
    pub(crate) runlist: Option<u8>,
    /// Offset of the runlist's block in BAR0; only in the later list.
    pub(crate) runlist_base: Option<u32>,
    /// MMU fault id.
    pub(crate) fault_id: Option<u16>,
}

/// The entries of a list, each a chain of words of which all but the last have bit 31 set.
fn chains(words: &[u32], is_hole: impl Fn(u32) -> bool) -> Vec<&[u32]> {
    let (mut found, mut begin) = (Vec::new(), None);
    for (at, word) in words.iter().enumerate() {
        if begin.is_none() && is_hole(*word) {
            continue;
        }
        let first = *begin.get_or_insert(at);
        if word >> 31 == 0 {
            found.push(&words[first..=at]);
            begin = None;
        }
    }
    found
}

/// The engines in NV_PTOP_DEVICE_INFO, the list of Kepler to Turing.
pub(crate) fn engines(words: &[u32]) -> Vec<Engine> {
    let engine = |chain: &&[u32]| {
        let mut engine = Engine::default();
        let mut is_named = false;
        for word in *chain {
            let field = |shift: u32, mask: u32| word >> shift & mask;
            // CAST: at most seven bits in each field.
            match word & 3 {
                1 => {
                    engine.instance = field(26, 0xf) as u8;
                    engine.fault_id = (field(2, 1) == 1).then_some(field(3, 0x7f) as u16);
                }
                2 => {
                    engine.status_index = (field(5, 1) == 1).then_some(field(26, 0xf) as u8);
                    engine.runlist = (field(4, 1) == 1).then_some(field(21, 0xf) as u8);
                }
                3 => (engine.kind, is_named) = (field(2, 0x1fff_ffff), true),
                _ => {}
            }
        }
        is_named.then_some(engine)
    };
    let chains = chains(words, |word| word & 3 == 0);
    chains.iter().filter_map(engine).collect()
}

/// What NV_PTOP_DEVICE_INFO_CFG says of the later list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ListSize {
    /// Version of the list; 2 is known.
    pub(crate) version: u8,
    /// Most devices in it.
    pub(crate) devices: u16,
    /// Most rows of a device; 3 are known.
    pub(crate) rows_per_device: u8,
    /// Rows of the list.
    pub(crate) rows: u16,
}

impl ListSize {
    /// The fields of the word.
    pub(crate) const fn of(word: u32) -> Self {
        // CAST: at most twelve bits in each field.
        ListSize {
            version: (word & 0xf) as u8,
            devices: (word >> 4 & 0xfff) as u16,
            rows_per_device: (word >> 16 & 0xf) as u8,
            rows: (word >> 20) as u16,
        }
    }
}

/// The engines in NV_PTOP_DEVICE_INFO2, the list of Ampere and later: entries that are no engine,
/// or end before their runlist, are left out.
pub(crate) fn later_engines(rows: &[u32]) -> Vec<Engine> {
    let engine = |chain: &&[u32]| {
        let [first, second, third, ..] = **chain else {
            return None;
        };
        // CAST: at most 16 bits in each field but the base.
        let engine = Engine {
            kind: first >> 24 & 0x7f,
            instance: (first >> 16) as u8,
            status_index: Some((third & 3) as u8),
            runlist: None,
            runlist_base: Some(third & 0x03ff_fc00),
            fault_id: Some((first & 0x7ff) as u16),
        };
        (second >> 30 & 1 == 1).then_some(engine)
    };
    let chains = chains(rows, |row| row == 0);
    chains.iter().filter_map(engine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tsg(id: u32) -> Option<Occupant> {
        let (id, context) = (TsgId::from_bits(id), 0);
        Some(Occupant::Tsg { id, context })
    }

    #[test]
    fn chip_has_a_sixth_bit_of_architecture_and_may_be_virtual() {
        let turing = Chip::of(0x1640_00a1, 0);
        assert_eq!((turing.architecture, turing.implementation), (0x16, 4));
        assert_eq!(turing.layout(), Some(Layout::Fifo));
        assert_eq!(Chip::of(0x1800_00a1, 0).layout(), Some(Layout::Runlist));
        assert_eq!(
            Chip::of(0x1b20_00a1, 0).layout(),
            Some(Layout::RunlistOfGb20x)
        );
        let later = Chip::of(0x0000_01a1, 0);
        assert_eq!((later.architecture, later.layout()), (0x20, None));
        let virtual_of = |boot1| Chip::of(0x1700_00a1, boot1).is_virtual;
        assert!(virtual_of(0x10000));
        assert!(virtual_of(0x20000));
        assert!(virtual_of(0x100));
        assert!(!virtual_of(0xfff0_00ff & !0x100));
    }

    #[test]
    fn status_of_ampere_swaps_save_and_load() {
        let status = Status::of(0x8009_a005, Layout::Runlist).unwrap();
        let (context, is_busy) = (Context::Save, true);
        assert_eq!(
            status,
            Status {
                tsgid: 5,
                context,
                next: 9,
                is_busy
            }
        );
        assert_eq!(
            Status::of(0x8009_a005, Layout::Fifo).unwrap().context,
            Context::Load
        );
        assert_eq!(
            Status::of(0x0009_c005, Layout::Fifo).unwrap().context,
            Context::Save
        );
        assert_eq!(
            Status::of(0x0009_6005, Layout::Fifo).unwrap().context,
            Context::Other(3)
        );
    }

    #[test]
    fn occupant_of_ampere_is_the_group_that_runs_or_is_loaded() {
        let layout = Layout::RunlistOfGb20x;
        assert_eq!(occupant(0x8009_2005, layout), tsg(5));
        assert_eq!(occupant(0x8009_a005, layout), tsg(5));
        assert_eq!(occupant(0x8009_c005, layout), tsg(9));
        assert_eq!(occupant(0x8009_e005, layout), tsg(5));
        assert_eq!(occupant(0x0009_2005, layout), Some(Occupant::Idle));
        assert_eq!(occupant(0x8009_0005, layout), Some(Occupant::Unknown));
    }

    #[test]
    fn occupant_of_turing_is_that_of_the_module() {
        assert_eq!(occupant(0x8000_3007, Layout::Fifo), tsg(7));
        assert_eq!(occupant(0x9009_a005, Layout::Fifo), tsg(9));
    }

    #[test]
    fn word_that_was_refused_has_no_occupant() {
        for layout in [Layout::Fifo, Layout::Runlist] {
            assert_eq!(occupant(0xbadf_1100, layout), None);
            assert_eq!(occupant(0xffff_ffff, layout), None);
        }
    }

    #[test]
    fn engines_of_turing_are_chains_with_holes() {
        let words = [
            0x8000_0032,
            0x0000_0003,
            0,
            0x8400_0001,
            0x8000_004f,
            0x1460_0032,
        ];
        let found = engines(&words);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].kind, found[0].status_index), (0, Some(0)));
        assert_eq!((found[1].kind, found[1].instance), (19, 1));
        assert_eq!(
            (found[1].status_index, found[1].runlist),
            (Some(5), Some(3))
        );
    }

    #[test]
    fn engines_of_ampere_are_rows_with_holes() {
        let rows = [
            0x8000_0040,
            0xc040_0000,
            0x00b0_0001,
            0,
            0x9302_0041,
            0xc010_4000,
            0x0310_0402,
            0x8000_0001,
            0x8000_0000,
            0x0000_0000,
        ];
        let found = later_engines(&rows);
        assert_eq!(found.len(), 2, "the third is no engine");
        assert_eq!((found[0].kind, found[0].fault_id), (0, Some(0x40)));
        assert_eq!(
            (found[0].runlist_base, found[0].status_index),
            (Some(0xb0_0000), Some(1))
        );
        assert_eq!((found[1].kind, found[1].instance), (19, 2));
        let third = (found[1].runlist_base, found[1].status_index);
        assert_eq!(third, (Some(0x310_0400), Some(2)));
    }

    #[test]
    fn list_whose_last_chain_does_not_end_leaves_it_out() {
        assert_eq!(later_engines(&[0x8000_0040, 0xc000_0000, 0x80b0_0000]), []);
        assert_eq!(later_engines(&[0x8000_0040, 0x4000_0000]), []);
    }

    #[test]
    fn size_of_the_list_has_its_fields() {
        let size = ListSize::of(0x1613_0302);
        assert_eq!((size.version, size.devices), (2, 0x30));
        assert_eq!((size.rows_per_device, size.rows), (3, 0x161));
    }
}
