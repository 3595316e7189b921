// SPDX-License-Identifier: GPL-2.0

//! `[tool]` An application beside throttles, under a policy: what Figures 7, 8 and 11 are made of.

use super::plan::{Plan, Progress};
use super::way::{Way, NEON_SCAN_US};
use crate::outcome::{ClientOutcome, Error, GpuOutcome};
use crate::results::stats::mean;
use crate::results::{Setting, Throttles, Unit};
use crate::scenario::{Client, Micros, Phase, Profile, Scenario, Span};
use loga::units::Ns;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::Path;

/// For how long an application runs alone, in us, by repeating its iteration: the paper says "a few
/// seconds".
const ALONE_US: f64 = 3e6;
/// The same for tests.
const ALONE_QUICK_US: f64 = 1e6;
/// Longest simulated time; nothing comes near it.
pub(super) const LONGEST: Ns = Ns::from_ms(600_000);
/// An application comes when the others have run for up to so long, in ns.
const ARRIVES: u64 = 1_000_000_000;
/// Time from waking up, or from the end of a kernel, to the launch of the next, in us.
const LAUNCH_US: (f64, f64) = (5.0, 15.0);
/// How late a sleep may end, in us: the timer slack of Linux.
const SLACK_US: f64 = 50.0;
/// What one run of an application gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Got {
    /// Time of an iteration, in ms.
    pub(super) turnaround: f64,
    /// GPU time of the application as LoGA measured it, in ms.
    pub(super) own: f64,
    /// The same of the throttles, on average.
    pub(super) throttle: f64,
    /// Share of the time in which the GPU executed something, in percent.
    pub(super) used: f64,
}

/// An application of the paper's figures.
pub(super) struct App {
    pub(super) profile: Profile,
    /// Iterations of a run.
    iterations: u64,
}

impl App {
    /// The application of this name.
    pub(super) fn find(name: &str, plan: &Plan) -> Result<Self, Error> {
        Self::changed(name, plan, &|_| {})
    }

    /// The same with other phases.
    pub(super) fn changed(
        name: &str,
        plan: &Plan,
        change: &dyn Fn(&mut Vec<Phase>),
    ) -> Result<Self, Error> {
        let mut profile = Profile::find(name, Path::new("")).map_err(Error::Profile)?;
        change(&mut profile.phases);
        let alone = if plan.quick { ALONE_QUICK_US } else { ALONE_US };
        // CAST: rounded up, and some thousand at most.
        let iterations = (alone / profile.alone_us()).ceil().max(1.0) as u64;
        Ok(Self {
            profile,
            iterations,
        })
    }

    /// Where its numbers come from.
    pub(super) fn setting(&self) -> Setting {
        let count = |kind: &str| {
            let all = self.profile.values.iter();
            all.filter(|value| value.from.starts_with(kind)).count()
        };
        let name = &self.profile.name;
        let value = format!(
            "{}; {} iterations of {:.3} ms alone",
            self.profile.command,
            self.iterations,
            self.profile.alone_us() / 1e3
        );
        let origin = format!(
            "eval/profiles/{name}.toml: {} values from the source, {} derived, {} assumed; so \
             many iterations that they take 3 s alone (the paper: a few seconds)",
            count("code"),
            count("derived"),
            count("assumed")
        );
        Setting::text(&format!("client.{name}"), &value, &origin)
    }

    /// Runs it beside throttles, with every seed.
    pub(super) fn runs(
        &self,
        throttles: Throttles,
        way: Way,
        plan: &Plan,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Got>, Error> {
        let arrive = |seed| {
            if way.policy.poll_always {
                return Ns::ZERO;
            }
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            Ns::new(random.random_range(0..ARRIVES))
        };
        let outcomes = plan.runs(self.scenario(throttles, way, plan), arrive, progress)?;
        outcomes.iter().map(|gpu| self.got(gpu)).collect()
    }

    fn got(&self, gpu: &GpuOutcome) -> Result<Got, Error> {
        let unfinished = || Error::Unfinished(self.profile.name.clone());
        let (app, throttles) = gpu.clients.split_first().ok_or_else(unfinished)?;
        let total = app.total_ms().ok_or_else(unfinished)?;
        let measured = throttles.iter().filter_map(ClientOutcome::measured_ms);
        // CAST: counts that a double holds exactly.
        let throttle = measured.sum::<f64>() / throttles.len().max(1) as f64;
        Ok(Got {
            turnaround: total / self.iterations as f64,
            own: app.measured_ms().unwrap_or_default(),
            throttle,
            used: gpu.utilisation_pct(),
        })
    }

    fn scenario(&self, throttles: Throttles, way: Way, plan: &Plan) -> Scenario {
        let mut costs = plan.costs;
        costs.scan = way.scan_us.map_or(costs.scan, Micros::new);
        let app = Client {
            repeat: Some(self.iterations),
            ..Client::new("app", self.profile.phases.clone())
        };
        // CAST: a millisecond.
        let sleep_us = throttles.sleep_us as f64;
        let pause = Span::uniform_us(sleep_us + LAUNCH_US.0, sleep_us + LAUNCH_US.1 + SLACK_US);
        let phase = Phase::new(pause, Span::us(throttles.kernel_us));
        let throttle = |number| Client::new(&format!("throttle-{number}"), vec![phase]);
        Scenario {
            until: Some(0),
            policy: way.policy,
            clients: [app]
                .into_iter()
                .chain((0..throttles.count).map(throttle))
                .collect(),
            ..Scenario::new(LONGEST, costs)
        }
    }
}

/// Turnaround with each seed under this way of accounting, over the mean of that without any.
pub(super) fn ratios(
    app: &App,
    none: &[Got],
    throttles: Throttles,
    way: Way,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Vec<f64>, Error> {
    let none = turnaround(none);
    let got = app.runs(throttles, way, plan, progress)?;
    Ok(got.iter().map(|got| got.turnaround / none).collect())
}

/// Mean turnaround.
pub(super) fn turnaround(got: &[Got]) -> f64 {
    mean(got.iter().map(|got| got.turnaround))
}

/// Parameters that all of these experiments share, and where they come from.
pub(super) fn settings(throttles: &str) -> Vec<Setting> {
    let (text, number) = (Setting::text, Setting::number);
    let us = Unit::Micros;
    let costs = "assumed, docs/scenarios.md";
    vec![
        text("client.throttle", throttles, "the paper"),
        text(
            "client.throttle: launch",
            "5 to 15 us before each kernel",
            "assumed, as in Figure 9",
        ),
        text(
            "client.throttle: sleep",
            "ends up to 50 us late",
            "the timer slack of Linux (prctl(2), PR_SET_TIMERSLACK)",
        ),
        text("channels", "12 for each application", "section 5.1"),
        number(
            "policy.poll_ms",
            1.0,
            Unit::Millis,
            "section 5.1: for each channel",
        ),
        Setting::number("policy.ratio", 5.0, None, "section 5.1"),
        text(
            "policy.trap",
            "sampling traps submissions of clients that are watched",
            "section 2.3",
        ),
        number("costs.read_us", 1.0, us, "section 3.3"),
        number(
            "costs.scan_us",
            NEON_SCAN_US,
            us,
            "assumed, for each channel of each scan of sampling: NEON reads a word of memory; the \
             module reads three registers",
        ),
        number(
            "costs.revoke_us",
            5.0,
            us,
            &format!("for each client; {costs}"),
        ),
        number("costs.fault_us", 2.0, us, costs),
        number("costs.wakeup_us", 5.0, us, costs),
        number(
            "costs.switch_us",
            0.0,
            us,
            "assumed: no figure for Kepler was found",
        ),
        text(
            "arrival of the application",
            "up to 1 s after the throttles, drawn",
            "assumed",
        ),
    ]
}
