// SPDX-License-Identifier: GPL-2.0

//! The recorder: what it keeps of calls, what it does not keep, and what it does when it cannot write.

use crate::stage::{lines, of_kind, Line, Stage};

const LIBRARY: &[&str] = &["record.so"];

/// Longest recording, and what its last line is then.
const RECORD_BYTES: usize = 4 << 20;
const FULL: &str = "full\n";

/// A name that the program has in structures and behind them.
const NAME: &str = "name-of-a-person";

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn calls(lines: &[Line], nr: &str) -> Vec<Vec<u8>> {
    let calls = of_kind(lines, "call");
    let calls = calls.iter().filter(|line| line.text("nr") == nr);
    calls.map(|line| line.bytes("params")).collect()
}

#[test]
fn userd_offset_timeslice_and_disabled_channels_are_kept() {
    let stage = Stage::new("userd_offset");
    let left = stage.run(
        stage
            .command("calls", LIBRARY)
            .args(["nvidiactl", "channel"]),
    );
    assert!(left.status.success(), "{}", left.error);
    let lines = stage.lines("record", left.process);
    let allocated = calls(&lines, "2b");
    assert_eq!(allocated.len(), 1);
    assert_eq!(allocated[0].len(), 368);
    let wide = |at: usize| u64::from_le_bytes(allocated[0][at..at + 8].try_into().expect("eight"));
    assert_eq!((wide(64), wide(360)), (0x1008, 0x102d));
    let controlled = calls(&lines, "2a");
    assert_eq!(controlled[0], 2048_u64.to_le_bytes());
    assert_eq!(controlled[1].len(), 536);
    assert_eq!(controlled[1][532..], 0x2085_u32.to_le_bytes());
    for call in of_kind(&lines, "call") {
        assert_eq!(
            (call.text("node"), call.text("result")),
            ("nvidiactl", "-1")
        );
    }
}

#[test]
fn names_in_structures_and_behind_them_are_not_kept() {
    let stage = Stage::new("names");
    let left = stage.run(stage.command("calls", LIBRARY).args(["nvidiactl", "names"]));
    assert!(left.status.success(), "{}", left.error);
    let text = stage.text("record", left.process);
    assert!(!text.contains(&hexadecimal(NAME)), "{text}");
    // Its first letters do not stand there either.
    assert!(!text.contains(&hexadecimal(&NAME[..4])), "{text}");
    let lines = lines(&text);
    let lengths: Vec<usize> = calls(&lines, "2b").iter().map(Vec::len).collect();
    assert_eq!(lengths, [20, 64, 64, 368, 2, 16, 8, 0, 0, 0, 0, 0, 0]);
    assert_eq!(calls(&lines, "2a"), [vec![], vec![]]);
}

#[test]
fn full_disk_ends_the_recording_and_not_the_program() {
    let stage = Stage::new("full_disk");
    let full = "ln -s /dev/full record.$$";
    let left = stage.run(&mut stage.after(full, &["calls", "nvidiactl", "many", "3"], LIBRARY));
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    assert_eq!(left.out, "done\n");
    assert_eq!(left.error.lines().count(), 1, "{}", left.error);
    assert!(left.error.contains("No space left on device"));
}

/// A file that may not grow costs a program a signal, which would end it.
#[test]
fn limit_of_a_file_ends_the_recording_after_a_whole_line() {
    for (limit, begins) in [("0", ""), ("8", "call ")] {
        let stage = Stage::new(&format!("limit_of_a_file_{limit}"));
        let program = ["calls", "nvidiactl", "many", "3"];
        let left = stage.run(&mut stage.after(&format!("ulimit -f {limit}"), &program, LIBRARY));
        assert!(left.status.success(), "{:?} {}", left.status, left.error);
        assert_eq!(left.out, "done\n");
        assert_eq!(left.error.lines().count(), 1, "{}", left.error);
        let text = stage.text("record", left.process);
        assert!(text.starts_with(begins), "{text}");
        assert!(text.is_empty() == begins.is_empty());
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    }
}

#[test]
fn folder_that_is_missing_leaves_the_program_undisturbed() {
    let stage = Stage::new("missing_folder");
    let mut command = stage.command("calls", LIBRARY);
    command.env("RECORD", stage.path("missing/record"));
    let left = stage.run(command.args(["nvidiactl", "channel"]));
    assert!(left.status.success(), "{:?} {}", left.status, left.error);
    assert_eq!((&*left.out, left.error.lines().count()), ("done\n", 1));
}

#[test]
fn recording_ends_where_it_is_full() {
    let stage = Stage::new("recording_full");
    let mut command = stage.command("calls", LIBRARY);
    let left = stage.run(command.args(["nvidiactl", "many", "2000"]));
    assert!(left.status.success(), "{}", left.error);
    let text = stage.text("record", left.process);
    assert!(text.len() <= RECORD_BYTES, "{}", text.len());
    assert!(text.len() > RECORD_BYTES - 8192, "{}", text.len());
    assert!(text.ends_with(&format!("\n{FULL}")));
    assert_eq!(text.matches(FULL).count(), 1);
}

#[test]
fn child_of_a_program_has_a_recording_of_its_own() {
    let stage = Stage::new("child_record");
    let left = stage.run(stage.command("calls", LIBRARY).args(["nvidiactl", "fork"]));
    assert!(left.status.success(), "{}", left.error);
    let child = left.out.lines().next().and_then(|line| line.parse().ok());
    for process in [left.process, child.expect("the child's number")] {
        let lines = stage.lines("record", process);
        assert_eq!(calls(&lines, "2b").len(), 1, "{process}");
    }
}

#[test]
fn program_that_closes_all_its_files_is_recorded_all_the_same() {
    let stage = Stage::new("closed_files");
    let mut command = stage.command("calls", LIBRARY);
    let left = stage.run(command.args(["nvidiactl", "closed", "1"]));
    assert!(left.status.success(), "{}", left.error);
    assert_eq!(left.out, "done\n");
    let lines = stage.lines("record", left.process);
    assert_eq!(calls(&lines, "2b").len(), 2, "{}", left.error);
}
