// SPDX-License-Identifier: GPL-2.0

//! An application beside throttles.

use crate::load::Load;
use crate::load::Running;
use crate::load::POLLER_CPU;
use crate::window::Window;
use loga_results::reduced::Application;
use loga_results::reduced::Throttles;
use loga_results::reduced::BEFORE_MS;
use nix::sched::sched_setaffinity;
use nix::sched::CpuSet;
use nix::unistd::Pid;
use std::thread::available_parallelism;
use std::thread::sleep;
use std::time::Duration;

/// TIMEOUT: throttles are stopped when the application has ended; if nobody does, they end after
/// this many seconds.
const LONGEST_S: f64 = 900.0;
/// Parts of a second in which GPU time is measured for the fair optimum.
const WATCHED_S: f64 = 2.0;

/// Has all processes that are started from now on keep off the poller's processor, as on a machine
/// with one set aside for it.
pub(super) fn apart() -> Result<(), String> {
    let failed = |error: nix::Error| format!("sched_setaffinity: {error}");
    // The virtual machine has two.
    let count = available_parallelism().map_or(2, |count| count.get().max(2));
    let mut cpus = CpuSet::new();
    for cpu in (0..count).filter(|cpu| *cpu != POLLER_CPU) {
        cpus.set(cpu).map_err(failed)?;
    }
    sched_setaffinity(Pid::from_raw(0), &cpus).map_err(failed)
}

fn load(application: &Application) -> Load {
    Load::new(application.kernel_us, application.pause_us)
}

fn others(throttles: Throttles) -> impl Iterator<Item = Load> {
    let one = Load::new(throttles.kernel_us, throttles.sleep_us);
    (0..throttles.count).map(move |_| one)
}

/// Runs an application that takes `ms` alone beside throttles; returns the time of an iteration,
/// which is a kernel and a pause, in us.
pub(super) fn turnaround(
    application: &Application,
    ms: u64,
    throttles: Throttles,
) -> Result<f64, String> {
    let running: Vec<Running> = others(throttles)
        .zip(1..)
        .map(|(load, seed)| load.start(LONGEST_S, seed))
        .collect::<Result<_, _>>()?;
    sleep(Duration::from_millis(BEFORE_MS));
    let load = Load {
        count: Some(application.kernels(ms)),
        ..load(application)
    };
    let own = load.start(LONGEST_S, 0).and_then(Running::finish);
    // All are stopped, even if one says that it failed.
    let stopped: Vec<_> = running.into_iter().map(Running::stop).collect();
    let stopped: Vec<_> = stopped.into_iter().collect::<Result<_, _>>()?;
    let own = own?;
    let waits = [&own].into_iter().chain(&stopped);
    let waits: Vec<_> = waits
        .map(|one| one.summary.turnaround_mean_us.round())
        .collect();
    println!("from submission to the end, us: {waits:?}");
    // CAST: nanoseconds of minutes are exact in a double.
    let took = own.end_ns.saturating_sub(own.start_ns) as f64;
    Ok(took / own.summary.kernels as f64 / 1000.0)
}

/// GPU time of an application and that of one of the throttles beside it on average, in ns, as LoGA
/// measures it.
pub(super) fn gpu_time(
    application: &Application,
    throttles: Throttles,
) -> Result<(f64, f64), String> {
    let loads: Vec<Load> = [load(application)]
        .into_iter()
        .chain(others(throttles))
        .collect();
    let window = Window::of(&loads, WATCHED_S)?;
    let sum: f64 = (1..loads.len()).map(|one| window.loga_time_ns(one)).sum();
    Ok((window.loga_time_ns(0), sum / f64::from(throttles.count)))
}
