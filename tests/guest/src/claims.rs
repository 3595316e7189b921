// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of claims: who sees them, what is refused, and when they end.

use crate::caller::Caller;
use crate::calls::{as_user, Calls};
use crate::ktap::{ensure, Verdict};
use crate::stage::{Stage, LAZY};
use loga::claims::Claimed;
use loga::uapi;
use loga_cli::device::Device;
use nix::errno::Errno;
use std::time::{Duration, Instant};

crate::ktap::tests![
    claim_counts_for_all_users_and_ends_with_its_process,
    claim_based_on_earlier_figures_is_refused,
    claims_out_of_range_are_refused_and_change_nothing,
    claim_ends_when_its_time_is_up,
    user_fills_its_part_of_the_claims_only,
    claims_of_one_user_count_one_gpu_at_most,
    claims_end_when_the_module_is_loaded_anew,
    client_on_none_of_the_gpus_that_it_has_claimed_is_reported,
];

/// Two GPUs.
const MODEL: &str = "gpus=2";
/// Users without privilege.
const USERS: [u32; 2] = [1000, 1001];

fn stage() -> Result<Stage, String> {
    Stage::set(&format!("{LAZY} {MODEL}"), "")
}

/// What a snapshot of a GPU says of its claims.
fn claimed(gpu: u32) -> Result<Claimed, String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    let snapshot = device.snapshot(gpu).map_err(|error| error.to_string())?;
    Ok(shown(&snapshot.info))
}

/// As [`claimed`], for a user without privilege.
fn claimed_for(user: u32, gpu: u32) -> Result<Claimed, String> {
    as_user(user, || claimed(gpu))
}

/// The answer to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    /// The errno, if it was refused.
    errno: Option<Errno>,
    /// Why: one of `REFUSED_*`.
    code: u32,
    /// Most that would be right.
    max: u64,
    /// The number of the claims after it.
    seen: u64,
}

/// A process of a user.
fn process_of(user: u32) -> Result<Caller, String> {
    let mut caller = Caller::new()?;
    caller.ask(&format!("become {user}"))?;
    Ok(caller)
}

fn ask(caller: &mut Caller, order: &str) -> Result<Answer, String> {
    let answer = caller.ask(order)?;
    let [errno, code, max, seen] = answer[..] else {
        return Err(format!("{order}: {answer:?}"));
    };
    Ok(Answer {
        // CAST: errnos are small.
        errno: (errno != 0).then(|| Errno::from_raw(errno as i32)),
        // CAST: as above.
        code: code as u32,
        max,
        seen,
    })
}

/// Claims, whatever was claimed before.
fn claim(caller: &mut Caller, gpu: u32, pct: u32, seconds: u32) -> Result<Answer, String> {
    let anyway = uapi::CLAIM_ANYWAY;
    ask(caller, &format!("claim {gpu} {pct} {seconds} {anyway}"))
}

/// As [`claim`], which must work; returns the number after it.
fn must_claim(caller: &mut Caller, gpu: u32, pct: u32, seconds: u32) -> Result<u64, String> {
    let answer = claim(caller, gpu, pct, seconds)?;
    ensure!(answer.errno.is_none(), "refused: {answer:?}");
    Ok(answer.seen)
}

/// Checks number and percents of the claims on a GPU.
fn expect(gpu: u32, count: u32, pct: u32) -> Verdict {
    let now = claimed(gpu)?;
    ensure!(
        (now.count, now.pct) == (count, pct),
        "GPU {gpu}: {now:?}, not {count} claims of {pct} %"
    );
    Ok(())
}

fn claim_counts_for_all_users_and_ends_with_its_process() -> Verdict {
    let stage = stage()?;
    let before = claimed(0)?;
    ensure!((before.count, before.pct) == (0, 0), "{before:?}");
    let [one, other] = USERS;
    let mut first = process_of(one)?;
    let seen = must_claim(&mut first, 0, 60, 30)?;
    ensure!(seen != before.seen, "the number stayed {seen}");
    let now = Claimed {
        count: 1,
        pct: 60,
        seen,
    };
    for user in USERS {
        let shown = claimed_for(user, 0)?;
        ensure!(shown == now, "user {user} sees {shown:?}, not {now:?}");
        let elsewhere = claimed_for(user, 1)?;
        ensure!(
            (elsewhere.count, elsewhere.seen) == (0, seen),
            "user {user} sees {elsewhere:?} on the other GPU"
        );
    }
    // In place of the one before.
    must_claim(&mut first, 0, 40, 30)?;
    expect(0, 1, 40)?;
    let mut second = process_of(other)?;
    must_claim(&mut second, 0, 90, 30)?;
    must_claim(&mut second, 1, 90, 30)?;
    expect(0, 2, 130)?;
    expect(1, 1, 90)?;
    second.kill()?;
    expect(0, 1, 40)?;
    expect(1, 0, 0)?;
    drop(first);
    stage.teardown()
}

fn claim_based_on_earlier_figures_is_refused() -> Verdict {
    let stage = stage()?;
    let [one, other] = USERS;
    let (mut first, mut second) = (process_of(one)?, process_of(other)?);
    let seen = claimed(0)?.seen;
    let order = |seen: u64| format!("claim 1 50 30 {seen}");
    let next = must_claim(&mut first, 0, 60, 30)?;
    let stale = ask(&mut second, &order(seen))?;
    ensure!(
        (stale.errno, stale.code) == (Some(Errno::EAGAIN), uapi::REFUSED_CHANGED),
        "{stale:?}"
    );
    let now = claimed(1)?;
    ensure!((now.count, now.seen) == (0, next), "{now:?} after it");
    let fresh = ask(&mut second, &order(next))?;
    ensure!(fresh.errno.is_none(), "{fresh:?}");
    expect(1, 1, 50)?;
    // Taking claims back changes no number, and is of the caller's own ones.
    let back = ask(&mut second, &format!("unclaim {}", uapi::ALL_GPUS))?;
    ensure!(
        back.errno.is_none() && back.seen == fresh.seen,
        "{back:?} after {fresh:?}"
    );
    expect(1, 0, 0)?;
    expect(0, 1, 60)?;
    let none = ask(&mut second, "unclaim 0")?;
    ensure!(
        (none.errno, none.code) == (Some(Errno::ENOENT), uapi::REFUSED_NOT_SET),
        "{none:?}"
    );
    expect(0, 1, 60)?;
    drop((first, second));
    stage.teardown()
}

fn claims_out_of_range_are_refused_and_change_nothing() -> Verdict {
    let stage = stage()?;
    let before = claimed(0)?;
    let good = uapi::Claim {
        want_pct: 50,
        seconds: 10,
        seen: uapi::CLAIM_ANYWAY,
        ..Default::default()
    };
    let refusal = uapi::Refusal {
        code: 1,
        ..Default::default()
    };
    let (range, none) = (uapi::REFUSED_RANGE, uapi::REFUSED_NOT);
    let (all, clear) = (uapi::ALL_GPUS, uapi::ACTION_CLEAR);
    let cases = [
        (
            uapi::Claim {
                want_pct: 0,
                ..good
            },
            Errno::EINVAL,
            range,
        ),
        (
            uapi::Claim {
                want_pct: 101,
                ..good
            },
            Errno::EINVAL,
            range,
        ),
        (uapi::Claim { seconds: 0, ..good }, Errno::EINVAL, range),
        (
            uapi::Claim {
                seconds: 31,
                ..good
            },
            Errno::EINVAL,
            range,
        ),
        (uapi::Claim { action: 2, ..good }, Errno::EINVAL, range),
        (
            uapi::Claim { refusal, ..good },
            Errno::EINVAL,
            uapi::REFUSED_RESERVED,
        ),
        (uapi::Claim { gpu: 2, ..good }, Errno::ENXIO, none),
        (uapi::Claim { gpu: all, ..good }, Errno::ENXIO, none),
        (
            uapi::Claim {
                action: clear,
                gpu: 2,
                ..good
            },
            Errno::ENXIO,
            none,
        ),
        (
            uapi::Claim {
                action: clear,
                ..good
            },
            Errno::ENOENT,
            uapi::REFUSED_NOT_SET,
        ),
    ];
    let calls = Calls::open()?;
    for (case, errno, code) in cases {
        let (result, after) = calls.claim(&case);
        ensure!(
            result == Err(errno) && after.refusal.code == code,
            "{case:?}: {result:?}, {:?}",
            after.refusal
        );
        ensure!(claimed(0)? == before, "{case:?} changed something");
    }
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}

fn claim_ends_when_its_time_is_up() -> Verdict {
    let stage = stage()?;
    let mut caller = process_of(USERS[0])?;
    let since = Instant::now();
    must_claim(&mut caller, 0, 60, 2)?;
    must_claim(&mut caller, 1, 30, 30)?;
    let claimed_in = since.elapsed();
    while claimed(0)?.count != 0 {
        let lasts = since.elapsed();
        ensure!(lasts < Duration::from_secs(10), "there after {lasts:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let lasted = since.elapsed();
    println!("# made in {claimed_in:?}, ended after {lasted:?}");
    ensure!(lasted >= Duration::from_secs(2), "ended after {lasted:?}");
    expect(1, 1, 30)?;
    // What has ended cannot be taken back.
    let none = ask(&mut caller, "unclaim 0")?;
    ensure!(none.code == uapi::REFUSED_NOT_SET, "{none:?}");
    drop(caller);
    stage.teardown()
}

fn user_fills_its_part_of_the_claims_only() -> Verdict {
    let stage = stage()?;
    let [one, other] = USERS;
    let mut own = Vec::new();
    for _ in 0..64 {
        let mut caller = process_of(one)?;
        must_claim(&mut caller, 0, 1, 30)?;
        own.push(caller);
    }
    expect(0, 64, 64)?;
    let mut late = process_of(one)?;
    let before = claimed(0)?;
    let full = claim(&mut late, 0, 1, 30)?;
    ensure!(
        (full.errno, full.code, full.max) == (Some(Errno::ENOSPC), uapi::REFUSED_FULL, 64),
        "{full:?}"
    );
    ensure!(claimed(0)? == before, "it changed something");
    // Of another user, and on another GPU.
    must_claim(&mut late, 1, 1, 30)?;
    expect(1, 1, 1)?;
    let mut foreign = process_of(other)?;
    must_claim(&mut foreign, 0, 5, 30)?;
    expect(0, 65, 69)?;
    // Room comes back with a process that has ended.
    own.swap_remove(1).kill()?;
    must_claim(&mut late, 0, 1, 30)?;
    expect(0, 65, 69)?;
    drop((own, late, foreign));
    stage.teardown()
}

fn claims_of_one_user_count_one_gpu_at_most() -> Verdict {
    let stage = stage()?;
    let [one, other] = USERS;
    let mut callers = Vec::new();
    for user in [one, one, one, other] {
        let mut caller = process_of(user)?;
        must_claim(&mut caller, 0, 80, 30)?;
        callers.push(caller);
    }
    expect(0, 4, 180)?;
    drop(callers);
    expect(0, 0, 0)?;
    stage.teardown()
}

fn claims_end_when_the_module_is_loaded_anew() -> Verdict {
    let stage = stage()?;
    let mut caller = process_of(USERS[0])?;
    let seen = must_claim(&mut caller, 0, 60, 30)?;
    stage.remove_loga()?;
    stage.add_loga("")?;
    let now = claimed(0)?;
    ensure!(
        (now.count, now.pct) == (0, 0) && now.seen > seen,
        "{now:?} after number {seen}"
    );
    // Figures from before are none of now.
    let stale = ask(&mut caller, &format!("claim 0 60 30 {seen}"))?;
    ensure!(stale.code == uapi::REFUSED_CHANGED, "{stale:?}");
    drop(caller);
    stage.teardown()
}

/// What a snapshot says of the claims on its GPU.
fn shown(info: &uapi::Gpu) -> Claimed {
    Claimed {
        count: info.claims,
        pct: info.claimed_pct,
        seen: info.claims_seen,
    }
}

fn client_on_none_of_the_gpus_that_it_has_claimed_is_reported() -> Verdict {
    let stage = stage()?;
    let calls = Calls::open()?;
    calls
        .subscribe(1 << uapi::EVENT_ELSEWHERE)
        .map_err(|errno| errno.to_string())?;
    // All open GPU 0.
    let [mut here, mut elsewhere, mut without] = [Caller::new()?, Caller::new()?, Caller::new()?];
    must_claim(&mut here, 0, 40, 30)?;
    must_claim(&mut here, 1, 40, 30)?;
    must_claim(&mut elsewhere, 1, 40, 30)?;
    for caller in [&mut here, &mut elsewhere, &mut without] {
        caller.ask("open 2")?;
    }
    let events = calls.events()?;
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            (
                u32::try_from(event.pid).unwrap_or(0),
                event.gpu,
                event.value,
            )
        })
        .collect();
    ensure!(told == [(elsewhere.pid(), 0, 1)], "{events:?}");
    drop((here, elsewhere, without));
    // An open device keeps the module.
    drop(calls);
    stage.teardown()
}
