// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The experiments of the LoGA paper.
//!
//! Figures 9 and 10 and the CPU time of section 5.6 are here; [`overhead`] has Figures 7 and 8,
//! [`isolated`] what is changed to find causes, [`quality`] Figure 11, [`vm`] what the real
//! module was measured with, [`apart`] why the two differ where they do.
//!
//! Each is a scenario of this simulator with the settings of the paper: 12 channels, 1 ms polled
//! and 5 ms not per channel, ten repetitions. What the paper does not say is assumed, and named
//! in the result. Nothing is chosen to hit a number.

mod apart;
mod beside;
mod isolated;
mod overhead;
mod plan;
mod quality;
pub mod vm;
mod way;

pub use plan::{Plan, Progress};

use self::way::{EVENT, WATCHES};
use crate::outcome::{ms, Error, GpuOutcome};
use crate::results::{At, Experiment, Point, Series, TEN_LONG, TEN_SHORT};
use crate::scenario::{Client, Phase, Policy, Scenario, Span};
use loga::units::Ns;

/// Time from the end of a kernel to the launch of the next; not given in the paper.
const GAP: Span = Span::uniform_us(5.0, 15.0);
/// Length of the runs of Figures 9 and 10, and of section 5.6.
const LENGTH: Ns = Ns::from_ms(10_000);
const LENGTH_CPU: Ns = Ns::from_ms(100_000);

/// Runs an experiment by its number; nothing if there is none.
pub fn figure(
    number: &str,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Option<Result<Experiment, Error>> {
    match number {
        "7a" => Some(overhead::overhead(TEN_SHORT, plan, progress)),
        "7b" => Some(overhead::overhead(TEN_LONG, plan, progress)),
        "8" => Some(overhead::throttles(plan, progress)),
        "11" => Some(quality::quality(plan, progress)),
        "9" => Some(kernel_length(plan, progress)),
        "10" => Some(load(plan, progress)),
        "5.6" => Some(cpu(plan, progress)),
        _ => None,
    }
}

/// Kernel lengths of Figures 9 and 10, in us.
fn lengths(plan: &Plan) -> Vec<u64> {
    let all = (1..=10).map(|step| 100 * step);
    all.filter(|us| !plan.quick || us % 500 == 0).collect()
}

/// Figure 9: one throttle at full load, polled all the time, kernels of 100 to 1000 us.
fn kernel_length(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let per_kernel =
        |gpu: &GpuOutcome, ms: f64| ms * 1000.0 / gpu.clients[0].compute.commands.max(1) as f64;
    let measured = |gpu: &GpuOutcome| per_kernel(gpu, measured_ms(gpu));
    let truth = |gpu: &GpuOutcome| per_kernel(gpu, ms(gpu.clients[0].compute.run));
    let lengths = lengths(plan);
    progress.expect(lengths.len() as u64 * plan.repetitions);
    let mut series = against(&["intended", "truth", "event"]);
    for us in lengths {
        let scenario = throttle(WATCHES, LENGTH, us, None, plan);
        // CAST: at most a thousand.
        let at = us as f64;
        let runs = runs(scenario, plan, progress)?;
        add(&mut series, at, &[&|_| at, &truth, &measured], &runs);
    }
    Ok(Experiment {
        series,
        assumed: vec![
            "5 to 15 us from the end of a kernel to the next launch".to_owned(),
            "one register read of 1 us, so that the cause of the paper's error is not there"
                .to_owned(),
        ],
        ..plan.empty("9")
    })
}

/// Figure 10: a kernel of 100 to 1000 us in each cycle of 1000 us, polled all the time.
fn load(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let measured = |gpu: &GpuOutcome| 100.0 * measured_ms(gpu) / ms(gpu.length);
    let truth = GpuOutcome::utilisation_pct;
    let lengths = lengths(plan);
    progress.expect(lengths.len() as u64 * plan.repetitions);
    let mut series = against(&["intended", "truth", "event"]);
    for us in lengths {
        let scenario = throttle(WATCHES, LENGTH, us, Some(Ns::from_us(1000)), plan);
        // CAST: at most a thousand.
        let at = us as f64 / 10.0;
        let runs = runs(scenario, plan, progress)?;
        add(&mut series, at, &[&|_| at, &truth, &measured], &runs);
    }
    Ok(Experiment {
        series,
        assumed: vec!["a kernel is launched at the very beginning of its cycle".to_owned()],
        ..plan.empty("10")
    })
}

/// Section 5.6: CPU time with phases of 1 ms and 5 ms per channel.
fn cpu(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    progress.expect(plan.repetitions);
    let runs = runs(throttle(EVENT, LENGTH_CPU, 200, None, plan), plan, progress)?;
    let mut series = against(&["intended", "event"]);
    let measured = |gpu: &GpuOutcome| gpu.percent(gpu.ledger.cpu);
    add(&mut series, "event", &[&|_| 100.0 / 6.0, &measured], &runs);
    for (series, paper) in series.iter_mut().zip([16.7, 17.0]) {
        series.points[0].paper = Some(paper);
    }
    Ok(Experiment {
        series,
        assumed: vec!["a decision takes no CPU time".to_owned()],
        ..plan.empty("5.6")
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
    figures: &[&dyn Fn(&GpuOutcome) -> f64],
    runs: &[GpuOutcome],
) {
    for (series, figure) in series.iter_mut().zip(figures) {
        let values: Vec<_> = runs.iter().map(figure).collect();
        series.points.extend(Point::of(at.clone(), &values));
    }
}

/// What LoGA measured for the first client, in ms of the whole run: what was booked stands for what
/// came after the last decision too.
fn measured_ms(gpu: &GpuOutcome) -> f64 {
    let measured = gpu.clients[0].measured_ms().unwrap_or_default();
    gpu.booked_ms()
        .map_or(0.0, |booked| measured * ms(gpu.length) / booked)
}

/// A scenario with one throttle.
fn throttle(policy: Policy, length: Ns, us: u64, cycle: Option<Ns>, plan: &Plan) -> Scenario {
    // In a cycle, the pause is what the kernel leaves of it.
    let gap = if cycle.is_none() { GAP } else { Span::us(0) };
    let phase = Phase::new(gap, Span::us(us));
    let client = Client {
        cycle,
        ..Client::new("throttle", vec![phase])
    };
    Scenario {
        policy,
        clients: vec![client],
        ..Scenario::new(length, plan.costs)
    }
}

/// Runs a scenario with all seeds; its client is there from the beginning.
fn runs(
    scenario: Scenario,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Vec<GpuOutcome>, Error> {
    plan.runs(scenario, |_| Ns::ZERO, progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::FIGURES;

    /// Mean of a figure over the runs of a scenario, and its standard deviation.
    fn mean(
        policy: Policy,
        ms: u64,
        us: u64,
        cycle: Option<Ns>,
        figure: &dyn Fn(&GpuOutcome) -> f64,
    ) -> (f64, f64) {
        let plan = Plan::quick();
        let scenario = throttle(policy, Ns::from_ms(ms), us, cycle, &plan);
        let runs = runs(scenario, &plan, &mut ()).unwrap();
        let values: Vec<_> = runs.iter().map(figure).collect();
        let point = Point::of("x", &values).unwrap();
        (point.mean, point.deviation)
    }

    #[test]
    fn load_that_is_polled_all_the_time_is_measured_as_it_is() {
        let load = |gpu: &GpuOutcome| 100.0 * measured_ms(gpu) / ms(gpu.length);
        let (load, deviation) = mean(WATCHES, 200, 300, Some(Ns::from_us(1000)), &load);
        assert!((load - 30.0).abs() < 1.0, "{load}");
        // It never varies: nothing is drawn.
        assert!(deviation < 1e-9, "{deviation}");
    }

    #[test]
    fn cpu_time_is_one_part_in_six() {
        let (cpu, _) = mean(EVENT, 1000, 200, None, &|gpu| gpu.percent(gpu.ledger.cpu));
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
            assert!(count.0 > 0, "{number}");
            assert!(count.0 == count.1, "{number}");
        }
    }
}
