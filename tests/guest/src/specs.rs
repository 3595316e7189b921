// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of setting priorities, modes and reserves: what is refused, what is shown, and when
//! it ends.

use crate::caller::Caller;
use crate::calls::{as_user, Calls};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, FINE, LAZY};
use crate::sysfs;
use crate::tools::objects;
use loga::uapi;
use nix::errno::Errno;
use std::time::Duration;

crate::ktap::tests![
    specs_are_refused_whole_and_end_with_their_process,
    spec_with_a_lease_ends_with_it_unless_it_is_set_again,
    spec_that_changes_while_its_client_waits_lets_it_go_on,
    clients_show_what_they_follow_and_how_long_they_waited: timed,
    file_of_specs_is_set_whole_or_not_at_all,
];

/// Parameters of LoGA for these tests.
pub(crate) const EDF: &str = "policy=none dispatch=edf";

/// A reserve of a process.
pub(crate) fn reserve(pid: u32, kind: u32, capacity_us: u64, period_us: u64) -> uapi::Spec {
    uapi::Spec {
        subject: uapi::SUBJECT_PROCESS,
        id: pid.into(),
        prio: uapi::PRIO_BY_NICE,
        kind,
        capacity_ns: capacity_us * 1_000,
        period_ns: period_us * 1_000,
        commands: 10,
        ..Default::default()
    }
}

/// A reserve of a process whose deadlines are promised.
pub(crate) fn firm(pid: u32, capacity_us: u64, period_us: u64, longest_us: u64) -> uapi::Spec {
    uapi::Spec {
        longest_ns: longest_us * 1_000,
        ..reserve(pid, uapi::RESERVE_CBS, capacity_us, period_us)
    }
}

/// Priority and mode of a process.
pub(crate) fn prio(pid: u32, prio: u32, mode: u32) -> uapi::Spec {
    uapi::Spec {
        subject: uapi::SUBJECT_PROCESS,
        id: pid.into(),
        prio,
        mode,
        ..Default::default()
    }
}

/// What takes a spec back.
pub(crate) fn cleared(pid: u32) -> uapi::SetSpec {
    uapi::SetSpec {
        action: uapi::ACTION_CLEAR,
        ..on_all(prio(pid, 0, 0))
    }
}

/// The call that sets a spec.
pub(crate) fn on_all(spec: uapi::Spec) -> uapi::SetSpec {
    uapi::SetSpec {
        gpu: uapi::ALL_GPUS,
        action: uapi::ACTION_SET,
        spec,
        ..Default::default()
    }
}

pub(crate) fn set(spec: uapi::Spec) -> Result<(), String> {
    let (result, refusal) = Calls::open()?.set_spec(&on_all(spec));
    result.map_err(|errno| format!("{spec:?}: {errno} ({refusal})"))
}

pub(crate) fn specs() -> Result<Vec<uapi::ListedSpec>, String> {
    Calls::open()?.specs().map_err(|errno| errno.to_string())
}

fn specs_are_refused_whole_and_end_with_their_process() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let calls = Calls::open()?;
    let mut caller = Caller::with_channels(1)?;
    let good = prio(caller.pid(), 7, uapi::MODE_HT);
    let (range, unknown) = (uapi::REFUSED_RANGE, uapi::REFUSED_UNKNOWN_SUBJECT);
    for (bad, errno, code) in [
        (
            on_all(uapi::Spec { prio: 40, ..good }),
            Errno::EINVAL,
            range,
        ),
        (on_all(uapi::Spec { mode: 9, ..good }), Errno::EINVAL, range),
        (
            on_all(uapi::Spec { flags: 1, ..good }),
            Errno::EINVAL,
            uapi::REFUSED_RESERVED,
        ),
        (
            on_all(uapi::Spec { id: 99_999, ..good }),
            Errno::ESRCH,
            unknown,
        ),
        (cleared(caller.pid()), Errno::ENOENT, uapi::REFUSED_NOT_SET),
    ] {
        let (result, refusal) = calls.set_spec(&bad);
        ensure!(
            result == Err(errno) && refusal.code == code,
            "{bad:?}: {refusal:?}"
        );
    }
    let denied = as_user(1000, || {
        let calls = Calls::open()?;
        Ok((calls.set_spec(&on_all(good)), calls.specs()))
    })?;
    ensure!(denied.0 .0 == Err(Errno::EPERM), "{denied:?}");
    ensure!(denied.0 .1.code == uapi::REFUSED_CHANGE, "{denied:?}");
    ensure!(
        denied.1.err() == Some(Errno::EPERM),
        "specs of others are shown"
    );
    ensure!(specs()?.is_empty(), "a refusal set something");
    set(good)?;
    let of_user = |user: u64| uapi::Spec {
        subject: uapi::SUBJECT_USER,
        id: user,
        ..good
    };
    (1..32).try_for_each(|user| set(of_user(user)))?;
    let (result, refusal) = calls.set_spec(&on_all(of_user(99)));
    ensure!(result == Err(Errno::ENOSPC), "{result:?}");
    ensure!(refusal.max == 32, "{refusal:?}");
    ensure!(specs()?.len() == 32, "{}", specs()?.len());
    caller.kill()?;
    ensure!(specs()?.len() == 31, "{}", specs()?.len());
    set(of_user(99))?;
    drop(calls);
    stage.teardown()
}

fn spec_with_a_lease_ends_with_it_unless_it_is_set_again() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("store 1000")?;
    let leased = uapi::Spec {
        lease_ms: 2_000,
        ..prio(caller.pid(), 33, uapi::MODE_HT)
    };
    for _ in 0..3 {
        set(leased)?;
        std::thread::sleep(Duration::from_millis(1_500));
        let left = specs()?.first().map(|listed| listed.spec.lease_ms);
        println!("# {left:?} ms left");
        ensure!(
            left.is_some_and(|left| (200..=500).contains(&left)),
            "{left:?}"
        );
    }
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    let follows = (client.spec.as_deref(), client.prio, client.mode.as_str());
    ensure!(follows == (Some("process"), Some(33), "ht"), "{follows:?}");
    std::thread::sleep(Duration::from_millis(1_500));
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    ensure!(client.spec.is_none() && client.mode == "prt", "{client:?}");
    caller.ask("store 1000")?;
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    ensure!(client.prio == Some(19), "{client:?}");
    ensure!(specs()?.is_empty(), "{:?}", specs()?);
    // The module ends it without being asked: a store that would wait for minutes passes.
    set(uapi::Spec {
        lease_ms: 2_000,
        ..reserve(caller.pid(), uapi::RESERVE_PE, 1_000, 1_000_000)
    })?;
    caller.ask("store 200000")?;
    std::thread::sleep(Duration::from_millis(300));
    caller.send("store 100")?;
    let early = caller.has_answered(Duration::from_millis(1_000))?;
    ensure!(!early, "a store beyond the reserve passed");
    caller.answer(Duration::from_millis(2_000))?;
    ensure!(specs()?.is_empty(), "{:?}", specs()?);
    // Set again without one, it stays.
    set(leased)?;
    set(uapi::Spec {
        lease_ms: 0,
        ..leased
    })?;
    std::thread::sleep(Duration::from_millis(2_500));
    ensure!(specs()?.len() == 1, "{:?}", specs()?);
    drop(caller);
    stage.teardown()
}

fn clients_show_what_they_follow_and_how_long_they_waited() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=prio {EXACT}"))?;
    let loads = ["--kernel-us 1000 --wait block"; 2].map(Load::start);
    let loads: Vec<Load> = loads.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&loads)?;
    let stat = stage.stat_during(Duration::from_secs(3))?;
    ensure!(stat.dispatch == "prio", "{}", stat.dispatch);
    for load in &loads {
        let client = client_of(&stat, load.pid()).ok_or("no client")?;
        let (turns, waited) = (
            client.submissions as f64,
            client.submission_wait_ns as f64 / 1e6,
        );
        println!("# {turns} submissions, waited {waited:.0} ms, {client:?}");
        // Each has half of the GPU, and waits while the other has it.
        ensure!(
            client.spec.is_none() && client.prio == Some(19),
            "{client:?}"
        );
        within("submissions", turns, 1_200.0..1_500.0)?;
        within("waited ms", waited, 1_200.0..1_700.0)?;
        let longest_us = client.longest_submission_wait_ns / 1_000;
        within("longest us", longest_us, 1_000..5_000)?;
    }
    Load::stop_all(loads)?;
    stage.teardown()
}

fn spec_that_changes_while_its_client_waits_lets_it_go_on() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("store 1000")?;
    // It owes 200 ms of 1 ms in a second; what takes a minute is remembered.
    set(reserve(caller.pid(), uapi::RESERVE_PE, 1_000, 1_000_000))?;
    caller.ask("store 200000")?;
    std::thread::sleep(Duration::from_millis(300));
    caller.send("store 100")?;
    let early = caller.has_answered(Duration::from_millis(500))?;
    ensure!(!early, "a store beyond the reserve passed");
    let left = specs()?.first().map(|spec| spec.left_ns);
    println!("# left {left:?}");
    ensure!(left.is_some_and(|left| left < -50_000_000), "{left:?}");
    set(prio(caller.pid(), 5, uapi::MODE_PRT))?;
    caller.answer(Duration::from_secs(1))?;
    // The same when nothing is decided on any more.
    set(reserve(caller.pid(), uapi::RESERVE_PE, 1_000, 1_000_000))?;
    caller.ask("store 200000")?;
    std::thread::sleep(Duration::from_millis(300));
    caller.send("store 100")?;
    ensure!(
        !caller.has_answered(Duration::from_millis(300))?,
        "it passed"
    );
    sysfs::write("dispatch", "none")?;
    caller.answer(Duration::from_secs(1))?;
    drop(caller);
    stage.teardown()
}

fn file_of_specs_is_set_whole_or_not_at_all() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let caller = Caller::with_channels(1)?;
    let path = "/tmp/test.spec";
    let write = |text: &str| std::fs::write(path, text).map_err(|error| error.to_string());
    let loga = |words: &[&str]| {
        let output = std::process::Command::new("loga").args(words).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok::<_, String>((output.status.success(), said))
    };
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", caller.pid()));
    let comm = comm.map_err(|error| error.to_string())?;
    let own = format!("{}:PRT:CBS:20:2000:20000\n", comm.trim());
    write(&format!("{own}@user=1000:HT:PE:3:95000:100000\n"))?;
    let (set, said) = loga(&["spec", path])?;
    ensure!(set && said.contains("line 1: would set process"), "{said}");
    ensure!(
        said.contains(&format!("process {}", caller.pid())),
        "{said}"
    );
    ensure!(specs()?.is_empty(), "a check set something");
    let (set, said) = loga(&["spec", path, "--apply"])?;
    println!("# {}", said.trim());
    ensure!(
        !set && said.contains("test.spec:2: user 1000: all reserves together"),
        "{said}"
    );
    ensure!(said.trim().ends_with("nothing has been set"), "{said}");
    ensure!(specs()?.is_empty(), "{:?}", specs()?);
    write(&format!("{own}@user=1000:HT:-:3:-:-\n"))?;
    let (set, said) = loga(&["spec", path, "--apply"])?;
    ensure!(set, "{said}");
    let listed = objects("reserve --list --json")?;
    let line = listed.iter().find(|line| line["id"] == caller.pid());
    let line = line.ok_or_else(|| format!("{listed:?}"))?;
    ensure!(
        line["kind"] == "cbs" && line["period_us"] == 20_000,
        "{line}"
    );
    let user = listed.iter().find(|line| line["subject"] == "user");
    ensure!(
        user.is_some_and(|line| line["mode"] == "ht" && line["prio"] == 3),
        "{listed:?}"
    );
    let (set, said) = loga(&["reserve", "--list"])?;
    ensure!(
        set && said.contains("cbs 2000 us in every 20000 us"),
        "{said}"
    );
    write("x:PRT:CBS:20:2000\n")?;
    let (set, said) = loga(&["spec", path, "--apply"])?;
    ensure!(
        !set && said.contains("test.spec:1:18: want 6 columns"),
        "{said}"
    );
    drop(caller);
    stage.teardown()
}
