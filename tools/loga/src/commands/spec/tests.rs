// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a file selects and sets.

use super::*;
use crate::fake::FakeKernel;

fn running(pid: i32, comm: &str) -> Running {
    Running {
        pid,
        comm: comm.into(),
        exe: None,
    }
}

fn arguments(line: &str) -> cli::Spec {
    let line = format!("loga spec {line}");
    let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split(' '));
    match arguments.command {
        cli::Command::Spec(spec) => spec,
        other => panic!("not spec: {other:?}"),
    }
}

/// Applies lines to processes 100 and 101, both gears, and 102, a player.
fn set(fake: &FakeKernel, options: &str, text: &str) -> Result<String, String> {
    let entries = file::parse(text).expect("a good file");
    let all = [
        running(100, "gears"),
        running(101, "gears"),
        running(102, "player"),
    ];
    let directory = Directory::default();
    let targets = select(&entries, &all, &directory).map_err(|failure| failure.to_string())?;
    let mut out = Vec::new();
    let control = Control::over(fake);
    match apply(&arguments(options), &control, &entries, &targets, &mut out) {
        Ok(()) => Ok(String::from_utf8(out).expect("text")),
        Err(failure) => Err(failure.to_string()),
    }
}

fn fake() -> FakeKernel {
    let fake = FakeKernel::new(2);
    fake.processes.borrow_mut().extend([101, 102]);
    fake
}

const TEXT: &str = "gears:HT:PE:20:2500:25000\n@user=7:PRT:-:3:-:-\nnone:PRT:-:3:-:-\n";

#[test]
fn each_line_is_set_for_all_that_it_selects() {
    let fake = fake();
    let said = set(&fake, "x.spec --apply", TEXT).expect("set");
    assert_eq!(
        said,
        "line 1: set process 100, process 101\nline 2: set user 7\n\
         line 3: no process none runs\n"
    );
    for gpu in fake.gpus.borrow().iter() {
        let set: Vec<(u32, u64)> = gpu
            .specs
            .iter()
            .map(|one| (one.spec.subject, one.spec.id))
            .collect();
        let (process, user) = (uapi::SUBJECT_PROCESS, uapi::SUBJECT_USER);
        assert_eq!(set, [(process, 100), (process, 101), (user, 7)]);
    }
}

#[test]
fn file_that_is_only_checked_sets_nothing() {
    let fake = fake();
    let said = set(&fake, "x.spec", TEXT).expect("checked");
    assert!(
        said.starts_with("line 1: would set process 100, process 101\n"),
        "{said}"
    );
    assert!(fake.gpus.borrow()[0].specs.is_empty());
}

#[test]
fn line_that_is_refused_leaves_everything_as_it_was() {
    let fake = fake();
    set(&fake, "x.spec --apply", "gears:PRT:-:5:-:-\n").expect("set");
    fake.processes.borrow_mut().retain(|pid| *pid != 102);
    let text = "gears:HT:PE:20:2500:25000\nplayer:HT:PE:20:2500:25000\n";
    let said = set(&fake, "x.spec --apply", text).expect_err("the player has ended");
    assert!(
        said.starts_with("x.spec:2: there is no process 102"),
        "{said}"
    );
    assert!(said.ends_with("; nothing has been set"), "{said}");
    for gpu in fake.gpus.borrow().iter() {
        assert_eq!(gpu.specs.len(), 2);
        assert!(gpu
            .specs
            .iter()
            .all(|one| (one.spec.prio, one.spec.kind) == (5, 0)));
    }
}

#[test]
fn process_that_comes_later_follows_the_first_line_that_names_it() {
    let fake = fake();
    let entries = file::parse(TEXT).expect("a good file");
    let control = Control::over(&fake);
    let wanted = arguments("x.spec --apply --follow --gpu 1");
    let mut out = Vec::new();
    for process in [
        Some(running(101, "gears")),
        Some(running(102, "player")),
        None,
    ] {
        follow(&wanted, &control, &entries, process, &mut out).expect("goes on");
    }
    fake.refuse_specs(uapi::Refusal::for_change());
    let gears = Some(running(100, "gears"));
    follow(&wanted, &control, &entries, gears, &mut out).expect("goes on");
    let said = String::from_utf8(out).expect("text");
    assert!(
        said.starts_with("line 1: set process 101\nline 1: process 100: "),
        "{said}"
    );
    assert!(fake.gpus.borrow()[0].specs.is_empty());
    assert_eq!(fake.gpus.borrow()[1].specs[0].spec.id, 101);
}

#[test]
fn bad_file_is_named() {
    let failure = read(Path::new("/no/such.spec"))
        .expect_err("no file")
        .to_string();
    assert!(
        failure.starts_with("/no/such.spec: No such file"),
        "{failure}"
    );
}

/// Runs the command with these processes.
fn run_with(
    fake: &FakeKernel,
    processes: &Processes,
    options: &str,
    text: &str,
) -> (String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("x.spec");
    std::fs::write(&file, text).expect("a file");
    let arguments = cli::Spec {
        file,
        ..arguments(format!("x.spec {options}").trim_end())
    };
    let mut out = Vec::new();
    let directory = Directory::default();
    let done = run(
        &arguments,
        &Control::over(fake),
        &directory,
        processes,
        &mut out,
    );
    let out = String::from_utf8(out).expect("text");
    let failure = done.err().map(|failure| failure.to_string());
    (out, failure.unwrap_or_default())
}

#[test]
fn process_is_found_by_any_name_and_by_a_program_that_was_removed() {
    let fake = fake();
    let proc = crate::processes::tests::proc();
    for (pid, comm, exe) in [
        (100, &b"VLLM::EngineCor"[..], "/opt/a:b/prog (deleted)"),
        (101, b"a\x1b[2J\xff", "/opt/a:b/prog"),
        (102, b"caf\xc3", "/opt/other"),
    ] {
        crate::processes::tests::process(proc.path(), pid, comm, 1);
        let link = proc.path().join(pid.to_string()).join("exe");
        std::os::unix::fs::symlink(exe, link).expect("a link");
    }
    let processes = Processes::below(proc.path());
    for (line, pids) in [
        ("\"VLLM::EngineCor\"", "process 100"),
        ("\"a\\x1b[2J\\xff\"", "process 101"),
        ("\"caf\\xc3\"", "process 102"),
        ("exe=\"/opt/a:b/prog\"", "process 100, process 101"),
    ] {
        let text = format!("{line}:HT:-:1:-:-\n");
        let (said, failure) = run_with(&fake, &processes, "--apply", &text);
        assert_eq!(
            (said, failure),
            (format!("line 1: set {pids}\n"), String::new())
        );
    }
}

#[test]
fn line_that_no_process_matches_fails_what_is_to_be_set() {
    let fake = fake();
    let proc = crate::processes::tests::proc();
    crate::processes::tests::process(proc.path(), 100, b"gears", 1);
    let processes = Processes::below(proc.path());
    let text = "gears:HT:-:1:-:-\n\"a\\x1b:b\":HT:-:2:-:-\n";
    let (said, failure) = run_with(&fake, &processes, "", text);
    assert_eq!(failure, "");
    assert!(
        said.ends_with("line 2: no process \"a\\x1b:b\" runs\n"),
        "{said}"
    );
    assert!(fake.gpus.borrow()[0].specs.is_empty());
    let (_, failure) = run_with(&fake, &processes, "--apply", text);
    let end = "x.spec: line 2: no process \"a\\x1b:b\" runs; the other lines are set";
    assert!(failure.ends_with(end), "{failure}");
    assert_eq!(fake.gpus.borrow()[0].specs.len(), 1);
    let (_, failure) = run_with(&fake, &processes, "--apply", "exe=/none:HT:-:1:-:-\n");
    let end = "line 1: no process /none runs; nothing has been set";
    assert!(failure.ends_with(end), "{failure}");
}
