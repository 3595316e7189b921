// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Recordings that are converted: whole, cut, damaged, with names of any bytes.

use super::*;
use crate::commands::report;
use crate::recording::layout::{Amounts, Line};
use serde_json::{json, Value};
use std::path::PathBuf;

const S: u64 = 1_000_000_000;

/// Lines of a recording of one GPU and a client that came and went, with a gap.
pub(crate) fn lines() -> Vec<Value> {
    let got = |ns: u64| {
        json!({"id": 7, "pid": 42, "uid": 1000, "comm": "=a\",\n", "cgroup": 9,
        "cgroup_path": "/a,b", "state": "running", "gpu_time_ns": ns, "waited_ns": 5, "throttled_ns": 3})
    };
    let sample = |at: u64, clients: Value| {
        json!({"sample": {"gpu": 0, "from_ns": at - S, "time_ns": at,
        "unix_ns": 1_795_701_933 * S + at, "policy": "event", "enforcing": true, "lost": false,
        "away": false, "whole": {"span_ns": S, "polled_ns": S / 4, "busy_ns": S / 5, "idle_ns": S / 20,
        "unknown_ns": 0}, "clients": clients,
        "users": [{"id": 1000, "name": "ann", "gpu_time_ns": 10, "waited_ns": 0, "throttled_ns": 0}],
        "cgroups": []}})
    };
    let event = |at: u64, kind: &str, value: Value| {
        let mut event = json!({"version": 3, "time_ns": at, "sequence": 1, "lost": 0, "event": kind,
            "gpu": 0, "client": 7, "pid": 42, "uid": 1000, "comm": "=a\",\n"});
        let members = event.as_object_mut().expect("an object");
        members.extend(value.as_object().expect("an object").clone());
        json!({ "event": event })
    };
    let gpus = json!([{"gpu": 0, "chip": "0xf1", "pci": "0001:01:00.0", "policy": "event",
        "enforcing": true, "withheld": false}]);
    vec![
        json!({"start": {"version": 1, "program": "0.1.0", "abi": 13, "interval_ms": 1000,
            "time_ns": 10 * S, "unix_ns": 1_795_701_943 * S, "gpus": gpus}}),
        sample(11 * S, json!([got(S / 2)])),
        event(
            11 * S + S / 4,
            "throttled",
            json!({"throttled_by": "policy"}),
        ),
        event(11 * S + S / 2, "released", json!({"throttled_ns": S / 4})),
        sample(12 * S, json!([got(S / 4)])),
        event(
            12 * S + S / 2,
            "exited",
            json!({"gpu_time_ns": S, "rest_ns": S / 8}),
        ),
        sample(13 * S, json!([])),
        json!({"gap": {"time_ns": 14 * S, "unix_ns": 0, "why": "no driver"}}),
        json!({"resume": {"time_ns": 16 * S, "unix_ns": 1_795_701_949 * S, "gpus": gpus}}),
        sample(17 * S, json!([got(S)])),
        json!({"end": {"time_ns": 17 * S, "unix_ns": 1_795_701_950 * S, "why": "duration"}}),
    ]
}

/// A file of these lines.
pub(crate) fn file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("recording");
    fs::write(&path, text).expect("a file");
    path
}

pub(crate) fn text(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn reader_that_is_gone_is_told_from_other_errors() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    for format in [
        ExportFormat::Csv,
        ExportFormat::Json,
        ExportFormat::Perfetto,
    ] {
        let arguments = cli::Export {
            file: file(&folder, &text(&lines())),
            format,
            out: None,
        };
        let Err(Failure::Print(error)) = run(&arguments, &mut Gone) else {
            panic!("not told: {format:?}");
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}

/// What is exported, and what is said.
fn export(text: &str, format: ExportFormat) -> (String, Result<Option<String>, String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = cli::Export {
        file: file(&folder, text),
        format,
        out: None,
    };
    let mut out = Vec::new();
    let done = run(&arguments, &mut out).map_err(|failure| failure.to_string());
    (String::from_utf8(out).expect("text"), done)
}

#[test]
fn table_has_a_row_for_each_sample_and_client_and_its_times_sum_up() {
    let (table, done) = export(&text(&lines()), ExportFormat::Csv);
    assert_eq!(done, Ok(None));
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let head: Vec<String> = reader
        .headers()
        .expect("a head")
        .iter()
        .map(String::from)
        .collect();
    let rows: Vec<Vec<String>> = reader
        .records()
        .map(|row| row.expect("a row").iter().map(String::from).collect())
        .collect();
    let cell = |row: usize, name: &str| {
        let at = head.iter().position(|one| one == name).expect(name);
        rows[row][at].clone()
    };
    assert_eq!(rows.len(), 5);
    let kinds: Vec<String> = (0..5).map(|row| cell(row, "row")).collect();
    assert_eq!(kinds, ["sample", "sample", "exited", "sample", "sample"]);
    assert_eq!(cell(0, "time"), "2026-11-26T14:05:44.000Z");
    assert_eq!(cell(2, "time"), "2026-11-26T14:05:45.500Z");
    assert_eq!(
        (cell(0, "user"), cell(2, "user")),
        ("ann".to_string(), "ann".to_string())
    );
    assert_eq!(
        (cell(0, "share"), cell(3, "client")),
        ("0.500000".to_string(), String::new())
    );
    assert_eq!(cell(0, "cgroup_path"), "/a,b");
    // A control is escaped, and a spreadsheet calculates nothing; it can be read again.
    let comm = cell(0, "comm");
    assert_eq!(comm, "\"=a\\\",\\n\"");
    assert_eq!(Name::read(&comm), Ok("=a\",\n".into()));
    let sum: u64 = (0..4)
        .map(|row| cell(row, "gpu_time_ns").parse().unwrap_or(0))
        .sum();
    assert_eq!(sum, S / 2 + S / 4 + S / 8);
}

#[test]
fn list_has_all_lines() {
    let (list, done) = export(&text(&lines()), ExportFormat::Json);
    assert_eq!(done, Ok(None));
    let list: Vec<Value> = serde_json::from_str(&list).expect("a list");
    assert_eq!(list, lines());
}

#[test]
fn trace_has_tracks_counters_slices_and_instants() {
    let (trace, done) = export(&text(&lines()), ExportFormat::Perfetto);
    assert_eq!(done, Ok(None));
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    assert_eq!(trace["otherData"]["start"], "2026-11-26T14:05:43.000Z");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of = |phase: &str| -> Vec<&Value> {
        events.iter().filter(|event| event["ph"] == phase).collect()
    };
    let names: Vec<&Value> = of("M").iter().map(|one| &one["args"]["name"]).collect();
    // Numbers of clients begin anew after the gap.
    assert_eq!(names.len(), 3);
    assert_eq!(names[0], "GPU 0 0xf1 0001:01:00.0");
    let client = r#"42 "=a\",\n" (client 7)"#;
    assert_eq!((names[1], names[2]), (&json!(client), &json!(client)));
    let shares: Vec<(&Value, &Value)> = of("C")
        .iter()
        .filter(|one| {
            one["name"]
                .as_str()
                .is_some_and(|name| name.starts_with("share"))
        })
        .map(|one| (&one["ts"], &one["args"]["%"]))
        .collect();
    let us = |at: f64| json!(at * 1e6);
    let expected = [
        (us(10.0), json!(50.0)),
        (us(11.0), json!(25.0)),
        (us(12.0), json!(0.0)),
        (us(16.0), json!(100.0)),
        (us(17.0), json!(0.0)),
    ];
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|(ts, part)| (ts, part)).collect();
    assert_eq!(shares, expected);
    let slices = of("X");
    assert_eq!(slices.len(), 1);
    assert_eq!(
        (&slices[0]["ts"], &slices[0]["dur"]),
        (&us(11.25), &us(0.25))
    );
    assert_eq!(slices[0]["args"]["by"], "policy");
    let instants: Vec<&Value> = of("i").iter().map(|one| &one["name"]).collect();
    assert_eq!(instants, ["exited", "gap", "resume"]);
    for event in events.iter().filter(|event| event["ph"] != "M") {
        assert!(event["ts"].is_number(), "{event}");
        assert!(event["pid"].is_u64(), "{event}");
    }
}

#[test]
fn slice_that_is_open_ends_with_the_recording() {
    let (trace, _) = export(&text(&lines()[..3]), ExportFormat::Perfetto);
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let slice = events.iter().find(|event| event["ph"] == "X").expect("one");
    assert_eq!(slice["dur"], 0.0);
}

#[test]
fn last_line_that_is_cut_is_left_out_with_a_note() {
    let whole = text(&lines());
    let end = whole.trim_end().rfind('\n').expect("lines") + 1;
    for cut in [end + 1, whole.len() - 2] {
        for format in [
            ExportFormat::Csv,
            ExportFormat::Json,
            ExportFormat::Perfetto,
        ] {
            let (out, done) = export(&whole[..cut], format);
            let note = done.expect("exported").expect("a note");
            assert!(
                note.ends_with("recording, line 11: the last line is cut, and left out"),
                "{note}"
            );
            assert!(!out.is_empty());
        }
    }
    // A line without its end is whole; zeros that a machine without power left are not.
    assert_eq!(
        export(&whole[..whole.len() - 1], ExportFormat::Json).1,
        Ok(None)
    );
    let zeros = format!("{whole}\0\0\0\0");
    assert!(export(&zeros, ExportFormat::Json)
        .1
        .expect("exported")
        .is_some());
}

#[test]
fn damaged_line_is_named_and_what_is_before_it_exported() {
    let mut damaged = text(&lines()[..4]);
    damaged.push_str("{\"sample\": nonsense}\n");
    damaged.push_str(&text(&lines()[4..]));
    for format in [
        ExportFormat::Csv,
        ExportFormat::Json,
        ExportFormat::Perfetto,
    ] {
        let (out, done) = export(&damaged, format);
        let said = done.expect_err("damaged");
        assert!(
            said.contains("recording, line 5: not a line of a recording: "),
            "{said}"
        );
        assert!(
            said.ends_with("; only what is before it was exported"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
        if format == ExportFormat::Json {
            let list: Vec<Value> = serde_json::from_str(&out).expect("a list");
            assert_eq!(list.len(), 4);
        }
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let header = text(&lines()[..1]);
    let newer = header.replace("\"version\":1", "\"version\":2");
    for (text, words) in [
        ("", "is empty: want a file of `loga record`"),
        (
            &header[..20],
            "ends in its header: want a file of `loga record`",
        ),
        ("hello\n", "line 1: not a line of a recording: "),
        (
            &text(&lines()[1..2]),
            "line 1: no header: want a file of `loga record`",
        ),
        (
            &newer,
            "line 1: a recording of version 2: this loga reads version 1",
        ),
    ] {
        let (out, done) = export(text, ExportFormat::Csv);
        let said = done.expect_err(words);
        assert!(said.contains(words), "{said}");
        assert!(out.is_empty(), "{said}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let none = cli::Export {
        file: folder.path().join("none"),
        format: ExportFormat::Csv,
        out: None,
    };
    let failure = run(&none, &mut Vec::new()).expect_err("no file");
    assert!(
        failure.to_string().contains("none: No such file"),
        "{failure}"
    );
    let folder = cli::Export {
        file: folder.path().to_path_buf(),
        ..none
    };
    let failure = run(&folder, &mut Vec::new()).expect_err("a folder");
    assert!(failure.to_string().contains("is a folder"), "{failure}");
}

#[test]
fn other_file_is_written_unless_it_is_the_recording_or_the_disk_is_full() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, &text(&lines()));
    let export = |out: &Path| {
        let arguments = cli::Export {
            file: path.clone(),
            format: ExportFormat::Json,
            out: Some(out.to_path_buf()),
        };
        run(&arguments, &mut Vec::new()).map_err(|failure| failure.to_string())
    };
    let out = folder.path().join("out.json");
    assert_eq!(export(&out), Ok(None));
    let list = fs::read_to_string(&out).expect("a file");
    assert!(serde_json::from_str::<Vec<Value>>(&list).is_ok());
    let said = export(&path).expect_err("itself");
    assert!(
        said.ends_with("is the recording itself: name another file"),
        "{said}"
    );
    let said = export(Path::new("/dev/full")).expect_err("full");
    assert!(
        said.starts_with("cannot write /dev/full: No space left"),
        "{said}"
    );
    let report = cli::Report {
        file: path.clone(),
        out: path.clone(),
    };
    assert!(report::run(&report).is_err());
    assert_eq!(fs::read_to_string(&path).expect("a file"), text(&lines()));
}

#[test]
fn lines_are_read_as_they_were_written() {
    for line in lines() {
        let read: Line = serde_json::from_value(line.clone()).expect("a line");
        assert_eq!(serde_json::to_value(&read).expect("JSON"), line);
    }
    let most = Amounts {
        gpu_time_ns: u64::MAX,
        ..Amounts::default()
    };
    let text = serde_json::to_string(&most).expect("JSON");
    assert_eq!(serde_json::from_str::<Amounts>(&text).expect("read"), most);
}
