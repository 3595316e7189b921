// SPDX-License-Identifier: GPL-2.0

//! The scenarios. Each loads the module as it needs it, runs processes, and compares what
//! LoGA says with what the model did, between two points in time.

use crate::figure::Figures;
use crate::load::{Load, Running};
use crate::machine::{self, Moment};
use std::thread::sleep;
use std::time::Duration;

/// Time for processes to set up and for LoGA to see them all, in seconds.
const WARM_UP_S: f64 = 0.5;
/// Seed of all loads.
const SEED: u64 = 1;

/// Kernel lengths of the paper's figures 9 and 10.
const LENGTHS_US: [u64; 10] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000];
/// The hog of the demo: kernels of 1000 us back to back.
const HOG: Load = Load::new(1000, 0);
/// A light client of the demo.
const LIGHT: Load = Load::new(200, 800);

/// What happened between two points in time.
struct Window {
    before: Moment,
    after: Moment,
    pids: Vec<u64>,
    reports: Vec<serde_json::Value>,
}

/// Runs loads together and observes `seconds` of them.
fn observe(loads: &[Load], seconds: f64) -> Result<Window, String> {
    let total = WARM_UP_S + seconds + 0.1;
    let running: Vec<Running> = loads
        .iter()
        .zip(SEED..)
        .map(|(load, seed)| load.start(total, seed))
        .collect::<Result<_, _>>()?;
    sleep(Duration::from_secs_f64(WARM_UP_S));
    let before = Moment::now()?;
    sleep(Duration::from_secs_f64(seconds));
    let after = Moment::now()?;
    let reports: Vec<serde_json::Value> = running
        .into_iter()
        .map(Running::finish)
        .collect::<Result<_, _>>()?;
    let pids = reports
        .iter()
        .map(|report| {
            report["instances"][0]["pid"]
                .as_u64()
                .ok_or_else(|| "throttle reports no pid".to_owned())
        })
        .collect::<Result<_, _>>()?;
    Ok(Window {
        before,
        after,
        pids,
        reports,
    })
}

impl Window {
    /// Share of the time in which the model ran a process, in percent.
    fn true_share(&self, pid: u64) -> f64 {
        let busy = self.after.busy_ns(pid) - self.before.busy_ns(pid);
        100.0 * busy / (self.after.truth_ns - self.before.truth_ns)
    }

    /// The same as LoGA estimates it.
    fn loga_share(&self, pid: u64) -> f64 {
        let used = self.after.gpu_time_ns(pid) - self.before.gpu_time_ns(pid);
        100.0 * used / (self.after.decided_ns() - self.before.decided_ns())
    }

    /// Mean length of a run as LoGA measures it, in ns.
    fn loga_run_ns(&self, pid: u64) -> f64 {
        let held = self.after.measured_ns(pid) - self.before.measured_ns(pid);
        held / (self.after.runs(pid) - self.before.runs(pid))
    }

    /// Mean length of a command in the model's log, in ns.
    fn true_run_ns(&self, pid: u64) -> f64 {
        let busy = self.after.busy_ns(pid) - self.before.busy_ns(pid);
        busy / (self.after.commands(pid) - self.before.commands(pid))
    }
}

/// Figure 9: one client at full load, polled all the time.
pub(crate) fn kernel_length(figures: &mut Figures) -> Result<(), String> {
    machine::load("policy=none poll_always=1")?;
    for length_us in LENGTHS_US {
        let load = Load {
            spin: true,
            ..Load::new(length_us, 0)
        };
        let window = observe(&[load], 1.0)?;
        let (measured, truth) = (
            window.loga_run_ns(window.pids[0]),
            window.true_run_ns(window.pids[0]),
        );
        let name = format!("error of the mean length, {length_us} us kernels");
        let error = 100.0 * (measured - truth) / truth;
        figures.check("kernel-length", &name, error, "%", -1.0..=1.0);
    }
    Ok(())
}

/// Figure 10: cycles of 1000 us with one kernel each, polled all the time.
pub(crate) fn load(figures: &mut Figures) -> Result<(), String> {
    machine::load("policy=none poll_always=1")?;
    for length_us in LENGTHS_US {
        let load = Load {
            cycle_us: Some(1000),
            spin: true,
            ..Load::new(length_us, 0)
        };
        let window = observe(&[load], 1.0)?;
        let pid = window.pids[0];
        let name = format!("error of the load, {length_us} us in 1000 us");
        let error = window.loga_share(pid) - window.true_share(pid);
        figures.check("load", &name, error, "points", -0.5..=0.5);
    }
    Ok(())
}

/// Default duty: the share of each client, for the demo and for ten small clients.
pub(crate) fn duty(figures: &mut Figures) -> Result<(), String> {
    machine::load("policy=none")?;
    for (mix, loads) in [
        ("demo", vec![HOG, LIGHT, LIGHT, LIGHT]),
        ("ten of 10/1000", vec![Load::new(10, 1000); 10]),
    ] {
        let window = observe(&loads, 10.0)?;
        for (at, pid) in window.pids.iter().enumerate() {
            let error = window.loga_share(*pid) - window.true_share(*pid);
            let name = format!("{mix}: error of the share of client {at}");
            figures.check("duty", &name, error, "points", -2.0..=2.0);
        }
    }
    Ok(())
}

/// Enforcing: shares as the model logged them, against the reference calculation.
pub(crate) fn enforce(figures: &mut Figures) -> Result<(), String> {
    let back_to_back = [HOG, Load::new(100, 0), Load::new(100, 0), Load::new(100, 0)];
    let demo = [HOG, LIGHT, LIGHT, LIGHT];
    for (mix, loads, targets) in [
        (
            "1000 and 3 of 100",
            back_to_back,
            [23.0..=28.0, 23.0..=28.0],
        ),
        ("demo", demo, [24.0..=30.0, 15.3..=18.3]),
    ] {
        for (enforce, label) in [(false, "free"), (true, "enforced")] {
            machine::load(&format!("policy=event enforce={}", u8::from(enforce)))?;
            // More than 20 periods of 48 channels at 1 + 5 ms each.
            let window = observe(&loads, 7.0)?;
            for (at, pid) in window.pids.iter().enumerate() {
                let name = format!("{mix}, {label}: share of client {at}");
                let share = window.true_share(*pid);
                if enforce {
                    let target = targets[usize::from(at > 0)].clone();
                    figures.check("enforce", &name, share, "%", target);
                } else {
                    figures.tell("enforce", &name, share, "%");
                }
            }
            machine::unload();
        }
    }
    Ok(())
}

/// Accounting only: turnaround with the module against without, and against a control
/// with an equally busy thread in the poller's place.
pub(crate) fn overhead(figures: &mut Figures) -> Result<(), String> {
    let turnaround = |window: &Window| {
        window.reports[0]["instances"][0]["turnaround_mean_us"]
            .as_f64()
            .ok_or_else(|| "throttle reports no mean turnaround".to_owned())
    };
    let measure = |modules: Option<&str>, control: bool| -> Result<f64, String> {
        match modules {
            Some(parameters) => machine::load(parameters)?,
            None => machine::load_model_only()?,
        }
        let busy = control.then(machine::Control::start);
        let window = observe(&[HOG], 3.0)?;
        drop(busy);
        machine::unload();
        turnaround(&window)
    };
    let alone = measure(None, false)?;
    let control = measure(None, true)?;
    let loaded = measure(Some("policy=event"), false)?;
    figures.tell("overhead", "turnaround without LoGA", alone, "us");
    figures.tell("overhead", "the same beside a busy thread", control, "us");
    figures.tell("overhead", "turnaround with LoGA accounting", loaded, "us");
    figures.check(
        "overhead",
        "slow-down",
        100.0 * (loaded / alone - 1.0),
        "%",
        -0.5..=0.5,
    );
    figures.tell(
        "overhead",
        "slow-down beyond the busy thread",
        100.0 * (loaded / control - 1.0),
        "%",
    );
    Ok(())
}

/// What polling and holding back cost, and what LoGA keeps.
pub(crate) fn costs(figures: &mut Figures) -> Result<(), String> {
    machine::load("policy=event enforce=1")?;
    sleep(Duration::from_secs(1));
    let quiet = Moment::now()?;
    figures.check(
        "costs",
        "polls in 1 s without an open GPU",
        quiet.polls(),
        "polls",
        0.0..=0.0,
    );
    let window = observe(&[HOG, Load::new(100, 0)], 20.0)?;
    let (before, after) = (&window.before, &window.after);
    let polls = after.polls() - before.polls();
    let reads = (after.reads() - before.reads()) / polls;
    figures.check(
        "costs",
        "register reads per poll",
        reads,
        "reads",
        1.0..=1.01,
    );
    let iteration = (after.polled_ns() - before.polled_ns()) / polls;
    figures.tell("costs", "poll iteration", iteration, "ns");
    machine::costs(figures)
}
