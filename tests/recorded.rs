// SPDX-License-Identifier: GPL-2.0

//! Calls that were recorded on a card (`tests/card`): LoGA understands what a real driver's library
//! sends, and what `tests/card/README.md` says of it holds.

use loga::rm::{self, nr};
use loga::track::call::{parse, Call};
use loga_card::recording::{self, Line};
use loga_card::{Archive, Outcome, StepRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
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

fn nr(line: &Line<'_>) -> u32 {
    u32::from_str_radix(line.text("nr"), 16).expect("a number")
}

fn size(line: &Line<'_>) -> usize {
    line.text("size").parse().expect("a size")
}

fn word(line: &Line<'_>, name: &str, at: usize) -> u32 {
    line.word(name, at).expect("four bytes")
}

fn wide(line: &Line<'_>, name: &str, at: usize) -> u64 {
    line.wide(name, at).expect("eight bytes")
}

fn is_call(line: &Line<'_>, number: u32) -> bool {
    line.kind == "call" && nr(line) == number
}

fn understood(line: &Line<'_>) -> Option<Call> {
    parse(nr(line), size(line), &line.bytes("in"))
}

/// The first call that LoGA does not understand as it should.
fn misunderstood(lines: &[Line<'_>]) -> Option<String> {
    let is_right = |line: &&Line<'_>| match nr(line) {
        nr::ALLOC => understood(line) == Some(Call::Alloc),
        nr::FREE => understood(line) == Some(Call::Free),
        nr::MAP_MEMORY => matches!(understood(line), Some(Call::MapMemory { fd: Some(_) })),
        nr::CONTROL | nr::UNMAP_MEMORY => understood(line).is_none(),
        _ => false,
    };
    let wrong = lines
        .iter()
        .filter(|line| line.kind == "call")
        .find(|line| !is_right(line));
    wrong.map(|line| format!("{:02x} of {} bytes", nr(line), size(line)))
}

fn lines(text: &str) -> Vec<Line<'_>> {
    recording::lines(text).expect("a recording")
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/card")
}

fn recording() -> String {
    fs::read_to_string(folder().join(H100)).expect("a recording")
}

/// Objects of a class: handle and parent, in the order of their allocation.
fn objects(lines: &[Line<'_>], class: u32) -> Vec<(u32, u32)> {
    let allocated = lines.iter().filter(|line| is_call(line, nr::ALLOC));
    allocated
        .filter(|line| word(line, "in", 12) == class)
        .map(|line| (word(line, "out", 8), word(line, "in", 4)))
        .collect()
}

#[test]
fn every_call_that_allocates_frees_or_maps_is_understood() {
    let text = recording();
    let lines = lines(&text);
    let count = |nr| lines.iter().filter(|line| is_call(line, nr)).count();
    assert_eq!(misunderstood(&lines), None);
    for line in lines.iter().filter(|line| line.kind == "call") {
        assert_eq!(line.text("result"), "0");
    }
    assert_eq!((count(nr::ALLOC), count(nr::MAP_MEMORY)), (120, 30));
    for line in lines.iter().filter(|line| line.kind == "call") {
        let wanted = match nr(line) {
            nr::ALLOC => rm::ALLOC_LONG_SIZE_LATER,
            nr::FREE => 16,
            nr::MAP_MEMORY => 56,
            _ => 32,
        };
        assert_eq!(size(line), wanted, "{:02x}", nr(line));
        // Nobody says how long the parameters are.
        assert!(!is_call(line, nr::ALLOC) || word(line, "in", 32) == 0);
    }
    let by_the_controlling_node = |line: &&Line<'_>| line.text("node") == "nvidiactl";
    let allocated = lines.iter().filter(|line| is_call(line, nr::ALLOC));
    assert_eq!(
        allocated.filter(by_the_controlling_node).count(),
        count(nr::FREE)
    );
}

/// What is wrong with an archive, beside what its own checks find.
fn wrong_in(path: &Path) -> Result<usize, String> {
    let archive = Archive::read(path).map_err(|error| error.to_string())?;
    let mut recordings = 0;
    for (name, contents) in archive.files().filter(|(name, _)| name.ends_with(".calls")) {
        let text = String::from_utf8_lossy(contents);
        match misunderstood(&lines(&text)) {
            Some(call) => return Err(format!("{name}: {call}")),
            None => recordings += 1,
        }
    }
    Ok(recordings)
}

/// Whoever has a card of another family sends one; it is put beside this file's first recording.
#[test]
fn every_archive_is_whole_and_its_calls_are_understood() {
    let entries = fs::read_dir(folder()).expect("the folder").flatten();
    let paths = entries.map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "tar")) {
        let wrong = wrong_in(&path).err();
        assert_eq!(wrong, None, "{}", path.display());
    }
}

/// The recording that is there, as an archive would have it; and one that LoGA would not understand.
#[test]
fn archive_is_judged_by_the_calls_in_it() {
    let write = |name: &str, recording: String| {
        let mut archive = Archive::new("a test".to_owned(), "none".to_owned(), 1.0);
        let step = StepRecord {
            name: "record".to_owned(),
            outcome: Outcome::untried("nothing"),
            seconds: 0.0,
            limit_seconds: 1.0,
        };
        archive.add(step, vec![("one.calls".to_owned(), recording.into_bytes())]);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, archive.bytes().expect("bytes")).expect("a file");
        path
    };
    let good = write("good.tar", recording());
    assert_eq!(wrong_in(&good), Ok(1));
    // MAP_MEMORY without the file that the next mmap takes.
    let short = recording().replace("nr=4e size=56", "nr=4e size=48");
    let bad = write("bad.tar", short);
    let said = wrong_in(&bad).expect_err("a short call");
    assert_eq!(said, "record/one.calls: 4e of 48 bytes");
}

/// LoGA takes the file from the call, and the mapping from the file.
#[test]
fn file_that_a_mapping_is_prepared_on_is_the_next_one_that_is_mapped() {
    let text = recording();
    let lines = lines(&text);
    let mut mapped = 0;
    for (at, line) in lines.iter().enumerate() {
        let Some(Call::MapMemory { fd: Some(fd) }) =
            (line.kind == "call").then(|| understood(line)).flatten()
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
        .filter(|line| is_call(line, nr::ALLOC) && word(line, "in", 12) == GROUP)
        // Their fourth parameter is the engine.
        .map(|line| (word(line, "out", 8), word(line, "params", 12)))
        .collect();
    let in_group = |group| channels.values().filter(|parent| **parent == group).count();
    let found: Vec<_> = groups
        .iter()
        .map(|(id, engine)| (*engine, in_group(*id)))
        .collect();
    assert_eq!(found, [(1, 8), (11, 4), (12, 4), (13, 4)]);
    let (mut ids, mut runlists) = (BTreeSet::new(), BTreeSet::new());
    for line in lines.iter().filter(|line| is_call(line, nr::CONTROL)) {
        if word(line, "in", 8) == GET_TOKEN {
            let token = word(line, "answer", 0);
            assert!(ids.insert(token & 0xfff), "{token:x} has another one's id");
            assert_eq!(token & !0x007f_0fff, 0, "{token:x}");
            runlists.insert((channels[&word(line, "in", 4)], token >> 16));
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
        is_call(line, nr::MAP_MEMORY) && doorbells.contains(&word(line, "in", 8))
    });
    // The first without parameters, the second with a first byte that is `bBar1Mapping`.
    let asked = lines
        .iter()
        .filter(|line| is_call(line, nr::ALLOC) && word(line, "in", 12) == DOORBELLS);
    let asked: Vec<_> = asked
        .map(|line| line.bytes("params").first().copied())
        .collect();
    assert_eq!(asked, [None, Some(1)]);
    let subdevices = objects(&lines, rm::class::SUBDEVICE);
    let mut addresses = Vec::new();
    for (at, line) in maps {
        let caller = word(line, "in", 4);
        assert!(subdevices.iter().any(|(id, _)| *id == caller), "{caller:x}");
        assert_eq!(wide(line, "in", 24), DOORBELL_BYTES);
        let mmap = &lines[at + 1];
        assert_eq!((mmap.text("node"), mmap.text("rights")), ("nvidia0", "2"));
        addresses.push(wide(line, "out", 32));
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
