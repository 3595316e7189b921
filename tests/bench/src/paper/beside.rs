// SPDX-License-Identifier: GPL-2.0

//! An application that runs with throttles.

use crate::load::{Load, Pattern};
use crate::window::Window;
use loga_results::reduced::{Application, BEFORE_MS};
use loga_results::Throttles;
use std::iter::repeat;
use std::thread::sleep;
use std::time::Duration;

/// TIMEOUT: throttles are stopped when the application has ended; a throttle that is not stopped
/// ends after this many seconds.
const LONGEST_S: f64 = 900.0;
/// Parts of a second in which GPU time is measured for the fair optimum.
const WATCHED_S: f64 = 1.0;

fn load(application: &Application) -> Pattern {
    Pattern::new(application.kernel_us, application.pause_us)
}

fn others(throttles: Throttles) -> impl Iterator<Item = Pattern> {
    let one = Pattern::new(throttles.kernel_us, throttles.sleep_us).varying(throttles.jitter);
    (0..throttles.count).map(move |_| one)
}

/// Weight of a load: that of every process, or such that no load reaches the limit of `sampling`.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Weighing {
    Alike,
    OutOfReach,
}

/// Settings of `loga run` for the lightest load, and for all others.
const LIGHT: &str = "--weight 1";
const HEAVY: &str = "--weight 10000";

/// Runs an application that takes `ms` alone, with throttles; returns the time of an iteration,
/// which is a kernel and a pause, in us.
pub(super) fn turnaround(
    application: &Application,
    ms: u64,
    throttles: Throttles,
    weighing: Weighing,
) -> Result<f64, String> {
    let weigh = |load: Pattern, share: &'static str| match weighing {
        Weighing::Alike => load,
        Weighing::OutOfReach => load.with(share),
    };
    let running: Vec<Load> = others(throttles)
        .zip([LIGHT].into_iter().chain(repeat(HEAVY)))
        .zip(1..)
        .map(|((load, share), seed)| weigh(load, share).start(LONGEST_S, seed))
        .collect::<Result<_, _>>()?;
    sleep(Duration::from_millis(BEFORE_MS));
    let load = Pattern {
        count: Some(application.kernels(ms)),
        ..load(application)
    };
    let own = weigh(load, HEAVY)
        .start(LONGEST_S, 0)
        .and_then(Load::finish);
    let stopped = Load::stop_all(running)?;
    let own = own?;
    let waits = [&own].into_iter().chain(&stopped);
    let waits: Vec<_> = waits
        .map(|one| one.summary.turnaround_mean_us.round())
        .collect();
    // CAST: nanoseconds of minutes are exact in a double.
    let took = own.end_ns.saturating_sub(own.start_ns) as f64;
    let each = took / own.summary.kernels as f64 / 1000.0;
    println!(
        "{}: {each:.1} us an iteration; from submission to the end, us: {waits:?}",
        application.name
    );
    Ok(each)
}

/// Figures of LoGA and of the model's log for an application and its throttles.
pub(super) struct Seen {
    /// GPU time of the application and that of one of the throttles on average, in ns, as LoGA
    /// measures it.
    pub(super) measured: (f64, f64),
    /// The same in the model's log, with the parts of context switches that LoGA counts too.
    pub(super) logged: (f64, f64),
    /// Times that LoGA saw the application on the GPU.
    pub(super) runs: u64,
    /// Kernels of the application.
    pub(super) kernels: u64,
}

/// Runs an application with throttles while LoGA accounts.
pub(super) fn watch(application: &Application, throttles: Throttles) -> Result<Seen, String> {
    let loads: Vec<Pattern> = [load(application)]
        .into_iter()
        .chain(others(throttles))
        .collect();
    let window = Window::of(&loads, WATCHED_S)?;
    let clients = window.observation(application.name).clients;
    let both = |of: &dyn Fn(usize) -> f64| {
        let sum: f64 = (1..loads.len()).map(of).sum();
        (of(0), sum / f64::from(throttles.count))
    };
    // CAST: nanoseconds of seconds.
    let logged = |one: usize| (clients[one].model_busy_ns + clients[one].model_switch_ns) as f64;
    Ok(Seen {
        measured: both(&|one| window.loga_time_ns(one)),
        logged: both(&logged),
        runs: clients[0].loga_runs,
        kernels: clients[0].model_commands,
    })
}

#[cfg(test)]
mod tests {
    use super::{HEAVY, LIGHT};
    use loga_results::reduced::WEIGHTS;

    #[test]
    fn weights_are_those_that_the_simulator_uses() {
        let given = [LIGHT, HEAVY].map(|share| share.trim_start_matches("--weight ").parse());
        assert_eq!(given, WEIGHTS.map(Ok));
    }
}
