// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Deadlines before the end of their period.

use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::limits::within;
use crate::load::Load;
use crate::specs::{firm, on_all, set, specs, EDF};
use crate::stage::{Stage, EXACT, FINE};
use loga::uapi;
use std::time::Duration;
use throttle::statistics::Frames;

crate::ktap::tests![reserve_that_is_due_early_keeps_the_frames_beside_one_with_longer_deadlines: timed];

/// Frames of two kernels of 500 us, one every 40 ms, to be done within 6 ms.
const FRAMES: &str =
    "--kernel-us 500 --kernels-per-frame 2 --depth 2 --cycle-us 40000 --deadline-us 6000 --wait block";

/// A reserve for the frames, which are due so many microseconds after they came.
fn promise(deadline_us: u64) -> uapi::Spec {
    uapi::Spec {
        subject: uapi::SUBJECT_USER,
        id: 1000,
        // Two kernels: as one submission, or as two.
        commands: 2,
        deadline_ns: deadline_us * 1_000,
        ..firm(0, 1_600, 40_000, 1_400)
    }
}

/// Frames of a user beside clients with kernels of 2 ms: one that always wants more with a reserve
/// of its own, whose deadlines are promised too, and two without.
fn frames_due_after(deadline_us: u64) -> Result<Frames, String> {
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let hogs = ["--kernel-us 2000 --wait block"; 3].map(Load::start);
    let hogs: Vec<Load> = hogs.into_iter().collect::<Result<_, _>>()?;
    stage.wait_until_all_measured(&hogs)?;
    // A command of 2 ms may come before it, and 90 % of 3.5 ms are less than both.
    let (result, refusal) = Calls::open()?.set_spec(&on_all(promise(3_500)));
    println!("# {refusal}");
    ensure!(
        result.is_err() && refusal.code == uapi::REFUSED_COMMAND,
        "{refusal:?}"
    );
    ensure!(refusal.to_string().contains("a deadline of "), "{refusal}");
    ensure!((3_500..6_000).contains(&refusal.min), "{refusal:?}");
    // What it says would do does.
    set(promise(refusal.min))?;
    set(promise(deadline_us))?;
    // Its periods drift past those of the frames.
    set(uapi::Spec {
        commands: 2,
        ..firm(hogs[0].pid(), 6_600, 19_000, 2_400)
    })?;
    let frames = Load::start_as(1000, FRAMES)?;
    std::thread::sleep(Duration::from_secs(5));
    let frames = frames.stop()?.summary.frames.ok_or("no frames")?;
    println!("# due after {deadline_us} us: {frames:?}");
    for one in specs()? {
        println!("# {one:?}");
        ensure!(one.promise == uapi::PROMISE_DEADLINE, "{one:?}");
        ensure!(one.misses == uapi::Misses::default(), "{one:?}");
    }
    Load::stop_all(hogs)?;
    stage.teardown()?;
    Ok(frames)
}

fn reserve_that_is_due_early_keeps_the_frames_beside_one_with_longer_deadlines() -> Verdict {
    // Due at the end of its period, a frame waits for what the other one has left of its own.
    let late = frames_due_after(40_000)?;
    let early = frames_due_after(6_000)?;
    ensure!(early.late == 0 && early.count > 100, "{early:?}");
    // A kernel of it is 2 ms.
    let sooner = late.p95_us - early.p95_us;
    within("us sooner, 95 % of the frames", sooner, 700.0..)?;
    Ok(())
}
