// SPDX-License-Identifier: GPL-2.0

//! [tool] The experiments of the LoGA paper that need one load only: Figures 9 and 10 and the CPU
//! time of section 5.6.
//!
//! Each is a scenario of this simulator with the settings of the paper: 12 channels, 1 ms polled
//! and 5 ms not per channel, ten repetitions. What the paper does not say is assumed, and named
//! in the result. Nothing is chosen to hit a number.

use crate::report::{report, Client, Gpu, Spread};
use crate::run::{run, Error};
use crate::scenario::parse;
use serde::Serialize;

/// Repetitions, as in the paper.
const SEEDS: u64 = 10;
/// Time from the end of a kernel to the launch of the next, in us; not given in the paper.
const GAP: &str = "{ uniform = [5, 15] }";

/// Names of the experiments.
pub const FIGURES: &[&str] = &["9", "10", "5.6"];

/// A point of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// What was asked for.
    pub intended: f64,
    /// What LoGA measured.
    pub measured: Spread,
    /// What the GPU's own record says.
    pub truth: Spread,
    /// Measured over intended, less one, in percent.
    pub off_intended_pct: f64,
    /// Measured over the truth, less one, in percent.
    pub off_truth_pct: f64,
}

/// An experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub figure: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Unit of the points.
    pub unit: &'static str,
    /// What the paper found.
    pub paper: &'static str,
    /// What the paper does not say and is assumed here.
    pub assumed: &'static str,
    /// Runs of each point.
    pub seeds: u64,
    /// The points.
    pub points: Vec<Point>,
}

/// Runs an experiment by its number; nothing if there is none.
///
/// # Errors
///
/// A run does not count.
pub fn figure(number: &str) -> Option<Result<Figure, Error>> {
    match number {
        "9" => Some(kernel_length()),
        "10" => Some(load()),
        "5.6" => Some(cpu()),
        _ => None,
    }
}

/// Figure 9: one throttle at full load, polled all the time, kernels of 100 to 1000 us.
fn kernel_length() -> Result<Figure, Error> {
    let per_kernel = |client: &Client, ms: f64| ms * 1000.0 / client.kernels.max(1) as f64;
    let points = (1..=10).map(|step| {
        let us = 100 * step;
        let text = throttle("poll_always = true\nenforce = false", 10_000, us, "");
        let measured = |gpu: &Gpu| per_kernel(&gpu.clients[0], measured_ms(gpu));
        let truth = |gpu: &Gpu| per_kernel(&gpu.clients[0], gpu.clients[0].gpu_ms);
        point(f64::from(us), &text, &measured, &truth)
    });
    Ok(Figure {
        figure: "9",
        title: "Intended and measured kernel length of throttle",
        unit: "us",
        paper: "underestimates by up to 6 %, because two registers of different engines are read \
                that do not change together",
        assumed: "5 to 15 us from the end of a kernel to the next launch; one register read of \
                  1 us, so that the cause of the paper's error is not there",
        seeds: SEEDS,
        points: points.collect::<Result<_, _>>()?,
    })
}

/// Figure 10: a kernel of 100 to 1000 us in each cycle of 1000 us, polled all the time.
fn load() -> Result<Figure, Error> {
    let points = (1..=10).map(|step| {
        let us = 100 * step;
        let text = throttle(
            "poll_always = true\nenforce = false",
            10_000,
            us,
            "cycle_us = 1000",
        );
        let measured = |gpu: &Gpu| 100.0 * measured_ms(gpu) / gpu.length_ms;
        let truth = |gpu: &Gpu| gpu.utilisation_pct;
        point(f64::from(us) / 10.0, &text, &measured, &truth)
    });
    Ok(Figure {
        figure: "10",
        title: "Intended and measured GPU load",
        unit: "percent",
        paper: "within 2.5 % of the intended load in all cases",
        assumed: "a kernel is launched at the very beginning of its cycle",
        seeds: SEEDS,
        points: points.collect::<Result<_, _>>()?,
    })
}

/// Section 5.6: CPU time with phases of 1 ms and 5 ms per channel.
fn cpu() -> Result<Figure, Error> {
    let text = throttle("", 100_000, 200, "");
    let measured = |gpu: &Gpu| gpu.loga_cpu_pct;
    let polled = |gpu: &Gpu| 100.0 * gpu.loga_cpu_ms / gpu.length_ms;
    Ok(Figure {
        figure: "5.6",
        title: "CPU time of LoGA",
        unit: "percent of one CPU",
        paper: "16.7 % expected, 17 % measured; the rest is put down to decisions",
        assumed: "a decision takes no CPU time; truth is the same figure here",
        seeds: SEEDS,
        points: vec![point(100.0 / 6.0, &text, &measured, &polled)?],
    })
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
        "length_ms = {length_ms}\nseeds = {SEEDS}\n[policy]\n{policy}\n\
         [[client]]\nname = \"throttle\"\n{client}\n\
         [[client.phase]]\ncpu_us = {gap}\nkernel_us = {kernel_us}\n"
    )
}

/// Runs a scenario with all seeds.
fn point(
    intended: f64,
    text: &str,
    measured: &dyn Fn(&Gpu) -> f64,
    truth: &dyn Fn(&Gpu) -> f64,
) -> Result<Point, Error> {
    // PANIC: the texts are those above, and a test reads all of them.
    let scenario = parse("paper", text, &[]).unwrap_or_else(|error| panic!("{error}"));
    let outcomes: Vec<_> = (1..=scenario.seeds)
        .map(|seed| run(&scenario, seed, &mut None))
        .collect::<Result<_, _>>()?;
    let report = report("paper", &scenario, &outcomes);
    let gpus = || report.runs.iter().map(|run| &run.gpus[0]);
    let zero = Spread {
        mean: 0.0,
        deviation: 0.0,
    };
    let measured = Spread::of(gpus().map(measured)).unwrap_or(zero);
    let truth = Spread::of(gpus().map(truth)).unwrap_or(zero);
    Ok(Point {
        intended,
        off_intended_pct: 100.0 * (measured.mean / intended - 1.0),
        off_truth_pct: 100.0 * (measured.mean / truth.mean - 1.0),
        measured,
        truth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_that_is_polled_all_the_time_is_measured_as_it_is() {
        let policy = "poll_always = true\nenforce = false";
        let text = throttle(policy, 200, 300, "cycle_us = 1000");
        let measured = |gpu: &Gpu| 100.0 * measured_ms(gpu) / gpu.length_ms;
        let point = point(30.0, &text, &measured, &|gpu| gpu.utilisation_pct).unwrap();
        assert!(point.off_intended_pct.abs() < 3.0, "{point:?}");
        // It never varies: nothing is drawn.
        assert!(point.measured.deviation < 1e-9, "{point:?}");
    }

    #[test]
    fn cpu_time_is_one_part_in_six() {
        let text = throttle("", 1000, 200, "");
        let cpu = |gpu: &Gpu| gpu.loga_cpu_pct;
        let point = point(100.0 / 6.0, &text, &cpu, &cpu).unwrap();
        assert!(point.off_intended_pct.abs() < 3.0, "{point:?}");
    }

    #[test]
    fn experiment_that_is_not_there_is_nothing() {
        assert!(figure("12").is_none());
    }
}
