// SPDX-License-Identifier: GPL-2.0

//! [tool] What a file selects and sets.

use super::*;
use crate::fake::FakeKernel;

fn running(pid: i32, comm: &str) -> Running {
    Running {
        pid,
        comm: comm.to_string(),
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
