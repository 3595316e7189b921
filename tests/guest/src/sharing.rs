// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of shares: weights, limits, classes, groups, and changes of the policy while all
//! clients work. Shares are those of the model's own log.

use crate::caller::Caller;
use crate::calls::{as_user, Calls};
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::stage::{client_of, Stage, EXACT, LAZY, PAPER};
use crate::truth::Truth;
use crate::{sysfs, truth};
use loga::uapi;
use loga_cli::device::{Device, Snapshot};
use std::time::Duration;

crate::ktap::tests![
    weights_1_to_1_give_equal_shares: timed,
    weights_1_to_3_give_shares_1_to_3: timed slow,
    weights_1_to_9_give_shares_1_to_9: timed slow,
    weights_1_to_100_give_shares_1_to_100: timed,
    weight_of_a_user_is_that_of_its_processes: timed,
    client_that_becomes_another_user_stays_its_first_ones_while_it_has_a_page,
    limit_holds_for_a_client_alone: timed,
    limit_of_a_user_holds_for_all_its_processes_together: timed,
    idle_class_runs_only_when_no_other_client_wants_the_gpu: timed,
    group_by_user_divides_between_users: timed slow,
    groups_have_what_their_clients_got,
    policy_changes_under_load_leave_no_client_throttled: slow,
];

/// Keeps the GPU busy: three kernels queued, two phases' worth of channels.
const HOG: &str = "--kernel-us 500 --depth 3 --wait block --channels 2";

/// The same with a queue so short that its residue after a throttle does not count.
pub(crate) const BUSY: &str = "--kernel-us 200 --depth 2 --wait block --channels 2";

/// Kernels that never wait for one another, so that the residue after a throttle is small.
pub(crate) const STEADY: &str = "--kernel-us 500 --wait block --channels 2";

/// Parameters where shares are to be exact. Everything here runs in step: phases of equal lengths
/// would poll the same part of a round of the GPU every time.
pub(crate) const STRICT: &str = "policy=event enforce=1 randomize=1 accounting=burst";

/// Parameters of the model for the same: as `FINE`, and a GPU that switches after each command. A
/// short phase sees a few timeslices of a millisecond, and shares of a window would vary with them.
pub(crate) const PROMPT: &str = "turn_us=20 timeslice_us=0";

/// The argument of a setting for a process.
pub(crate) fn for_process(pid: u32) -> uapi::SetShare {
    uapi::SetShare {
        gpu: 0,
        subject: uapi::SUBJECT_PROCESS,
        id: pid.into(),
        ..Default::default()
    }
}

/// The argument of a setting for a user.
pub(crate) fn for_user(uid: u32) -> uapi::SetShare {
    uapi::SetShare {
        subject: uapi::SUBJECT_USER,
        id: uid.into(),
        ..Default::default()
    }
}

/// An argument with what `fill` says.
pub(crate) fn changed(
    mut set: uapi::SetShare,
    fill: impl FnOnce(&mut uapi::SetShare),
) -> uapi::SetShare {
    fill(&mut set);
    set
}

/// What takes a setting back.
pub(crate) fn clear(set: &mut uapi::SetShare) {
    set.action = uapi::ACTION_CLEAR;
}

/// Sets what `fill` says.
pub(crate) fn set(
    set: uapi::SetShare,
    fill: impl FnOnce(&mut uapi::SetShare),
) -> Result<(), String> {
    let set = changed(set, fill);
    let (result, refusal) = Calls::open()?.set_share(&set);
    result.map_err(|errno| format!("{set:?}: {errno} ({refusal})"))
}

pub(crate) fn weight(weight: u32) -> impl FnOnce(&mut uapi::SetShare) {
    move |set| {
        set.mask = uapi::SHARE_WEIGHT;
        set.weight = weight;
    }
}

pub(crate) fn limit(percent: u32) -> impl FnOnce(&mut uapi::SetShare) {
    move |set| {
        set.mask = uapi::SHARE_LIMIT;
        set.limit_pct = percent;
    }
}

pub(crate) fn target(percent: u32) -> impl FnOnce(&mut uapi::SetShare) {
    move |set| {
        set.mask = uapi::SHARE_TARGET;
        set.target_pct = percent;
    }
}

/// As [`truth::shares`], of loads.
pub(crate) fn shares<const N: usize>(
    loads: [&Load; N],
    settle_ms: u64,
    ms: u64,
) -> Result<[f64; N], String> {
    truth::shares(loads.map(Load::pid), settle_ms, ms)
}

/// Checks the shares of loads, over `ms`.
pub(crate) fn over<const N: usize>(
    loads: [&Load; N],
    settle_ms: u64,
    ms: u64,
    check: impl Fn([f64; N]) -> Verdict,
) -> Verdict {
    check(shares(loads, settle_ms, ms)?)
}

fn weights_1_to_1_give_equal_shares() -> Verdict {
    check_weights(1)
}

fn weights_1_to_3_give_shares_1_to_3() -> Verdict {
    check_weights(3)
}

fn weights_1_to_9_give_shares_1_to_9() -> Verdict {
    check_weights(9)
}

fn weights_1_to_100_give_shares_1_to_100() -> Verdict {
    check_weights(100)
}

/// Two clients that both want the whole GPU, one with `times` the weight of the other, get their
/// shares within a point over five seconds.
fn check_weights(times: u32) -> Verdict {
    let stage = Stage::set(PROMPT, &format!("{STRICT} {EXACT}"))?;
    let (light, heavy) = (Load::start(BUSY)?, Load::start(BUSY)?);
    stage.wait_until_all_measured([&light, &heavy])?;
    set(for_process(heavy.pid()), weight(100 * times))?;
    over([&light, &heavy], 1000, 5000, |got| {
        // Of the sum of both: switching and idle time belongs to no client.
        let all: f64 = got.iter().sum();
        let part = got[0] / all * 100.0;
        let want = 100.0 / (1.0 + f64::from(times));
        within("percent of the light one", part, want - 1.0..=want + 1.0)
    })?;
    let client = stage.client(heavy.pid())?.ok_or("no client")?;
    ensure!(client.weight == 100 * times, "weight {}", client.weight);
    stage.check_no_fallback()?;
    drop((light, heavy));
    stage.teardown()
}

fn weight_of_a_user_is_that_of_its_processes() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let load = Load::start_as(1000, HOG)?;
    stage.wait_until_all_measured([&load])?;
    set(for_user(1000), weight(700))?;
    set(for_user(1001), weight(9))?;
    let weight_of = |pid| -> Result<u32, String> {
        std::thread::sleep(Duration::from_millis(100));
        Ok(stage.client(pid)?.ok_or("no client")?.weight)
    };
    ensure!(weight_of(load.pid())? == 700, "not the weight of its user");
    set(for_process(load.pid()), weight(5))?;
    ensure!(weight_of(load.pid())? == 5, "not its own weight");
    set(for_process(load.pid()), clear)?;
    ensure!(
        weight_of(load.pid())? == 700,
        "not the weight of its user again"
    );
    drop(load);
    stage.teardown()
}

fn client_that_becomes_another_user_stays_its_first_ones_while_it_has_a_page() -> Verdict {
    let stage = Stage::set(LAZY, "group_by=user")?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("run 1000 50")?;
    let pid = caller.pid();
    let user = || -> Result<u32, String> {
        std::thread::sleep(Duration::from_millis(200));
        Ok(stage.client(pid)?.ok_or("no client")?.uid)
    };
    ensure!(user()? == 0, "not a client of root");
    caller.ask("become 5")?;
    ensure!(user()? == 0, "it took its page along");
    drop(caller);
    stage.teardown()
}

fn limit_holds_for_a_client_alone() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let hog = Load::start(HOG)?;
    stage.wait_until_all_measured([&hog])?;
    set(for_process(hog.pid()), limit(20))?;
    // At most 5 % above it, and by throttling.
    over([&hog], 500, 3000, |[share]| {
        within("percent with a limit of 20", share, 17.0..=21.0)
    })?;
    let throttled = stage.wait_until_throttled(hog.pid())?;
    within("times throttled", throttled.throttled_count, 4..)?;
    set(for_process(hog.pid()), limit(100))?;
    let [share] = shares([&hog], 500, 1000)?;
    within("percent without a limit", share, 90.0..)?;
    stage.check_no_fallback()?;
    drop(hog);
    stage.teardown()
}

fn limit_of_a_user_holds_for_all_its_processes_together() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let (one, other) = (Load::start_as(1000, STEADY)?, Load::start_as(1000, STEADY)?);
    stage.wait_until_all_measured([&one, &other])?;
    set(for_user(1000), limit(30))?;
    over([&one, &other], 500, 3000, |got| {
        let sum: f64 = got.iter().sum();
        within("percent with a limit of 30", sum, 25.0..=31.5)
    })?;
    stage.check_no_fallback()?;
    drop((one, other));
    stage.teardown()
}

fn idle_class_runs_only_when_no_other_client_wants_the_gpu() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let (idle, normal) = (Load::start(HOG)?, Load::start(HOG)?);
    stage.wait_until_all_measured([&idle, &normal])?;
    set(for_process(idle.pid()), |set| {
        set.mask = uapi::SHARE_CLASS;
        set.class = uapi::CLASS_IDLE;
    })?;
    let got = shares([&idle, &normal], 500, 2000)?;
    within("percent of the idle class", got[0], ..2.0)?;
    within("percent of the hog", got[1], 90.0..)?;
    drop(normal);
    let [alone] = shares([&idle], 500, 1000)?;
    within("percent of the idle class alone", alone, 90.0..)?;
    stage.check_no_fallback()?;
    drop(idle);
    stage.teardown()
}

fn group_by_user_divides_between_users() -> Verdict {
    let stage = Stage::set(PROMPT, &format!("{STRICT} {EXACT}"))?;
    sysfs::write("group_by", "user")?;
    let one = [Load::start_as(1000, BUSY)?, Load::start_as(1000, BUSY)?];
    let other = Load::start_as(1001, BUSY)?;
    stage.wait_until_all_measured([&one[0], &one[1], &other])?;
    let loads = [&one[0], &one[1], &other];
    over(loads, 1000, 6000, |got| {
        // Of the sum of both: switching and idle time belongs to no client.
        let all: f64 = got.iter().sum();
        let part = got[2] / all * 100.0;
        within("percent of a user with one process", part, 48.0..=52.0)
    })?;
    // Changed while they run, no client's time is lost.
    sysfs::write("group_by", "process")?;
    over(loads, 2000, 4000, |got| {
        for share in got {
            within("percent of one of three", share, 31.3..=35.3)?;
        }
        Ok(())
    })?;
    stage.check_no_fallback()?;
    drop((one, other));
    stage.teardown()
}

/// GPU time of a group beyond that of its clients.
fn beyond_clients(seen: &Snapshot, group: &uapi::Group) -> Result<u64, String> {
    let own = seen.clients.iter().filter(|one| one.group == group.id);
    let sum: u64 = own.map(|one| one.gpu_time_ns).sum();
    let (all, id) = (group.gpu_time_ns, group.id);
    all.checked_sub(sum)
        .ok_or_else(|| format!("group {id} has {all} ns, its clients {sum}"))
}

fn groups_have_what_their_clients_got() -> Verdict {
    let snapshot = || {
        let device = Device::open().map_err(|error| error.to_string())?;
        device.snapshot(0).map_err(|error| error.to_string())
    };
    let stage = Stage::set(LAZY, "")?;
    sysfs::write("group_by", "user")?;
    let of_root = Load::start(STEADY)?;
    let of_user = Load::start_as(1000, STEADY)?;
    let ending = Load::start_as(1000, STEADY)?;
    stage.wait_until_all_measured([&of_root, &of_user, &ending])?;
    for (seen, groups) in [(snapshot()?, 2), (as_user(1000, snapshot)?, 1)] {
        let count = seen.groups.len();
        ensure!(count == groups, "{count} groups, not {groups}");
        for group in &seen.groups {
            let beyond = beyond_clients(&seen, group)?;
            ensure!(
                beyond == 0 && group.gpu_time_ns > 0,
                "{beyond} of {} ns in group {} are no client's",
                group.gpu_time_ns,
                group.id
            );
        }
    }
    let seen = snapshot()?;
    let pid = ending.pid();
    let ended = seen
        .clients
        .iter()
        .find(|one| u32::try_from(one.pid) == Ok(pid));
    let used = ended.ok_or("a client is missing")?.gpu_time_ns;
    drop(ending);
    stage.wait_until_gone(pid)?;
    let seen = as_user(1000, snapshot)?;
    let beyond = beyond_clients(&seen, seen.groups.first().ok_or("no group")?)?;
    ensure!(beyond >= used, "{beyond} ns are left of {used}");
    drop((of_root, of_user));
    stage.teardown()
}

fn policy_changes_under_load_leave_no_client_throttled() -> Verdict {
    let stage = Stage::set(LAZY, PAPER)?;
    let hog = Load::start("--kernel-us 1000 --wait block --channels 2")?;
    let others = [
        Load::start("--kernel-us 100 --wait block --channels 2")?,
        Load::start("--kernel-us 100 --wait block --channels 2")?,
    ];
    let names = sysfs::read("available_policies")?;
    let names: Vec<&str> = names.split_whitespace().collect();
    for round in 0..3 {
        for name in &names {
            // The old policy throttles it.
            if round == 0 && sysfs::read("policy")? == "event" {
                stage.wait_until_throttled(hog.pid())?;
            }
            sysfs::write("policy", name)?;
            let stat = stage.stat()?;
            ensure!(stat.policy == *name, "{} instead of {name}", stat.policy);
            // Nothing was decided since, or by the new policy only.
            std::thread::sleep(Duration::from_millis(150));
            Truth::reset()?;
            std::thread::sleep(Duration::from_millis(400));
            let truth = Truth::read()?;
            for load in [&hog, &others[0], &others[1]] {
                let pid = load.pid();
                let share = truth.ran_share(pid);
                within(&format!("share under {name}"), share, 0.02..)?;
            }
        }
    }
    sysfs::write("policy", "none")?;
    let stat = stage.stat()?;
    for load in [&hog, &others[0], &others[1]] {
        let client = client_of(&stat, load.pid()).ok_or("a client is missing")?;
        ensure!(
            client.state != "throttled",
            "{} is throttled by none",
            client.pid
        );
    }
    stage.check_no_fallback()?;
    for load in others {
        ensure!(load.stop()?.summary.kernels > 0, "one ran nothing");
    }
    ensure!(hog.stop()?.summary.kernels > 0, "the hog ran nothing");
    stage.teardown()
}
