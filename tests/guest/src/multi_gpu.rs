// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tests with several GPUs.

use crate::caller::Caller;
use crate::dispatch::{start_nice, PRIO};
use crate::ktap::{ensure, Verdict};
use crate::limits::{self, within};
use crate::load::Load;
use crate::stage::{client_of, Stage, LAZY, LONG_PHASES};
use crate::threads;
use crate::tracefs::Trace;
use crate::truth::Truth;
use loga_cli::device::{Device, Snapshot};
use loga_cli::stat::Stat;
use std::time::{Duration, Instant};

crate::ktap::tests![
    two_gpus_are_accounted_apart: timed,
    two_gpus_throttle_apart,
    two_gpus_decide_on_submissions_apart,
    six_gpus_are_accounted_by_one_poller: timed,
    wrong_poller_is_refused,
];

/// Time that shares are compared over, where all time is accounted in short phases.
const WINDOW: Duration = Duration::from_millis(1500);
/// The same where two pollers take turns on one processor, in phases of 24 ms and pauses of 120.
const LONG_WINDOW: Duration = Duration::from_millis(4_000);
/// Largest difference of two shares, in points, that is not chance: that of one GPU
/// (`accounting.rs`).
const POINTS: f64 = 2.0;
/// By how many points the share of one phase varies then: that of ten phases had a standard error of 1.4
/// points, that of 55 one of 0.6 (seven runs each).
const PHASE_POINTS: f64 = 4.4;

/// A load on one of the GPUs.
struct Placed {
    gpu: u32,
    load: Load,
}

impl Placed {
    fn start(gpu: u32, arguments: &str) -> Result<Self, String> {
        let load = Load::start(&format!("--gpu {gpu} {arguments} --wait block"))?;
        Ok(Placed { gpu, load })
    }
}

fn snapshots(gpus: u32) -> Result<Vec<Snapshot>, String> {
    let device = Device::open().map_err(|error| error.to_string())?;
    (0..gpus)
        .map(|gpu| device.snapshot(gpu).map_err(|error| error.to_string()))
        .collect()
}

/// Waits until every load has been measured on its GPU.
fn wait_until_measured(loads: &[Placed], gpus: u32) -> Verdict {
    let since = Instant::now();
    let measured = |now: &[Snapshot], placed: &Placed| {
        let stat = Stat::new(&now[placed.gpu as usize], None);
        client_of(&stat, placed.load.pid()).is_some_and(|client| client.measured_ns > 0)
    };
    while since.elapsed() < Duration::from_secs(10) {
        let now = snapshots(gpus)?;
        if loads.iter().all(|placed| measured(&now, placed)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err("a client was not measured within 10 s".to_owned())
}

/// Compares LoGA's shares on each GPU with those of the model over a window, in which the share of
/// one phase varies by so many points.
fn compare(loads: &[Placed], gpus: u32, window: Duration, phase_points: f64) -> Verdict {
    wait_until_measured(loads, gpus)?;
    for gpu in 0..gpus {
        Truth::reset_of(gpu)?;
    }
    let before = snapshots(gpus)?;
    std::thread::sleep(window);
    let after = snapshots(gpus)?;
    let mut worst: Verdict = Ok(());
    for (gpu, (before, after)) in (0..gpus).zip(before.iter().zip(&after)) {
        let stat = Stat::new(after, Some(before));
        let truth = Truth::read_of(gpu)?;
        let here: Vec<&Placed> = loads.iter().filter(|placed| placed.gpu == gpu).collect();
        ensure!(
            stat.clients.len() == here.len(),
            "{} clients on GPU {gpu}, not {}",
            stat.clients.len(),
            here.len()
        );
        for placed in here {
            let pid = placed.load.pid();
            let client = client_of(&stat, pid).ok_or("a client is missing")?;
            let (share, real) = (client.share.ok_or("no phases")?, truth.ran_share(pid));
            let line = format!(
                "GPU {gpu}: LoGA {:.2} %, model {:.2} %, {} decisions",
                share * 100.0,
                real * 100.0,
                stat.decisions
            );
            println!("# {line}");
            // CAST: a small number.
            let phases = stat.decisions.max(1) as f64;
            let most = POINTS + limits::SIGMAS * phase_points / phases.sqrt();
            let off = (share - real).abs() * 100.0;
            worst = worst.and(within("points off the model's", off, ..=most));
        }
    }
    worst
}

fn two_gpus_are_accounted_apart() -> Verdict {
    let stage = Stage::set(
        &format!("{LAZY} gpus=2"),
        "poller_cpu=1 randomize=1 poll_ms=4 accounting=burst",
    )?;
    let pollers = threads::named("loga-poll")?.len();
    ensure!(pollers == 2, "{pollers} pollers");
    let loads = [
        Placed::start(0, "--kernel-us 250 --channels 1")?,
        Placed::start(0, "--kernel-us 750 --channels 1")?,
        Placed::start(1, "--kernel-us 300 --sleep-us 700 --channels 3")?,
    ];
    compare(&loads, 2, LONG_WINDOW, PHASE_POINTS)?;
    drop(loads);
    stage.teardown()
}

fn two_gpus_throttle_apart() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), LONG_PHASES)?;
    let other = Placed::start(1, "--kernel-us 1000 --channels 1")?;
    let light = Placed::start(0, "--kernel-us 100 --channels 1")?;
    let mut hog = Caller::with_channels(1)?;
    hog.send("run 1000 20000")?;
    stage.wait_until_throttled(hog.pid())?;
    let now = snapshots(2)?;
    let stat = Stat::new(&now[1], None);
    let client = client_of(&stat, other.load.pid()).ok_or("no client on GPU 1")?;
    ensure!(
        client.throttled_count == 0,
        "throttled alone on its GPU: {client:?}"
    );
    ensure!(
        stat.clients.len() == 1,
        "{} clients on GPU 1",
        stat.clients.len()
    );
    ensure!(client_of(&stat, hog.pid()).is_none(), "the hog is on GPU 1");
    hog.kill()?;
    drop((hog, light, other));
    stage.teardown()
}

/// A client of a low priority waits for the one of a high priority on its own GPU only.
fn two_gpus_decide_on_submissions_apart() -> Verdict {
    let stage = Stage::set(&format!("{LAZY} gpus=2"), PRIO)?;
    let apart = Placed::start(1, "--kernel-us 1000 --channels 1")?;
    let mut low = Caller::with_channels(1)?;
    low.ask("store 100")?;
    let hog = start_nice(-10, "--gpu 0 --kernel-us 3000 --depth 4 --wait block")?;
    stage.wait_until_measured(hog.pid())?;
    let waited_us = low.ask("store 100")?[0];
    // TIMEOUT: it is granted once a second.
    within("us of a store beside the hog", waited_us, 100_000..)?;
    let now = snapshots(2)?;
    let [here, there] = [0, 1].map(|gpu: usize| now[gpu].info.submission_waits.order_ns);
    ensure!(here > 0, "nobody waited for another client on GPU 0");
    ensure!(there == 0, "{there} ns for other clients, alone on GPU 1");
    let kernels = apart.load.stop()?.summary.kernels;
    ensure!(kernels > 0, "no kernel on GPU 1");
    drop((low, hog));
    stage.teardown()
}

fn six_gpus_are_accounted_by_one_poller() -> Verdict {
    const GPUS: u32 = 6;
    let stage = Stage::set(
        &format!("{LAZY} gpus={GPUS}"),
        "poller=shared poller_cpu=1 randomize=0 accounting=burst",
    )?;
    let pollers = threads::named("loga-poll")?.len();
    ensure!(pollers == 1, "{pollers} pollers");
    let trace = Trace::of(&["loga/loga_phase_begin", "loga/loga_phase_end"], "mono")?;
    let loads: Vec<Placed> = (0..GPUS)
        .map(|gpu| {
            let sleep_us = 200 * gpu;
            Placed::start(
                gpu,
                &format!("--kernel-us 200 --sleep-us {sleep_us} --channels 4"),
            )
        })
        .collect::<Result<_, _>>()?;
    compare(&loads, GPUS, WINDOW, 0.0)?;
    let mut polled = None;
    let mut turns = 0_u32;
    for event in trace.read()? {
        let gpu = event.count("gpu")?;
        if event.name == "loga_phase_begin" {
            ensure!(
                polled.is_none(),
                "GPU {gpu} is polled together with {polled:?}"
            );
            polled = Some(gpu);
            turns += 1;
        } else if polled == Some(gpu) {
            polled = None;
        }
    }
    println!("# {turns} polling phases, one at a time");
    within("polling phases", turns, 101..)?;
    drop(trace);
    drop(loads);
    stage.teardown()
}

fn wrong_poller_is_refused() -> Verdict {
    let stage = Stage::without_loga(LAZY)?;
    for parameters in ["poller=both", "poller_cpu=1,99"] {
        ensure!(
            stage.add_loga(parameters).is_err(),
            "{parameters} was accepted"
        );
    }
    stage.add_loga("poller=shared poller_cpu=-1,1")?;
    stage.teardown()
}
