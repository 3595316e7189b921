// SPDX-License-Identifier: GPL-2.0

//! `loga-host card` from end to end on hosts without a card, with fakes of the host's files and of the
//! load generator.

mod common;

use common::{json, names, outcome, text, Host, PROGRAM};
use loga_card::Outcome;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// TIMEOUT: far below the thousand seconds for which the fake would run.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn every_step_is_refused_with_a_reason_where_there_is_no_card() {
    let archive = Host::empty().archive("");
    for step in &archive.manifest.steps {
        let Outcome::Refused { by, answer } = &step.outcome else {
            panic!("{}: {}", step.name, step.outcome);
        };
        assert!(!by.is_empty(), "{}", step.name);
        assert!(!answer.is_empty(), "{}", step.name);
    }
    assert_eq!(archive.manifest.steps.len(), 8);
    let nodes = "refused by the kernel at /dev/nvidiactl: No such file or directory (os error 2)";
    for step in &archive.manifest.steps[1..] {
        let name = &step.name;
        assert_eq!(outcome(&archive, name).to_string(), nodes, "{name}");
    }
    let host = outcome(&archive, "describe").to_string();
    assert_eq!(host, "refused by this host: has no NVIDIA card");
    assert_eq!(
        json(&archive, "describe/describe.json")["kernel"]["release"],
        "7.3.4"
    );
    assert_eq!(archive.manifest.commit.len(), 40);
}

#[test]
fn description_has_the_card_and_nothing_that_tells_cards_apart() {
    let archive = Host::with_card().archive("--only describe");
    let said = outcome(&archive, "describe").to_string();
    assert_eq!(
        said,
        "done: NVIDIA H100 80GB HBM3 (1 in all), driver 580.159.04 (open), Linux 7.3.4"
    );
    let found = json(&archive, "describe/describe.json");
    assert_eq!(found["kernel"]["lockdown"], "integrity");
    assert_eq!(found["driver"]["flavour"], "open");
    assert_eq!(found["mps"], true);
    let card = &found["cards"][0];
    assert_eq!(card["device"], "0x2330");
    assert_eq!(card["gsp_firmware"], "580.159.04");
    assert_eq!(card["virtual_function"], false);
    assert_eq!(card["bars"][1]["bytes"], 128u64 << 30);
    assert!(!found.to_string().contains("8f6a1c2d"), "{found}");
    // The nodes are files, which answer no call of the driver's.
    let refused = &found["chip"]["Err"];
    assert_eq!(refused["by"], "the kernel: ioctl CARD_INFO");
    assert_eq!(refused["answer"], "Inappropriate ioctl for device");
    let library = found["management"]["Err"]["by"].as_str();
    assert!(
        library.is_some_and(|by| by.contains("libnvidia-ml.so.1")),
        "{found}"
    );
}

#[test]
fn driver_and_library_that_do_not_answer_are_named() {
    let host = Host::with_card();
    let archive = host.archive("--only switches,registers,nvml");
    let said = |name| outcome(&archive, name).to_string();
    let call = "refused by the kernel: ioctl CARD_INFO: Inappropriate ioctl for device";
    assert_eq!(said("switches"), call);
    assert!(said("nvml").starts_with("refused by no library: libnvidia-ml.so.1: "));
    let bar0 = "refused by the kernel: open of resource0: No such file or directory";
    assert_eq!(said("registers"), bar0);
    let found = json(&archive, "registers/registers.json");
    assert_eq!(
        found["through_rm"]["Err"]["by"],
        "the kernel: ioctl CARD_INFO"
    );
}

#[test]
fn dry_run_lists_all_steps_and_does_nothing() {
    let host = Host::empty();
    let output = host.run("--dry-run");
    assert!(output.status.success(), "{}", text(&output));
    let said = text(&output);
    assert_eq!(
        said.lines().next().map(|line| line.starts_with("describe")),
        Some(true)
    );
    for line in said.lines() {
        assert!(line.contains("; at most "), "{line}");
        assert!(line.contains(" s, needs "), "{line}");
    }
    assert_eq!(names(&host.path("tmp")), [""; 0]);
}

#[test]
fn bad_arguments_are_refused_by_name_and_nothing_is_asked() {
    let host = Host::empty();
    for (words, said) in [
        (
            "--out a.tar --only nothing",
            "--only nothing: there are describe, ",
        ),
        (
            "--out a.tar --minutes 0",
            "--minutes 0: must be above 0 and at most 1440",
        ),
        ("--out a.tar --minutes NaN", "--minutes NaN: must be"),
        ("--minutes 1", "--out <FILE>"),
    ] {
        let output = host.run(words);
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(text(&output).contains(said), "{words}: {}", text(&output));
    }
    for (out, said) in [
        ("missing/a.tar", "missing/a.tar: No such file or directory"),
        ("root", "root: is a directory"),
    ] {
        let output = host.run(&format!("--out {out}"));
        assert_eq!(output.status.code(), Some(1), "{out}");
        let found = text(&output);
        assert!(found.contains(said), "{found}");
        assert!(found.lines().count() == 1, "{found}");
    }
    assert_eq!(names(&host.path("tmp")), [""; 0]);
}

/// Waits until no process of the fake runs, by the name that it gives itself: one that was killed ends
/// when it gets a processor.
fn await_end(name: &str) {
    let runs = || {
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        let words = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
        entries.filter_map(words).any(|words| words.contains(name))
    };
    let since = Instant::now();
    while runs() {
        assert!(since.elapsed() < PATIENCE, "{name} runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn load_that_hangs_costs_its_step_and_leaves_no_process() {
    let host = Host::with_card();
    let name = format!("hangs-{}", std::process::id());
    host.throttle(&format!(
        "trap '' TERM INT\n(exec -a {name}-child sleep 1000) &\ntouch started\nexec -a {name} sleep 1000"
    ));
    let archive = host.archive("--only slices,record --step-seconds 3");
    for step in ["slices", "record"] {
        // The step waits for its load as long as the step itself may take: either may be the first.
        let said = outcome(&archive, step).to_string();
        assert!(
            said.starts_with("refused by the limit of "),
            "{step}: {said}"
        );
    }
    assert!(host.path("started").exists());
    await_end(&name);
}

#[test]
fn steps_that_the_minutes_do_not_suffice_for_are_not_tried() {
    let host = Host::with_card();
    host.throttle("sleep 1000");
    let archive = host.archive("--only slices,record --minutes 0.03");
    assert!(matches!(
        outcome(&archive, "slices"),
        Outcome::Refused { .. }
    ));
    let said = outcome(&archive, "record").to_string();
    assert_eq!(said, "not tried: needs more minutes (--minutes)");
}

#[test]
fn interruption_ends_what_runs_and_writes_no_archive() {
    let host = Host::with_card();
    let name = format!("waits-{}", std::process::id());
    host.throttle(&format!("touch started\nexec -a {name} sleep 1000"));
    let mut command = host.command("--out card.tar --only slices");
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let child = child.expect("loga-host starts");
    let since = Instant::now();
    while !host.path("started").exists() {
        assert!(since.elapsed() < PATIENCE, "the load does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_raw(child.id().try_into().expect("an id"));
    kill(pid, Signal::SIGINT).expect("a signal");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output),
        "loga-host: interrupted: no archive is written\n"
    );
    assert!(!host.path("card.tar").exists());
    host.nothing_is_left();
    await_end(&name);
}

#[test]
fn load_that_fails_is_named_with_its_last_line() {
    let host = Host::with_card();
    host.throttle(
        "echo first >&2\necho 'throttle: cannot use libcuda.so.1: no such file' >&2\nexit 7",
    );
    let archive = host.archive("--only slices");
    assert_eq!(
        outcome(&archive, "slices").to_string(),
        "refused by CUDA or the load on it: exit status: 7: throttle: cannot use libcuda.so.1: no such file"
    );
    fs::remove_file(host.path("throttle")).expect("removed");
    let said = outcome(&host.archive("--only slices"), "slices").to_string();
    assert!(
        said.starts_with("not tried: needs throttle (--throttle PROGRAM): "),
        "{said}"
    );
}

#[test]
fn disk_that_is_full_leaves_the_earlier_archive_and_one_line() {
    let host = Host::empty();
    host.file("card.tar", "earlier");
    // A file may have a kilobyte: an archive has more, and what a step leaves in this test has less.
    let line = format!(
        "ulimit -f 2; trap '' XFSZ; exec {PROGRAM} card --root root --only describe --out card.tar"
    );
    let output = Command::new("bash")
        .args(["-c", &line])
        .current_dir(host.folder.path())
        .output()
        .expect("bash");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said, "loga-host: card.tar: File too large (os error 27)\n");
    let earlier = fs::read_to_string(host.path("card.tar")).expect("the earlier one");
    assert_eq!(earlier, "earlier");
    assert!(!host.path("card.tar.part").exists());
}

#[test]
fn archive_of_a_stranger_is_listed_or_refused_in_one_line() {
    let host = Host::empty();
    host.archive("--only describe");
    let output = host.run("--check card.tar");
    assert!(output.status.success(), "{}", text(&output));
    assert!(
        text(&output).contains("describe/describe.json: "),
        "{}",
        text(&output)
    );
    let whole = fs::read(host.path("card.tar")).expect("an archive");
    fs::write(host.path("cut.tar"), &whole[..whole.len() / 3]).expect("a file");
    for (name, said) in [
        ("cut.tar", "loga-host: cut.tar: "),
        (
            "missing.tar",
            "loga-host: missing.tar: No such file or directory",
        ),
        (
            "root/proc/sys/kernel/osrelease",
            "loga-host: root/proc/sys/kernel/osrelease: no whole tar: ",
        ),
    ] {
        let output = host.run(&format!("--check {name}"));
        assert_eq!(output.status.code(), Some(1), "{name}");
        let found = text(&output);
        assert!(found.starts_with(said), "{found}");
        assert!(found.lines().count() == 1, "{found}");
    }
}
