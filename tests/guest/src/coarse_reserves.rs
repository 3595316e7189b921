// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests of reserves while submissions are not decided on, with real processes. Shares are
//! those of the model's own log.

use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::sharing::{over, BUSY, PROMPT};
use crate::specs::{cleared, on_all, reserve, set, specs};
use crate::stage::{Stage, EXACT};
use crate::sysfs;
use loga::uapi;
use std::time::{Duration, Instant};

crate::ktap::tests![
    reserve_without_dispatch_is_a_part_of_the_gpu: timed slow,
    reserve_without_dispatch_is_refused_where_its_period_is_too_short,
];

/// Short phases, each of another length, so that clients do not run in step with them.
const MAXMIN: &str = "policy=maxmin enforce=1";
/// In milliseconds, of the GPU's time.
const WINDOW: u64 = 6_000;

/// The shortest period of a reserve that is not refused, in microseconds.
fn shortest_us(pid: u32) -> Result<u64, String> {
    let short = reserve(pid, uapi::RESERVE_PE, 1_000, 10_000);
    let (result, refusal) = Calls::open()?.set_spec(&on_all(short));
    if result.is_ok() || refusal.code != uapi::REFUSED_SHORT || refusal.value != 10_000 {
        return Err(format!("a period of 10 ms: {result:?}, {refusal}"));
    }
    Ok(refusal.min)
}

/// By how many percentage points a reserve may be off in [`WINDOW`]: its capacity, and a polling
/// period at each end, since shares are measured from any time on.
fn off(capacity_us: u64, shortest_us: u64) -> f64 {
    (capacity_us + shortest_us / 2) as f64 / 10.0 / WINDOW as f64
}

fn reserve_without_dispatch_is_a_part_of_the_gpu() -> Verdict {
    let stage = Stage::set(PROMPT, &format!("{MAXMIN} {EXACT}"))?;
    let loads = [Load::start(BUSY)?, Load::start(BUSY)?, Load::start(BUSY)?];
    stage.wait_until_all_measured(&loads)?;
    let all = [&loads[0], &loads[1], &loads[2]];
    let shortest = shortest_us(loads[0].pid())?;
    let period = shortest.max(400_000);
    for (percent, soft) in [(60, false), (30, true)] {
        let capacity = period * percent / 100;
        let mut wanted = reserve(loads[0].pid(), uapi::RESERVE_PE, capacity, period);
        wanted.flags = if soft { uapi::SPEC_SOFT } else { 0 };
        set(wanted)?;
        let before = specs()?.first().copied().ok_or("nothing is listed")?;
        let off = off(capacity, shortest);
        // A soft one has its part of the rest too, which is divided by the policy.
        let part = match soft {
            true => percent as f64 + (100 - percent) as f64 / 3.0,
            false => percent as f64,
        };
        over(all, 1000, WINDOW, |got| {
            println!("# {percent} %, soft {soft}: {got:?}, within {off:.1}");
            // Switching and idle time belongs to no client.
            let sum: f64 = got.iter().sum();
            within("percent of all", sum, 94.0..)?;
            let of_sum = got[0] / sum * 100.0;
            within("percent of the reserve", of_sum, part - off..=part + off)?;
            let rest = (sum - got[0]) / 2.0;
            within("of the others", got[1], rest - off..=rest + off)
        })?;
        let listed = specs()?.first().copied().ok_or("nothing is listed")?;
        ensure!(listed.promise == uapi::PROMISE_SHARE, "{listed:?}");
        let used = listed.used_ns - before.used_ns;
        within(
            "ns charged to it",
            used,
            WINDOW * 1_000_000 * percent / 200..,
        )?;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    // TIMEOUT: many periods.
    while stage
        .client(loads[1].pid())?
        .is_none_or(|other| other.throttled_by != "reserve")
    {
        ensure!(
            Instant::now() < deadline,
            "another client never waited for the reserve"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let (result, refusal) = Calls::open()?.set_spec(&cleared(loads[0].pid()));
    ensure!(result.is_ok(), "{refusal}");
    over(all, 1000, WINDOW, |got| {
        println!("# without: {got:?}");
        let third = got.iter().sum::<f64>() / 3.0;
        within("percent without it", got[0], third - 3.0..=third + 3.0)
    })?;
    stage.check_no_fallback()?;
    drop(loads);
    stage.teardown()
}

fn reserve_without_dispatch_is_refused_where_its_period_is_too_short() -> Verdict {
    let stage = Stage::set(PROMPT, MAXMIN)?;
    let load = Load::start(BUSY)?;
    stage.wait_until_measured(load.pid())?;
    let pid = load.pid();
    let shortest = shortest_us(pid)?;
    ensure!(specs()?.is_empty(), "a refused reserve is listed");
    let promise = || -> Result<u64, String> {
        let listed = specs()?.first().copied().ok_or("nothing is listed")?;
        Ok(listed.promise)
    };
    // What is said to be right is.
    set(reserve(
        pid,
        uapi::RESERVE_CBS,
        10_000,
        shortest.max(200_000),
    ))?;
    ensure!(promise()? == uapi::PROMISE_SHARE, "nothing is promised");
    sysfs::write("enforce", "0")?;
    ensure!(promise()? == uapi::PROMISE_NONE, "promised without enforce");
    sysfs::write("enforce", "1")?;
    ensure!(promise()? == uapi::PROMISE_SHARE, "nothing is promised");
    // With each submission decided on, short ones are right; without, they promise nothing.
    sysfs::write("dispatch", "edf")?;
    set(reserve(pid, uapi::RESERVE_CBS, 1_000, 10_000))?;
    ensure!(promise()? == uapi::PROMISE_SHARE, "nothing is promised");
    sysfs::write("dispatch", "none")?;
    ensure!(promise()? == uapi::PROMISE_NONE, "a short one is promised");
    drop(load);
    stage.teardown()
}
