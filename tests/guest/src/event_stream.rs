// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what the control device reports: events, totals, and which user sees which.

use crate::calls::{as_user, knob, Calls};
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::sharing::for_process;
use crate::stage::{client_of, Stage, LAZY, PAPER};
use crate::sysfs;
use crate::validation::weighted;
use loga::uapi;
use loga::uapi::Event;
use loga_cli::device::Device;
use nix::errno::Errno;
use std::time::Duration;

crate::ktap::tests![
    user_sees_only_its_own_clients_and_changes_nothing,
    user_is_not_told_when_the_gpu_is_polled,
    events_tell_the_life_of_a_client,
    slow_reader_of_events_sees_how_many_it_lost,
    totals_outlive_processes_until_root_resets_them,
];

const HOG: &str = "--kernel-us 1000 --wait block --channels 2";

fn user_sees_only_its_own_clients_and_changes_nothing() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let of_root = Load::start(HOG)?;
    let of_user = Load::start_as(1000, HOG)?;
    stage.wait_until_all_measured([&of_root, &of_user])?;
    let all = stage.stat()?;
    ensure!(
        all.clients.len() == 2,
        "root sees {} clients",
        all.clients.len()
    );
    let set = weighted(for_process(of_user.pid()), 10_000);
    let of_others = weighted(for_process(of_root.pid()), 300);
    let (result, refusal) = Calls::open()?.set_share(&of_others);
    ensure!(result.is_ok(), "{result:?} {refusal}");
    let (seen, answers) = as_user(1000, || {
        let calls = Calls::open()?;
        let knobs = knob("ratio", "9")?;
        let totals = |kind, flags| calls.totals(kind, flags).map(|totals| totals.len());
        let answers = [
            calls.set_share(&set).0,
            calls.configure(&knobs).0,
            totals(uapi::SUBJECT_USER, uapi::TOTALS_RESET).map(drop),
            totals(uapi::SUBJECT_CGROUP, 0).map(drop),
        ];
        let shares = calls.shares().map_err(|errno| errno.to_string())?;
        ensure!(shares.is_empty(), "settings of others: {shares:?}");
        let own = totals(uapi::SUBJECT_USER, 0).map_err(|errno| errno.to_string())?;
        ensure!(own == 1, "{own} totals");
        Ok((stage.stat()?, answers))
    })?;
    for (at, answer) in answers.iter().enumerate() {
        ensure!(
            *answer == Err(Errno::EPERM),
            "call {at} of a user: {answer:?}"
        );
    }
    ensure!(
        seen.clients.len() == 1 && client_of(&seen, of_user.pid()).is_some(),
        "a user sees {:?}",
        seen.clients
    );
    let none = as_user(1001, || stage.stat())?;
    ensure!(
        none.clients.is_empty(),
        "another user sees {:?}",
        none.clients
    );
    drop((of_root, of_user));
    stage.teardown()
}

/// Takes snapshots of the GPU at many instants, as a user with a client: nothing in them changes
/// with phases, decisions or other clients.
fn user_is_not_told_when_the_gpu_is_polled() -> Verdict {
    let stage = Stage::set(LAZY, "accounting=burst")?;
    let of_root = Load::start(HOG)?;
    let of_user = Load::start_as(1000, HOG)?;
    stage.wait_until_all_measured([&of_root, &of_user])?;
    let told = as_user(1000, || {
        let device = Device::open().map_err(|error| error.to_string())?;
        let mut told = Vec::new();
        for _ in 0..50 {
            let info = device.snapshot(0).map_err(|error| error.to_string())?.info;
            let times = [
                info.polled_ns,
                info.unpolled_ns,
                info.idle_ns,
                info.unknown_ns,
                info.t_sys_ns,
                info.last_poll_ns,
                info.last_nonpoll_ns,
            ];
            let counts = [
                info.polls,
                info.register_reads,
                info.switches,
                info.decisions,
                info.revokes,
                info.restores,
                u64::from(info.open_files),
            ];
            let polls = info.flags & uapi::GPU_POLLING;
            told.push((times, counts, polls, info.flags & uapi::GPU_WITHHELD != 0));
            std::thread::sleep(Duration::from_millis(3));
        }
        Ok(told)
    })?;
    for one in told {
        ensure!(one == ([0; 7], [0; 7], 0, true), "a user sees {one:?}");
    }
    // Root sees it.
    let stat = stage.stat()?;
    ensure!(!stat.withheld && stat.decisions > 0, "root sees nothing");
    drop((of_root, of_user));
    stage.teardown()
}

/// Numbers of the kinds of the events about a process.
fn kinds_of(events: &[Event], pid: u32) -> Vec<u32> {
    let own = events
        .iter()
        .filter(|event| u32::try_from(event.pid) == Ok(pid));
    own.map(|event| event.kind).collect()
}

fn events_tell_the_life_of_a_client() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let everything = (1 << uapi::EVENT_KINDS) - 1;
    let calls = Calls::open()?;
    ensure!(
        calls.read(64) == Err(Errno::EINVAL),
        "read without a subscription"
    );
    calls
        .subscribe(everything)
        .map_err(|errno| errno.to_string())?;
    ensure!(
        calls.read(64) == Err(Errno::EAGAIN),
        "an event before anything happened"
    );
    ensure!(
        calls.read(63) == Err(Errno::EINVAL),
        "part of an event was read"
    );
    ensure!(
        calls.is_readable() == Ok(false),
        "readable without an event"
    );
    let hog = Load::start(HOG)?;
    let light = Load::start("--kernel-us 100 --wait block --channels 2")?;
    stage.wait_until_throttled(hog.pid())?;
    sysfs::write("policy", "none")?;
    let (hog_pid, light_pid) = (hog.pid(), light.pid());
    // Another user sees the GPU's events only.
    let others = as_user(1000, || {
        let calls = Calls::open()?;
        calls
            .subscribe(everything)
            .map_err(|errno| errno.to_string())?;
        Ok(calls)
    })?;
    drop((hog, light));
    stage.wait_until_gone(hog_pid)?;
    stage.wait_until_gone(light_pid)?;
    sysfs::write("policy", "event")?;
    ensure!(calls.is_readable() == Ok(true), "not readable with events");
    let events = calls.events()?;
    let kinds = kinds_of(&events, hog_pid);
    let (appeared, throttled) = (uapi::EVENT_APPEARED, uapi::EVENT_THROTTLED);
    let (released, exited) = (uapi::EVENT_RELEASED, uapi::EVENT_EXITED);
    ensure!(
        kinds.starts_with(&[appeared, throttled, released]),
        "{kinds:?}"
    );
    ensure!(kinds.last() == Some(&exited), "{kinds:?}");
    let of_policy = |event: &&Event| event.kind == uapi::EVENT_POLICY;
    let names: Vec<_> = events
        .iter()
        .filter(of_policy)
        .map(|event| event.name)
        .collect();
    ensure!(
        names.len() == 2 && names[0].starts_with(b"none\0") && names[1].starts_with(b"event\0"),
        "{names:?}"
    );
    for (at, event) in (0u64..).zip(&events) {
        ensure!(
            event.sequence == at,
            "event {at} has number {}",
            event.sequence
        );
    }
    let last = events.iter().rfind(|event| event.kind == exited).copied();
    ensure!(
        last.is_some_and(|event| event.value > 0),
        "exit without time: {last:?}"
    );
    ensure!(
        kinds_of(&events, light_pid).contains(&appeared),
        "no event of the other client"
    );
    let seen = others.events()?;
    ensure!(
        !seen.is_empty() && seen.iter().all(|event| event.client == 0),
        "another user sees {seen:?}"
    );
    calls.subscribe(0).map_err(|errno| errno.to_string())?;
    ensure!(
        calls.read(64) == Err(Errno::EINVAL),
        "read after the subscription"
    );
    // An open device keeps the module.
    drop((calls, others));
    stage.teardown()
}

fn slow_reader_of_events_sees_how_many_it_lost() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let calls = Calls::open()?;
    let only = 1 << uapi::EVENT_POLICY;
    calls.subscribe(only).map_err(|errno| errno.to_string())?;
    for _ in 0..150 {
        sysfs::write("policy", "none")?;
        sysfs::write("policy", "event")?;
    }
    let events = calls.events()?;
    ensure!(events.len() == uapi::QUEUE_ROOM, "{} events", events.len());
    let lost = 300 - uapi::QUEUE_ROOM as u64;
    ensure!(
        events[0].sequence == lost,
        "the first is {}",
        events[0].sequence
    );
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn totals_outlive_processes_until_root_resets_them() -> Verdict {
    let stage = Stage::set(LAZY, "accounting=burst")?;
    let calls = Calls::open()?;
    let total_of = |uid: u64, flags| -> Result<Option<uapi::Total>, String> {
        let totals = calls.totals(uapi::SUBJECT_USER, flags);
        let totals = totals.map_err(|errno| errno.to_string())?;
        Ok(totals.into_iter().find(|total| total.id == uid))
    };
    let mut seen = 0;
    for _ in 0..2 {
        let load = Load::start_as(1000, HOG)?;
        let pid = load.pid();
        let limit = Duration::from_secs(20);
        let client =
            stage.wait_for_client(pid, limit, "measured", |c| c.gpu_time_ns > 100_000_000)?;
        seen += client.gpu_time_ns;
        drop(load);
        stage.wait_until_gone(pid)?;
    }
    let total = total_of(1000, uapi::TOTALS_RESET)?.ok_or("no total")?;
    ensure!(
        total.gpu_time_ns >= seen && total.processes == 2 && total.runs > 0,
        "{seen} ns seen: {total:?}"
    );
    ensure!(total_of(1000, 0)?.is_none(), "the total was not reset");
    let groups = calls.totals(uapi::SUBJECT_CGROUP, 0);
    let groups = groups.map_err(|errno| errno.to_string())?;
    ensure!(
        groups.len() == 1 && groups[0].gpu_time_ns >= seen,
        "{groups:?}"
    );
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}
