// SPDX-License-Identifier: GPL-2.0

//! [tool] Tests of priorities, modes and reserves that are set for real processes.

use crate::agent::Agent;
use crate::calls::{as_user, Calls};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::stage::{Stage, EXACT, FINE, LAZY};
use crate::tools::objects;
use crate::{sysfs, truth};
use loga::uapi;
use nix::errno::Errno;
use std::time::{Duration, Instant};
use throttle::statistics::Frames;

crate::ktap::tests![
    hard_reserve_is_a_limit_of_each_kind: timed,
    clients_of_one_user_share_its_reserve: timed,
    reserve_keeps_the_frames_of_a_client_in_time_beside_hogs: timed,
    priority_that_is_set_counts_instead_of_nice: timed,
    priority_that_is_set_leaves_the_floor: timed,
    two_submissions_of_a_client_in_mode_ht_are_in_flight,
    promise_that_a_long_command_endangers_is_refused_with_its_name,
    specs_are_refused_whole_and_end_with_their_process,
    spec_that_changes_while_its_client_waits_lets_it_go_on,
    file_of_specs_is_set_whole_or_not_at_all,
];

/// Parameters of LoGA for these tests.
pub(crate) const EDF: &str = "policy=none dispatch=edf";
/// Frames of four kernels of 500 us, one every 20 ms, to be done within 10 ms.
const FRAMES: &str =
    "--kernel-us 500 --kernels-per-frame 4 --depth 4 --cycle-us 20000 --deadline-us 10000 --wait block";

/// A reserve of a process.
pub(crate) fn reserve(pid: u32, kind: u32, capacity_us: u64, period_us: u64) -> uapi::Spec {
    uapi::Spec {
        subject: uapi::SUBJECT_PROCESS,
        id: pid.into(),
        prio: uapi::PRIO_BY_NICE,
        kind,
        capacity_ns: capacity_us * 1_000,
        period_ns: period_us * 1_000,
        commands: 1,
        ..Default::default()
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

fn hard_reserve_is_a_limit_of_each_kind() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let load = Load::start("--kernel-us 500 --wait block")?;
    stage.wait_until_measured(load.pid())?;
    // A submission is charged from its window to the read that shows its end. AE loses what does not
    // fit: 2 ms in 10 ms are three submissions.
    for (kind, least) in [
        (uapi::RESERVE_PE, 19.0),
        (uapi::RESERVE_AE, 14.0),
        (uapi::RESERVE_CBS, 19.0),
    ] {
        set(reserve(load.pid(), kind, 2_000, 10_000))?;
        let [share] = truth::shares([load.pid()], 500, 2_000)?;
        let served = specs()?.first().copied().ok_or("nothing is listed")?;
        let mean_us = served.used_ns as f64 / served.served as f64 / 1_000.0;
        let charged = share * mean_us / 500.0;
        println!("# kind {kind}: {share:.2} %, charged {charged:.2} %");
        ensure!(
            (least..20.5).contains(&charged),
            "kind {kind}: {charged:.2} %"
        );
    }
    let listed = specs()?.first().copied().ok_or("nothing is listed")?;
    println!("# {listed:?}");
    let own = reserve(load.pid(), uapi::RESERVE_CBS, 2_000, 10_000);
    ensure!(listed.spec == own && listed.demoted == 0, "{listed:?}");
    ensure!((600..1200).contains(&listed.served), "{listed:?}");
    let mean = listed.used_ns / listed.served;
    ensure!((490_000..620_000).contains(&mean), "{listed:?}");
    let (result, refusal) = Calls::open()?.set_spec(&cleared(load.pid()));
    ensure!(result.is_ok(), "{refusal}");
    let [share] = truth::shares([load.pid()], 200, 1_000)?;
    ensure!(share > 75.0, "without its reserve: {share:.2} %");
    drop(load);
    stage.teardown()
}

fn clients_of_one_user_share_its_reserve() -> Verdict {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let loads = [1000, 1000, 1001].map(|uid| Load::start_as(uid, "--kernel-us 500 --wait block"));
    let [one, two, other] = loads;
    let (one, two, other) = (one?, two?, other?);
    stage.wait_until_all_measured([&one, &two, &other])?;
    set(uapi::Spec {
        subject: uapi::SUBJECT_USER,
        id: 1000,
        ..reserve(0, uapi::RESERVE_CBS, 4_000, 20_000)
    })?;
    let shares = truth::shares([one.pid(), two.pid(), other.pid()], 500, 2_000)?;
    println!("# {shares:.3?}");
    let together = shares[0] + shares[1];
    ensure!((18.0..22.0).contains(&together), "{shares:?}");
    ensure!((0.8..1.25).contains(&(shares[0] / shares[1])), "{shares:?}");
    ensure!(shares[2] > 50.0, "{shares:?}");
    drop((one, two, other));
    stage.teardown()
}

/// Frames of a user beside five clients with kernels of 3 ms.
fn frames_beside_hogs(spec: Option<uapi::Spec>) -> Result<Frames, String> {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let hogs = ["--kernel-us 3000 --wait block"; 5].map(Load::start);
    let hogs: Vec<Load> = hogs.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&hogs)?;
    if let Some(spec) = spec {
        set(uapi::Spec {
            subject: uapi::SUBJECT_USER,
            id: 1000,
            ..spec
        })?;
    }
    let frames = Load::start_as(1000, FRAMES)?;
    std::thread::sleep(Duration::from_secs(4));
    let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
    println!("# {frames:?}, {:?}", specs()?);
    Load::stop_all(hogs)?;
    stage.teardown()?;
    Ok(frames)
}

fn reserve_keeps_the_frames_of_a_client_in_time_beside_hogs() -> Verdict {
    let without = frames_beside_hogs(None)?;
    ensure!(without.late > without.count / 2, "{without:?}");
    // Four kernels: as one submission, or as four. PE needs no forecast of which it will be.
    let promise = uapi::Spec {
        commands: 4,
        longest_ns: 2_500_000,
        ..reserve(0, uapi::RESERVE_PE, 3_000, 10_000)
    };
    let with = frames_beside_hogs(Some(promise))?;
    ensure!(with.late == 0 && with.count > 150, "{with:?}");
    Ok(())
}

fn priority_that_is_set_counts_instead_of_nice() -> Verdict {
    let stage = Stage::set(FINE, &format!("policy=none dispatch=prio {EXACT}"))?;
    let loads = ["--kernel-us 1000 --depth 3 --wait block"; 2].map(Load::start);
    let [one, two] = loads;
    let (one, two) = (one?, two?);
    stage.wait_until_all_measured([&one, &two])?;
    for (first, second) in [(&one, &two), (&two, &one)] {
        set(prio(first.pid(), 30, uapi::MODE_PRT))?;
        set(prio(second.pid(), 5, uapi::MODE_PRT))?;
        let shares = truth::shares([first.pid(), second.pid()], 300, 1_500)?;
        println!("# {shares:.3?}");
        ensure!(shares[0] > 4.0 * shares[1], "{shares:?}");
    }
    drop((one, two));
    stage.teardown()
}

fn priority_that_is_set_leaves_the_floor() -> Verdict {
    let stage = Stage::set(LAZY, "policy=none dispatch=prio")?;
    let mut low = Agent::with_channels(1)?;
    low.ask("store 100")?;
    let hog = Load::start("--kernel-us 3000 --depth 4 --wait block")?;
    stage.wait_until_measured(hog.pid())?;
    set(prio(hog.pid(), 39, uapi::MODE_PRT))?;
    for _ in 0..2 {
        let took_us = low.ask("store 100")?[0];
        println!("# store took {took_us} us");
        ensure!((900_000..1_200_000).contains(&took_us), "{took_us} us");
    }
    drop((hog, low));
    stage.teardown()
}

fn two_submissions_of_a_client_in_mode_ht_are_in_flight() -> Verdict {
    let stage = Stage::set(LAZY, "policy=none dispatch=prio")?;
    let mut agent = Agent::with_channels(1)?;
    agent.ask("store 1000")?;
    for (mode, waits) in [(uapi::MODE_PRT, true), (uapi::MODE_HT, false)] {
        set(prio(agent.pid(), 20, mode))?;
        std::thread::sleep(Duration::from_millis(300));
        agent.ask("launch 100000")?;
        // Longer than a window.
        std::thread::sleep(Duration::from_millis(5));
        let begin = Instant::now();
        agent.ask("launch 1000")?;
        let took = begin.elapsed();
        println!("# mode {mode}: {took:?}");
        ensure!(
            (took > Duration::from_millis(50)) == waits,
            "mode {mode}: {took:?}"
        );
    }
    drop(agent);
    stage.teardown()
}

fn promise_that_a_long_command_endangers_is_refused_with_its_name() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut long = Agent::with_channels(1)?;
    let short = Agent::with_channels(1)?;
    // The second is decided on after the first has ended: its length is known then.
    for _ in 0..2 {
        long.ask("store 20000")?;
    }
    std::thread::sleep(Duration::from_millis(100));
    let calls = Calls::open()?;
    let wanted = on_all(reserve(short.pid(), uapi::RESERVE_CBS, 1_000, 10_000));
    let (result, refusal) = calls.set_spec(&wanted);
    println!("# {refusal}");
    ensure!(result == Err(Errno::EINVAL), "{result:?}");
    ensure!(refusal.code == uapi::REFUSED_COMMAND, "{refusal:?}");
    ensure!(refusal.value == u64::from(long.pid()), "{refusal:?}");
    ensure!((19_900..30_000).contains(&refusal.max), "{refusal:?}");
    ensure!(specs()?.is_empty(), "a refusal set something");
    // What it says would do does.
    let fits = reserve(short.pid(), uapi::RESERVE_CBS, 1_000, refusal.min);
    set(fits)?;
    let (result, refusal) = calls.set_spec(&on_all(reserve(
        long.pid(),
        uapi::RESERVE_PE,
        95_000,
        100_000,
    )));
    ensure!(result == Err(Errno::EINVAL), "{result:?}");
    ensure!(refusal.code == uapi::REFUSED_PROMISES, "{refusal:?}");
    ensure!(specs()?.len() == 1, "{:?}", specs()?);
    // Its own commands do not keep it waiting.
    let (result, refusal) = calls.set_spec(&cleared(short.pid()));
    ensure!(result.is_ok(), "{refusal}");
    set(reserve(long.pid(), uapi::RESERVE_CBS, 5_000, 10_000))?;
    drop((long, short, calls));
    stage.teardown()
}

fn specs_are_refused_whole_and_end_with_their_process() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let calls = Calls::open()?;
    let mut agent = Agent::with_channels(1)?;
    let good = prio(agent.pid(), 7, uapi::MODE_HT);
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
        (cleared(agent.pid()), Errno::ENOENT, uapi::REFUSED_NOT_SET),
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
    agent.kill()?;
    ensure!(specs()?.len() == 31, "{}", specs()?.len());
    set(of_user(99))?;
    drop(calls);
    stage.teardown()
}

fn spec_that_changes_while_its_client_waits_lets_it_go_on() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let mut agent = Agent::with_channels(1)?;
    agent.ask("store 1000")?;
    // It owes 200 ms of 1 ms in a second; what takes a minute is remembered.
    set(reserve(agent.pid(), uapi::RESERVE_PE, 1_000, 1_000_000))?;
    agent.ask("store 200000")?;
    std::thread::sleep(Duration::from_millis(300));
    agent.send("store 100")?;
    let early = agent.has_answered(Duration::from_millis(500))?;
    ensure!(!early, "a store beyond the reserve passed");
    let left = specs()?.first().map(|spec| spec.left_ns);
    println!("# left {left:?}");
    ensure!(left.is_some_and(|left| left < -50_000_000), "{left:?}");
    set(prio(agent.pid(), 5, uapi::MODE_PRT))?;
    agent.answer(Duration::from_secs(1))?;
    // The same when nothing is decided on any more.
    set(reserve(agent.pid(), uapi::RESERVE_PE, 1_000, 1_000_000))?;
    agent.ask("store 200000")?;
    std::thread::sleep(Duration::from_millis(300));
    agent.send("store 100")?;
    ensure!(
        !agent.has_answered(Duration::from_millis(300))?,
        "it passed"
    );
    sysfs::write("dispatch", "none")?;
    agent.answer(Duration::from_secs(1))?;
    drop(agent);
    stage.teardown()
}

fn file_of_specs_is_set_whole_or_not_at_all() -> Verdict {
    let stage = Stage::set(LAZY, EDF)?;
    let agent = Agent::with_channels(1)?;
    let path = "/tmp/test.spec";
    let write = |text: &str| std::fs::write(path, text).map_err(|error| error.to_string());
    let loga = |words: &[&str]| {
        let output = std::process::Command::new("loga").args(words).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok::<_, String>((output.status.success(), said))
    };
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", agent.pid()));
    let comm = comm.map_err(|error| error.to_string())?;
    let own = format!("{}:PRT:CBS:20:2000:20000\n", comm.trim());
    write(&format!("{own}@user=1000:HT:PE:3:95000:100000\n"))?;
    let (set, said) = loga(&["spec", path])?;
    ensure!(set && said.contains("line 1: would set process"), "{said}");
    ensure!(said.contains(&format!("process {}", agent.pid())), "{said}");
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
    let line = listed.iter().find(|line| line["id"] == agent.pid());
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
    drop(agent);
    stage.teardown()
}
