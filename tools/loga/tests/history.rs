// SPDX-License-Identifier: GPL-2.0

//! The agent as a process keeps a history and answers, also without the kernel module.

use loga_cli::history::ask::{ask, Heard};
use loga_cli::history::file;
use loga_cli::history::record::Run;
use loga_cli::history::table::{Exe, History, Key};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An agent that keeps its history in a folder, and the lines that it prints first.
fn start(folder: &Path, lines: usize) -> (Child, Vec<String>) {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_loga"))
        .args(["agent", "serve", "--listen", "127.0.0.1:0", "--history"])
        .arg(folder)
        .arg("--history-socket")
        .arg(folder.join("socket"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let out = BufReader::new(agent.stdout.take().expect("a pipe"));
    let said = out.lines().take(lines).map(|line| line.expect("a line"));
    (agent, said.collect())
}

/// What the agent answers. It is waited for less than it takes where it gets the processor rarely: it is
/// asked until it answers.
fn answer(socket: &Path, exe: Option<Exe>) -> Heard {
    let begin = Instant::now();
    loop {
        let heard = ask(socket, exe, "a", false);
        // TIMEOUT: ends a test that hangs.
        if matches!(heard, Heard::Answer(_)) || begin.elapsed() > Duration::from_secs(300) {
            return heard;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn stop(mut agent: Child) {
    agent.kill().expect("killed");
    agent.wait().expect("ended");
}

#[test]
fn agent_answers_with_the_records_of_the_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let uid = fs::metadata(folder.path()).expect("a folder").uid();
    let exe = Exe {
        device: 1,
        inode: 2,
        mtime_ns: 3,
    };
    let mut history = History::default();
    for uid in [uid, uid + 1] {
        let run = Run {
            chip: 0xf1,
            gpu_ns: 5_000_000,
            copy_ns: Some(2_000_000),
            command_ns: Some(300_000),
            there: Some((9_000_000 + u64::from(uid), 1_000_000)),
            under: None,
        };
        let name = "a".to_string();
        history.add(Key { uid, exe, name }, &run, u64::from(uid));
    }
    file::save(folder.path(), &history).expect("saved");
    let (agent, said) = start(folder.path(), 2);
    let socket = folder.path().join("socket");
    let heard = answer(&socket, Some(exe));
    let mode = fs::metadata(&socket).map(|data| data.permissions().mode() & 0o777);
    stop(agent);
    let Heard::Answer(answer) = heard else {
        panic!("{heard:?}: {said:?}");
    };
    assert_eq!(
        answer.record.map(|record| record.seen_s),
        Some(u64::from(uid))
    );
    assert_eq!(mode.expect("a socket"), 0o666);
}

#[test]
fn agent_says_that_a_damaged_file_is_set_aside_and_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(file::NAME), "{\"version\":").expect("a file");
    let (agent, said) = start(folder.path(), 3);
    let heard = answer(&folder.path().join("socket"), None);
    stop(agent);
    let told = said.iter().filter(|line| line.contains("is set aside as"));
    assert_eq!(told.count(), 1, "{said:?}");
    assert!(matches!(heard, Heard::Answer(_)), "{heard:?}");
    assert!(folder.path().join("history.damaged").exists());
}

#[test]
fn folder_that_is_none_is_named() {
    let agent = Command::new(env!("CARGO_BIN_EXE_loga"))
        .args([
            "agent",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--history",
            "/nonexistent",
        ])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&agent.stderr);
    assert!(
        said.starts_with("loga: --history: /nonexistent is no folder: make it"),
        "{said}"
    );
    assert_eq!(agent.status.code(), Some(1));
}
