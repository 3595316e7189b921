// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Users that try to bend placement, and machines that are not as placement assumes: `loga
//! place` with an agent and a double of the kernel.

use super::following::{uid, Agent};
use super::run;
use crate::cli;
use crate::commands::place;
use crate::control::Control;
use crate::fake::FakeKernel;
use crate::history::ask::{executable, Running};
use crate::history::ask::{Answer, Heard};
use crate::history::table::Key;
use crate::placing::tests::{claim_of_another, client, kernel};
use crate::placing::visible::Environment;
use crate::placing::{Pool, Wish};
use loga::placement::{Placement, PPM};
use loga::uapi;
use loga::units::{Ns, Weight};
use proptest::prelude::*;
use serde_json::Value;
use std::fs;

/// The program that is placed.
const PROGRAM: &str = "/bin/sh";

pub(super) fn environment(agent: &Agent<'_>) -> Environment {
    Environment {
        proc: "/nowhere".into(),
        visible: None,
        order: None,
        cgroups: "/nowhere".into(),
        history: agent.socket(),
        path: None,
    }
}

pub(super) fn place_in(
    fake: &FakeKernel,
    environment: &Environment,
    line: &str,
) -> (String, Result<(), String>) {
    let line = format!("loga place {line}");
    let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split_whitespace());
    let cli::Command::Place(arguments) = arguments.command else {
        panic!("not place: {line}");
    };
    let mut out = Vec::new();
    let result = place::run(&arguments, &Control::over(fake), environment, &mut out);
    let out = String::from_utf8(out).expect("text");
    (out, result.map_err(|failure| failure.to_string()))
}

pub(super) fn object(fake: &FakeKernel, environment: &Environment, line: &str) -> Value {
    let (out, result) = place_in(fake, environment, &format!("--json {line}"));
    assert_eq!(result, Ok(()), "{out}");
    serde_json::from_str(&out).expect("JSON")
}

/// The key of the program for the user of the tests.
pub(super) fn program() -> Key {
    Key {
        uid: uid(),
        exe: executable(PROGRAM.as_ref(), None).expect("a program"),
        name: String::new(),
    }
}

/// GPU, chip, GPU time and time there of three runs.
pub(super) fn teach(agent: &Agent<'_>, chip: u32, gpu_ms: u64, there_ms: u64) {
    let one = (program(), run(chip, gpu_ms, there_ms, 0));
    agent.keeper.teach(vec![one; 3]);
}

// Case 1 of the list of abuses: many idle processes.
#[test]
fn hundred_idle_processes_push_no_program_off_a_gpu() {
    let fake = kernel(&[0, 40]);
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    let idle = (0..100).map(|at| client(1000 + at, 0));
    fake.gpus.borrow_mut()[0].hidden = idle.collect();
    teach(&agent, 0, 900, 1000);
    for line in ["", "-- /bin/sh", "--policy guf -- /bin/sh"] {
        assert_eq!(object(&fake, &environment, line)["chosen"][0], 0, "{line}");
    }
    // A process that never runs counts what it claimed, and not for long.
    for pid in 2000..2010 {
        claim_of_another(&fake, pid, 0, 100);
    }
    assert_eq!(object(&fake, &environment, "")["chosen"][0], 1);
    fake.now.set(Ns::from_ms(31_000));
    assert_eq!(object(&fake, &environment, "")["chosen"][0], 0);
}

// Case 2: a hog whose history is that of a light program.
#[test]
fn poisoned_history_moves_a_cost_by_two_at_most_and_the_measured_want_takes_over() {
    let fake = kernel(&[10, 60]);
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    let plain = object(&fake, &environment, "--policy guf --want 50");
    teach(&agent, 0, 1, 1000);
    let poisoned = object(&fake, &environment, "--policy guf -- /bin/sh");
    assert_eq!(poisoned["decided_by"], "guf");
    assert_eq!(poisoned["history"]["want"], true);
    // A thousandth by its history, a quarter at least.
    assert_eq!(poisoned["want_pct"], 25);
    for at in 0..2 {
        let cost = |choice: &Value| choice["gpus"][at]["cost"].as_f64().expect("a cost");
        let (with, without) = (cost(&poisoned), cost(&plain));
        assert!(with < without, "{with}, {without}");
        assert!(with >= without / 2.0, "{with}, {without}");
    }
    // It runs: its claim no longer counts, what it wants by measurement does.
    assert_eq!(poisoned["chosen"][0], 0);
    claim_of_another(&fake, 77, 0, 25);
    let claimed = object(&fake, &environment, "");
    assert_eq!(claimed["gpus"][0]["claimed_pct"], 25);
    fake.gpus.borrow_mut()[0].clients.push(uapi::Client {
        busy_2s_ppm: 900_000,
        busy_30s_ppm: 900_000,
        ..client(77, 0)
    });
    let runs = object(&fake, &environment, "--policy guf -- /bin/sh");
    let first = &runs["gpus"][0];
    assert_eq!(
        (&first["want_pct"], &first["claimed_pct"]),
        (&100.into(), &0.into())
    );
    assert_eq!(runs["chosen"][0], 1);
}

// Case 7: memory.
#[test]
fn gpu_with_too_little_memory_is_left_out_and_unknown_memory_doubles_the_cost() {
    let fake = kernel(&[0, 30, 60]);
    let agent = Agent::new(&fake);
    let folder = tempfile::tempdir().expect("a folder");
    let environment = Environment {
        cgroups: folder.path().to_path_buf(),
        ..environment(&agent)
    };
    let plain = object(&fake, &environment, "--want 50");
    assert_eq!(plain["gpus"][0]["free_mib"], Value::Null);
    // Unknown: the cost doubles with each program.
    fake.gpus.borrow_mut()[2].clients.push(client(7, 0));
    let unknown = object(&fake, &environment, "--want 50 --memory 1000");
    let cost = |choice: &Value, at: usize| choice["gpus"][at]["cost"].as_f64().expect("a cost");
    for (at, factor) in [(0, 1.0), (1, 2.0), (2, 4.0)] {
        assert_eq!(cost(&unknown, at), factor * cost(&plain, at), "{at}");
    }
    let (out, _) = place_in(&fake, &environment, "--memory 1000");
    assert!(out.contains("FREE MiB"), "{out}");
    assert!(out.contains("unknown"), "{out}");
    // Known: too little is too little.
    let gib = |at: u32, gib: u64| format!("nvidia/0000:0{at}:00.0/vidmem {}\n", gib << 30);
    let lines = |of: [u64; 3]| {
        (1..)
            .zip(of)
            .map(|(at, of)| gib(at, of))
            .collect::<String>()
    };
    fs::write(folder.path().join("dmem.capacity"), lines([8, 8, 8])).expect("a file");
    fs::write(folder.path().join("dmem.current"), lines([8, 2, 1])).expect("a file");
    let known = object(&fake, &environment, "--memory 1000 --want 50");
    assert_eq!(known["chosen"][0], 1);
    assert_eq!(known["gpus"][0]["why_not"], "only 0 MiB free");
    assert_eq!(known["gpus"][1]["free_mib"], 6144);
    assert_eq!(cost(&known, 1), cost(&plain, 1));
    let said = place_in(&fake, &environment, "--memory 7000").1;
    assert_eq!(said, Ok(()));
    let said = place_in(&fake, &environment, "--memory 9000")
        .1
        .expect_err("too much");
    assert!(
        said.starts_with("no GPU may be chosen: GPU 0 only 0 MiB free, GPU 1 only 6144"),
        "{said}"
    );
}

// Case 17: GPUs of different speeds.
#[test]
fn gpus_of_two_models_are_compared_by_the_gpu_time_of_the_same_program() {
    let fake = kernel(&[0, 20]);
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    {
        let mut gpus = fake.gpus.borrow_mut();
        gpus[0].info.chipset = 0xe4;
        gpus[1].info.chipset = 0xf1;
    }
    // Known on the slow one alone: with speeds that are given, it wants less of the fast one.
    teach(&agent, 0xe4, 800, 1000);
    let one = object(&fake, &environment, "--speeds 0.25,1 -- /bin/sh");
    // 0.2 of other work, 0.8 that takes a quarter of the time.
    assert_eq!(one["want_pct"], 50);
    assert_eq!(one["history"]["time_ms"], 500.0);
    let same = object(&fake, &environment, "-- /bin/sh");
    assert_eq!(
        (&same["want_pct"], &same["history"]["speeds"]),
        (&80.into(), &false.into())
    );
    assert_eq!(same["chosen"][0], 0);
    // On both: the same work takes a quarter of the GPU time.
    teach(&agent, 0xf1, 200, 400);
    let both = object(&fake, &environment, "-- /bin/sh");
    let speeds = [0, 1].map(|at| both["gpus"][at]["speed"].as_f64().expect("a number"));
    assert_eq!(speeds, [0.25, 1.0]);
    assert_eq!(
        (&both["want_pct"], &both["history"]["time_ms"]),
        (&50.into(), &400.0.into())
    );
    assert_eq!(both["chosen"][0], 1);
    // What the user says counts.
    let said = object(&fake, &environment, "--speeds 1,1 -- /bin/sh");
    assert_eq!(said["gpus"][0]["speed"], 1.0);
}

#[test]
fn policies_that_need_history_decide_after_three_runs_and_say_so() {
    let fake = kernel(&[60, 20]);
    let agent = Agent::new(&fake);
    let environment = environment(&agent);
    let decided = |policy: &str| {
        let line = format!("--policy {policy} -- /bin/sh");
        object(&fake, &environment, &line)["decided_by"].clone()
    };
    agent
        .keeper
        .teach(vec![(program(), run(0, 300, 1000, 0)); 2]);
    for policy in ["rtf", "guf", "dtf"] {
        assert_eq!(decided(policy), "gwtmin");
    }
    let (out, _) = place_in(&fake, &environment, "--policy guf -- /bin/sh");
    let said = "for a program that wants 50 % (assumed); no history: 2 runs of it are kept, 3 are needed\n";
    assert!(out.ends_with(said), "{out}");
    agent.keeper.teach([(program(), run(0, 300, 1000, 0))]);
    for policy in ["rtf", "guf", "dtf"] {
        assert_eq!(decided(policy), policy);
    }
    let (out, _) = place_in(&fake, &environment, "--policy rtf -- /bin/sh");
    let said = "policy rtf, for a program that wants 30 % (by 3 earlier runs) and takes 1000.0 ms alone (by 3 earlier runs)\n";
    assert!(out.ends_with(said), "{out}");
    // Another name is another program; its time is that of the user's programs.
    let (out, _) = place_in(&fake, &environment, "--policy rtf --as new -- /bin/sh");
    let said = "wants 50 % (assumed) and takes 1000.0 ms alone (the mean of your programs); no history: no run of it is kept\n";
    assert!(out.ends_with(said), "{out}");
    let said = place_in(&fake, &environment, "-- /nonexistent")
        .1
        .expect_err("no program");
    assert_eq!(
        said,
        "there is no program /nonexistent: want one that can be run"
    );
}

#[test]
fn command_that_is_started_is_placed_by_its_history_and_memory_and_is_told_to_the_agent() {
    let fake = kernel(&[30, 10]);
    let agent = Agent::new(&fake);
    let folder = tempfile::tempdir().expect("a folder");
    let environment = Environment {
        cgroups: folder.path().to_path_buf(),
        ..environment(&agent)
    };
    let named = Key {
        name: "light".to_string(),
        ..program()
    };
    agent.keeper.teach(vec![(named, run(0, 300, 1000, 0)); 3]);
    let told = |line: &str| {
        let line = format!("loga run --gpu auto {line} /bin/sh");
        let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split_whitespace());
        let cli::Command::Run(arguments) = arguments.command else {
            panic!("not run: {line}");
        };
        let mut gpu = None;
        crate::commands::run::run(&arguments, &Control::over(&fake), &environment, |command| {
            let mut variables = command.get_envs();
            let value = variables.find(|(name, _)| *name == "LOGA_GPU");
            gpu = value.and_then(|(_, gpu)| Some(gpu?.to_string_lossy().to_string()));
            std::io::ErrorKind::NotFound.into()
        });
        gpu
    };
    let claimed = |gpu: u32| {
        let snapshot = Control::over(&fake).snapshot(gpu).expect("a snapshot");
        snapshot.info.claimed_pct
    };
    assert_eq!(told("--as light"), Some("1".to_string()));
    assert_eq!((claimed(0), claimed(1)), (0, 30));
    let pid = i32::try_from(std::process::id()).expect("a number");
    assert_eq!(agent.keeper.started(pid), Some("light".to_string()));
    // The other one is full.
    let line = |at: u32, bytes: u64| format!("nvidia/0000:0{at}:00.0/vidmem {bytes}\n");
    let lines = |second: u64| line(1, second << 30) + &line(2, 8 << 30);
    fs::write(folder.path().join("dmem.capacity"), lines(8)).expect("a file");
    fs::write(folder.path().join("dmem.current"), lines(1)).expect("a file");
    assert_eq!(told("--memory 1000"), Some("0".to_string()));
    assert_eq!(
        (claimed(0), agent.keeper.started(pid)),
        (50, Some(String::new()))
    );
}

#[test]
fn agent_that_does_not_answer_leaves_the_choice_as_it_was_and_is_named() {
    let fake = kernel(&[60, 20]);
    let agent = Agent::new(&fake);
    let environment = Environment {
        history: "/nonexistent".into(),
        ..environment(&agent)
    };
    let with = object(&fake, &environment, "-- /bin/sh");
    let without = object(&fake, &environment, "");
    assert_eq!(with["gpus"], without["gpus"]);
    assert_eq!(without["history"], Value::Null);
    let why = with["history"]["why_not"].as_str().expect("a reason");
    assert!(
        why.starts_with("no agent answers at /nonexistent: "),
        "{why}"
    );
}

#[test]
fn program_of_the_user_that_has_little_left_costs_little_by_rtf() {
    let fake = kernel(&[50, 50]);
    for (gpu, since) in fake.gpus.borrow_mut().iter_mut().zip([0, 9]) {
        gpu.info.now_ns = 10_000_000_000;
        gpu.clients[0].since_ns = since * 1_000_000_000;
    }
    let snapshots = Control::over(&fake).all().expect("snapshots");
    let running = |gpu: u32| Running {
        gpu,
        client: 101 + u64::from(gpu),
        time_ns: 12_000_000_000,
    };
    let answer = Answer {
        typical_ns: Some(4_000_000_000),
        running: vec![running(0), running(1)],
        ..Answer::default()
    };
    let asked = cli::Asked::default();
    let wish = Wish::new(Some("rtf"), 1, &asked, Weight::DEFAULT).expect("a wish");
    let wish = Wish {
        heard: Heard::Answer(Box::new(answer)),
        ..wish
    };
    let mut pool = Pool::new(&snapshots, &asked, None).expect("a pool");
    let wish = pool.learn(&snapshots, &wish, false);
    let costs = pool.costs(&wish);
    let cost = |at: usize| costs[at].expect("open").0;
    // 2 s and 11 s are left, and 4 s are its own.
    assert_eq!((cost(0), cost(1)), (6_000_000_000, 15_000_000_000));
    assert_eq!(pool.choose(&wish), Ok(vec![0]));
}

/// What a record of any figures may say: GPU time and time of three runs on each of two models.
fn any_answer() -> impl Strategy<Value = Answer> {
    let model = (1..1u64 << 30, 1..1u64 << 32);
    (model.clone(), model, prop::option::of(1..1u64 << 50)).prop_map(|(one, two, typical_ns)| {
        let mut record = crate::history::record::Record::default();
        for (chip, (gpu, there)) in [(0xe4, one), (0xf1, two)] {
            (0..3).for_each(|_| record.add(&run(chip, gpu, there, 0), 1));
        }
        Answer {
            record: Some(record),
            typical_ns,
            ..Answer::default()
        }
    })
}

proptest! {
    // Whatever a history says, no policy's cost moves by more than a factor of two.
    #[test]
    fn history_moves_no_cost_by_more_than_two(
        answer in any_answer(),
        busy in prop::collection::vec(0..100u32, 3),
        weight in 1..10_000u32,
    ) {
        let fake = kernel(&busy);
        for (gpu, chip) in fake.gpus.borrow_mut().iter_mut().zip([0xe4, 0xf1, 0xe4]) {
            gpu.info.chipset = chip;
        }
        let snapshots = Control::over(&fake).all().expect("snapshots");
        let asked = cli::Asked::default();
        let weight = Weight::new(weight).expect("a weight");
        for policy in Placement::ALL {
            let wish = Wish::new(Some(policy.name()), 1, &asked, weight).expect("a wish");
            let wish = Wish { heard: Heard::Answer(Box::new(answer.clone())), ..wish };
            let mut pool = Pool::new(&snapshots, &asked, None).expect("a pool");
            let mut plain = pool.clone();
            let with = pool.learn(&snapshots, &wish, false);
            prop_assert!(with.newcomer.demand.want >= PPM / 4);
            // The same with half a GPU, and the mean time of the user's programs.
            let quiet = Wish { heard: Heard::NotAsked, ..wish };
            let mut without = plain.learn(&snapshots, &quiet, false);
            without.newcomer.known = true;
            without.newcomer.time = match answer.typical_ns {
                Some(typical) => Some(Ns::new(typical)),
                None => with.newcomer.time,
            };
            let (with, without) = (pool.costs(&with), plain.costs(&without));
            for (with, without) in with.iter().zip(&without) {
                let (with, without) = (with.expect("open").0, without.expect("open").0);
                let bounds = without.div_ceil(2)..=without.saturating_mul(2);
                prop_assert!(bounds.contains(&with), "{}: {with}, {without}", policy.name());
            }
        }
    }
}
