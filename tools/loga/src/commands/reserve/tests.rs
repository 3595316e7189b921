// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is promised, what is refused, and what is said then.

use super::*;
use crate::fake::FakeKernel;

fn reserve(fake: &FakeKernel, line: &str) -> Result<String, String> {
    let line = format!("loga reserve {line}");
    let arguments = <cli::Arguments as clap::Parser>::try_parse_from(line.split(' '));
    let arguments = arguments.map_err(|error| cli::one_line(&error))?;
    let cli::Command::Reserve(arguments) = arguments.command else {
        panic!("not reserve: {line}");
    };
    let mut out = Vec::new();
    let directory = Directory::default();
    match run(&arguments, &Control::over(fake), &directory, &mut out) {
        Ok(()) => Ok(String::from_utf8(out).expect("text")),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn promise_reaches_every_gpu_and_says_if_it_does_not_count_yet() {
    let fake = FakeKernel::new(2);
    let line = "--pid 100 --capacity-us 2500 --period-us 25000 --longest-us 500 --prio 20";
    let said = reserve(&fake, line).expect("set");
    let first = "process 100: cbs 2500 us in every 25000 us, prio 20, mode prt on all GPUs\n";
    assert!(said.starts_with(first), "{said}");
    let idle = "GPU 1 does not decide on submissions, nothing is promised: `loga policy set";
    assert!(said.contains(idle), "{said}");
    for gpu in fake.gpus.borrow().iter() {
        let spec = gpu.specs[0].spec;
        assert_eq!(
            (spec.id, spec.kind, spec.prio),
            (100, uapi::RESERVE_CBS, 20)
        );
        assert_eq!((spec.capacity_ns, spec.period_ns), (2_500_000, 25_000_000));
        assert_eq!((spec.longest_ns, spec.commands), (500_000, 1));
        assert_eq!(spec.deadline_ns, 0);
    }
}

#[test]
fn deadline_before_the_end_of_the_period_is_set_and_listed() {
    let fake = FakeKernel::new(1);
    let line = "--pid 100 --capacity-us 2500 --period-us 25000 --longest-us 500 --deadline-us 5000";
    let said = reserve(&fake, line).expect("set");
    let words = "cbs 2500 us in every 25000 us within 5000 us";
    assert!(said.contains(words), "{said}");
    assert_eq!(fake.gpus.borrow()[0].specs[0].spec.deadline_ns, 5_000_000);
    let table = reserve(&fake, "--list").expect("lists");
    assert!(table.contains(words), "{table}");
    let json = reserve(&fake, "--list --json").expect("lists");
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
    assert_eq!(line["deadline_us"], 5000);
}

#[test]
fn round_of_submissions_that_wait_for_each_other_is_promised_by_its_deadlines() {
    let fake = FakeKernel::new(1);
    let says = |more: &str| {
        let line = format!("--pid 100 --capacity-us 1600 --period-us 6900 {more}");
        reserve(&fake, &line).expect("set")
    };
    let said = says("--longest-us 400 --commands 4 --deadline-us 1700");
    let words = "4 submissions, each after the end of the one before: within 6800 us";
    assert!(said.contains(words), "{said}");
    assert!(says("--longest-us 400 --commands 4").contains("within 27600 us"));
    // One is its own round; and without a longest one no deadline is promised.
    assert!(!says("--longest-us 400").contains("each after"));
    assert!(!says("--commands 4").contains("each after"));
    let json = reserve(&fake, "--list --json").expect("lists");
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
    assert!(line["round_us"].is_null(), "{line}");
    assert!(line["commands"] == 4, "{line}");
}

#[test]
fn priority_and_mode_alone_promise_nothing_and_are_cleared() {
    let fake = FakeKernel::new(1);
    reserve(&fake, "--user 1000 --mode ht --gpu 0").expect("set");
    let spec = fake.gpus.borrow()[0].specs[0].spec;
    assert_eq!((spec.mode, spec.kind), (uapi::MODE_HT, uapi::RESERVE_NONE));
    assert_eq!((spec.prio, spec.commands), (uapi::PRIO_BY_NICE, 0));
    let said = reserve(&fake, "--user 1000 --clear").expect("cleared");
    assert!(
        said.starts_with("user 1000: cleared on all GPUs\n"),
        "{said}"
    );
    assert!(fake.gpus.borrow()[0].specs.is_empty());
}

#[test]
fn list_shows_what_is_promised_and_served() {
    let fake = FakeKernel::new(1);
    assert_eq!(reserve(&fake, "--list").expect("lists"), "nothing is set\n");
    let line = "--cgroup 4711 --capacity-us 1000 --period-us 10000 --kind pe --soft";
    reserve(&fake, line).expect("set");
    {
        let spec = &mut fake.gpus.borrow_mut()[0].specs[0];
        (spec.left_ns, spec.used_ns, spec.served) = (-1_500_000, 30_000_000, 12);
        (spec.longest_seen_ns, spec.breaches) = (7_000_000, 2);
        spec.promise = uapi::PROMISE_SHARE;
        spec.misses = uapi::Misses {
            promised: 3,
            own: 10,
            foreign: 200,
            fallback: 4_000,
            order: 50_000,
        };
    }
    let table = reserve(&fake, "--list").expect("lists");
    let row = table.lines().nth(1).expect("a row");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "0 cgroup 4711 nice prt soft pe 1000 us in every 10000 us share -1.500 ms 30.0 ms 12 \
         7.000 ms 2 3 54210 -"
    );
    let json = reserve(&fake, "--list --json").expect("lists");
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
    assert_eq!(
        (&line["capacity_us"], &line["soft"]),
        (&1000.into(), &true.into())
    );
    assert_eq!(
        (&line["left_ns"], &line["promise"]),
        (&(-1_500_000).into(), &"share".into())
    );
    assert_eq!(line["prio"], serde_json::Value::Null);
    let misses = [
        "missed",
        "void_own",
        "void_foreign",
        "void_fallback",
        "void_order",
    ];
    let misses = misses.map(|name| line[name].as_u64());
    assert_eq!(misses, [3, 10, 200, 4_000, 50_000].map(Some));
}

#[test]
fn lease_is_told_in_seconds_and_listed_with_what_is_left() {
    let fake = FakeKernel::new(1);
    let said = reserve(&fake, "--pid 100 --prio 30 --for 2.5").expect("set");
    let first = "process 100: prio 30, mode prt, for 2.5 s on all GPUs\n";
    assert!(said.starts_with(first), "{said}");
    assert_eq!(fake.gpus.borrow()[0].specs[0].spec.lease_ms, 2_500);
    let table = reserve(&fake, "--list").expect("lists");
    assert!(table.trim_end().ends_with(" 2.5 s"), "{table}");
    for line in ["--pid 100 --clear --for 2", "--pid 100 --prio 30 --for 0"] {
        assert!(reserve(&fake, line).expect_err(line).contains("--for"));
    }
}

#[test]
fn refusals_name_the_option_and_what_would_be_right() {
    let fake = FakeKernel::new(1);
    for (line, wanted) in [
        (
            "--pid 100",
            "nothing to set: want --capacity-us and --period-us, --prio or --mode",
        ),
        ("--pid 100 --capacity-us 5", "--period-us"),
        ("--pid 100 --kind pe", "--capacity-us"),
        (
            "--pid 100 --prio 40",
            "--prio 40: want a whole number from 0 to 39",
        ),
        (
            "--pid 100 --mode rt",
            "[possible values: prt, ht, protected]",
        ),
        ("--pid 100 --kind none", "'none'"),
        (
            "--capacity-us 5 --period-us 10000",
            "--pid <PID>|--user <USER>|--cgroup <CGROUP>|--list",
        ),
        (
            "--pid 100 --capacity-us 5 --period-us 10000",
            "process 100: capacity_us=5 is out of range, want 10 to 10000",
        ),
        (
            "--pid 100 --capacity-us 50 --period-us 999",
            "process 100: period_us=999 is out of range, want 1000 to 10000000",
        ),
        (
            "--pid 100 --capacity-us 2500 --period-us 25000 --deadline-us 5000",
            "--longest-us",
        ),
        (
            "--pid 100 --capacity-us 2500 --period-us 25000 --longest-us 500 --deadline-us 2499",
            "process 100: deadline_us=2499 is out of range, want 2500 to 25000",
        ),
        (
            "--pid 100 --capacity-us 2500 --period-us 25000 --longest-us 500 --deadline-us 5000 --kind pe",
            "process 100: a deadline of a reserve that promises none: want kind cbs, not soft, with",
        ),
        ("--pid 5 --prio 3", "there is no process 5: want one"),
        (
            "--pid 100 --clear",
            "nothing is set for process 100: `loga reserve --list`",
        ),
    ] {
        let said = reserve(&fake, line).expect_err(line);
        assert!(said.contains(wanted), "{line}: {said}");
    }
    assert!(fake.gpus.borrow()[0].specs.is_empty());
}

#[test]
fn promise_that_cannot_be_kept_is_refused_with_what_would_do() {
    let fake = FakeKernel::new(1);
    fake.refuse_specs(uapi::Refusal {
        code: uapi::REFUSED_COMMAND,
        field: 0,
        value: 77,
        min: 21_000,
        max: 20_000,
    });
    let line = "--pid 100 --capacity-us 1000 --period-us 10000";
    let said = reserve(&fake, line).expect_err("refused");
    assert_eq!(
        said,
        "process 100: a command of process 77 may take 20000 us, which a promised deadline could not \
         bear: a period of 21000 us would do; a reserve without --longest-us promises a part of the \
         GPU only"
    );
    fake.refuse_specs(uapi::Refusal {
        code: uapi::REFUSED_COSTS,
        // CAST: a small number.
        field: uapi::FIELDS
            .iter()
            .position(|name| *name == "deadline_us")
            .expect("a field") as u32,
        value: 0,
        min: 7_000,
        max: 0,
    });
    let said = reserve(&fake, line).expect_err("refused");
    assert_eq!(
        said,
        "process 100: so many submissions would cost too much: a deadline of 7000 us would do"
    );
}

#[test]
fn unprivileged_caller_is_told_so() {
    let fake = FakeKernel::new(1);
    fake.drop_privileges();
    let said = reserve(&fake, "--pid 100 --prio 3").expect_err("not root");
    assert!(said.contains("is for root of the host"), "{said}");
}
