// SPDX-License-Identifier: GPL-2.0

//! [tool] What the real module was measured with in the virtual machine, simulated: the same
//! throttles in the place of applications, with the costs that were measured there.

use super::apart::{apart, Reach};
use super::{empty, runs, Plan, Progress};
use crate::report::{report, Gpu};
use crate::results::reduced::{
    optimum, Application, Throttles, ALONE, APPLICATIONS, BEFORE_MS, FIVE_LONG, FIVE_SHORT, FOUR,
    KERNEL_LATE, LATE, LAUNCH, OVERHEAD_MS, POLLED, QUALITY_MS, REDUCED, VARIED, WEIGHED, WEIGHTS,
};
use crate::results::{Axis, Experiment, Point, Series};
use crate::run::{run, Error};
use crate::scenario::parse;
use loga::units::Ns;

/// Longest simulated time; nothing comes near it.
const LENGTH_MS: u32 = 600_000;
/// GPU times for the optimum are taken over so long.
const WATCHED_MS: u64 = 1_500;
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
///
/// # Errors
///
/// A run does not count.
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
            ..empty(&self.real.figure, self.plan)
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

    /// Who decides in the series that were run there.
    fn ways(&self) -> Vec<Way> {
        let all = if self.quality_is_asked() {
            vec![
                HARDWARE,
                Way::new("sampling", "name = \"sampling\""),
                Way::new("event", "name = \"event\""),
                Way::new("event-cl", "name = \"event-cl\""),
                Way::new("maxmin", "name = \"maxmin\""),
            ]
        } else {
            vec![
                Way::new("event", "name = \"event\"\nenforce = false"),
                Way {
                    weights: Some(WEIGHTS),
                    ..Way::new("sampling", "name = \"sampling\"")
                },
            ]
        };
        all.into_iter().filter(|way| self.has(way.name)).collect()
    }

    /// From the smallest to the largest that a point is, whenever the application and the throttles
    /// come and however pauses vary; nothing if it is no turnaround.
    fn reach(&mut self, name: &str, policy: &str) -> Result<Option<Reach>, Error> {
        let application = APPLICATIONS.iter().find(|one| one.name == name);
        let way = self.ways().into_iter().find(|one| one.name == policy);
        let (Some(application), Some(way)) = (application, way) else {
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
                (self.turnarounds(application, ms, ALONE, &way)?, QUALITY_MS)
            } else {
                let ms = OVERHEAD_MS;
                (self.turnarounds(application, ms, throttles, &HARDWARE)?, ms)
            };
            let over = mean(&over);
            let with = self.turnarounds(application, ms, throttles, &way)?;
            all.extend(with.iter().map(|one| one / over));
        }
        (self.spread, self.stagger_ms) = (1.0, STAGGER_MS);
        Ok(Reach::of(&all))
    }

    /// Figures 7a and 7b.
    fn overhead(&mut self) -> Result<Vec<Series>, Error> {
        let ways = self.ways();
        let applications = self.applications();
        let runs = applications.len() * (1 + ways.len());
        self.progress.expect(runs as u64 * self.plan.repetitions);
        let mut all: Vec<_> = ways
            .iter()
            .map(|way| Series::new(way.name, Vec::new()))
            .collect();
        for application in &applications {
            let throttles = self.throttles;
            let without =
                mean(&self.turnarounds(application, OVERHEAD_MS, throttles, &HARDWARE)?);
            for (series, way) in all.iter_mut().zip(&ways) {
                let with = self.turnarounds(application, OVERHEAD_MS, throttles, way)?;
                let ratios: Vec<_> = with.iter().map(|one| one / without).collect();
                series.points.extend(Point::of(application.name, &ratios));
            }
        }
        Ok(all)
    }

    /// Figure 11.
    fn quality(&mut self) -> Result<Vec<Series>, Error> {
        let ways = self.ways();
        let applications = self.applications();
        let runs = applications.len() * (1 + 2 * ways.len());
        self.progress.expect(runs as u64 * self.plan.repetitions);
        let names = ways.iter().map(|way| way.name).chain(["fair"]);
        let mut all: Vec<_> = names.map(|name| Series::new(name, Vec::new())).collect();
        for application in &applications {
            let mut unscheduled = 1.0;
            for (series, way) in all.iter_mut().zip(&ways) {
                let alone = mean(&self.turnarounds(application, QUALITY_MS / 4, ALONE, way)?);
                let together = self.turnarounds(application, QUALITY_MS, FOUR, way)?;
                let ratios: Vec<_> = together.iter().map(|one| one / alone).collect();
                if way.name == HARDWARE.name {
                    unscheduled = mean(&ratios);
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
        way: &Way,
    ) -> Result<Vec<f64>, Error> {
        let kernels = application.kernels(ms);
        let app = format!("repeat = {kernels}");
        let head = format!("length_ms = {LENGTH_MS}\nuntil = \"app\"");
        let text = self.scenario(&head, way, &app, application, throttles);
        let gpus = self.arriving(&text, throttles)?;
        let total = gpus.iter().filter_map(|gpu| gpu.clients[0].total_ms);
        // CAST: some thousand.
        Ok(total.map(|total| total / kernels as f64).collect())
    }

    /// Runs a scenario with each seed, in which the application comes at another point of a polling
    /// period each time: the module is not waited for before one comes, either.
    fn arriving(&mut self, text: &str, throttles: Throttles) -> Result<Vec<Gpu>, Error> {
        // PANIC: the texts are those below, and a test reads them.
        let scenario = parse("paper", text, &self.plan.changes);
        let mut scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        let period = (u64::from(throttles.count) + 1) * PERIOD_MS * NS_PER_MS;
        let mut outcomes = Vec::new();
        for seed in 1..=self.plan.repetitions {
            let later = (seed - 1) * period / self.plan.repetitions;
            scenario.clients[0].arrive = Ns::new(BEFORE_MS * NS_PER_MS + later);
            outcomes.push(run(&scenario, seed, &mut None)?);
            self.progress.done();
        }
        let report = report("paper", &scenario, &outcomes);
        let gpus = report.runs.into_iter().map(|mut run| run.gpus.remove(0));
        Ok(gpus.collect())
    }

    /// By how much the turnaround would have to change for the optimum, with each seed.
    fn optima(&mut self, application: &Application) -> Result<Vec<f64>, Error> {
        let head = format!("length_ms = {WATCHED_MS}");
        let way = Way {
            kernel_late: POLLED[0],
            ..Way::new("none", "name = \"none\"\npoll_always = true")
        };
        let mut plan = self.plan.clone();
        let switch = self.measured(POLLED[1]);
        if switch > 0.0 {
            plan.changes.push(format!("costs.switch_us={switch}"));
        }
        let text = self.scenario(&head, &way, "", application, FOUR);
        let gpus = runs(&text, &plan, self.progress)?;
        let optimum = |gpu: &Gpu| {
            let measured = |at: usize| gpu.clients[at].measured_ms.unwrap_or_default();
            let throttles = f64::from(FOUR.count);
            let sum: f64 = (1..gpu.clients.len()).map(measured).sum();
            optimum(measured(0), sum / throttles, throttles)
        };
        Ok(gpus.iter().map(optimum).collect())
    }

    fn scenario(
        &self,
        head: &str,
        way: &Way,
        app: &str,
        application: &Application,
        throttles: Throttles,
    ) -> String {
        let policy = way.policy;
        let weight = |at: usize| {
            let weights = way.weights;
            weights.map_or(String::new(), |each| format!("weight = {}\n", each[at]))
        };
        let mut text = format!("{head}\n[policy]\n{policy}\n[[client]]\nname = \"app\"\n{app}\n");
        text += &weight(1);
        let late = self.measured(way.kernel_late);
        text += &self.phase(application.kernel_us, application.pause_us, late, 0);
        for number in 0..throttles.count {
            let arrive = f64::from(number) * self.stagger_ms;
            text += &format!("[[client]]\nname = \"throttle-{number}\"\narrive_ms = {arrive}\n");
            text += &weight(usize::from(number > 0));
            let (kernel_us, sleep_us) = (throttles.kernel_us, throttles.sleep_us);
            text += &self.phase(kernel_us, sleep_us, late, throttles.jitter);
        }
        text
    }

    /// A pause and a kernel that runs on for `late`, in us, as a throttle does them there, varying
    /// by so many percent.
    fn phase(&self, kernel_us: u64, pause_us: u64, late: f64, jitter: u32) -> String {
        let measured = self.measured(LAUNCH) + self.measured(LATE);
        // CAST: a few thousand.
        let (kernel, pause) = (kernel_us as f64, pause_us as f64);
        let part = f64::from(jitter) / 100.0;
        let uniform = |mean: f64, by: f64| {
            let [from, to] = [mean - by, mean + by].map(|end| end.max(0.0));
            format!("{{ uniform = [{from}, {to}] }}")
        };
        let pause = uniform(
            pause + measured,
            0.5 * measured * self.spread + part * pause,
        );
        let kernel = uniform(kernel + late, part * kernel);
        format!("[[client.phase]]\ncpu_us = {pause}\nkernel_us = {kernel}\n")
    }

    fn measured(&self, name: &str) -> f64 {
        measured(self.real, name)
    }
}

/// A time that was measured there, in us; zero if it was not.
pub(super) fn measured(real: &Experiment, name: &str) -> f64 {
    let found = real.settings.iter().find(|setting| setting.name == name);
    let value = found.and_then(|setting| setting.value.strip_suffix(" us")?.parse().ok());
    value.unwrap_or_default()
}

/// Who decides, as a series and as in a scenario.
struct Way {
    name: &'static str,
    policy: &'static str,
    /// Of one throttle and of everybody else, where they are not all the same.
    weights: Option<[u32; 2]>,
    /// Setting that says by how much a kernel runs on.
    kernel_late: &'static str,
}

impl Way {
    const fn new(name: &'static str, policy: &'static str) -> Self {
        Self {
            name,
            policy,
            weights: None,
            kernel_late: KERNEL_LATE,
        }
    }
}

/// Nobody accounts and nobody schedules.
const HARDWARE: Way = Way::new("none", "name = \"hardware\"");

fn mean(values: &[f64]) -> f64 {
    // CAST: a number of repetitions.
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests;
