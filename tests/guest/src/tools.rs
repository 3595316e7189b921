// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of the `loga` command as a person or a script uses it.

use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{Stage, LAZY, PAPER};
use nix::sched::{unshare, CloneFlags};
use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

crate::ktap::tests![
    run_sets_before_its_command_starts_and_exits_as_it_does,
    refusals_are_one_line_that_says_what_would_be_right,
    events_follow_a_client_from_its_appearance_to_its_end,
    totals_outlive_the_client_until_they_are_reset,
    policy_that_was_switched_shows_everywhere,
    module_that_is_not_loaded_is_named,
    control_device_that_is_missing_or_another_is_named,
    doctor_finds_what_is_there_and_what_is_not,
    programs_work_in_all_namespaces,
];

/// A program that has subscribed by then, in the machine's time.
const SUBSCRIBED: Duration = Duration::from_millis(500);

/// Starts `loga` with these words.
fn start<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Child, String> {
    Command::new("loga")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("loga: {error}"))
}

fn finish(child: Child) -> Result<Output, String> {
    child.wait_with_output().map_err(|error| error.to_string())
}

/// Runs `loga` with the words of a line; its output is a JSON object per line.
pub(crate) fn objects(line: &str) -> Result<Vec<Value>, String> {
    let output = finish(start(line.split(' '))?)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loga {line}: {complaint}");
    parse(&output)
}

fn parse(output: &Output) -> Result<Vec<Value>, String> {
    let text = String::from_utf8_lossy(&output.stdout);
    let object =
        |line: &str| serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"));
    text.lines().map(object).collect()
}

fn run_sets_before_its_command_starts_and_exits_as_it_does() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let script = "loga set --list --json; exit 7";
    let words = [
        "run", "--weight", "300", "--limit", "40", "--", "sh", "-c", script,
    ];
    let child = start(words)?;
    let pid = child.id();
    let output = finish(child)?;
    ensure!(output.status.code() == Some(7), "{output:?}");
    let listed = parse(&output)?;
    let own = listed.iter().find(|share| share["id"] == pid);
    let own = own.ok_or_else(|| format!("nothing set for {pid}: {listed:?}"))?;
    ensure!(own["subject"] == "process", "{own}");
    ensure!(own["weight"] == 300 && own["limit"] == 40, "{own}");
    let left = objects("set --list --json")?;
    ensure!(left.is_empty(), "set for a process that is gone: {left:?}");
    stage.teardown()
}

fn refusals_are_one_line_that_says_what_would_be_right() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let cases = [
        ("set --pid 1 --weight 10001", 2, "1 to 10000"),
        ("set --pid 1 --limit 0", 2, "1 to 100"),
        ("set --pid 99999 --weight 3", 1, "no process 99999"),
        ("set --pid 1 --clear", 1, "nothing is set for process 1"),
        (
            "set --user no-such-user --weight 3",
            1,
            "no user 'no-such-user'",
        ),
        (
            "set --cgroup 4711471147 --weight 3",
            1,
            "no cgroup 4711471147",
        ),
        ("set --user 0 --weight 3 --gpu 9", 1, "want 0"),
        ("policy switch fifo", 2, "event"),
        ("stat --gpu 9", 1, "want 0"),
        ("events --gpu 9", 1, "want 0"),
        ("run --weight 3 -- /no/such", 127, "/no/such"),
        ("run --weight 0 -- true", 2, "1 to 10000"),
        ("run --gpu auto:2 -- true", 125, "want 2 GPUs, but only 1"),
        ("run --gpu first -- true", 2, "auto:K"),
        ("place --policy best", 2, "gwtmin"),
        ("place --among 9", 1, "want 0"),
        ("place --explain 99999", 1, "process 99999 uses no GPU"),
        ("top", 1, "--json"),
    ];
    for (line, status, hint) in cases {
        let output = finish(start(line.split(' '))?)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(status), "{line}: {output:?}");
        ensure!(said.lines().count() == 1, "{line}: {said}");
        ensure!(said.contains(hint), "{line}: {said}");
    }
    let set = objects("set --list --json")?;
    ensure!(set.is_empty(), "a refusal set something: {set:?}");
    stage.teardown()
}

fn events_follow_a_client_from_its_appearance_to_its_end() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let line = "events --json --kinds appeared,exited --times 2 --for 10";
    let follower = start(line.split(' '))?;
    std::thread::sleep(SUBSCRIBED);
    let load = Load::start("--kernel-us 200 --wait block --seconds 1")?;
    let pid = load.pid();
    load.finish()?;
    let output = finish(follower)?;
    ensure!(output.status.success(), "{output:?}");
    let events = parse(&output)?;
    let kinds: Vec<&Value> = events.iter().map(|event| &event["event"]).collect();
    ensure!(kinds == ["appeared", "exited"], "{events:?}");
    for event in &events {
        ensure!(event["pid"] == pid, "not of {pid}: {event}");
        ensure!(event["comm"] == "throttle", "{event}");
    }
    ensure!(events[1]["gpu_time_ns"].is_u64(), "{events:?}");
    stage.teardown()
}

fn totals_outlive_the_client_until_they_are_reset() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let load = Load::start("--kernel-us 500 --wait block --seconds 1")?;
    let pid = load.pid();
    load.finish()?;
    // The phase in which it ended is booked by then.
    stage.wait_until_gone(pid)?;
    let of_root = |line: &str| -> Result<u64, String> {
        let read = objects(line)?;
        let totals = read[0]["totals"].as_array().ok_or("no list")?;
        let root = totals.iter().find(|total| total["id"] == 0);
        Ok(root.map_or(0, |total| total["gpu_time_ns"].as_u64().unwrap_or(0)))
    };
    let first = of_root("totals --json")?;
    ensure!(first > 0, "nothing is known of a client that is gone");
    let reset = of_root("totals --reset --json")?;
    ensure!(reset == first, "{reset} instead of {first}");
    let left = of_root("totals --json")?;
    ensure!(left == 0, "{left} after a reset");
    stage.teardown()
}

fn policy_that_was_switched_shows_everywhere() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let switched = objects("policy switch none --json")?;
    ensure!(switched[0]["policy"] == "none", "{switched:?}");
    let stat = objects("stat --json")?;
    ensure!(stat[0]["policy"] == "none", "{stat:?}");
    let knobs = objects("policy set --poll-ms 3 --ratio 7 --enforce off --group-by user --json")?;
    let knobs = &knobs[0];
    ensure!(knobs["poll_ms"] == 3 && knobs["ratio"] == 7, "{knobs}");
    ensure!(knobs["enforce"] == false, "{knobs}");
    ensure!(knobs["group_by"] == "user", "{knobs}");
    stage.teardown()
}

fn module_that_is_not_loaded_is_named() -> Verdict {
    let stage = Stage::without_loga(LAZY)?;
    for line in [
        "stat",
        "policy",
        "events",
        "totals",
        "set --list",
        "run --weight 3 true",
    ] {
        let output = finish(start(line.split(' '))?)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{line}: {output:?}");
        ensure!(said.contains("is not loaded"), "{line}: {said}");
    }
    stage.teardown()
}

/// Runs a line of the shell.
fn shell(line: &str) -> Verdict {
    let status = Command::new("sh").args(["-c", line]).status();
    let status = status.map_err(|error| format!("{line}: {error}"))?;
    ensure!(status.success(), "{line}: {status}");
    Ok(())
}

fn control_device_that_is_missing_or_another_is_named() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    shell("mv /dev/loga /dev/loga.aside && mkdir -p /run/nodev && mount -t tmpfs -o nodev none /run/nodev")?;
    for (place, away, says) in [
        ("true", "true", "is loaded, but /dev/loga is missing here"),
        (
            "echo text > /dev/loga",
            "rm /dev/loga",
            "/dev/loga is a regular file, not a device",
        ),
        (
            "mknod /dev/loga c 1 3",
            "rm /dev/loga",
            "is not the device of the kernel module loga, but 1:3",
        ),
        (
            "mknod /dev/loga c $(sed 's/:/ /' /sys/class/misc/loga/dev) && \
             touch /run/nodev/loga && rm /run/nodev/loga && cp -a /dev/loga /run/nodev/loga && \
             mount --bind /run/nodev/loga /dev/loga",
            "umount /dev/loga && rm /dev/loga",
            "mounted with nodev",
        ),
    ] {
        shell(place)?;
        let output = finish(start(["stat"])?)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        shell(away)?;
        ensure!(!output.status.success(), "{place}: {output:?}");
        ensure!(said.contains(says), "{place}: {said}");
        ensure!(!said.contains("insmod"), "{place}: {said}");
    }
    shell("umount /run/nodev && mv /dev/loga.aside /dev/loga")?;
    ensure!(
        finish(start(["stat"])?)?.status.success(),
        "the device does not work any more"
    );
    stage.teardown()
}

fn doctor_finds_what_is_there_and_what_is_not() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let output = finish(start(["doctor"])?)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{said}{output:?}");
    for words in [
        "the model of a GPU",
        "answers: 1 GPU",
        "enforced",
        "chip 0xf1",
    ] {
        ensure!(said.contains(words), "{words}: {said}");
    }
    stage.remove_loga()?;
    let output = finish(start(["doctor", "--json"])?)?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    let about: Vec<String> = parse(&output)?
        .iter()
        .filter(|one| one["state"] == "wrong")
        .map(|one| one["about"].as_str().unwrap_or_default().to_string())
        .collect();
    ensure!(about == ["module", "/dev/loga"], "wrong: {about:?}");
    let output = finish(start([])?)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("`loga doctor`"), "without arguments: {said}");
    stage.teardown()
}

/// Runs a program in namespaces of its own, as a child: pid and time namespaces hold for children.
/// Returns its exit status.
pub(crate) fn run_unshared(flags: i32, command: &[String]) -> Result<u8, String> {
    let flags = CloneFlags::from_bits_retain(flags);
    unshare(flags).map_err(|errno| format!("unshare {flags:?}: {errno}"))?;
    if flags.contains(CloneFlags::CLONE_NEWUSER) {
        let map = fs::write("/proc/self/uid_map", "0 0 1\n");
        map.map_err(|error| format!("uid_map: {error}"))?;
    }
    let (program, arguments) = command.split_first().ok_or("no program")?;
    let status = Command::new(program).args(arguments).status();
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    u8::try_from(status.code().unwrap_or(255)).map_err(|error| error.to_string())
}

fn programs_work_in_all_namespaces() -> Verdict {
    const TIME: CloneFlags = CloneFlags::from_bits_retain(0x80);
    const KINDS: [CloneFlags; 5] = [
        CloneFlags::CLONE_NEWUSER,
        CloneFlags::CLONE_NEWPID,
        CloneFlags::CLONE_NEWNS,
        CloneFlags::CLONE_NEWCGROUP,
        TIME,
    ];
    let stage = Stage::set(LAZY, "enforce=1")?;
    let load = Load::start("--kernel-us 100 --wait block --channels 1")?;
    stage.wait_until_measured(load.pid())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // What comes before, and the highest exit status of each command: `loga doctor` may find
    // something that is not as it should be.
    let lines = [
        ("", [0, 0, 1]),
        ("mount -t tmpfs none /proc && ", [0, 0, 1]),
        (
            "mount -t tmpfs none /proc && mount -t tmpfs none /sys && ",
            [0, 0, 1],
        ),
    ];
    for chosen in 0..1u32 << KINDS.len() {
        let kinds = KINDS.iter().enumerate();
        let of = kinds.filter(|(at, _)| chosen >> at & 1 != 0);
        let flags = of.fold(CloneFlags::empty(), |all, (_, kind)| all | *kind);
        for (before, most) in lines {
            // Only in mounts of its own.
            if !before.is_empty() && !flags.contains(CloneFlags::CLONE_NEWNS) {
                continue;
            }
            let commands = ["loga stat --sums", "loga stat --json", "loga doctor"];
            for (command, most) in commands.into_iter().zip(most) {
                let line = format!("{before}{command}");
                let output = Command::new(&program)
                    .args([
                        "unshared",
                        &flags.bits().to_string(),
                        "--",
                        "sh",
                        "-c",
                        &line,
                    ])
                    .output()
                    .map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&output.stderr);
                let status = output.status.code().unwrap_or(255);
                ensure!(status <= most, "{flags:?}: {line}: status {status}: {said}");
                for word in ["panicked", "insmod", "run this as root"] {
                    ensure!(!said.contains(word), "{flags:?}: {line}: {said}");
                }
            }
        }
    }
    load.stop()?;
    stage.teardown()
}
