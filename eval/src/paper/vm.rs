// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the real module was measured with in the virtual machine, simulated: the same
//! throttles in the place of applications, with the costs that were measured there.

use super::apart::{apart, Reach};
use super::beside::LONGEST;
use super::plan::{Plan, Progress};
use super::way::Way;
use crate::outcome::{ClientOutcome, Error, GpuOutcome};
use crate::results::reduced::{
    optimum, Application, APPLICATIONS, BEFORE_MS, FIVE_LONG, FIVE_SHORT, KERNEL_LATE, LATE,
    LAUNCH, OVERHEAD_MS, POLLED, QUALITY_MS, REDUCED, VARIED, WEIGHED, WEIGHTS,
};
use crate::results::stats::mean;
use crate::results::{Axis, Experiment, Point, Series, Throttles, ALONE, FOUR};
use crate::scenario::{Client, Micros, Phase, Policy, Scenario, Span};
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};

/// GPU times for the optimum are taken over so long.
const WATCHED: Ns = Ns::from_ms(1_500);
/// From the start of a throttle to that of the next, in ms: a process has to be started.
const STAGGER_MS: f64 = 2.3;
/// A polling phase and the one that follows take so long for each client, in ms.
const PERIOD_MS: u64 = 12 * 6;
/// By how many times more than assumed pauses vary where causes are looked for, and what that is
/// between the throttles.
const SPREADS: [f64; 3] = [0.0, 1.0, 3.0];
const STAGGERS_MS: [f64; 3] = [0.5, STAGGER_MS, 5.0];
const NS_PER_MS: u64 = 1_000_000;

/// Runs what was run in the virtual machine, in the simulator; nothing if it cannot be.
pub fn figure(
    real: &Experiment,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Option<Result<Experiment, Error>> {
    let mut like = Like {
        real,
        plan,
        progress,
        throttles: match &*real.figure {
            "7a" => FIVE_SHORT,
            "7b" => FIVE_LONG,
            "11" => FOUR,
            other => return super::figure(other, plan, progress),
        },
        spread: 1.0,
        stagger_ms: STAGGER_MS,
    };
    Some(like.figure())
}

/// What is to be run like in the virtual machine.
struct Like<'a> {
    real: &'a Experiment,
    plan: &'a Plan,
    progress: &'a mut dyn Progress,
    throttles: Throttles,
    /// How much pauses vary, over launch and lateness.
    spread: f64,
    /// From the start of a throttle to that of the next, in ms.
    stagger_ms: f64,
}

impl Like<'_> {
    fn figure(&mut self) -> Result<Experiment, Error> {
        let series = if self.quality_is_asked() {
            self.quality()?
        } else {
            self.overhead()?
        };
        let mut one = self.experiment(series);
        let real = self.real;
        one.differs = apart(&one, real, &mut |name, policy| self.reach(name, policy))?;
        Ok(one)
    }

    fn quality_is_asked(&self) -> bool {
        self.real.figure == "11"
    }

    fn experiment(&self, series: Vec<Series>) -> Experiment {
        let axis = |axis: &Axis| Axis::new(&axis.title, "");
        let mut one = Experiment {
            title: self.real.title.clone(),
            x: axis(&self.real.x),
            y: axis(&self.real.y),
            series,
            paper: self.real.paper.clone(),
            assumed: vec![
                "time on CPUs between kernels varies by as much as launch and lateness together"
                    .to_owned(),
                "the application comes at any point of a polling period, each time at another"
                    .to_owned(),
                format!("a throttle starts {STAGGER_MS} ms after the one before"),
            ],
            ..self.plan.empty(&self.real.figure)
        };
        if one.figure.starts_with('7') {
            one.assumed
                .extend([REDUCED, VARIED, WEIGHED].map(str::to_owned));
            one.add_geometric_means();
        }
        one
    }

    /// Whether this was run in the virtual machine.
    fn has(&self, name: &str) -> bool {
        self.real.series(name, None).is_some()
    }

    /// The applications that were.
    fn applications(&self) -> Vec<Application> {
        let points = |series: &Series| series.points.clone();
        let points: Vec<_> = self.real.series.iter().flat_map(points).collect();
        let there = |one: &&Application| points.iter().any(|point| point.at == one.name.into());
        APPLICATIONS.iter().filter(there).copied().collect()
    }

    /// The policies of the series that were run there.
    fn deciders(&self) -> Vec<Decider> {
        let sampling = Decider::new(Way::loga(PolicyKind::Sampling));
        let all = if self.quality_is_asked() {
            vec![
                HARDWARE,
                sampling,
                Decider::new(Way::EVENT),
                Decider::new(Way::EVENT_CL),
                Decider::new(Way::MAXMIN),
            ]
        } else {
            let weighted = Decider {
                weights: Some(WEIGHTS),
                ..sampling
            };
            vec![Decider::new(Way::EVENT_ACCOUNTS), weighted]
        };
        let all = all.into_iter();
        all.filter(|one| self.has(one.way.name)).collect()
    }

    /// From the smallest to the largest that a point is, whenever the application and the throttles
    /// come and however pauses vary; nothing if it is no turnaround.
    fn reach(&mut self, name: &str, policy: &str) -> Result<Option<Reach>, Error> {
        let application = APPLICATIONS.iter().find(|one| one.name == name);
        let mut deciders = self.deciders().into_iter();
        let decider = deciders.find(|one| one.way.name == policy);
        let (Some(application), Some(decider)) = (application, decider) else {
            return Ok(None);
        };
        let runs = 2 * SPREADS.len() * STAGGERS_MS.len();
        self.progress.expect(runs as u64 * self.plan.repetitions);
        let each = |spread| STAGGERS_MS.map(|stagger_ms| (spread, stagger_ms));
        let mut all = Vec::new();
        for (spread, stagger_ms) in SPREADS.into_iter().flat_map(each) {
            (self.spread, self.stagger_ms) = (spread, stagger_ms);
            let throttles = self.throttles;
            let (over, ms) = if self.quality_is_asked() {
                let ms = QUALITY_MS / 4;
                (
                    self.turnarounds(application, ms, ALONE, &decider)?,
                    QUALITY_MS,
                )
            } else {
                let ms = OVERHEAD_MS;
                (self.turnarounds(application, ms, throttles, &HARDWARE)?, ms)
            };
            let over = mean(over);
            let with = self.turnarounds(application, ms, throttles, &decider)?;
            all.extend(with.iter().map(|one| one / over));
        }
        (self.spread, self.stagger_ms) = (1.0, STAGGER_MS);
        Ok(Reach::of(&all))
    }

    /// Figures 7a and 7b.
    fn overhead(&mut self) -> Result<Vec<Series>, Error> {
        let deciders = self.deciders();
        let applications = self.applications();
        let runs = applications.len() * (1 + deciders.len());
        self.progress.expect(runs as u64 * self.plan.repetitions);
        let mut all: Vec<_> = deciders
            .iter()
            .map(|one| Series::new(one.way.name, Vec::new()))
            .collect();
        for application in &applications {
            let throttles = self.throttles;
            let without = mean(self.turnarounds(application, OVERHEAD_MS, throttles, &HARDWARE)?);
            for (series, decider) in all.iter_mut().zip(&deciders) {
                let with = self.turnarounds(application, OVERHEAD_MS, throttles, decider)?;
                let ratios: Vec<_> = with.iter().map(|one| one / without).collect();
                series.points.extend(Point::of(application.name, &ratios));
            }
        }
        Ok(all)
    }

    /// Figure 11.
    fn quality(&mut self) -> Result<Vec<Series>, Error> {
        let deciders = self.deciders();
        let applications = self.applications();
        let runs = applications.len() * (1 + 2 * deciders.len());
        self.progress.expect(runs as u64 * self.plan.repetitions);
        let names = deciders.iter().map(|one| one.way.name).chain(["fair"]);
        let mut all: Vec<_> = names.map(|name| Series::new(name, Vec::new())).collect();
        for application in &applications {
            let mut unscheduled = 1.0;
            for (series, decider) in all.iter_mut().zip(&deciders) {
                let alone = self.turnarounds(application, QUALITY_MS / 4, ALONE, decider)?;
                let alone = mean(alone);
                let together = self.turnarounds(application, QUALITY_MS, FOUR, decider)?;
                let ratios: Vec<_> = together.iter().map(|one| one / alone).collect();
                if decider.way.name == HARDWARE.way.name {
                    unscheduled = mean(ratios.iter().copied());
                }
                series.points.extend(Point::of(application.name, &ratios));
            }
            let fair = self.optima(application)?;
            let fair: Vec<_> = fair.iter().map(|one| one * unscheduled).collect();
            let last = all.last_mut().into_iter();
            last.for_each(|series| series.points.extend(Point::of(application.name, &fair)));
        }
        Ok(all)
    }

    /// Time of an iteration with each seed, in ms.
    fn turnarounds(
        &mut self,
        application: &Application,
        ms: u64,
        throttles: Throttles,
        decider: &Decider,
    ) -> Result<Vec<f64>, Error> {
        let kernels = application.kernels(ms);
        let mut scenario = self.scenario(LONGEST, decider, application, throttles);
        (scenario.until, scenario.clients[0].repeat) = (Some(0), Some(kernels));
        // The application comes at another point of a polling period each time: the module is not
        // waited for before one comes, either.
        let period = (u64::from(throttles.count) + 1) * PERIOD_MS * NS_PER_MS;
        let repetitions = self.plan.repetitions;
        let arrive = |seed| Ns::new(BEFORE_MS * NS_PER_MS + (seed - 1) * period / repetitions);
        let gpus = self.plan.runs(scenario, arrive, self.progress)?;
        let total = gpus.iter().filter_map(|gpu| gpu.clients[0].total_ms());
        // CAST: some thousand.
        Ok(total.map(|total| total / kernels as f64).collect())
    }

    /// By how much the turnaround would have to change for the optimum, with each seed.
    fn optima(&mut self, application: &Application) -> Result<Vec<f64>, Error> {
        let watches = Policy {
            poll_always: true,
            ..Way::loga(PolicyKind::None).policy
        };
        let decider = Decider {
            kernel_late: POLLED[0],
            ..Decider::new(Way::new("none", watches))
        };
        let mut scenario = self.scenario(WATCHED, &decider, application, FOUR);
        let switch = self.real.measured_us(POLLED[1]);
        if switch > 0.0 {
            scenario.gpus[0].switch = Micros::new(switch).0;
        }
        let gpus = self.plan.runs(scenario, |_| Ns::ZERO, self.progress)?;
        let measured = |client: &ClientOutcome| client.measured_ms().unwrap_or_default();
        let optimum = |gpu: &GpuOutcome| {
            let throttles = f64::from(FOUR.count);
            let sum: f64 = gpu.clients[1..].iter().map(measured).sum();
            optimum(measured(&gpu.clients[0]), sum / throttles, throttles)
        };
        Ok(gpus.iter().map(optimum).collect())
    }

    fn scenario(
        &self,
        length: Ns,
        decider: &Decider,
        application: &Application,
        throttles: Throttles,
    ) -> Scenario {
        let late = self.real.measured_us(decider.kernel_late);
        let weight = |at: usize| {
            let weights = decider.weights;
            weights.map_or(Weight::DEFAULT, |each| {
                Weight::new(each[at]).unwrap_or_default()
            })
        };
        let phase = self.phase(application.kernel_us, application.pause_us, late, 0);
        let app = Client {
            weight: weight(1),
            ..Client::new("app", vec![phase])
        };
        let phase = self.phase(
            throttles.kernel_us,
            throttles.sleep_us,
            late,
            throttles.jitter,
        );
        let throttle = |number: u32| Client {
            arrive: Micros::new(f64::from(number) * self.stagger_ms * 1e3).0,
            weight: weight(usize::from(number > 0)),
            ..Client::new(&format!("throttle-{number}"), vec![phase])
        };
        let throttles = (0..throttles.count).map(throttle);
        Scenario {
            policy: decider.way.policy,
            clients: [app].into_iter().chain(throttles).collect(),
            ..Scenario::new(length, self.plan.costs)
        }
    }

    /// A pause and a kernel that runs on for `late`, in us, as a throttle does them there, varying
    /// by `jitter` percent.
    fn phase(&self, kernel_us: u64, pause_us: u64, late: f64, jitter: u32) -> Phase {
        let measured = self.real.measured_us(LAUNCH) + self.real.measured_us(LATE);
        // CAST: a few thousand.
        let (kernel, pause) = (kernel_us as f64, pause_us as f64);
        let part = f64::from(jitter) / 100.0;
        let uniform =
            |mean: f64, by: f64| Span::uniform_us((mean - by).max(0.0), (mean + by).max(0.0));
        let varies = 0.5 * measured * self.spread + part * pause;
        Phase::new(
            uniform(pause + measured, varies),
            uniform(kernel + late, part * kernel),
        )
    }
}

/// The policy of a series, and its settings in the virtual machine.
#[derive(Clone, Copy)]
struct Decider {
    way: Way,
    /// Of one throttle and of all other clients, where they are not all the same.
    weights: Option<[u32; 2]>,
    /// Setting that says by how much a kernel runs on.
    kernel_late: &'static str,
}

impl Decider {
    const fn new(way: Way) -> Self {
        Self {
            way,
            weights: None,
            kernel_late: KERNEL_LATE,
        }
    }
}

/// No accounting and no scheduler.
const HARDWARE: Decider = Decider::new(Way::NONE);

#[cfg(test)]
mod tests;
