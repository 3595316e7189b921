// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The file of the history.

use super::{key, run};
use crate::history::file::{load, parse, save, text, NAME};
use crate::history::record::Run;
use crate::history::table::{History, Key};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn some() -> History {
    let mut history = History::default();
    let named = Key {
        name: "training \"a\" \u{e4}".to_string(),
        ..key(1000, 7)
    };
    for at in 0..4 {
        history.add(key(0, 1), &run(0xf1, 10, 100, 5), at);
        history.add(named.clone(), &run(0xe4, 300 * at, 1000, 0), at);
        let copied = Run {
            copy_ns: Some(10_000_000 * at),
            ..run(0xf1, 300, 1000 * at, 0)
        };
        history.add(named.clone(), &copied, at);
    }
    history
}

#[test]
fn file_is_replaced_as_a_whole_and_only_its_owner_reads_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(NAME);
    assert_eq!(load(folder.path()), (History::default(), None));
    save(folder.path(), &some()).expect("saved");
    assert_eq!(load(folder.path()), (some(), None));
    // A part that an earlier run left behind is in nobody's way.
    fs::write(folder.path().join("history.json.new"), "half").expect("a file");
    let mut more = some();
    more.add(key(5, 5), &run(1, 1, 1, 0), 9);
    save(folder.path(), &more).expect("saved");
    assert_eq!(load(folder.path()), (more, None));
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    let said = save(&folder.path().join("none"), &some()).expect_err("no folder");
    assert_eq!(said.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn damaged_file_is_set_aside_and_that_is_said_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(NAME);
    let whole = text(&some());
    let version = |number: &str| {
        let text = String::from_utf8(whole.clone()).expect("text");
        text.replacen("\"version\":1", &format!("\"version\":{number}"), 1)
    };
    for (damaged, why) in [
        (whole[..whole.len() / 2].to_vec(), "EOF"),
        (Vec::new(), "EOF"),
        (b"\xff\xfe".to_vec(), "expected value"),
        (version("2").into_bytes(), "is of version 2: want 1"),
    ] {
        fs::write(&path, &damaged).expect("a file");
        let (history, said) = load(folder.path());
        assert_eq!(history, History::default());
        let said = said.expect("a line");
        assert!(said.contains(why), "{said}");
        assert!(said.contains("history.damaged, and begins anew"), "{said}");
        assert!(!said.contains('\n'), "{said}");
        let aside = path.with_extension("damaged");
        assert_eq!(fs::read(aside).expect("a file"), damaged);
        assert_eq!(load(folder.path()), (History::default(), None));
    }
}

#[test]
fn file_that_cannot_be_true_is_refused_with_the_reason() {
    let good = String::from_utf8(text(&some())).expect("text");
    assert_eq!(parse(good.as_bytes()), Ok(some()));
    for (from, to, why) in [
        ("\"limit_pct\":100", "\"limit_pct\":101", "limit 101"),
        (
            "\"want\":{\"runs\":4,\"mean\":105263",
            "\"want\":{\"runs\":4,\"mean\":1000001",
            "want at most 1000000",
        ),
        (
            "\"copy\":{\"runs\":4,\"mean\":",
            "\"copy\":{\"runs\":4,\"mean\":9000000",
            "want at most 1000000",
        ),
        (
            "\"copy\":{\"runs\":4",
            "\"copy\":{\"runs\":5",
            "more runs in a part",
        ),
        (
            "\"gpu\":{\"runs\":4",
            "\"gpu\":{\"runs\":3",
            "more runs in a part",
        ),
        ("\"uid\":0", "\"who\":0", "unknown field `who`"),
        ("training", "training\\n", "without control characters"),
        ("\"chip\":228", "\"chip\":241", "model 0xf1 is there twice"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}: {good}");
        let said = parse(text.as_bytes()).expect_err(to);
        assert!(said.contains(why), "{said}");
    }
    let twice = good.replacen("\"uid\":1000", "\"uid\":0", 1);
    let twice = twice.replacen("\"inode\":7", "\"inode\":1", 1);
    let twice = twice.replacen("\"name\":\"training \\\"a\\\" \u{e4}\"", "\"name\":\"\"", 1);
    let said = parse(twice.as_bytes()).expect_err("twice");
    assert_eq!(said, "has a record of user 0 twice");
}

#[test]
fn file_of_before_copies_were_known_is_read() {
    let mut history = History::default();
    history.add(key(1, 1), &run(1, 10, 100, 0), 1);
    let text = String::from_utf8(text(&history)).expect("text");
    assert!(!text.contains("copy"), "{text}");
    assert_eq!(parse(text.as_bytes()), Ok(history));
}

#[test]
fn table_of_a_file_has_the_bounds_of_the_table() {
    let mut history = History::default();
    for inode in 0..256 {
        history.add(key(1, inode), &run(1, 1, 1, 0), 1);
    }
    let text = String::from_utf8(text(&history)).expect("text");
    assert_eq!(parse(text.as_bytes()), Ok(history));
    let first = text.find("{\"uid\"").expect("a record");
    let end = text.find(",{\"uid\"").expect("a second one");
    let another = text[first..end].replace("\"inode\":0", "\"inode\":999");
    let more = text.replacen("[{", &format!("[{another},{{"), 1);
    let said = parse(more.as_bytes()).expect_err("too many");
    assert_eq!(said, "has more than 256 records of user 1");
}

#[test]
#[ignore = "a measurement"]
fn full_table_is_measured() {
    for models in [1, 8] {
        let mut history = History::default();
        for at in 0..4096 * models {
            let key = key((at % 16) as u32, at / 16 / models);
            let chip = (at / 16 % models) as u32;
            let copied = Run {
                copy_ns: Some(200_000_000),
                ..run(chip, 300, 1000, 100)
            };
            history.add(key, &copied, at);
        }
        let records = history.all().count();
        let begin = std::time::Instant::now();
        let text = text(&history);
        let (written, begin) = (begin.elapsed(), std::time::Instant::now());
        assert_eq!(parse(&text), Ok(history));
        let read = begin.elapsed();
        println!(
            "{records} records of {models} models: {} bytes, written in {} ms, read in {} ms",
            text.len(),
            written.as_millis(),
            read.as_millis()
        );
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        runs in prop::collection::vec(
            (0..4u32, any::<u64>(), "[a-z\"\\\\ \u{e4}]{0,6}", 0..3u32, 0..1u64 << 40, 0..1u64 << 40),
            0..60,
        ),
    ) {
        let mut history = History::default();
        for (at, (uid, inode, name, chip, gpu, there)) in (0..).zip(runs) {
            let key = Key { name, ..key(uid, inode % 5) };
            let run = Run {
                copy_ns: (gpu % 3 > 0).then_some(gpu % 5_000_000),
                command_ns: (gpu % 5 > 0).then_some(gpu % 70_000),
                ..run(chip, gpu % 1_000_000, there % 1_000_000, 3)
            };
            history.add(key, &run, at);
        }
        prop_assert_eq!(parse(&text(&history)), Ok(history));
    }

    #[test]
    fn any_bytes_are_read_or_refused_with_one_line(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        if let Err(error) = parse(&bytes) {
            prop_assert!(!error.is_empty() && !error.contains('\n'));
        }
    }
}
