// SPDX-License-Identifier: GPL-2.0

//! [tool] The experiments of the LoGA paper.
//!
//! Figures 9 and 10 and the CPU time of section 5.6 are here; [`overhead`] has Figures 7 and 8,
//! [`isolated`] what is changed to find causes, [`quality`] Figure 11, [`machine`] what the real
//! module was measured with, [`apart`] why the two differ where they do.
//!
//! Each is a scenario of this simulator with the settings of the paper: 12 channels, 1 ms polled
//! and 5 ms not per channel, ten repetitions. What the paper does not say is assumed, and named
//! in the result. Nothing is chosen to hit a number.

mod apart;
mod beside;
mod isolated;
pub mod machine;
mod overhead;
mod quality;

use crate::report::{report, Client, Gpu};
use crate::results::{At, Axis, Experiment, Origin, Point, Series, Setting, VERSION};
use crate::run::{run, Error};
use crate::scenario::parse;

/// Repetitions, as in the paper.
const REPETITIONS: u64 = 10;
/// Time from the end of a kernel to the launch of the next, in us; not given in the paper.
const GAP: &str = "{ uniform = [5, 15] }";

/// Names of the experiments.
pub const FIGURES: &[&str] = &["7a", "7b", "8", "9", "10", "11", "5.6"];
/// Applications of a quick run: long kernels, short kernels in a queue, hardly any kernels.
const QUICK: [&str; 3] = ["heartwall", "lud", "nn"];

/// Follows how far an experiment is.
pub trait Progress {
    /// That many runs of scenarios will be made.
    fn expect(&mut self, runs: u64);
    /// One of them is done.
    fn done(&mut self);
}

/// Nobody follows.
impl Progress for () {
    fn expect(&mut self, _: u64) {}
    fn done(&mut self) {}
}

/// How an experiment is carried out.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of this plan, see [`Experiment::setting`].
    pub setting: String,
    /// Runs of each point, with the seeds 1 to this.
    pub repetitions: u64,
    /// Few points, for tests: as much as shows that everything works.
    pub quick: bool,
    /// Changes of every scenario, as with `loga-sim run --set`, such as `costs.switch_us=8`.
    pub changes: Vec<String>,
    /// What they are, for the reader of the result.
    pub settings: Vec<Setting>,
}

impl Plan {
    /// As in the paper.
    pub fn paper() -> Self {
        Self {
            setting: "paper".to_owned(),
            repetitions: REPETITIONS,
            quick: false,
            changes: Vec::new(),
            settings: Vec::new(),
        }
    }

    /// For tests.
    pub fn quick() -> Self {
        Self {
            setting: "quick".to_owned(),
            repetitions: 2,
            quick: true,
            ..Self::paper()
        }
    }
}

/// Runs an experiment by its number; nothing if there is none.
///
/// # Errors
///
/// A run does not count.
pub fn figure(
    number: &str,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Option<Result<Experiment, Error>> {
    match number {
        "7a" => Some(overhead::overhead(10, plan, progress)),
        "7b" => Some(overhead::overhead(100, plan, progress)),
        "8" => Some(overhead::throttles(plan, progress)),
        "11" => Some(quality::quality(plan, progress)),
        "9" => Some(kernel_length(plan, progress)),
        "10" => Some(load(plan, progress)),
        "5.6" => Some(cpu(plan, progress)),
        _ => None,
    }
}

/// An experiment without series.
fn empty(figure: &str, plan: &Plan) -> Experiment {
    Experiment {
        version: VERSION,
        figure: figure.to_owned(),
        origin: Origin::Simulator,
        setting: plan.setting.clone(),
        title: String::new(),
        x: Axis::new("", ""),
        y: Axis::new("", ""),
        series: Vec::new(),
        paper: String::new(),
        assumed: Vec::new(),
        settings: plan.settings.clone(),
        differs: Vec::new(),
        inputs: String::new(),
    }
}

/// Those of these applications that run.
fn quick_names<'a>(
    names: impl Iterator<Item = &'a str>,
    plan: &Plan,
) -> impl Iterator<Item = &'a str> {
    let quick = plan.quick;
    names.filter(move |name| !quick || QUICK.contains(name))
}

/// Kernel lengths of Figures 9 and 10, in us.
fn lengths(plan: &Plan) -> Vec<u32> {
    let all = (1..=10).map(|step| 100 * step);
    all.filter(|us| !plan.quick || us % 500 == 0).collect()
}

/// Figure 9: one throttle at full load, polled all the time, kernels of 100 to 1000 us.
fn kernel_length(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let per_kernel = |client: &Client, ms: f64| ms * 1000.0 / client.kernels.max(1) as f64;
    let measured = |gpu: &Gpu| per_kernel(&gpu.clients[0], measured_ms(gpu));
    let truth = |gpu: &Gpu| per_kernel(&gpu.clients[0], gpu.clients[0].gpu_ms);
    let lengths = lengths(plan);
    progress.expect(lengths.len() as u64 * plan.repetitions);
    let mut series = against(&["intended", "truth", "event"]);
    for us in lengths {
        let text = throttle("poll_always = true\nenforce = false", 10_000, us, "");
        let at = f64::from(us);
        let runs = runs(&text, plan, progress)?;
        add(&mut series, at, &[&|_| at, &truth, &measured], &runs);
    }
    Ok(Experiment {
        title: "Intended and measured kernel length of throttle".to_owned(),
        x: Axis::new("intended kernel length", "us"),
        y: Axis::new("measured kernel length", "us"),
        series,
        paper: "underestimates by up to 6 %, because two registers of different engines are read \
                that do not change together; the relative error does not depend on the length"
            .to_owned(),
        assumed: vec![
            "5 to 15 us from the end of a kernel to the next launch".to_owned(),
            "one register read of 1 us, so that the cause of the paper's error is not there"
                .to_owned(),
        ],
        ..empty("9", plan)
    })
}

/// Figure 10: a kernel of 100 to 1000 us in each cycle of 1000 us, polled all the time.
fn load(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let measured = |gpu: &Gpu| 100.0 * measured_ms(gpu) / gpu.length_ms;
    let truth = |gpu: &Gpu| gpu.utilisation_pct;
    let lengths = lengths(plan);
    progress.expect(lengths.len() as u64 * plan.repetitions);
    let mut series = against(&["intended", "truth", "event"]);
    for us in lengths {
        let policy = "poll_always = true\nenforce = false";
        let text = throttle(policy, 10_000, us, "cycle_us = 1000");
        let at = f64::from(us) / 10.0;
        let runs = runs(&text, plan, progress)?;
        add(&mut series, at, &[&|_| at, &truth, &measured], &runs);
    }
    Ok(Experiment {
        title: "Intended and measured GPU load".to_owned(),
        x: Axis::new("intended load", "percent"),
        y: Axis::new("measured load", "percent"),
        series,
        paper: "within 2.5 % of the intended load in all cases".to_owned(),
        assumed: vec!["a kernel is launched at the very beginning of its cycle".to_owned()],
        ..empty("10", plan)
    })
}

/// Section 5.6: CPU time with phases of 1 ms and 5 ms per channel.
fn cpu(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let text = throttle("", 100_000, 200, "");
    progress.expect(plan.repetitions);
    let runs = runs(&text, plan, progress)?;
    let mut series = against(&["intended", "event"]);
    let measured = |gpu: &Gpu| gpu.loga_cpu_pct;
    add(&mut series, "event", &[&|_| 100.0 / 6.0, &measured], &runs);
    for (series, paper) in series.iter_mut().zip([16.7, 17.0]) {
        series.points[0].paper = Some(paper);
    }
    Ok(Experiment {
        title: "CPU time of LoGA".to_owned(),
        x: Axis::new("policy", ""),
        y: Axis::new("CPU time", "percent of one CPU"),
        series,
        paper: "16.7 % expected, 17 % measured; the rest is put down to decisions; NEON's could \
                not be told from the background"
            .to_owned(),
        assumed: vec!["a decision takes no CPU time".to_owned()],
        ..empty("5.6", plan)
    })
}

/// Series without points.
fn against(names: &[&str]) -> Vec<Series> {
    let series = names.iter().map(|name| Series::new(name, Vec::new()));
    series.collect()
}

/// Adds a point to each series: what these runs say of it.
fn add(
    series: &mut [Series],
    at: impl Into<At> + Clone,
    figures: &[&dyn Fn(&Gpu) -> f64],
    runs: &[Gpu],
) {
    for (series, figure) in series.iter_mut().zip(figures) {
        let values: Vec<_> = runs.iter().map(figure).collect();
        series.points.extend(Point::of(at.clone(), &values));
    }
}

/// What LoGA measured for the first client, in ms of the whole run: what was booked stands for what
/// came after the last decision too.
fn measured_ms(gpu: &Gpu) -> f64 {
    let measured = gpu.clients[0].measured_ms.unwrap_or_default();
    gpu.booked_ms
        .map_or(0.0, |booked| measured * gpu.length_ms / booked)
}

/// A scenario with one throttle.
fn throttle(policy: &str, length_ms: u32, kernel_us: u32, client: &str) -> String {
    // In a cycle, the pause is what the kernel leaves of it.
    let gap = if client.is_empty() { GAP } else { "0" };
    format!(
        "length_ms = {length_ms}\n[policy]\n{policy}\n\
         [[client]]\nname = \"throttle\"\n{client}\n\
         [[client.phase]]\ncpu_us = {gap}\nkernel_us = {kernel_us}\n"
    )
}

/// Runs a scenario with all seeds: its first GPU.
fn runs(text: &str, plan: &Plan, progress: &mut dyn Progress) -> Result<Vec<Gpu>, Error> {
    // PANIC: the texts are those above, and a test reads all of them.
    let scenario = parse("paper", text, &plan.changes).unwrap_or_else(|error| panic!("{error}"));
    let mut outcomes = Vec::new();
    for seed in 1..=plan.repetitions {
        outcomes.push(run(&scenario, seed, &mut None)?);
        progress.done();
    }
    let report = report("paper", &scenario, &outcomes);
    let gpus = report.runs.into_iter().map(|mut run| run.gpus.remove(0));
    Ok(gpus.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of a figure over the runs of a scenario, and its standard deviation.
    fn mean(text: &str, figure: &dyn Fn(&Gpu) -> f64) -> (f64, f64) {
        let runs = runs(text, &Plan::quick(), &mut ()).unwrap();
        let values: Vec<_> = runs.iter().map(figure).collect();
        let point = Point::of("x", &values).unwrap();
        (point.mean, point.deviation)
    }

    #[test]
    fn load_that_is_polled_all_the_time_is_measured_as_it_is() {
        let policy = "poll_always = true\nenforce = false";
        let text = throttle(policy, 200, 300, "cycle_us = 1000");
        let (load, deviation) = mean(&text, &|gpu| 100.0 * measured_ms(gpu) / gpu.length_ms);
        assert!((load - 30.0).abs() < 1.0, "{load}");
        // It never varies: nothing is drawn.
        assert!(deviation < 1e-9, "{deviation}");
    }

    #[test]
    fn cpu_time_is_one_part_in_six() {
        let (cpu, _) = mean(&throttle("", 1000, 200, ""), &|gpu| gpu.loga_cpu_pct);
        assert!((cpu * 6.0 / 100.0 - 1.0).abs() < 0.03, "{cpu}");
    }

    #[test]
    fn experiment_that_is_not_there_is_nothing() {
        assert!(figure("12", &Plan::quick(), &mut ()).is_none());
    }

    #[test]
    fn experiments_make_sense_and_run_as_often_as_they_said() {
        struct Count(u64, u64);
        impl Progress for Count {
            fn expect(&mut self, runs: u64) {
                self.0 += runs;
            }
            fn done(&mut self) {
                self.1 += 1;
            }
        }
        for number in FIGURES {
            let mut count = Count(0, 0);
            let one = figure(number, &Plan::quick(), &mut count).unwrap().unwrap();
            assert_eq!((one.check(), &*one.figure), (Ok(()), *number));
            assert!(count.0 > 0 && count.0 == count.1, "{number}");
        }
    }
}
