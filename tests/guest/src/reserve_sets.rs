// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Random sets of reserves: what is admitted is kept.

use crate::calls::Calls;
use crate::ktap::{ensure, Verdict};
use crate::load::Load;
use crate::specs::{on_all, reserve, specs, EDF};
use crate::stage::{Stage, EXACT, FINE};
use loga::uapi;
use std::time::Duration;
use throttle::random::Random;

crate::ktap::tests![
    random_sets_of_reserves_that_are_admitted_miss_no_deadline: timed slow,
    twenty_sets_of_up_to_eight_clients_miss_no_deadline: timed slow,
    twenty_other_sets_of_up_to_eight_clients_miss_no_deadline: timed slow,
];

/// Random sets, and the seed of the first of them.
const SETS: u32 = 6;
const SETS_SEED: u64 = 1;

/// Sets that vary, and by how many percent.
const VARYING: u32 = 20;
const JITTER: u64 = 10;

/// A client of a random set: frames of some kernels, one in every period, to be done within it.
struct Task {
    uid: u32,
    period_us: u64,
    kernels: u64,
    kernel_us: u64,
    /// By how many percent kernels and pauses vary.
    jitter: u64,
}

impl Task {
    /// One that uses about this part of the GPU.
    fn random(random: &mut Random, uid: u32, percent: u64) -> Self {
        let period_us = 10_000 << (random.next_u64() % 4);
        let kernels = 1 + (random.next_u64() % 4);
        let frame_us = period_us * percent / 100;
        Self {
            uid,
            period_us,
            kernels,
            kernel_us: (frame_us / kernels).clamp(200, 5_000),
            jitter: 0,
        }
    }

    /// One that is charged this part of the GPU at most, with kernels and pauses that vary; its frames
    /// come no sooner than its period after each other. Nothing if its kernels were too short.
    fn that_varies(random: &mut Random, uid: u32, percent: u64) -> Option<Self> {
        let period_us = 20_000 << (random.next_u64() % 4);
        let kernels = 1 + (random.next_u64() % 4);
        let charged_us = period_us * percent / 100;
        let frame_us = charged_us.saturating_sub(200) * 2 / if kernels > 1 { 3 } else { 2 };
        let kernel_us = (frame_us / kernels).saturating_sub(300) * 100 / (100 + JITTER);
        (kernel_us >= 200).then_some(Self {
            uid,
            period_us,
            kernels,
            kernel_us,
            jitter: JITTER,
        })
    }

    /// What its frames are charged at most, with each kernel as a submission of its own: 60 us, and
    /// up to 200 until its end is seen.
    fn frame_us(&self) -> u64 {
        self.kernels * (self.kernel_us * (100 + self.jitter) / 100 + 300)
    }

    /// The same if it passes as several submissions: where the whole frame is expected, the end of a
    /// part of it is seen when half of its time more has passed.
    fn charged_us(&self) -> u64 {
        let parts = if self.kernels > 1 { 1 } else { 0 };
        self.frame_us() + 200 + parts * self.frame_us() / 2
    }

    fn promise(&self) -> uapi::Spec {
        uapi::Spec {
            subject: uapi::SUBJECT_USER,
            id: self.uid.into(),
            // A whole frame may pass as one submission.
            longest_ns: (self.frame_us() + 200) * 1_000,
            // CAST: at most 4.
            commands: self.kernels as u32,
            ..reserve(0, uapi::RESERVE_CBS, self.charged_us(), self.period_us)
        }
    }

    fn start(&self) -> Result<Load, String> {
        let Self {
            period_us,
            kernels,
            kernel_us,
            jitter,
            ..
        } = self;
        // The shortest is a period.
        let cycle_us = period_us * 100 / (100 - jitter);
        let line = format!(
            "--kernel-us {kernel_us} --kernels-per-frame {kernels} --depth {kernels} --jitter {jitter} \
             --cycle-us {cycle_us} --deadline-us {period_us} --wait block"
        );
        Load::start_as(self.uid, &line)
    }
}

/// Two or three clients that use 10 to 70 % together.
fn a_few(random: &mut Random) -> Option<Vec<Task>> {
    let clients = 2 + (random.next_u64() % 2);
    let percent = (10 + (random.next_u64() % 60)) / clients;
    // CAST: a few.
    let task = |client| Task::random(random, 1_000 + client as u32, percent);
    Some((0..clients).map(task).collect())
}

/// Two to eight clients that are promised 40 to 80 % together.
fn up_to_eight(random: &mut Random) -> Option<Vec<Task>> {
    let clients = 2 + (random.next_u64() % 7);
    let percent = (40 + (random.next_u64() % 41)) / clients;
    // CAST: a few.
    let task = |client| Task::that_varies(random, 1_000 + client as u32, percent);
    (0..clients).map(task).collect()
}

/// Frames of a random set beside a client without a reserve, and the late ones; nothing if one of
/// its promises was refused.
fn frames_of_a_set(
    random: &mut Random,
    set: fn(&mut Random) -> Option<Vec<Task>>,
) -> Result<Option<(u64, u64)>, String> {
    let hog_us = 200 + (random.next_u64() % 1_800);
    let Some(tasks) = set(random) else {
        return Ok(None);
    };
    let stage = Stage::set(FINE, &format!("{EDF} {EXACT}"))?;
    let hog = Load::start(&format!("--kernel-us {hog_us} --wait block"))?;
    stage.wait_until_measured(hog.pid())?;
    for task in &tasks {
        let (result, refusal) = Calls::open()?.set_spec(&on_all(task.promise()));
        if result.is_err() {
            println!("# hog {hog_us} us, {} clients: {refusal}", tasks.len());
            hog.stop()?;
            stage.teardown()?;
            return Ok(None);
        }
    }
    let loads: Vec<Load> = tasks.iter().map(Task::start).collect::<Result<_, _>>()?;
    std::thread::sleep(Duration::from_millis(2_500));
    let stat = stage.stat()?;
    for client in &stat.clients {
        let waits = [
            client.submission_wait_budget_ns,
            client.submission_wait_order_ns,
            client.submission_wait_running_ns,
        ];
        let [budget, order, running] = waits.map(|ns| ns / 1_000);
        println!(
            "# uid {}: {} turns, waited {budget} us for its budget, {order} for others, {running} for what ran",
            client.uid, client.submissions
        );
    }
    let (mut count, mut late) = (0, 0);
    for (task, load) in tasks.iter().zip(loads) {
        let frames = load.stop()?.summary.frames.ok_or("no frames")?;
        println!(
            "# hog {hog_us} us; {} of {} us in {} us: {} frames, {} late, longest {:.0} us",
            task.kernels, task.kernel_us, task.period_us, frames.count, frames.late, frames.max_us
        );
        (count, late) = (count + frames.count, late + frames.late);
    }
    for one in specs()? {
        ensure!(one.promise == uapi::PROMISE_DEADLINE, "{one:?}");
        ensure!(one.misses.promised == 0, "{one:?}");
        let mean_us = one.used_ns / one.served.max(1) / 1_000;
        let (longest_us, breaches) = (one.longest_seen_ns / 1_000, one.breaches);
        let (left, served) = (one.left_ns / 1_000, one.served);
        println!(
            "# {served} submissions of {mean_us} us, longest {longest_us}, {breaches} breaches, {left} us left, {:?}",
            one.misses
        );
    }
    hog.stop()?;
    stage.teardown()?;
    Ok(Some((count, late)))
}

fn random_sets_of_reserves_that_are_admitted_miss_no_deadline() -> Verdict {
    let mut random = Random::new(SETS_SEED);
    let (mut admitted, mut frames) = (0, 0);
    for _ in 0..SETS {
        if let Some((count, late)) = frames_of_a_set(&mut random, a_few)? {
            ensure!(late == 0, "{late} of {count} frames are late");
            (admitted, frames) = (admitted + 1, frames + count);
        }
    }
    println!("# {admitted} of {SETS} sets admitted, {frames} frames");
    ensure!(admitted >= SETS / 3, "{admitted} of {SETS}");
    Ok(())
}

/// Sets until enough are admitted, each without a late frame.
fn varying_sets(seed: u64) -> Verdict {
    let mut random = Random::new(seed);
    let (mut admitted, mut tried, mut frames) = (0, 0, 0);
    while admitted < VARYING {
        tried += 1;
        ensure!(tried < 100 * VARYING, "{admitted} of {tried} admitted");
        if let Some((count, late)) = frames_of_a_set(&mut random, up_to_eight)? {
            ensure!(late == 0, "{late} of {count} frames are late");
            (admitted, frames) = (admitted + 1, frames + count);
        }
    }
    println!("# {admitted} of {tried} sets admitted, {frames} frames, none late");
    Ok(())
}

fn twenty_sets_of_up_to_eight_clients_miss_no_deadline() -> Verdict {
    varying_sets(1)
}

fn twenty_other_sets_of_up_to_eight_clients_miss_no_deadline() -> Verdict {
    varying_sets(2)
}
