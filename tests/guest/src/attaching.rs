// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of loading, attaching, detaching, and of bad parameters.

use crate::caller::Caller;
use crate::calls::Calls;
use crate::kernel_log::KernelLog;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::modules::{LOGA, MODEL};
use crate::sharing::{for_process, for_user, limit, set, weight};
use crate::specs::{on_all, prio};
use crate::stage::{Stage, LAZY, LONG_PHASES};
use crate::{modules, sysfs};
use loga::uapi;
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use std::time::Duration;

crate::ktap::tests![
    detach_with_files_closed_and_attach_again,
    what_was_set_and_counted_is_there_after_a_detach,
    what_is_set_for_one_that_ends_while_detached_is_forgotten,
    detach_that_is_refused_and_attach_that_fails_keep_what_is_set,
    detach_with_mappings_is_refused,
    detach_with_files_open_leaves_them_working,
    unload_with_mappings_is_refused,
    files_open_before_attach_are_passed_through,
    mapping_that_stays_the_drivers_works_while_a_client_is_throttled,
    bad_parameters_are_refused_with_one_line,
    second_copy_is_refused,
];

fn attach(value: &str) -> Result<(), Errno> {
    modules::set(LOGA, "attach", value)
}

fn check_work(caller: &mut Caller) -> Verdict {
    let run = caller.ask("run 100 100")?;
    ensure!(run[0] > 30, "{} kernels of 100 us in 100 ms", run[0]);
    Ok(())
}

fn detach_with_files_closed_and_attach_again() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let held = || fs::exists("/sys/module/loga_model/holders/loga").unwrap_or(false);
    ensure!(held(), "LoGA is no holder of the driver");
    let mut caller = Caller::with_channels(2)?;
    check_work(&mut caller)?;
    let pid = caller.pid();
    drop(caller);
    stage.wait_until_gone(pid)?;
    attach("0").map_err(|errno| format!("detach: {errno}"))?;
    ensure!(stage.stat().is_err(), "a snapshot while detached");
    ensure!(!held(), "LoGA holds a driver that it has left");
    let mut caller = Caller::with_channels(2)?;
    check_work(&mut caller)?;
    drop(caller);
    attach("1").map_err(|errno| format!("attach: {errno}"))?;
    let mut caller = Caller::with_channels(2)?;
    check_work(&mut caller)?;
    stage.wait_for_client(caller.pid(), Duration::from_secs(3), "a client", |_| true)?;
    drop(caller);
    stage.teardown()
}

/// What is set and counted: knobs, shares, specs, and totals of users and cgroups.
fn all_that_is_kept() -> Result<Vec<String>, String> {
    let calls = Calls::open()?;
    let failed = |errno: Errno| errno.to_string();
    let mut all = Vec::new();
    for name in ["enforce", "policy", "dispatch", "accounting"] {
        all.push(format!("{name}={}", sysfs::read(name)?));
    }
    let shares = calls.shares().map_err(failed)?;
    all.extend(shares.iter().map(|share| format!("{share:?}")));
    // Without what follows from the time.
    let specs = calls.specs().map_err(failed)?;
    all.extend(specs.iter().map(|one| format!("{:?}", one.spec)));
    for kind in [uapi::SUBJECT_USER, uapi::SUBJECT_CGROUP] {
        let totals = calls.totals(kind, 0).map_err(failed)?;
        all.extend(totals.iter().map(|total| format!("{total:?}")));
    }
    Ok(all)
}

/// Sets something of each kind for a process and a user.
fn set_all(pid: u32) -> Verdict {
    sysfs::write("enforce", "1")?;
    sysfs::write("policy", "credit")?;
    sysfs::write("accounting", "burst")?;
    set(for_user(1001), weight(300))?;
    set(for_process(pid), limit(70))?;
    let of_user = uapi::Spec {
        subject: uapi::SUBJECT_USER,
        id: 1002,
        ..prio(pid, 7, uapi::MODE_PRT)
    };
    for spec in [of_user, prio(pid, 39, uapi::MODE_PRT)] {
        let (result, refusal) = Calls::open()?.set_spec(&on_all(spec));
        ensure!(result.is_ok(), "{refusal}");
    }
    Ok(())
}

fn attach_anew() -> Verdict {
    attach("0").map_err(|errno| format!("detach: {errno}"))?;
    attach("1").map_err(|errno| format!("attach: {errno}"))
}

fn what_was_set_and_counted_is_there_after_a_detach() -> Verdict {
    let stage = Stage::set(LAZY, "dispatch=prio")?;
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    stage.wait_until_measured(caller.pid())?;
    set_all(caller.pid())?;
    // It lives on, without a mapping: what it used is booked.
    caller.ask("unmap")?;
    std::thread::sleep(Duration::from_millis(500));
    let before = all_that_is_kept()?;
    // Four knobs, two shares, two specs, the user and the cgroup.
    ensure!(before.len() == 10, "{before:#?}");
    for _ in 0..3 {
        attach_anew()?;
        let after = all_that_is_kept()?;
        ensure!(before == after, "{before:#?}, then {after:#?}");
    }
    // What was counted goes on.
    caller.ask("map")?;
    check_work(&mut caller)?;
    let used = |totals: &[uapi::Total]| totals.iter().map(|total| total.gpu_time_ns).sum::<u64>();
    let totals = || {
        Calls::open()?
            .totals(uapi::SUBJECT_USER, 0)
            .map_err(|errno| errno.to_string())
    };
    let first = used(&totals()?);
    stage.wait_until_measured(caller.pid())?;
    ensure!(used(&totals()?) >= first, "less than before");
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    ensure!(client.limit == 70, "limit {}", client.limit);
    drop(caller);
    stage.teardown()
}

fn what_is_set_for_one_that_ends_while_detached_is_forgotten() -> Verdict {
    let stage = Stage::set(LAZY, "dispatch=prio")?;
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    stage.wait_until_measured(caller.pid())?;
    set_all(caller.pid())?;
    caller.ask("unmap")?;
    attach("0").map_err(|errno| format!("detach: {errno}"))?;
    drop(caller);
    attach("1").map_err(|errno| format!("attach: {errno}"))?;
    let shares = Calls::open()?.shares().map_err(|errno| errno.to_string())?;
    let kept: Vec<u64> = shares.iter().map(|share| share.id).collect();
    ensure!(kept == [1001], "{shares:?}");
    let specs = Calls::open()?.specs().map_err(|errno| errno.to_string())?;
    let kept: Vec<u64> = specs.iter().map(|one| one.spec.id).collect();
    ensure!(kept == [1002], "{specs:?}");
    stage.teardown()
}

fn detach_that_is_refused_and_attach_that_fails_keep_what_is_set() -> Verdict {
    let stage = Stage::set(LAZY, "dispatch=prio")?;
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    stage.wait_until_measured(caller.pid())?;
    set_all(caller.pid())?;
    let refused = attach("0");
    ensure!(refused == Err(Errno::EBUSY), "{refused:?}, not EBUSY");
    let pid = caller.pid();
    drop(caller);
    stage.wait_until_gone(pid)?;
    std::thread::sleep(Duration::from_millis(500));
    let before = all_that_is_kept()?;
    attach("0").map_err(|errno| format!("detach: {errno}"))?;
    modules::remove(MODEL).map_err(|errno| format!("rmmod {MODEL}: {errno}"))?;
    let refused = attach("1");
    ensure!(refused == Err(Errno::ENODEV), "{refused:?}, not ENODEV");
    modules::load(MODEL, LAZY).map_err(|errno| format!("insmod {MODEL}: {errno}"))?;
    attach("1").map_err(|errno| format!("attach: {errno}"))?;
    let after = all_that_is_kept()?;
    ensure!(before == after, "{before:#?}, then {after:#?}");
    stage.teardown()
}

fn detach_with_mappings_is_refused() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(2)?;
    let refused = attach("0");
    ensure!(refused == Err(Errno::EBUSY), "{refused:?}, not EBUSY");
    check_work(&mut caller)?;
    stage.wait_until_measured(caller.pid())?;
    drop(caller);
    stage.teardown()
}

fn detach_with_files_open_leaves_them_working() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    caller.ask("unmap")?;
    attach("0").map_err(|errno| format!("detach with a file open: {errno}"))?;
    caller.ask("map")?;
    check_work(&mut caller)?;
    attach("1").map_err(|errno| format!("attach with a file open: {errno}"))?;
    check_work(&mut caller)?;
    caller.ask("unmap")?;
    stage.remove_loga()?;
    caller.ask("map")?;
    check_work(&mut caller)?;
    drop(caller);
    stage.teardown()
}

fn unload_with_mappings_is_refused() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(2)?;
    let refused = modules::remove(LOGA);
    ensure!(
        matches!(refused, Err(Errno::EAGAIN | Errno::EBUSY)),
        "{refused:?}, not EAGAIN"
    );
    check_work(&mut caller)?;
    drop(caller);
    stage.teardown()
}

fn files_open_before_attach_are_passed_through() -> Verdict {
    let stage = Stage::without_loga(LAZY)?;
    let mut hog = Caller::with_channels(1)?;
    hog.ask("ready")?;
    stage.add_loga(LONG_PHASES)?;
    let light = Load::start("--kernel-us 100 --wait block --channels 1")?;
    let run = hog.ask("run 1000 2000")?;
    // A kernel of the light client may stand before it in line, nothing longer.
    ensure!(
        run[2] < 50_000,
        "a store of the old file took {} us: it was throttled",
        run[2]
    );
    // A file becomes known when it is mapped.
    hog.ask("map-ready")?;
    let run = hog.ask("run 1000 100")?;
    ensure!(run[0] > 10, "{} kernels through the old file", run[0]);
    let stat = stage.stat()?;
    ensure!(
        stat.unmanaged_files == 1,
        "LoGA mentions {} unmanaged files, not 1",
        stat.unmanaged_files
    );
    light.stop()?;
    drop(hog);
    stage.teardown()
}

fn mapping_that_stays_the_drivers_works_while_a_client_is_throttled() -> Verdict {
    let stage = Stage::without_loga(LAZY)?;
    let mut old = Caller::with_channels(1)?;
    old.ask("ready")?;
    stage.add_loga("policy=none enforce=1")?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 1")?;
    stage.wait_until_measured(hog.pid())?;
    // It then waits for seconds each time.
    set(for_process(hog.pid()), limit(1))?;
    stage.wait_until_throttled(hog.pid())?;
    old.ask("map-ready")?;
    let state = stage.client(hog.pid())?.ok_or("no client")?.state;
    ensure!(
        state == "throttled",
        "the hog is {state}: this was not tested"
    );
    let run = old.ask("run 1000 100")?;
    ensure!(run[0] > 10, "{} kernels through the old file", run[0]);
    drop((hog, old));
    stage.teardown()
}

/// Loading LoGA must fail with `errno` and a line of its own that contains `word`.
fn check_refusal(parameters: &str, errno: &[Errno], word: &str) -> Verdict {
    let mut log = KernelLog::from_now()?;
    let result = modules::load(LOGA, parameters);
    if result.is_ok() {
        modules::remove_patiently(LOGA)?;
        return Err(format!("insmod {LOGA} {parameters} worked"));
    }
    ensure!(
        result.is_err_and(|got| errno.contains(&got)),
        "insmod {LOGA} {parameters}: {result:?}, not {errno:?}"
    );
    let lines = log.with(&["loga", word])?;
    ensure!(
        lines.len() == 1,
        "insmod {LOGA} {parameters}: {} lines with {word}: {lines:?}",
        lines.len()
    );
    ensure!(!modules::is_loaded(LOGA), "{LOGA} is half loaded");
    ensure!(
        !Path::new(loga::uapi::DEVICE_PATH).exists(),
        "the control device stayed"
    );
    Ok(())
}

fn bad_parameters_are_refused_with_one_line() -> Verdict {
    let stage = Stage::without_loga(LAZY)?;
    let invalid = [Errno::EINVAL];
    for (parameters, word) in [
        ("policy=fastest", "fastest"),
        ("source=guess", "guess"),
        ("poll_ms=0", "poll_ms"),
        ("poll_ms=1001", "poll_ms"),
        ("ratio=0", "ratio"),
        ("ratio=4000000000", "ratio"),
        ("poller_cpu=500", "poller_cpu"),
        ("enforce=maybe", "enforce"),
        ("poll_ms=-1", "poll_ms"),
        ("poll_ms", "poll_ms"),
        ("group_by=team", "group_by"),
    ] {
        check_refusal(parameters, &invalid, word)?;
    }
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    drop(caller);
    // A switch without a value is on.
    stage.add_loga("enforce group_by=user")?;
    for (name, wanted) in [("enforce", "1"), ("group_by", "user"), ("ratio", "5")] {
        let path = format!("/sys/module/{LOGA}/parameters/{name}");
        let is = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        ensure!(is.trim_end() == wanted, "{path}: {is}");
        ensure!(sysfs::read(name)? == wanted, "{name} of the GPU");
    }
    stage.teardown()
}

fn second_copy_is_refused() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let second = modules::load(LOGA, "");
    ensure!(second == Err(Errno::EEXIST), "{second:?}, not EEXIST");
    let mut caller = Caller::with_channels(1)?;
    check_work(&mut caller)?;
    stage.wait_for_client(caller.pid(), Duration::from_secs(3), "a client", |_| true)?;
    drop(caller);
    stage.teardown()
}
