// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What is set, what is refused, and what is said then.

use super::*;
use crate::fake::FakeKernel;

/// As [`set_as_is`], on GPUs where decisions are carried out.
fn set(fake: &FakeKernel, line: &str) -> Result<String, String> {
    for gpu in fake.gpus.borrow_mut().iter_mut() {
        let mut config = gpu.info.config();
        config.enforce = true;
        gpu.info.note(&config);
    }
    set_as_is(fake, line)
}

fn set_as_is(fake: &FakeKernel, line: &str) -> Result<String, String> {
    let line = format!("loga set {line}");
    let arguments = <cli::Arguments as clap::Parser>::parse_from(line.split(' '));
    let cli::Command::Set(arguments) = arguments.command else {
        panic!("not set: {line}");
    };
    let mut out = Vec::new();
    let directory = Directory::default();
    match run(&arguments, &Control::over(fake), &directory, &mut out) {
        Ok(()) => Ok(String::from_utf8(out).expect("text")),
        Err(failure) => Err(failure.to_string()),
    }
}

#[test]
fn weight_of_a_process_reaches_every_gpu() {
    let fake = FakeKernel::new(2);
    let said = set(&fake, "--pid 100 --weight 300 --class idle").expect("set");
    assert_eq!(said, "process 100: weight 300, class idle on all GPUs\n");
    for gpu in fake.gpus.borrow().iter() {
        let share = gpu.shares[0];
        assert_eq!((share.id, share.weight), (100, 300));
        assert_eq!(share.mask, uapi::SHARE_WEIGHT | uapi::SHARE_CLASS);
        assert_eq!(share.class, uapi::CLASS_IDLE);
    }
}

#[test]
fn setting_that_is_not_enforced_says_so() {
    let fake = FakeKernel::new(2);
    let said = set_as_is(&fake, "--pid 100 --limit 20").expect("set");
    assert!(
        said.starts_with("process 100: limit 20 % on all GPUs\n"),
        "{said}"
    );
    assert!(said.contains("does not enforce it"), "{said}");
    let cleared = set_as_is(&fake, "--pid 100 --clear").expect("cleared");
    assert_eq!(cleared.lines().count(), 1, "{cleared}");
    // One that does not is enough.
    let said = set(&fake, "--pid 100 --limit 20").expect("set");
    assert_eq!(said.lines().count(), 1, "{said}");
    fake.gpus.borrow_mut()[1].info.knobs = uapi::Gpu::default().knobs;
    assert!(set_as_is(&fake, "--pid 100 --limit 20 --gpu 0")
        .is_ok_and(|said| said.lines().count() == 1));
    assert!(set_as_is(&fake, "--pid 100 --limit 20").is_ok_and(|said| said.lines().count() == 2));
}

#[test]
fn setting_of_one_gpu_stays_there_and_can_be_cleared() {
    let fake = FakeKernel::new(2);
    set(&fake, "--user 1000 --limit 40 --gpu 1").expect("set");
    assert!(fake.gpus.borrow()[0].shares.is_empty());
    assert_eq!(fake.gpus.borrow()[1].shares[0].limit_pct, 40);
    let said = set(&fake, "--user 1000 --clear --gpu 1").expect("cleared");
    assert_eq!(said, "user 1000: cleared on GPU 1\n");
    assert!(fake.gpus.borrow()[1].shares.is_empty());
}

#[test]
fn list_shows_what_is_set_as_table_and_as_json() {
    let fake = FakeKernel::new(1);
    assert_eq!(set(&fake, "--list").expect("lists"), "nothing is set\n");
    let said = set(&fake, "--cgroup 4711 --weight 900 --target 30").expect("set");
    assert_eq!(said, "cgroup 4711: weight 900, target 30 % on all GPUs\n");
    let table = set(&fake, "--list").expect("lists");
    let words: Vec<&str> = table
        .lines()
        .nth(1)
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(
        words,
        ["0", "cgroup", "4711", "900", "-", "-", "30", "%", "-", "no"]
    );
    let json = set(&fake, "--list --json").expect("lists");
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
    assert_eq!(line["weight"], 900);
    assert_eq!(line["limit"], serde_json::Value::Null);
    assert_eq!(line["target"], 30);
    assert_eq!(line["access"], serde_json::Value::Null);
    assert_eq!(line["exhausted"], false);
}

#[test]
fn access_is_of_a_gpu_for_a_cgroup_or_user() {
    let fake = FakeKernel::new(2);
    let said = set(&fake, "--cgroup 4711 --access denied --gpu 1").expect("set");
    assert_eq!(said, "cgroup 4711: access denied on GPU 1\n");
    assert!(fake.gpus.borrow()[0].shares.is_empty());
    let json = set(&fake, "--list --gpu 1 --json").expect("lists");
    let line: serde_json::Value = serde_json::from_str(json.trim()).expect("JSON");
    assert_eq!(line["access"], "denied");
    let said = set(&fake, "--user 1000 --weight 7 --access allowed").expect("set");
    assert_eq!(said, "user 1000: weight 7, access allowed on all GPUs\n");
    let line = "loga set --pid 100 --access denied".split_whitespace();
    let parsed = <cli::Arguments as clap::Parser>::try_parse_from(line);
    assert!(parsed.is_err(), "children of a process would have access");
}

#[test]
fn refusals_name_for_whom_and_what_would_be_right() {
    let fake = FakeKernel::new(1);
    let said = set(&fake, "--pid 5 --weight 3").expect_err("no such process");
    assert!(said.starts_with("there is no process 5: want"), "{said}");
    let said = set(&fake, "--pid 100 --clear").expect_err("not set");
    assert!(
        said.starts_with("nothing is set for process 100:"),
        "{said}"
    );
    let said = set(&fake, "--pid 100").expect_err("nothing to set");
    assert_eq!(
        said,
        "nothing to set: want --weight, --limit, --class, --target or --access"
    );
    let said = set(&fake, "--pid 100 --weight 3 --gpu 4").expect_err("no such GPU");
    assert_eq!(said, "there is no GPU 4: want 0, the only one");
    let said = set(&fake, "--user no-such-user --weight 3").expect_err("no such user");
    assert!(
        said.starts_with("there is no user 'no-such-user'"),
        "{said}"
    );
    assert!(fake.gpus.borrow()[0].shares.is_empty());
}

#[test]
fn unprivileged_caller_is_told_so() {
    let fake = FakeKernel::new(1);
    fake.drop_privileges();
    let said = set(&fake, "--pid 100 --weight 3").expect_err("not root");
    assert!(said.contains("is for root of the host"), "{said}");
}

#[test]
fn module_without_a_driver_or_with_a_fault_says_so() {
    let fake = FakeKernel::new(1);
    fake.fail(libc::ENODEV);
    let said = set(&fake, "--pid 100 --weight 3").expect_err("detached");
    assert!(said.contains("attached to no driver"), "{said}");
    fake.fail(libc::EIO);
    let said = set(&fake, "--pid 100 --weight 3").expect_err("broken");
    assert!(said.contains("failed"), "{said}");
}
