// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of what the control device and the knobs refuse without a change.

use crate::caller::Caller;
use crate::calls::{as_user, knob, Calls};
use crate::ktap::{ensure, Verdict};
use crate::sharing::{changed, clear, for_process, for_user, limit};
use crate::stage::{Stage, LAZY};
use crate::{sharing, sysfs};
use loga::knobs::Knob;
use loga::uapi;
use nix::errno::Errno;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

crate::ktap::tests![
    wrong_settings_are_refused_and_say_what_is_right,
    setting_for_a_process_that_is_gone_is_esrch,
    settings_end_with_their_process,
    wrong_versions_and_sizes_are_told_the_right_ones,
    wrong_knobs_are_refused_and_stay_as_they_were,
];

/// Many periods: one of sparse accounting is 50 ms.
const BOOKED: Duration = Duration::from_secs(1);

/// The setting `set` with a weight.
pub(crate) fn weighted(set: uapi::SetShare, weight: u32) -> uapi::SetShare {
    changed(set, sharing::weight(weight))
}

fn wrong_settings_are_refused_and_say_what_is_right() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let mut caller = Caller::with_channels(1)?;
    caller.ask("run 100 20")?;
    let calls = Calls::open()?;
    let own = for_process(caller.pid());
    let good = weighted(own, 400);
    let (result, refusal) = calls.set_share(&good);
    ensure!(result.is_ok(), "{result:?} {refusal}");
    let limited = changed(own, limit(50));
    ensure!(calls.set_share(&limited).0.is_ok(), "a limit was refused");
    let of_root = changed(for_user(0), limit(50));
    let (range, unknown) = (uapi::REFUSED_RANGE, uapi::REFUSED_UNKNOWN_SUBJECT);
    let (reserved, einval) = (uapi::REFUSED_RESERVED, Errno::EINVAL);
    let class = changed(own, |set| {
        (set.mask, set.class) = (uapi::SHARE_CLASS, 2);
    });
    let cgroup = changed(good, |set| {
        (set.subject, set.id) = (uapi::SUBJECT_CGROUP, 1 << 40);
    });
    let out_of_range = "weight=0 is out of range, want 1 to 10000";
    let cases = [
        (weighted(own, 0), einval, range, out_of_range),
        (weighted(own, 10_001), einval, range, "want 1 to 10000"),
        (changed(own, limit(0)), einval, range, "want 1 to 100"),
        (changed(own, limit(101)), einval, range, "want 1 to 100"),
        (class, einval, range, "want 0 to 1"),
        (
            changed(own, |set| set.mask = 32),
            einval,
            reserved,
            "not zero",
        ),
        (
            changed(own, |set| {
                (set.mask, set.target_pct) = (uapi::SHARE_TARGET, 91);
            }),
            einval,
            range,
            "target=91 is out of range, want 1 to 90",
        ),
        (
            changed(good, |set| set.action = 2),
            einval,
            range,
            "want 0 to 1",
        ),
        (
            changed(good, |set| set.subject = 3),
            einval,
            range,
            "want 0 to 2",
        ),
        (own, einval, uapi::REFUSED_NOTHING, ""),
        (
            changed(of_root, limit(49)),
            einval,
            uapi::REFUSED_BELOW_MEMBER,
            "want at least 50",
        ),
        (
            changed(of_root, clear),
            Errno::ENOENT,
            uapi::REFUSED_NOT_SET,
            "",
        ),
        (
            weighted(for_process(999_999), 5),
            Errno::ESRCH,
            unknown,
            "999999",
        ),
        (cgroup, Errno::ESRCH, unknown, "no process, user or cgroup"),
        (
            changed(good, |set| set.gpu = 7),
            Errno::ENXIO,
            uapi::REFUSED_NOT,
            "",
        ),
    ];
    for (set, errno, code, text) in cases {
        let (result, refusal) = calls.set_share(&set);
        let said = refusal.to_string();
        ensure!(
            result == Err(errno) && refusal.code == code && said.contains(text),
            "{set:?}: {result:?}, {refusal:?}, {said:?}"
        );
        let shares = calls.shares().map_err(|errno| errno.to_string())?;
        ensure!(
            shares.len() == 1 && shares[0].weight == 400 && shares[0].limit_pct == 50,
            "after {set:?}: {shares:?}"
        );
    }
    drop(caller);
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn setting_for_a_process_that_is_gone_is_esrch() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let calls = Calls::open()?;
    let (mut set, mut gone) = (0, 0);
    // The settings race with the end of the process.
    for _ in 0..40 {
        let mut caller = Caller::new()?;
        let own = weighted(for_process(caller.pid()), 7);
        caller.send("quit")?;
        for _ in 0..50 {
            match calls.set_share(&own).0 {
                Ok(()) => set += 1,
                Err(Errno::ESRCH) => {
                    gone += 1;
                    break;
                }
                Err(errno) => return Err(format!("{errno}")),
            }
        }
        caller.wait()?;
        let result = calls.set_share(&own).0;
        ensure!(
            result == Err(Errno::ESRCH),
            "{result:?} for a process that is gone"
        );
    }
    println!("# set {set} times, {gone} times the process was gone meanwhile");
    let shares = calls.shares().map_err(|errno| errno.to_string())?;
    ensure!(shares.is_empty(), "left behind: {shares:?}");
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn settings_end_with_their_process() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let calls = Calls::open()?;
    let mut caller = Caller::new()?;
    let (result, refusal) = calls.set_share(&weighted(for_process(caller.pid()), 7));
    ensure!(result.is_ok(), "{result:?} {refusal}");
    // A weight set before the process became a client applies to it.
    caller.ask("open 1")?;
    let client = stage.client(caller.pid())?.ok_or("no client")?;
    ensure!(client.weight == 7, "weight {}", client.weight);
    caller.kill()?;
    // Its page keeps its owner until what ran in this period is booked.
    let killed = Instant::now();
    loop {
        let shares = calls.shares().map_err(|errno| errno.to_string())?;
        if shares.is_empty() {
            break;
        }
        ensure!(killed.elapsed() < BOOKED, "left behind: {shares:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn wrong_versions_and_sizes_are_told_the_right_ones() -> Verdict {
    let stage = Stage::set(LAZY, "")?;
    let calls = Calls::open()?;
    let right = uapi::Call::Snapshot.header();
    for header in [
        uapi::Header {
            version: 1,
            ..right
        },
        uapi::Header {
            size: right.size + 8,
            ..right
        },
        uapi::Header::default(),
    ] {
        let (result, said) = calls.with_header(header);
        ensure!(result == Err(Errno::EINVAL), "{header:?}: {result:?}");
        ensure!(
            said == right,
            "{header:?}: answered {said:?}, not {right:?}"
        );
    }
    for size in [0, 4, 8, 208] {
        let result = calls.with_size(size);
        ensure!(result == Err(Errno::EINVAL), "size {size}: {result:?}");
    }
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn wrong_knobs_are_refused_and_stay_as_they_were() -> Verdict {
    let stage = Stage::set(LAZY, "poll_ms=2 ratio=7")?;
    let calls = Calls::open()?;
    let (poll_ms, ratio) = (sysfs::read("poll_ms")?, sysfs::read("ratio")?);
    ensure!(
        (poll_ms.as_str(), ratio.as_str()) == ("2", "7"),
        "{poll_ms} {ratio}"
    );
    for (name, good, wrong) in [
        (
            "policy",
            "none",
            vec!["", "fair", "none ", "a-name-that-is-far-too-long"],
        ),
        ("enforce", "1", vec!["2", "-1", "yes", ""]),
        ("poll_ms", "3", vec!["0", "1001", "1.5", "99999999999"]),
        ("ratio", "4", vec!["0", "1001", "x"]),
        ("randomize", "1", vec!["2"]),
        ("group_by", "cgroup", vec!["users", ""]),
        ("cgroup_depth", "2", vec!["16", "-1", "x", ""]),
    ] {
        sysfs::write(name, good)?;
        for value in wrong {
            let answer = sysfs::write(name, value);
            let said = answer.err().unwrap_or_default();
            ensure!(
                said.contains("Invalid argument"),
                "{name}={value:?}: {said:?}"
            );
            let is = sysfs::read(name)?;
            ensure!(is == good, "{name}={value:?} made {good} {is}");
        }
        let path = format!("{}/{name}", sysfs::DIRECTORY);
        let mode = fs::metadata(&path).map_err(|error| error.to_string())?;
        let mode = mode.permissions().mode() & 0o777;
        ensure!(mode == 0o644, "{path} has mode {mode:o}");
    }
    let mut wrong = knob("poll_ms", "9")?;
    let (ratio, _) = Knob::find("ratio").ok_or("no such knob")?;
    wrong.mask |= 1 << ratio;
    wrong.values[ratio] = 2000;
    let (result, refusal) = calls.configure(&wrong);
    let said = refusal.to_string();
    ensure!(
        result == Err(Errno::EINVAL) && said.contains("want 1 to 1000"),
        "{result:?} {said}"
    );
    ensure!(
        sysfs::read("poll_ms")? == "3",
        "a refused call changed a knob"
    );
    let denied = as_user(1000, || Ok(sysfs::write("ratio", "5").err()))?;
    ensure!(
        denied.is_some_and(|said| said.contains("Permission denied")),
        "a user turned a knob"
    );
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}
