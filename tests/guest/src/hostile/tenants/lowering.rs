// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a user may set for its own processes: less, and never more.

use super::super::{model, Program, USER};
use super::SOON;
use crate::calls::{as_user, Calls};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::sharing::{changed, clear, for_process, for_user, limit, set, weight};
use crate::stage::{Stage, LAZY};
use loga::uapi;
use nix::errno::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The errno and the sentence of a refused call.
fn refused(calls: &Calls, set: &uapi::SetShare) -> (Option<Errno>, String) {
    let (result, refusal) = calls.set_share(set);
    (result.err(), refusal.to_string())
}

fn class(class: u32) -> impl FnOnce(&mut uapi::SetShare) {
    move |set| {
        set.mask = uapi::SHARE_CLASS;
        set.class = class;
    }
}

pub(super) fn user_lowers_its_own_processes_and_never_raises_them() -> Verdict {
    let stage = Stage::set(&model(LAZY), "policy=event enforce=1")?;
    let own = Load::start_as(USER, "--kernel-us 200 --wait block")?;
    let foreign = Load::start_as(1001, "--kernel-us 200 --wait block")?;
    stage.wait_until_all_measured([&own, &foreign])?;
    let target = for_process(own.pid());
    let of_user = for_user(USER);
    let see = |want: (u32, u32, &str)| -> Result<(), String> {
        // A value that a user lowers applies from the next decision on.
        let limit = Duration::from_secs(2);
        let is = |client: &loga_cli::stat::Client| {
            (client.weight, client.limit, client.class.as_str()) == want
        };
        let what = format!("of weight, limit and class {want:?}");
        stage.wait_for_client(own.pid(), limit, &what, is).map(drop)
    };
    let user = |set: uapi::SetShare| -> Result<(), String> {
        as_user(USER, || match refused(&Calls::open()?, &set) {
            (None, _) => Ok(()),
            (errno, said) => Err(format!("{set:?}: {errno:?} {said}")),
        })
    };
    let never = |set: uapi::SetShare, why: &str| -> Result<(), String> {
        let (errno, said) = as_user(USER, || Ok(refused(&Calls::open()?, &set)))?;
        ensure!(
            errno == Some(Errno::EPERM) && said.contains(why),
            "{set:?}: {errno:?} {said:?}, not {why:?}"
        );
        Ok(())
    };
    user(changed(target, weight(50)))?;
    see((50, 100, "normal"))?;
    user(changed(target, class(uapi::CLASS_IDLE)))?;
    user(changed(target, limit(30)))?;
    see((50, 30, "idle"))?;
    // The user may undo what it lowered, and no more.
    user(changed(target, weight(100)))?;
    user(changed(target, class(uapi::CLASS_NORMAL)))?;
    user(changed(target, limit(60)))?;
    see((100, 60, "normal"))?;
    never(changed(target, weight(101)), "want at most 100")?;
    user(changed(target, clear))?;
    see((100, 100, "normal"))?;
    // A setting of an administrator stays.
    set(target, weight(20))?;
    set(of_user, limit(40))?;
    set(target, class(uapi::CLASS_IDLE))?;
    never(changed(target, weight(21)), "want at most 20")?;
    never(changed(target, limit(41)), "want at most 40")?;
    never(changed(target, class(uapi::CLASS_NORMAL)), "idle")?;
    user(changed(target, weight(10)))?;
    user(changed(target, limit(15)))?;
    see((10, 15, "idle"))?;
    // An administrator lowers further: the lower of both applies.
    set(target, weight(5))?;
    see((5, 15, "idle"))?;
    user(changed(target, clear))?;
    see((5, 40, "idle"))?;
    let own_processes = "its own processes";
    never(
        changed(for_process(foreign.pid()), weight(1)),
        own_processes,
    )?;
    never(changed(of_user, weight(1)), own_processes)?;
    drop((own, foreign));
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(["as", &USER.to_string(), "--"])
        .args("loga run --class idle --weight 7 -- true".split(' '))
        .output()
        .map_err(|error| error.to_string())?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "loga run of a user: {complaint}");
    stage.teardown()
}

/// Waits until a program has become one of [`USER`].
fn wait_until_of_user(program: &Program) -> Result<(), String> {
    let path = format!("/proc/{}", program.pid());
    let since = Instant::now();
    while !fs::metadata(&path).is_ok_and(|found| found.uid() == USER) {
        ensure!(since.elapsed() < SOON, "{path} is not of user {USER}");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

pub(super) fn user_lowers_without_filling_the_table() -> Verdict {
    let stage = Stage::set(&model(LAZY), "")?;
    let (mut children, mut taken, mut last) = (Vec::new(), 0, String::new());
    for _ in 0..60 {
        let child = Program::start("member")?;
        let own = changed(for_process(child.pid()), weight(1));
        wait_until_of_user(&child)?;
        let (errno, said) = as_user(USER, || Ok(refused(&Calls::open()?, &own)))?;
        match errno {
            None => taken += 1,
            Some(_) => last = said,
        }
        children.push(child);
    }
    println!("# a user lowered {taken} of 60: {last}");
    ensure!(taken == 32, "{taken} settings of one user, not 32");
    ensure!(last.contains("32"), "{last:?} does not say how many");
    drop(children);
    // Processes that have ended take no room from later ones.
    let child = Program::start("member")?;
    wait_until_of_user(&child)?;
    let own = changed(for_process(child.pid()), weight(1));
    let (errno, said) = as_user(USER, || Ok(refused(&Calls::open()?, &own)))?;
    ensure!(errno.is_none(), "{errno:?} {said}");
    drop(child);
    stage.teardown()
}
