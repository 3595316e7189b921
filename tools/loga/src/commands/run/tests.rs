// SPDX-License-Identifier: GPL-2.0

//! Tests of `loga run`.

use super::*;
use crate::control::Snapshot;
use crate::fake::FakeKernel;
use crate::placing::tests::{claim_of_another, client, kernel};
use loga::claims::MAX_CLAIMS_OF_USER;
use std::cell::Cell;
use std::ffi::OsString;

fn arguments(line: &str) -> cli::Run {
    let line = format!("loga run {line}");
    let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split(' '));
    match arguments.command {
        cli::Command::Run(run) => run,
        other => panic!("not run: {other:?}"),
    }
}

fn plain() -> Environment {
    Environment {
        proc: "/nowhere".into(),
        visible: None,
        order: None,
        cgroups: "/nowhere".into(),
        history: "/nowhere".into(),
        path: None,
    }
}

/// The variables that the command of a line is given, or the status and the reason.
fn told(fake: &FakeKernel, line: &str, environment: &Environment) -> Result<String, (u8, String)> {
    let mut told = None;
    let (status, failure) = run(
        &arguments(line),
        &Control::over(fake),
        environment,
        |command| {
            let variables = command.get_envs().map(|(name, value)| {
                let value = value.unwrap_or_default().to_string_lossy();
                format!("{}={value}", name.to_string_lossy())
            });
            told = Some(variables.collect::<Vec<String>>().join(" "));
            io::ErrorKind::NotFound.into()
        },
    );
    told.ok_or_else(|| (status, failure.to_string()))
}

/// GPU and want of all claims.
fn claims(fake: &FakeKernel) -> Vec<(u32, u32)> {
    let all = Control::over(fake).all().expect("snapshots");
    let claimed = all.iter().filter(|one| one.info.claims > 0);
    claimed.map(|one| (one.gpu, one.info.claimed_pct)).collect()
}

#[test]
fn setting_is_in_place_when_the_command_starts() {
    let fake = FakeKernel::new(1);
    let wanted = arguments("--weight 300 --limit 50 -- throttle --seconds 3");
    let mut started = String::new();
    run(&wanted, &Control::over(&fake), &plain(), |command| {
        let share = fake.gpus.borrow()[0].shares[0];
        assert_eq!((share.weight, share.limit_pct), (300, 50));
        assert_eq!((share.subject, share.id), (uapi::SUBJECT_PROCESS, 0));
        started = format!("{command:?}");
        io::ErrorKind::NotFound.into()
    });
    assert_eq!(started, r#""throttle" "--seconds" "3""#);
}

#[test]
fn command_that_cannot_run_has_the_status_of_env() {
    let fake = FakeKernel::new(1);
    let wanted = arguments("--weight 300 no-such-program");
    let (status, failure) = run(&wanted, &Control::over(&fake), &plain(), |_| {
        io::ErrorKind::NotFound.into()
    });
    assert_eq!(status, 127);
    assert!(failure
        .to_string()
        .starts_with("cannot run no-such-program: "));
    let (status, _) = run(&wanted, &Control::over(&fake), &plain(), |_| {
        io::ErrorKind::PermissionDenied.into()
    });
    assert_eq!(status, 126);
}

#[test]
fn command_is_not_started_if_the_setting_is_refused() {
    let fake = kernel(&[0, 0]);
    fake.drop_privileges();
    for line in ["--weight 3 true", "--weight 3 --gpu auto true"] {
        let (status, said) = told(&fake, line, &plain()).expect_err(line);
        assert_eq!(status, NOT_STARTED);
        assert!(said.contains("is for root"), "{said}");
    }
    assert_eq!(claims(&fake), []);
    let (status, said) = told(&fake, "true", &plain()).expect_err("nothing");
    assert_eq!(status, NOT_STARTED);
    assert!(said.starts_with("nothing to set"), "{said}");
}

#[test]
fn gpu_by_its_number_takes_the_setting_and_is_all_that_the_command_sees() {
    let fake = kernel(&[0, 0, 0]);
    let said = told(&fake, "--gpu 1 --weight 300 true", &plain()).expect("started");
    assert_eq!(
        said,
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 LOGA_GPU=1"
    );
    let shares = |gpu: usize| fake.gpus.borrow()[gpu].shares.len();
    assert_eq!([shares(0), shares(1), shares(2)], [0, 1, 0]);
    assert_eq!(claims(&fake), []);
    // Nothing has to be set.
    told(&fake, "--gpu 2 true", &plain()).expect("started");
    let (status, said) = told(&fake, "--gpu 3 true", &plain()).expect_err("no GPU 3");
    assert_eq!(status, NOT_STARTED);
    assert_eq!(said, "there is no GPU 3: want 0 to 2");
}

#[test]
fn chosen_gpu_is_claimed_and_all_that_the_command_sees() {
    let fake = kernel(&[90, 10, 40]);
    let line = "--gpu auto --want 25 --limit 40 true";
    let said = told(&fake, line, &plain()).expect("started");
    assert_eq!(
        said,
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 LOGA_GPU=1"
    );
    assert_eq!(claims(&fake), [(1, 25)]);
    let shares = |gpu: usize| fake.gpus.borrow()[gpu].shares.len();
    assert_eq!([shares(0), shares(1), shares(2)], [0, 1, 0]);
}

#[test]
fn several_gpus_are_different_ones_best_first() {
    let fake = kernel(&[90, 10, 40]);
    let said = told(&fake, "--gpu auto:2 true", &plain()).expect("started");
    assert_eq!(
        said,
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2 LOGA_GPU=1"
    );
    assert_eq!(claims(&fake), [(1, 50), (2, 50)]);
}

#[test]
fn more_gpus_than_there_are_start_nothing() {
    let fake = kernel(&[0, 0]);
    let (status, said) = told(&fake, "--gpu auto:3 true", &plain()).expect_err("three of two");
    assert_eq!(status, NOT_STARTED);
    assert!(said.starts_with("want 3 GPUs, but only 2"), "{said}");
    for gpu in fake.gpus.borrow_mut().iter_mut() {
        gpu.info.flags = uapi::GPU_LOST;
    }
    let (status, said) = told(&fake, "--gpu auto true", &plain()).expect_err("all lost");
    assert_eq!(status, NOT_STARTED);
    assert_eq!(said, "no GPU may be chosen: GPU 0 lost, GPU 1 lost");
    assert_eq!(claims(&fake), []);
}

#[test]
fn gpus_that_the_caller_allows_are_never_more() {
    let fake = kernel(&[0, 30, 60]);
    let within = |visible: &str| Environment {
        visible: Some(OsString::from(visible)),
        order: Some("PCI_BUS_ID".into()),
        ..plain()
    };
    let said = told(&fake, "--gpu auto true", &within("2,1")).expect("started");
    assert!(said.contains("CUDA_VISIBLE_DEVICES=1 "), "{said}");
    // GPU 1 is claimed by now.
    let said = told(&fake, "--gpu auto:2 true", &within("2,1")).expect("started");
    assert!(said.ends_with("LOGA_GPU=2"), "{said}");
    for (line, visible) in [
        ("--gpu auto:3 true", "2,1"),
        ("--gpu auto true", ""),
        ("--gpu auto --among 0 true", "2,1"),
        ("--gpu 0 true", "2,1"),
    ] {
        let (status, said) = told(&fake, line, &within(visible)).expect_err(line);
        assert_eq!(status, NOT_STARTED);
        assert!(said.contains("CUDA_VISIBLE_DEVICES"), "{said}");
    }
}

#[test]
fn arguments_of_a_choice_are_refused_without_one() {
    let fake = kernel(&[0, 0]);
    for line in ["--weight 3 --place guf", "--gpu 0 --among 0", "--want 3"] {
        let (status, said) = told(&fake, &format!("{line} true"), &plain()).expect_err(line);
        assert_eq!(status, NOT_STARTED);
        assert!(said.ends_with("are for --gpu auto"), "{said}");
    }
}

/// What has just been done, with the number of reads before.
#[derive(PartialEq)]
enum After {
    Read(usize),
    Claim(usize),
}

/// Claims GPUs for a program of default arguments, while `others` do something after each read and
/// after each claim; returns what was claimed and how many pauses there were.
fn claimed(
    fake: &FakeKernel,
    count: u32,
    others: impl Fn(After),
) -> (Result<Vec<u32>, String>, u32) {
    let control = Control::over(fake);
    let asked = cli::Asked::default();
    let wish = Wish::new(None, count, &asked, Weight::DEFAULT).expect("a wish");
    let (reads, pauses) = (Cell::new(0), Cell::new(0));
    let read = || -> Result<Vec<Snapshot>, Failure> {
        let all = control.all()?;
        others(After::Read(reads.replace(reads.get() + 1)));
        Ok(all)
    };
    let call = |wanted: &uapi::Claim| {
        let seen = control.claim(wanted);
        others(After::Claim(reads.get()));
        seen
    };
    let pause = |tries| pauses.set(tries);
    let result = auto::claim(read, call, &asked, &wish, &plain(), pause);
    let gpus = result
        .map(|claimed| claimed.gpus)
        .map_err(|failure| failure.to_string());
    (gpus, pauses.get())
}

#[test]
fn claim_of_another_program_meanwhile_makes_it_choose_again() {
    let fake = kernel(&[0, 10]);
    let others = |after| {
        if after == After::Read(0) {
            claim_of_another(&fake, 200, 0, 100);
        }
    };
    assert_eq!(claimed(&fake, 1, others), (Ok(vec![1]), 1));
    assert_eq!(claims(&fake), [(0, 100), (1, 50)]);
}

#[test]
fn claim_of_another_program_between_two_takes_the_first_one_back() {
    let fake = kernel(&[0, 10, 20]);
    let is_first = Cell::new(true);
    let others = |after| {
        if after == After::Claim(1) && is_first.replace(false) {
            claim_of_another(&fake, 200, 0, 100);
        }
    };
    assert_eq!(claimed(&fake, 2, others), (Ok(vec![1, 2]), 1));
    assert_eq!(claims(&fake), [(0, 100), (1, 50), (2, 50)]);
}

#[test]
fn several_claims_follow_each_other() {
    let fake = kernel(&[0, 10, 20]);
    assert_eq!(claimed(&fake, 3, |_| ()), (Ok(vec![0, 1, 2]), 0));
    assert_eq!(claims(&fake), [(0, 50), (1, 50), (2, 50)]);
}

#[test]
fn snapshots_that_disagree_are_read_again() {
    let fake = kernel(&[0, 10]);
    let control = Control::over(&fake);
    let asked = cli::Asked::default();
    let wish = Wish::new(None, 1, &asked, Weight::DEFAULT).expect("a wish");
    let (reads, pauses) = (Cell::new(0), Cell::new(0));
    let read = || -> Result<Vec<Snapshot>, Failure> {
        let mut all = control.all()?;
        // A claim was made between the two.
        let is_first = reads.replace(reads.get() + 1) == 0;
        all[1].info.claims_seen += u64::from(is_first);
        Ok(all)
    };
    let call = |wanted: &uapi::Claim| control.claim(wanted);
    let pause = |tries| pauses.set(tries);
    let claimed = auto::claim(read, call, &asked, &wish, &plain(), pause).expect("claimed");
    assert_eq!((claimed.gpus, pauses.get()), (vec![0], 1));
}

// Any user can claim in a loop.
#[test]
fn claims_of_others_at_each_try_keep_no_program_from_starting() {
    let fake = kernel(&[0, 0]);
    let others = |after| {
        if let After::Read(read) = after {
            claim_of_another(&fake, 200 + read as i32, 0, 4);
        }
    };
    assert_eq!(claimed(&fake, 2, others), (Ok(vec![1, 0]), 19));
    assert_eq!(claims(&fake), [(0, 100), (1, 50)]);
}

// A user that starts more programs within half a minute than it may claim for.
#[test]
fn program_starts_without_a_claim_where_there_is_no_room_for_one() {
    let fake = kernel(&[0, 0]);
    // As many as one cgroup of the user may have.
    for process in 200..200 + MAX_CLAIMS_OF_USER as i32 / 2 {
        claim_of_another(&fake, process, 0, 2);
        claim_of_another(&fake, process, 1, 1);
    }
    let before = claims(&fake);
    assert_eq!(claimed(&fake, 1, |_| ()), (Ok(vec![1]), 0));
    assert_eq!(claims(&fake), before);
}

#[test]
fn choice_is_that_of_loga_place() {
    for (busy, line) in [
        (&[100, 30, 60][..], ""),
        (&[0, 0, 0], "--among 1,2"),
        (&[20, 10, 0], "--speeds 1,1,0.1 --want 90"),
        (&[20, 10, 40], "--want 20 --command-us 10"),
    ] {
        let fake = kernel(busy);
        // Light for the sum, not for those who wait for its commands.
        fake.gpus.borrow_mut()[1].clients.push(uapi::Client {
            measured_ns: 1_000_000_000,
            ..client(900, 5)
        });
        let place = format!("loga place --json {line}");
        let parsed = <cli::Arguments as clap::Parser>::parse_from(place.split_whitespace());
        let cli::Command::Place(parsed) = parsed.command else {
            panic!("not place");
        };
        let mut out = Vec::new();
        super::super::place::run(&parsed, &Control::over(&fake), &plain(), &mut out)
            .expect("chosen");
        let choice: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let line = format!("--gpu auto {line} true");
        let words: Vec<&str> = line.split_whitespace().collect();
        let said = told(&fake, &words.join(" "), &plain()).expect("started");
        let gpu = format!("LOGA_GPU={}", choice["chosen"][0]);
        assert!(said.ends_with(&gpu), "{line}: {said}, not {choice}");
    }
}
