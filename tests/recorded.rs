// SPDX-License-Identifier: GPL-2.0

//! Calls that were recorded on a card (`tests/card`): LoGA understands what a real driver's library
//! sends, and what `tests/card/README.md` says of it holds.

use loga::rm::{self, nr};
use loga::track::call::{parse, Call};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

const H100: &str = "h100-580.159.04-cuda.calls";

/// Classes of Hopper: group of channels (since Kepler), channel, doorbells.
const GROUP: u32 = rm::class::CHANNEL_GROUP_A;
const CHANNEL: u32 = 0xc86f;
const DOORBELLS: u32 = 0xc661;
/// Asks for a channel's token.
const GET_TOKEN: u32 = 0xc36f_0108;
/// Doorbells in BAR0, and the range that they have there or in BAR1.
const BAR0_DOORBELLS: u64 = 0xbb_0000;
const DOORBELL_BYTES: u64 = 0x1_0000;
const BAR0_BYTES: u64 = 0x100_0000;

/// A line: its kind and values.
struct Line<'a> {
    kind: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl Line<'_> {
    fn text(&self, name: &str) -> &str {
        self.values.get(name).copied().unwrap_or_default()
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let text = self.text(name);
        let digits = (0..text.len()).step_by(2);
        digits
            .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits"))
            .collect()
    }

    fn nr(&self) -> u32 {
        u32::from_str_radix(self.text("nr"), 16).expect("a number")
    }

    fn size(&self) -> usize {
        self.text("size").parse().expect("a size")
    }

    fn word(&self, name: &str, at: usize) -> u32 {
        let bytes = self.bytes(name);
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    fn wide(&self, name: &str, at: usize) -> u64 {
        u64::from(self.word(name, at)) | (u64::from(self.word(name, at + 4)) << 32)
    }

    fn is_call(&self, nr: u32) -> bool {
        self.kind == "call" && self.nr() == nr
    }

    fn understood(&self) -> Option<Call> {
        parse(self.nr(), self.size(), &self.bytes("in"))
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let lines = text.lines().map(|line| {
        let mut words = line.split(' ');
        Line {
            kind: words.next().expect("a kind"),
            values: words.filter_map(|word| word.split_once('=')).collect(),
        }
    });
    lines.collect()
}

fn recording() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/card")
        .join(H100);
    fs::read_to_string(path).expect("a recording")
}

/// Objects of a class: handle and parent, in the order of their allocation.
fn objects(lines: &[Line<'_>], class: u32) -> Vec<(u32, u32)> {
    let allocated = lines.iter().filter(|line| line.is_call(nr::ALLOC));
    allocated
        .filter(|line| line.word("in", 12) == class)
        .map(|line| (line.word("out", 8), line.word("in", 4)))
        .collect()
}

#[test]
fn every_call_that_allocates_frees_or_maps_is_understood() {
    let text = recording();
    let lines = lines(&text);
    let count = |nr| lines.iter().filter(|line| line.is_call(nr)).count();
    for line in lines.iter().filter(|line| line.kind == "call") {
        assert_eq!(line.text("result"), "0");
        let right = match line.nr() {
            nr::ALLOC => line.understood() == Some(Call::Alloc),
            nr::FREE => line.understood() == Some(Call::Free),
            nr::MAP_MEMORY => matches!(line.understood(), Some(Call::MapMemory { fd: Some(_) })),
            nr::CONTROL | nr::UNMAP_MEMORY => line.understood().is_none(),
            other => panic!("{other:02x} is not recorded"),
        };
        assert!(right, "{:02x} of {} bytes", line.nr(), line.size());
    }
    assert_eq!((count(nr::ALLOC), count(nr::MAP_MEMORY)), (120, 30));
    for line in lines.iter().filter(|line| line.kind == "call") {
        let wanted = match line.nr() {
            nr::ALLOC => rm::ALLOC_LONG_SIZE_LATER,
            nr::FREE => 16,
            nr::MAP_MEMORY => 56,
            _ => 32,
        };
        assert_eq!(line.size(), wanted, "{:02x}", line.nr());
        // Nobody says how long the parameters are.
        assert!(!line.is_call(nr::ALLOC) || line.word("in", 32) == 0);
    }
    let by_the_controlling_node = |line: &&Line<'_>| line.text("node") == "nvidiactl";
    let allocated = lines.iter().filter(|line| line.is_call(nr::ALLOC));
    assert_eq!(
        allocated.filter(by_the_controlling_node).count(),
        count(nr::FREE)
    );
}

/// LoGA takes the file from the call, and the mapping from the file.
#[test]
fn file_that_a_mapping_is_prepared_on_is_the_next_one_that_is_mapped() {
    let text = recording();
    let lines = lines(&text);
    let mut mapped = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(Call::MapMemory { fd: Some(fd) }) =
            (line.kind == "call").then(|| line.understood()).flatten()
        else {
            continue;
        };
        let next = &lines[at + 1];
        assert_eq!((next.kind, next.text("fd")), ("mmap", &*fd.to_string()));
        assert_eq!(next.text("offset"), "0");
        let closed = &lines[at + 2];
        assert_eq!(
            (closed.kind, closed.text("fd")),
            ("close", &*fd.to_string())
        );
        mapped += 1;
    }
    assert_eq!(mapped, 30);
}

#[test]
fn channels_are_in_groups_of_one_engine_and_one_runlist() {
    let text = recording();
    let lines = lines(&text);
    let channels: BTreeMap<u32, u32> = objects(&lines, CHANNEL).into_iter().collect();
    let groups: BTreeMap<u32, u32> = lines
        .iter()
        .filter(|line| line.is_call(nr::ALLOC) && line.word("in", 12) == GROUP)
        // Their fourth parameter is the engine.
        .map(|line| (line.word("out", 8), line.word("params", 12)))
        .collect();
    let in_group = |group| channels.values().filter(|parent| **parent == group).count();
    let found: Vec<_> = groups
        .iter()
        .map(|(id, engine)| (*engine, in_group(*id)))
        .collect();
    assert_eq!(found, [(1, 8), (11, 4), (12, 4), (13, 4)]);
    let (mut ids, mut runlists) = (BTreeSet::new(), BTreeSet::new());
    for line in lines.iter().filter(|line| line.is_call(nr::CONTROL)) {
        if line.word("in", 8) == GET_TOKEN {
            let token = line.word("answer", 0);
            assert!(ids.insert(token & 0xfff), "{token:x} has another one's id");
            assert_eq!(token & !0x007f_0fff, 0, "{token:x}");
            runlists.insert((channels[&line.word("in", 4)], token >> 16));
        }
    }
    assert_eq!((ids.len(), runlists.len()), (20, 4));
    let different: BTreeSet<_> = runlists.iter().map(|(_, runlist)| runlist).collect();
    assert_eq!(different.len(), 4);
    let compute = groups
        .iter()
        .find(|(_, engine)| **engine == 1)
        .expect("compute");
    assert!(runlists.contains(&(*compute.0, 0)));
}

/// A later gate has to find both: the one in BAR0 is one address for every process.
#[test]
fn doorbells_are_mapped_in_bar0_and_in_bar1() {
    let text = recording();
    let lines = lines(&text);
    let doorbells: Vec<u32> = objects(&lines, DOORBELLS)
        .iter()
        .map(|(id, _)| *id)
        .collect();
    let maps = lines.iter().enumerate().filter(|(_, line)| {
        line.is_call(nr::MAP_MEMORY) && doorbells.contains(&line.word("in", 8))
    });
    // The first without parameters, the second with a first byte that is `bBar1Mapping`.
    let asked = lines
        .iter()
        .filter(|line| line.is_call(nr::ALLOC) && line.word("in", 12) == DOORBELLS);
    let asked: Vec<_> = asked
        .map(|line| line.bytes("params").first().copied())
        .collect();
    assert_eq!(asked, [None, Some(1)]);
    let subdevices = objects(&lines, rm::class::SUBDEVICE);
    let mut addresses = Vec::new();
    for (at, line) in maps {
        let caller = line.word("in", 4);
        assert!(subdevices.iter().any(|(id, _)| *id == caller), "{caller:x}");
        assert_eq!(line.wide("in", 24), DOORBELL_BYTES);
        let mmap = &lines[at + 1];
        assert_eq!((mmap.text("node"), mmap.text("rights")), ("nvidia0", "2"));
        addresses.push(line.wide("out", 32));
    }
    let [in_bar0, in_bar1] = addresses[..] else {
        panic!("{addresses:x?}");
    };
    assert_eq!(in_bar0 % BAR0_BYTES, BAR0_DOORBELLS);
    let bar0 = in_bar0 - BAR0_DOORBELLS;
    assert!(!(bar0..bar0 + BAR0_BYTES).contains(&in_bar1), "{in_bar1:x}");
    let kept = lines
        .iter()
        .filter(|line| line.kind == "left" && line.text("node") == "nvidia0");
    assert_eq!(kept.count(), 2);
}

/// A program with it runs as without it; where it asks nothing of a GPU, nothing is recorded.
#[test]
fn recorder_compiles_without_a_warning_and_disturbs_no_program() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (library, record) = (folder.join("record.so"), folder.join("recording"));
    let compiled = Command::new("cc")
        .args([
            "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
        ])
        .arg(&library)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/card/record.c"))
        .output()
        .expect("a C compiler");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let words = Command::new("cat")
        .arg("/proc/self/comm")
        .env("LD_PRELOAD", &library)
        .env("RECORD", &record)
        .output()
        .expect("cat");
    assert_eq!(
        (words.stdout, words.stderr),
        (b"cat\n".to_vec(), Vec::new())
    );
    let recorded = fs::read_dir(folder).expect("the folder").flatten();
    let mut names = recorded.map(|entry| entry.file_name());
    assert!(names.all(|name| !name.to_string_lossy().starts_with("recording.")));
}
