// SPDX-License-Identifier: GPL-2.0

//! The command line of `loga-eval`: what it keeps, what it refuses, and what an interruption or a
//! full disk leaves.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn eval(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loga-eval"));
    command.args(args).stdin(Stdio::null());
    command
}

fn run(folder: &Path, more: &[&str]) -> Output {
    let out = folder.display().to_string();
    let args = [&["run", "--quick", "--out", &out], more].concat();
    eval(&args).output().unwrap()
}

/// What has to be so for the rest of a test to say anything.
#[track_caller]
fn good(output: Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Names and contents of all files in a folder.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn second_run_keeps_what_is_there_and_makes_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    good(run(folder.path(), &["--figures", "9,10"]));
    let before = files(folder.path());
    fs::remove_file(folder.path().join("simulator-quick-9.json")).unwrap();
    let second = run(folder.path(), &["--figures", "9,10"]);
    let said = text(&second.stdout);
    assert!(said.contains("Figure 10, simulator, quick: kept"), "{said}");
    assert!(
        said.contains("Figure 9, simulator, quick: 4 runs"),
        "{said}"
    );
    assert!(files(folder.path()) == before, "not the same bytes");
    let again = run(folder.path(), &["--figures", "10", "--again"]);
    assert!(!text(&again.stdout).contains("kept"));
}

#[test]
fn result_that_is_broken_or_of_other_inputs_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    good(run(folder.path(), &["--figures", "10"]));
    let path = folder.path().join("simulator-quick-10.json");
    let whole = fs::read_to_string(&path).unwrap();
    let at = whole.find("\"inputs\": \"").unwrap() + 11;
    let other = format!("{}0000{}", &whole[..at], &whole[at + 4..]);
    for bad in [&whole[..whole.len() / 2], &other] {
        fs::write(&path, bad).unwrap();
        let said = text(&run(folder.path(), &["--figures", "10"]).stdout);
        assert!(said.contains("4 runs"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    }
}

#[test]
fn interrupted_run_leaves_earlier_results_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    good(run(folder.path(), &["--figures", "9,10"]));
    let before = files(folder.path());
    let out = folder.path().display().to_string();
    let mut child = eval(&["run", "--quick", "--out", &out, "--figures", "10,5.6"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It says that it keeps the one, and is in the middle of the other.
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("Figure 10, simulator, quick: kept"), "{line}");
    child.kill().unwrap();
    child.wait().unwrap();
    let after = files(folder.path());
    let lost = before.iter().find(|file| !after.contains(file));
    assert!(lost.is_none(), "{:?}", lost.map(|file| &file.0));
}

#[test]
fn result_that_cannot_be_written_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    good(run(folder.path(), &["--figures", "9,10"]));
    let before = files(folder.path());
    // The place of the file while it is written is a full device.
    let part = folder.path().join("simulator-quick-10.json.part");
    std::os::unix::fs::symlink("/dev/full", part).unwrap();
    let failed = run(folder.path(), &["--figures", "9,10", "--again"]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(
        said.contains("simulator-quick-10.json: No space left"),
        "{said}"
    );
    let kept = |name: &str| {
        let path = folder.path().join(name);
        before.contains(&(path.clone(), fs::read(path).unwrap()))
    };
    assert!(kept("simulator-quick-10.json"));
    assert!(kept("simulator-quick-9.json"));
}

/// A script in the place of the virtual machine.
fn script(folder: &Path, body: &str) -> String {
    let path = folder.join("machine");
    let lines = "#!/bin/sh\n[ \"$1\" = --quick ] && shift\ncase $1 in\n--list) echo ten ;;\n\
                 --inputs) echo abc123 ;;\n";
    fs::write(&path, format!("{lines}*) {body} ;;\nesac\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn results_of_the_machine_are_kept_and_compared_with_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    good(run(&results, &["--figures", "10"]));
    let ours = fs::read_to_string(results.join("simulator-quick-10.json")).unwrap();
    let theirs = ours
        .replace("\"simulator\"", "\"virtual-machine\"")
        .replace("\"quick\"", "\"machine\"");
    let from = folder.path().join("theirs.json");
    fs::write(&from, theirs).unwrap();
    let copy = format!("cp {} $2/ten.json", from.display());
    let machine = script(folder.path(), &copy);
    let more = ["--figures", "10", "--machine", &machine];
    let first = run(&results, &more);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let report = fs::read_to_string(results.join("report.html")).unwrap();
    assert!(report.contains(">agree<"));
    assert!(results.join("simulator-machine-10.json").exists());
    let second = text(&run(&results, &more).stdout);
    assert!(second.contains("ten, virtual machine: kept"), "{second}");
}

#[test]
fn killed_run_ends_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let noted = folder.path().join("pid");
    let body = format!("echo $$ > {}; sleep 1000", noted.display());
    let machine = script(folder.path(), &body);
    let out = folder.path().join("results").display().to_string();
    let pid = || Some(fs::read_to_string(&noted).ok()?.trim().to_owned());
    let mut child = eval(&["run", "--quick", "--out", &out, "--machine", &machine])
        .args(["--figures", "10"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = within(|| pid().filter(|pid| !pid.is_empty())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // Gone, or a zombie that its parent has not collected.
    let state = || fs::read_to_string(format!("/proc/{pid}/stat"));
    let ended = || state().map_or(true, |stat| stat.contains(") Z "));
    assert!(within(|| ended().then_some(())).is_some(), "{pid} lives on");
}

/// What comes true within five minutes, which end a test that hangs.
fn within<T>(check: impl Fn() -> Option<T>) -> Option<T> {
    (0..6000).find_map(|_| {
        sleep(Duration::from_millis(50));
        check()
    })
}

#[test]
fn machine_that_fails_is_an_error_and_the_report_is_of_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    for (body, reason) in [
        ("echo it does not boot >&2; exit 3", "it does not boot"),
        ("exit 0", "it left no result"),
        ("echo '{' > $2/ten.json", "EOF"),
    ] {
        let machine = script(folder.path(), body);
        let failed = run(&results, &["--figures", "10", "--machine", &machine]);
        let said = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(1), "{said}");
        assert!(said.contains("ten: "), "{said}");
        assert!(said.contains(reason), "{said}");
        assert!(results.join("report.html").exists());
    }
}

#[test]
fn report_of_files_is_drawn_and_bad_ones_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    good(run(folder.path(), &["--figures", "9"]));
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (whole, html) = (path("simulator-quick-9.json"), path("page.html"));
    let pictures = folder.path().display().to_string();
    let args = ["report", &whole, "--html", &html, "--pictures", &pictures];
    good(eval(&args).output().unwrap());
    assert!(fs::read_to_string(&html).unwrap().contains("<svg"));
    let bad = path("bad.json");
    fs::write(&bad, "{}").unwrap();
    let refused = eval(&["report", &whole, &bad, "--html", &html])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("bad.json: missing field"));
    let unknown = run(folder.path(), &["--figures", "12"]);
    assert_eq!(unknown.status.code(), Some(2));
    let said = text(&unknown.stderr);
    assert!(said.contains("no figure \"12\", want some of"), "{said}");
}
