// SPDX-License-Identifier: GPL-2.0

//! The hold: stores wait, are counted, or are made good later, and the program notices nothing else.
//! Programs and library tell times of one clock; no test judges how long something took.

use crate::stage::{of_kind, Left, Line, Stage, DOORBELL_BYTES};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const LIBRARY: &[&str] = &["hold.so"];

/// A hold that only the end of the program ends, soon after the first store.
const UNTIL_THE_END: &[(&str, &str)] = &[("HOLD_MS", "600000"), ("HOLD_AFTER_MS", "20")];
const COUNT: &[(&str, &str)] = &[("HOLD_COUNT", "1")];
const SWALLOW: &[(&str, &str)] = &[
    ("HOLD_SWALLOW", "2"),
    ("HOLD_SWALLOW_FROM", "2"),
    ("HOLD_SWALLOW_EVERY", "2"),
];

/// Numbers of signals.
const TRAP: i32 = 5;
const SEGV: i32 = 11;

/// Where the programs ring.
const RING: u64 = 0x90;

/// Runs `stores WHAT` in a folder of its own.
fn run(stage: &Stage, libraries: &[&str], what: &str, wanted: &[(&str, &str)]) -> Left {
    let mut command = stage.command("stores", libraries);
    command.args(["nvidia0", what]).envs(wanted.iter().copied());
    stage.run(&mut command)
}

/// The same of a program that ends well; answers its lines and those of the report.
fn both(what: &str, wanted: &[(&str, &str)]) -> (Vec<Line>, Vec<Line>, Stage) {
    let stage = Stage::new(what);
    let left = run(&stage, LIBRARY, what, wanted);
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    assert_eq!(left.error, "");
    let report = stage.lines("log", left.process);
    assert_eq!(report.last().map(|line| &*line.kind), Some("end"));
    (crate::stage::lines(&left.out), report, stage)
}

fn one<'a>(lines: &'a [Line], kind: &str) -> &'a Line {
    let found = of_kind(lines, kind);
    assert_eq!(found.len(), 1, "{kind} of {lines:#?}");
    found[0]
}

/// Tokens of a report: how many stores of which value at which offset.
fn tokens(report: &[Line]) -> BTreeMap<(u64, String), u64> {
    let tokens = of_kind(report, "token").into_iter().map(|line| {
        let place = (line.number("offset"), line.text("value").to_owned());
        (place, line.number("stores"))
    });
    tokens.collect()
}

#[test]
fn store_waits_for_the_end_of_a_hold_and_goes_on_by_itself() {
    let (said, report, _) = both("wait", &[("HOLD_MS", "1000"), ("HOLD_AFTER_MS", "20")]);
    let hold = one(&report, "hold");
    let (closed, opened) = (hold.number("closed"), hold.number("opened"));
    assert!(opened >= closed + 1_000_000_000);
    let stores = of_kind(&said, "store");
    let waited: Vec<_> = stores
        .iter()
        .filter(|store| store.number("before") < opened && store.number("after") > opened)
        .collect();
    assert_eq!((waited.len(), hold.number("waited")), (1, 1));
    let (before, seen) = (waited[0].number("before"), waited[0].number("seen"));
    assert!(seen > opened);
    assert!(hold.number("first_wait") > before);
    assert!(hold.number("first_wait") > closed);
    assert!(hold.number("released") > opened);
    // None was carried out while the doorbell was closed.
    for store in stores {
        let (before, after) = (store.number("before"), store.number("after"));
        assert!(before < closed || after > opened, "{store:?}");
    }
    assert_eq!(one(&report, "counts").text("from"), "store");
}

#[test]
fn every_store_is_counted_with_its_token_at_its_offset() {
    let (_, report, stage) = both("forms", COUNT);
    let low = 0x3344;
    let wanted = [
        (RING, 0xa000_0001, 7),
        (RING, 0xa000_0002, 1),
        (0x100, low, 1),
        (0x104, 0x1111_1111, 1),
        (0x110, 0x2222_2222, 1),
        (0x8, low, 1),
        (0, 0x5566_7788, 1),
        (0x200, low, 1),
        (0x204, 0x7788, 1),
        (0x208, 0x1122_3344_5566_7788, 1),
        (0x210, u64::MAX - 1, 1),
    ];
    let mut wanted: BTreeMap<_, _> = wanted
        .map(|(at, value, stores): (u64, u64, u64)| ((at, value.to_string()), stores))
        .into();
    wanted.insert((0x300, "unknown".to_owned()), 1);
    wanted.insert((0x304, "unknown".to_owned()), 1);
    assert_eq!(tokens(&report), wanted);
    let mapping = one(&report, "mapping");
    assert_eq!((mapping.number("stores"), mapping.number("reads")), (19, 1));
    assert_eq!(mapping.number("length"), DOORBELL_BYTES);
    // What is not understood is shown: MOVNTI here.
    let unknown = of_kind(&report, "instruction");
    assert_eq!(unknown.len(), 2);
    assert!(unknown
        .iter()
        .all(|line| line.bytes("bytes")[..2] == [0x0f, 0xc3]));
    assert_eq!(stage.word(0x304), low as u32);
}

#[test]
fn swallowed_stores_arrive_when_they_are_rung_later_and_not_before() {
    let wanted = [SWALLOW, &[("HOLD_SWALLOW_MS", "100")]].concat();
    let (said, report, _) = both("six", &wanted);
    let swallowed = of_kind(&report, "swallowed");
    let numbers: Vec<_> = swallowed.iter().map(|line| line.number("number")).collect();
    assert_eq!(numbers, [2, 4]);
    for line in swallowed {
        let number = line.number("number");
        let seen = of_kind(&said, "seen");
        let seen = seen.iter().find(|seen| seen.number("number") == number);
        let seen = seen.expect("a time").number("at");
        let rung = line.number("rung");
        assert!(rung >= line.number("at") + 100_000_000, "{line:?}");
        assert!(seen > rung, "{line:?}, seen at {seen}");
        let (offset, token) = (line.number("offset"), line.number("token"));
        assert_eq!((offset, token), (4 * (number - 1), 99 + number));
    }
    assert_eq!(one(&report, "mapping").number("stores"), 6);
}

#[test]
fn stores_that_are_outstanding_at_the_end_are_made_good_then() {
    let wanted = [SWALLOW, &[("HOLD_SWALLOW_MS", "600000")]].concat();
    let (_, report, stage) = both("six-and-end", &wanted);
    let words = [0, 4, 8, 12, 16, 20].map(|offset| stage.word(offset));
    assert_eq!(words, [100, 101, 102, 103, 104, 105]);
    let swallowed = of_kind(&report, "swallowed");
    assert_eq!(swallowed.len(), 2);
    assert!(swallowed
        .iter()
        .all(|line| line.number("rung") > line.number("at")));
}

#[test]
fn instruction_that_is_not_understood_is_not_swallowed() {
    let (_, report, _) = both("exchange", &[("HOLD_SWALLOW", "2")]);
    let refused = one(&report, "refused");
    assert_eq!(refused.number("number"), 1);
    assert_eq!(refused.bytes("bytes")[0], 0x87);
    assert!(of_kind(&report, "swallowed").is_empty());
}

#[test]
fn handlers_of_the_program_are_called_for_its_own_faults() {
    let (_, report, _) = both("handlers", COUNT);
    assert_eq!(one(&report, "mapping").number("stores"), 2);
}

#[test]
fn handler_of_the_program_is_installed_again_after_the_last_hold() {
    let wanted = [("HOLD_MS", "20,20"), ("HOLD_AFTER_MS", "20")];
    let (_, report, _) = both("restored", &wanted);
    assert_eq!(of_kind(&report, "hold").len(), 2);
}

#[test]
fn crash_stays_a_crash() {
    for (what, signal) in [("crash", SEGV), ("trap", TRAP)] {
        for (name, wanted) in [("counted", COUNT), ("held", UNTIL_THE_END)] {
            let stage = Stage::new(&format!("{what}-{name}"));
            let left = run(&stage, LIBRARY, what, wanted);
            assert_eq!(left.status.signal(), Some(signal), "{what} {wanted:?}");
            let report = stage.lines("log", left.process);
            assert_eq!(of_kind(&report, "mapped").len(), 1);
        }
    }
}

#[test]
fn mapping_that_ends_in_a_hold_leaves_the_waiting_store_its_fault() {
    let (said, report, _) = both("unmap", UNTIL_THE_END);
    let hold = one(&report, "hold");
    assert!(one(&said, "faulted").number("at") < hold.number("opened"));
    assert_eq!(hold.number("waited"), 1);
    assert_eq!(one(&report, "unmapped").number("left"), 0);
    assert_eq!(of_kind(&report, "mapping").len(), 2);
}

#[test]
fn child_of_a_fork_in_a_hold_holds_nothing() {
    let (said, report, stage) = both("fork", UNTIL_THE_END);
    assert!(one(&said, "ended").number("at") < one(&report, "hold").number("opened"));
    assert_eq!(stage.word(RING as usize), 2);
}

#[test]
fn rights_and_moves_of_the_program_are_followed() {
    let (_, report, stage) = both("rights", COUNT);
    let moved = one(&report, "moved");
    assert_eq!((moved.number("number"), moved.number("to")), (0, 1));
    let stores = of_kind(&report, "mapping");
    let stores: Vec<_> = stores.iter().map(|line| line.number("stores")).collect();
    assert_eq!(stores, [1, 2]);
    let left = of_kind(&report, "unmapped");
    let left: Vec<_> = left.iter().map(|line| line.number("left")).collect();
    assert_eq!(left, [0, DOORBELL_BYTES / 2, 0]);
    assert_eq!(stage.word(RING as usize), 4);
}

#[test]
fn signal_of_the_program_comes_while_its_store_waits() {
    let stage = Stage::new("alarm");
    let left = run(&stage, LIBRARY, "alarm", UNTIL_THE_END);
    assert_eq!(left.status.code(), Some(3), "{}", left.error);
    let report = stage.lines("log", left.process);
    assert_eq!(one(&report, "hold").number("waited"), 1);
}

#[test]
fn threads_that_store_at_once_lose_no_store() {
    for (name, wanted) in [("threads", &[][..]), ("threads-counted", COUNT)] {
        let stage = Stage::new(name);
        let holds = [("HOLD_MS", "5,6,7"), ("HOLD_AFTER_MS", "3")];
        let left = run(&stage, LIBRARY, "threads", &[wanted, &holds].concat());
        assert!(left.status.success(), "{:?} {}", left.status, left.error);
        let report = stage.lines("log", left.process);
        let numbers = of_kind(&report, "hold");
        let numbers: Vec<_> = numbers.iter().map(|hold| hold.number("number")).collect();
        assert_eq!(numbers, [1, 2, 3]);
    }
}

#[test]
fn calls_tell_which_bar_a_doorbell_is_in() {
    let stage = Stage::new("bars");
    let left = run(&stage, &["hold.so", "driver.so"], "bars", COUNT);
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    let report = stage.lines("log", left.process);
    let bars = of_kind(&report, "mapping");
    let bars: Vec<_> = bars.iter().map(|mapping| mapping.text("bar")).collect();
    // The fourth asked for BAR1 and got an address as of BAR0; the fifth may be read, and is named
    // as a doorbell; the sixth object is memory, and the seventh looks like a doorbell.
    assert_eq!(bars, ["0", "1", "0", "unknown", "0", "unknown"]);
    let values: Vec<String> = tokens(&report)
        .into_keys()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(values, ["10", "11", "12", "13", "14", "16"]);
}

#[test]
fn both_libraries_work_together() {
    let stage = Stage::new("together");
    let left = run(&stage, &["record.so", "hold.so"], "six-and-end", COUNT);
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    let report = stage.lines("log", left.process);
    assert_eq!(one(&report, "mapping").number("stores"), 6);
    let recording = stage.lines("record", left.process);
    let maps = of_kind(&recording, "mmap");
    let rights: Vec<_> = maps.iter().map(|map| map.text("rights")).collect();
    assert_eq!(rights, ["1", "2"]);
}

#[test]
fn each_program_that_is_executed_has_a_report_of_its_own() {
    let stage = Stage::new("executed");
    let stores = stage.command("stores", &[]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "\"$@\"; echo $?; exec \"$@\"", "sh"])
        .arg(stores.get_program())
        .args(["nvidia0", "six-and-end"]);
    stage.prepare(&mut shell, LIBRARY);
    let left = stage.run(shell.env("HOLD_COUNT", "1"));
    assert_eq!((left.status.code(), &*left.out), (Some(0), "0\n"));
    let names = fs::read_dir(stage.path("")).expect("the folder").flatten();
    let reports = names.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let process = name.strip_prefix("log.")?.parse().ok()?;
        Some(stage.lines("log", process))
    });
    let stores: Vec<u64> = reports
        .map(|report| one(&report, "mapping").number("stores"))
        .collect();
    assert_eq!(stores, [6, 6]);
}

#[test]
fn words_that_are_no_numbers_are_named_and_nothing_is_held() {
    let stage = Stage::new("no_numbers");
    let left = run(&stage, LIBRARY, "six-and-end", &[("HOLD_MS", "5,soon")]);
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    assert!(
        left.error.starts_with("HOLD_MS: 5,soon: "),
        "{}",
        left.error
    );
    assert!(!stage.path(&format!("log.{}", left.process)).exists());
}

#[test]
fn report_that_cannot_be_written_leaves_the_program_undisturbed() {
    let stage = Stage::new("no_report");
    let full = "ln -s /dev/full log.$$";
    let mut command = stage.after(full, &["stores", "nvidia0", "six"], LIBRARY);
    let left = stage.run(command.env("HOLD_COUNT", "1"));
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    let log = fs::metadata(stage.path(&format!("log.{}", left.process)));
    assert!(!log.expect("the device").is_file());
    assert_eq!(stage.word(20), 105);
}
