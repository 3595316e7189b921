// SPDX-License-Identifier: GPL-2.0

//! The time between two instants, as LoGA measured it and as the model logged it.

use crate::load::{Load, Pattern};
use crate::truth::Truth;
use loga_cli::device::{Device, Snapshot};
use loga_cli::stat;
use loga_cli::stat::Stat;
use loga_model::truth::Usage;
use serde::{Deserialize, Serialize};
use std::thread::sleep;
use std::time::Duration;
use throttle::report::Instance;

/// Time for processes to set up and for LoGA to measure them all, in seconds.
const WARM_UP_S: f64 = 0.5;
/// Time by which the processes outlast their observation, in seconds.
const TAIL_S: f64 = 0.1;
/// Seed of the first load; each further one has the next.
const SEED: u64 = 1;

/// Figures of both at one instant; only the model's where LoGA is not loaded.
struct Moment {
    loga: Option<Snapshot>,
    truth: Truth,
    threads_ms: f64,
}

impl Moment {
    fn now(device: Option<&Device>) -> Result<Self, String> {
        let loga = device
            .map(|device| device.snapshot(0).map_err(|error| error.to_string()))
            .transpose()?;
        Ok(Self {
            loga,
            truth: Truth::read()?,
            threads_ms: crate::accounting::threads_ms()?,
        })
    }
}

/// The base of the figures of one run, for the reader of the file.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Observation {
    pub(crate) label: String,
    pub(crate) window_ns: u64,
    pub(crate) span_ns: u64,
    pub(crate) polled_ns: u64,
    pub(crate) decisions: u64,
    pub(crate) polls: u64,
    pub(crate) register_reads: u64,
    pub(crate) clients: Vec<Observed>,
}

/// One client of an observation.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Observed {
    pub(crate) kernel_us: u64,
    pub(crate) loga_measured_ns: u64,
    pub(crate) loga_gpu_time_ns: u64,
    pub(crate) loga_runs: u64,
    pub(crate) loga_throttled_ns: u64,
    pub(crate) model_busy_ns: u64,
    pub(crate) model_switch_ns: u64,
    pub(crate) model_commands: u64,
    pub(crate) turnaround_mean_us: f64,
    pub(crate) turnaround_p99_us: f64,
}

/// The time between two instants.
pub(crate) struct Window {
    /// LoGA's figures, if it was loaded.
    pub(crate) stat: Stat,
    window_ns: u64,
    /// Run time of LoGA's threads.
    pub(crate) threads_ms: f64,
    loads: Vec<Pattern>,
    reports: Vec<Instance>,
    usage: Vec<Usage>,
}

impl Window {
    /// Runs loads together and observes `seconds` of them.
    pub(crate) fn of(loads: &[Pattern], seconds: f64) -> Result<Self, String> {
        let mut windows = Self::several(loads, seconds, 1)?;
        windows.pop().ok_or_else(|| "no window".to_owned())
    }

    /// Runs loads together and observes `count` times `seconds` of them, one after the other.
    pub(crate) fn several(
        loads: &[Pattern],
        seconds: f64,
        count: u32,
    ) -> Result<Vec<Self>, String> {
        let total = WARM_UP_S + f64::from(count) * seconds + TAIL_S;
        // Opened early, so that little happens at the edges of the window.
        let device = Device::open().ok();
        let running: Vec<Load> = loads
            .iter()
            .zip(SEED..)
            .map(|(load, seed)| load.start(total, seed))
            .collect::<Result<_, _>>()?;
        sleep(Duration::from_secs_f64(WARM_UP_S));
        let mut moments = vec![Moment::now(device.as_ref())?];
        for _ in 0..count {
            sleep(Duration::from_secs_f64(seconds));
            moments.push(Moment::now(device.as_ref())?);
        }
        let reports: Vec<Instance> = running
            .into_iter()
            .map(Load::finish)
            .collect::<Result<_, _>>()?;
        let pairs = moments.windows(2);
        let windows = pairs.map(|two| Self::between(&two[0], &two[1], loads, reports.clone()));
        Ok(windows.collect())
    }

    fn between(before: &Moment, after: &Moment, loads: &[Pattern], reports: Vec<Instance>) -> Self {
        let stat = after
            .loga
            .as_ref()
            .map_or_else(Stat::default, |loga| Stat::new(loga, before.loga.as_ref()));
        let used = |pid| after.truth.usage(pid).since(&before.truth.usage(pid));
        let usage = reports.iter().map(|report| used(report.pid)).collect();
        Self {
            stat,
            window_ns: after.truth.now_ns.saturating_sub(before.truth.now_ns),
            threads_ms: after.threads_ms - before.threads_ms,
            loads: loads.to_vec(),
            reports,
            usage,
        }
    }

    /// Its length.
    pub(crate) fn length_ms(&self) -> f64 {
        // CAST: nanoseconds of minutes are exact in a double.
        self.window_ns as f64 / 1e6
    }

    /// Number of loads.
    pub(crate) fn len(&self) -> usize {
        self.loads.len()
    }

    /// Share of the time in which a load's commands ran, in percent.
    pub(crate) fn busy_share(&self, load: usize) -> f64 {
        percent(self.usage[load].busy_ns, self.window_ns)
    }

    /// Share of the time in which a load was on the engine: its commands, and the parts of context
    /// switches in which the status word names it. LoGA measures this.
    pub(crate) fn ran_share(&self, load: usize) -> f64 {
        percent(self.usage[load].ran_ns(), self.window_ns)
    }

    /// The same as LoGA estimates it.
    pub(crate) fn loga_share(&self, load: usize) -> f64 {
        self.client(load).map_or(f64::NAN, |client| {
            percent(client.gpu_time_ns, self.stat.span_ns)
        })
    }

    /// Share of the time in which the engine was idle, in percent: as LoGA says, and in the model's
    /// log.
    pub(crate) fn idle_shares(&self) -> (f64, f64) {
        let used: f64 = (0..self.len()).map(|load| self.ran_share(load)).sum();
        (100.0 * self.stat.idle.unwrap_or(f64::NAN), 100.0 - used)
    }

    /// LoGA's stated bound of the error of a load's share, in points.
    pub(crate) fn stated_error(&self, load: usize) -> f64 {
        let error = self.client(load).and_then(|client| client.share_error);
        error.map_or(f64::NAN, |error| 100.0 * error)
    }

    /// Mean length of a run as LoGA measures it, in ns.
    pub(crate) fn loga_run_ns(&self, load: usize) -> f64 {
        self.client(load).map_or(f64::NAN, |client| {
            client.measured_ns as f64 / client.runs as f64
        })
    }

    /// Mean length of a command in the model's log, in ns.
    pub(crate) fn true_run_ns(&self, load: usize) -> f64 {
        self.usage[load].busy_ns as f64 / self.usage[load].commands as f64
    }

    /// Commands of a load that the model has completed.
    pub(crate) fn commands(&self, load: usize) -> u64 {
        self.usage[load].commands
    }

    /// Mean turnaround of a load's kernels, in us.
    pub(crate) fn turnaround_us(&self, load: usize) -> f64 {
        self.reports[load].summary.turnaround_mean_us
    }

    /// GPU time of a load as LoGA measured it, in ns.
    pub(crate) fn loga_time_ns(&self, load: usize) -> f64 {
        let client = self.client(load);
        client.map_or(f64::NAN, |client| client.gpu_time_ns as f64)
    }

    /// Mean time from the beginning of a load's command to that of the next, in ns.
    pub(crate) fn period_ns(&self, load: usize) -> f64 {
        self.window_ns as f64 / self.usage[load].commands as f64
    }

    /// Time of context switches for each command, over all loads, in ns.
    pub(crate) fn switch_ns(&self) -> f64 {
        let sum = |part: fn(&Usage) -> u64| self.usage.iter().map(part).sum::<u64>() as f64;
        sum(|usage| usage.switch_ns) / sum(|usage| usage.commands)
    }

    /// Time for which LoGA polled, in percent of the window.
    pub(crate) fn polled_percent(&self) -> f64 {
        percent(self.stat.polled_ns, self.window_ns)
    }

    /// Mean time of a poll, in ns.
    pub(crate) fn poll_ns(&self) -> f64 {
        self.stat.polled_ns as f64 / self.stat.polls as f64
    }

    /// What the figures were calculated from.
    pub(crate) fn observation(&self, label: &str) -> Observation {
        let client = |load: usize| self.client(load).cloned().unwrap_or_default();
        let clients = (0..self.len()).map(|load| {
            let (loga, usage) = (client(load), &self.usage[load]);
            let summary = &self.reports[load].summary;
            Observed {
                kernel_us: self.loads[load].kernel_us,
                loga_measured_ns: loga.measured_ns,
                loga_gpu_time_ns: loga.gpu_time_ns,
                loga_runs: loga.runs,
                loga_throttled_ns: loga.throttled_ns,
                model_busy_ns: usage.busy_ns,
                model_switch_ns: usage.switch_ns,
                model_commands: usage.commands,
                turnaround_mean_us: summary.turnaround_mean_us,
                turnaround_p99_us: summary.turnaround_p99_us,
            }
        });
        Observation {
            label: label.to_owned(),
            window_ns: self.window_ns,
            span_ns: self.stat.span_ns,
            polled_ns: self.stat.polled_ns,
            decisions: self.stat.decisions,
            polls: self.stat.polls,
            register_reads: self.stat.register_reads,
            clients: clients.collect(),
        }
    }

    fn client(&self, load: usize) -> Option<&stat::Client> {
        let pid = self.reports[load].pid;
        let clients = self.stat.clients.iter();
        clients
            .into_iter()
            .find(|client| u32::try_from(client.pid) == Ok(pid))
    }
}

/// Iterations of the poll loop so far.
pub(crate) fn polls() -> Result<u64, String> {
    Device::open()
        .and_then(|device| device.snapshot(0))
        .map(|snapshot| snapshot.info.polls)
        .map_err(|error| error.to_string())
}

/// `part` of `whole` in percent; no number if there is no whole.
fn percent(part: u64, whole: u64) -> f64 {
    // CAST: nanoseconds of minutes are exact in a double.
    100.0 * part as f64 / whole as f64
}
