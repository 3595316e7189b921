// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of GPUs that are denied to cgroups and users, and of `loga run --confine`.

use crate::caller::{Caller, SOON};
use crate::cgroups::Cgroup;
use crate::hostile::USER;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::sharing::{changed, clear, for_user, limit, set, STEADY};
use crate::stage::{Stage, LAZY};
use crate::{calls, sysfs};
use loga::uapi;
use nix::errno::Errno;
use std::fs;
use std::path::Path;
use std::process::Command;

crate::ktap::tests![
    gpu_denied_to_a_cgroup_does_not_open_below_it,
    gpu_denied_to_a_cgroup_does_not_open_for_a_process_whose_first_thread_has_ended,
    gpu_denied_to_a_cgroup_does_not_open_behind_threads_that_have_ended_and_are_traced,
    limit_of_a_cgroup_holds_behind_threads_that_have_ended_and_are_traced,
    gpu_denied_to_a_user_opens_for_others_and_stays_open,
    access_of_a_process_or_by_a_user_is_refused,
    confined_program_and_its_children_open_no_other_gpu,
];

/// What a shell says that may not open a file.
const NOT_PERMITTED: &str = "Operation not permitted";

fn access(access: u32) -> impl FnOnce(&mut uapi::SetShare) {
    move |set| {
        set.mask = uapi::SHARE_ACCESS;
        set.access = access;
    }
}

/// Whether a shell that runs `before` can open the node of a GPU then.
fn opens(before: &str, gpu: u32) -> Result<bool, String> {
    let script = format!("{before}exec 3<>/dev/nvidia{gpu}");
    let output = Command::new("sh").args(["-c", &script]).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let denied = said.contains(NOT_PERMITTED);
    ensure!(output.status.success() != denied, "{script}: {said}");
    Ok(!denied)
}

/// The words that move a shell to a cgroup.
fn joining(cgroup: &Path) -> String {
    format!("echo 0 > {}/cgroup.procs && ", cgroup.display())
}

fn gpu_denied_to_a_cgroup_does_not_open_below_it() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "enforce=1")?;
    let cgroup = Cgroup::make("denied")?;
    let below = cgroup.path().join("below");
    fs::create_dir(&below).map_err(|error| error.to_string())?;
    let (inside, below) = (joining(cgroup.path()), joining(&below));
    ensure!(opens(&inside, 0)?, "denied before anything was set");
    let first = changed(cgroup.chosen()?, |set| set.gpu = 0);
    set(first, access(uapi::ACCESS_DENIED))?;
    for place in [&inside, &below] {
        ensure!(!opens(place, 0)?, "{place}GPU 0 opens");
        ensure!(opens(place, 1)?, "{place}GPU 1 does not open");
    }
    ensure!(opens("", 0)?, "denied outside of the cgroup");
    sysfs::write("enforce", "0")?;
    ensure!(opens(&inside, 0)?, "denied without enforcement");
    sysfs::write("enforce", "1")?;
    ensure!(!opens(&below, 0)?, "it opens after enforce=0 and 1");
    // Another setting does not end it, and its end ends nothing else.
    set(cgroup.chosen()?, crate::sharing::weight(300))?;
    ensure!(!opens(&inside, 0)?, "it opens with a weight");
    set(cgroup.chosen()?, access(uapi::ACCESS_ALLOWED))?;
    ensure!(opens(&inside, 0)?, "it does not open when it is allowed");
    let listed = calls::Calls::open()?.shares();
    let listed = listed.map_err(|errno| errno.to_string())?;
    let weights: Vec<(u32, u32)> = listed.iter().map(|one| (one.mask, one.weight)).collect();
    ensure!(weights == [(uapi::SHARE_WEIGHT, 300)], "{listed:?}");
    stage.teardown()
}

fn gpu_denied_to_a_cgroup_does_not_open_for_a_process_whose_first_thread_has_ended() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let cgroup = Cgroup::make("late")?;
    set(cgroup.chosen()?, access(uapi::ACCESS_DENIED))?;
    let mut caller = Caller::new()?;
    caller.ask("end-first")?;
    let outside = caller.ask("node 0")?;
    ensure!(outside == [0], "errno {outside:?} outside of the cgroup");
    // The first thread is a zombie, which no cgroup takes in.
    cgroup.add_process(caller.pid())?;
    let inside = caller.ask("node 0")?;
    // CAST: errnos are positive.
    ensure!(inside == [Errno::EPERM as u64], "errno {inside:?} inside");
    drop(caller);
    stage.teardown()
}

/// More than were looked at once, for a living one among them.
const TRACED: u32 = 80;

fn gpu_denied_to_a_cgroup_does_not_open_behind_threads_that_have_ended_and_are_traced() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let cgroup = Cgroup::make("hidden")?;
    set(cgroup.chosen()?, access(uapi::ACCESS_DENIED))?;
    let mut caller = Caller::new()?;
    caller.ask(&format!("end-traced {TRACED}"))?;
    caller.ask("end-first")?;
    let outside = caller.ask("node 0")?;
    ensure!(outside == [0], "errno {outside:?} outside of the cgroup");
    cgroup.add_process(caller.pid())?;
    let inside = caller.ask("node 0")?;
    // CAST: errnos are positive.
    ensure!(inside == [Errno::EPERM as u64], "errno {inside:?} inside");
    drop(caller);
    stage.teardown()
}

fn limit_of_a_cgroup_holds_behind_threads_that_have_ended_and_are_traced() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let cgroup = Cgroup::make("behind")?;
    set(cgroup.chosen()?, limit(30))?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask(&format!("end-traced {TRACED}"))?;
    caller.ask("end-first")?;
    cgroup.add_process(caller.pid())?;
    // What LoGA's own thread finds at its decisions.
    stage.wait_for_client(caller.pid(), SOON, "limited", |client| client.limit == 30)?;
    drop(caller);
    stage.teardown()
}

fn gpu_denied_to_a_user_opens_for_others_and_stays_open() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let load = Load::start(STEADY)?;
    stage.wait_until_all_measured([&load])?;
    set(for_user(0), access(uapi::ACCESS_DENIED))?;
    ensure!(!opens("", 0)?, "root opens what is denied to root");
    let got = crate::sharing::shares([&load], 100, 500)?;
    ensure!(got[0] > 0.0, "a client that was there has ended");
    set(for_user(0), clear)?;
    ensure!(opens("", 0)?, "it does not open when nothing is set");
    drop(load);
    stage.teardown()
}

fn access_of_a_process_or_by_a_user_is_refused() -> Verdict {
    let stage = Stage::set(LAZY, "enforce=1")?;
    let own = crate::sharing::for_process(std::process::id());
    let (result, refusal) =
        calls::Calls::open()?.set_share(&changed(own, access(uapi::ACCESS_DENIED)));
    ensure!(
        (result, refusal.code) == (Err(Errno::EINVAL), uapi::REFUSED_PROCESS),
        "{result:?} {refusal}"
    );
    let cgroup = Cgroup::make("other")?;
    let of_cgroup = changed(cgroup.chosen()?, access(uapi::ACCESS_DENIED));
    for set in [of_cgroup, changed(for_user(USER), access(1))] {
        let (result, refusal) = calls::as_user(USER, || Ok(calls::Calls::open()?.set_share(&set)))?;
        ensure!(
            (result, refusal.code) == (Err(Errno::EPERM), uapi::REFUSED_NOT_OWN),
            "{set:?}: {result:?} {refusal}"
        );
    }
    ensure!(stage.stat()?.settings == 0, "something is set");
    stage.teardown()
}

fn confined_program_and_its_children_open_no_other_gpu() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), "enforce=1")?;
    let around = Cgroup::make("around")?;
    let confined = |gpu: &str, script: &str| {
        let place = joining(around.path());
        let line = format!("{place}exec loga run --gpu {gpu} --confine -- sh -c '{script}'");
        let output = Command::new("sh").args(["-c", &line]).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        Ok::<_, String>((
            output.status.code(),
            String::from_utf8_lossy(&said).trim().to_owned(),
        ))
    };
    let child = |gpu: u32| format!("sh -c \"exec 3<>/dev/nvidia{gpu}\" && echo opened");
    let (status, said) = confined("1", &child(1))?;
    ensure!(status == Some(0) && said == "opened", "{status:?}: {said}");
    let (status, said) = confined("1", &child(0))?;
    ensure!(said.contains(NOT_PERMITTED), "{status:?}: {said}");
    let (status, said) = confined("auto:2", &format!("{} && {}", child(0), child(1)))?;
    ensure!(status == Some(0), "{status:?}: {said}");
    // What ended is removed by the next one, with what was set for it.
    let names = || {
        let entries = fs::read_dir(around.path()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("loga-run-")).count()
    };
    ensure!(names() == 1, "{} cgroups are left", names());
    ensure!(stage.stat()?.settings <= 1, "settings are left");
    sysfs::write("enforce", "0")?;
    let (status, said) = confined("1", "true")?;
    ensure!(
        status == Some(125) && said.contains("loga policy set enforce=1"),
        "{status:?}: {said}"
    );
    stage.teardown()
}
