// SPDX-License-Identifier: GPL-2.0

//! Cost and error of accounting.
//!
//! *Cost of sparse accounting*: the loss of a thread that only counts. In instruction-count mode
//! all processors share one clock, and all instructions of other threads are missing from the
//! count: samples with the entry and exit of their interrupts, decisions, starts of the timer. The
//! difference between a run with LoGA and one without is the whole cost if the clients do the same
//! work in both: each runs a number of kernels, and the count goes on to the same time after all
//! have ended.
//!
//! *Cost of burst accounting*: the run time of LoGA's threads. Polling mostly waits, so it takes
//! less of a count while it shares the clock; the threads' run time is the load of a core.
//!
//! *Error*: LoGA's share of each client against the model's log, in many windows of two seconds.
//! The model shows a command as running until the interrupt of its timer has served its end, but
//! logs the planned end. That makes LoGA see less idle time under any accounting; the figure is
//! reported.

use crate::figure::Findings;
use crate::load::Pattern;
use crate::scenarios::{HOG, LIGHT};
use crate::stage::{Stage, FINE};
use crate::threads::count;
use crate::window::Window;
use loga_results::stats::{mean, quantile};
use procfs::process::{all_processes, Stat};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Length of a window, in seconds.
const WINDOW_S: f64 = 2.0;
/// Windows that errors are taken from.
const WINDOWS: u32 = 20;
/// Kernels that each client runs while something is counted.
const COUNTED_KERNELS: u64 = 2_000;
/// Length of a count: longer than the clients take for their kernels.
const COUNTED_FOR: Duration = Duration::from_secs(6);
/// During a count: the model's timers run on CPU 0, and samples on the same processor disturb the
/// count least.
const COUNTED: &str = "accounting=sparse policy=none poller_cpu=0";
/// While shares are compared: on CPU 0 samples would be late just when the engine changes channels.
const COMPARED: &str = "accounting=sparse policy=none poller_cpu=1";

/// During a count the model rarely scans for work: its instructions for an idle GPU depend on the
/// other threads, and would hide those of LoGA.
const QUIET_MODEL: &str = "doorbell_us=100";

/// The mix of the demo.
pub(crate) fn demo(findings: &mut Findings) -> Result<(), String> {
    sparse(findings, "demo", &[HOG, LIGHT, LIGHT, LIGHT])
}

/// Ten small clients.
pub(crate) fn small(findings: &mut Findings) -> Result<(), String> {
    sparse(findings, "ten of 10/1000", &[Pattern::new(10, 1000); 10])
}

/// Cost and error of sparse accounting, with clients and with one alone.
fn sparse(findings: &mut Findings, mix: &str, loads: &[Pattern]) -> Result<(), String> {
    let (cost, samples) = cost_beside(loads)?;
    findings.check(&format!("{mix}: CPU time, sparse"), cost, "%", 0.0..=1.0);
    samples.record(findings, mix);
    // Samples become rare after a second.
    let (cost, _) = cost_beside(&loads[..1])?;
    findings.record(
        &format!("{mix}, the first alone: CPU time, sparse"),
        cost,
        "%",
    );
    let _stage = Stage::measured(FINE, COMPARED)?;
    let windows = Window::several(loads, WINDOW_S, WINDOWS)?;
    errors(findings, &format!("{mix}, sparse"), &windows, Some(1.0));
    Ok(())
}

/// Cost and error of burst accounting with pauses of several lengths.
pub(crate) fn burst(findings: &mut Findings) -> Result<(), String> {
    let loads = [HOG, LIGHT, LIGHT, LIGHT];
    for ratio in [5, 20, 100] {
        // Phases that grow with active clients: with those of the paper, a period of 1:100 is
        // longer than a window.
        let parameters = format!("policy=none randomize=1 ratio={ratio}");
        let _stage = Stage::measured(FINE, &parameters)?;
        let windows = Window::several(&loads, WINDOW_S, WINDOWS / 2)?;
        let sum = |pick: fn(&Window) -> f64| windows.iter().map(pick).sum::<f64>();
        let name = format!("demo, burst 1:{ratio}");
        let polled: u64 = windows.iter().map(|window| window.stat.polled_ns).sum();
        let span: u64 = windows.iter().map(|window| window.stat.span_ns).sum();
        // CAST: nanoseconds of minutes are exact in a double.
        let polled = 100.0 * polled as f64 / span as f64;
        let cost = 100.0 * sum(|window| window.threads_ms) / sum(Window::length_ms);
        let most = 100.0 / f64::from(1 + ratio) + 0.5;
        findings.check(&format!("{name}: CPU time"), cost, "%", 0.0..=most);
        findings.record(&format!("{name}: polled"), polled, "%");
        errors(findings, &name, &windows, None);
    }
    Ok(())
}

/// Notes the error that 95 % of the windows stay below, of the worst client, and LoGA's stated
/// bound.
fn errors(findings: &mut Findings, name: &str, windows: &[Window], most: Option<f64>) {
    let clients = windows.first().map_or(0, Window::len);
    let mut worst = (0.0, 0.0, 0.0);
    let (mut within, mut all) = (0u32, 0u32);
    for client in 0..clients {
        let error = |window: &Window| window.loga_share(client) - window.ran_share(client);
        let size = quantile(windows.iter().map(|window| error(window).abs()), 95);
        let size = size.unwrap_or(f64::NAN);
        let stated = windows.iter().map(|window| window.stated_error(client));
        let stated: Vec<f64> = stated.collect();
        for (window, stated) in windows.iter().zip(&stated) {
            all += 1;
            within += u32::from(error(window).abs() <= *stated);
        }
        if size > worst.0 {
            worst = (size, mean(windows.iter().map(error)), mean(stated));
        }
    }
    let label = format!(
        "{name}: error of the share, 95 % of {} windows",
        windows.len()
    );
    findings.check(&label, worst.0, "points", most.map(|most| 0.0..=most));
    let label = format!("{name}: mean error of that client");
    findings.record(&label, worst.1, "points");
    if most.is_some() {
        findings.record(&format!("{name}: its stated bound"), worst.2, "points");
        let within = 100.0 * f64::from(within) / f64::from(all);
        findings.record(&format!("{name}: shares within their bound"), within, "%");
    }
    let idle = windows.iter().map(Window::idle_shares);
    let (loga, model): (Vec<_>, Vec<_>) = idle.unzip();
    findings.record(&format!("{name}: idle, LoGA"), mean(loga), "%");
    findings.record(&format!("{name}: idle, model"), mean(model), "%");
}

/// LoGA's use of a processor while these loads run, in percent, and its samples.
fn cost_beside(loads: &[Pattern]) -> Result<(f64, Samples), String> {
    let _stage = Stage::without_loga(QUIET_MODEL)?;
    let without = Beside::count(loads)?;
    let _stage = Stage::measured(QUIET_MODEL, COUNTED)?;
    let before = Samples::now()?;
    let with = Beside::count(loads)?;
    let samples = Samples::now()?.since(&before, with.busy_s);
    let lost_s = (without.counted - with.counted) / without.per_second;
    Ok((100.0 * lost_s / with.busy_s, samples))
}

/// The count of a thread while loads run.
struct Beside {
    counted: f64,
    /// Its count while nothing else runs.
    per_second: f64,
    /// How long the loads ran.
    busy_s: f64,
}

impl Beside {
    fn count(loads: &[Pattern]) -> Result<Self, String> {
        let count = count();
        let (begin, before) = (Instant::now(), count.rounds());
        let running: Vec<_> = loads
            .iter()
            .zip(1..)
            .map(|(load, seed)| load.counted(COUNTED_KERNELS).start(0.0, seed))
            .collect::<Result<_, _>>()?;
        for one in running {
            one.finish()?;
        }
        let busy = begin.elapsed();
        let rest = COUNTED_FOR.checked_sub(begin.elapsed());
        sleep(rest.ok_or_else(|| format!("the loads ran for {busy:?}, not {COUNTED_FOR:?}"))?);
        let counted = count.rounds() - before;
        let (since, before) = (Instant::now(), count.rounds());
        sleep(Duration::from_millis(500));
        Ok(Self {
            // CAST: (both) some hundred millions.
            counted: counted as f64,
            per_second: (count.rounds() - before) as f64 / since.elapsed().as_secs_f64(),
            busy_s: busy.as_secs_f64(),
        })
    }
}

/// LoGA's figures of its samples.
#[derive(Default)]
struct Samples {
    samples: f64,
    spent_ns: f64,
    late_ns: f64,
    /// Time of the samples, where it is known.
    during_s: f64,
}

impl Samples {
    fn now() -> Result<Self, String> {
        let path = "/sys/kernel/debug/loga/costs";
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let line = text.lines().find(|line| line.starts_with("gpu0 samples "));
        let words: Vec<&str> = line.unwrap_or("").split_whitespace().collect();
        let [_, _, samples, _, spent, _, late] = words[..] else {
            return Err(format!("{path}: no line about samples"));
        };
        let number = |word: &str| word.parse().map_err(|_| format!("{path}: {word}"));
        Ok(Samples {
            samples: number(samples)?,
            spent_ns: number(spent)?,
            late_ns: number(late)?,
            during_s: 0.0,
        })
    }

    fn since(&self, before: &Samples, during_s: f64) -> Samples {
        Samples {
            samples: self.samples - before.samples,
            spent_ns: self.spent_ns - before.spent_ns,
            late_ns: self.late_ns - before.late_ns,
            during_s,
        }
    }

    fn record(&self, findings: &mut Findings, mix: &str) {
        let each = |name: &str| format!("{mix}: {name} of a sample");
        findings.record(
            &each("time inside the callback"),
            self.spent_ns / self.samples,
            "ns",
        );
        findings.record(&each("lateness"), self.late_ns / self.samples, "ns");
        let rate = self.samples / self.during_s;
        findings.record(&format!("{mix}: samples per second"), rate, "");
    }
}

/// Run time of LoGA's threads, in ms.
pub(crate) fn threads_ms() -> Result<f64, String> {
    let all = all_processes().map_err(|error| error.to_string())?;
    // Processes come and go.
    let stats = all.flatten().filter_map(|process| process.stat().ok());
    let is_ours = |stat: &Stat| {
        ["loga-main", "loga-poll", "loga-watch"]
            .iter()
            .any(|name| stat.comm.starts_with(name))
    };
    let ticks: u64 = stats
        .filter(is_ours)
        .map(|stat| stat.utime + stat.stime)
        .sum();
    // CAST: USER_HZ is 100.
    Ok(10.0 * ticks as f64)
}
