// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the cost of sampling in Figure 7a comes from: the same with one thing changed.

use super::beside::{ratios, App};
use super::plan::{Plan, Progress};
use super::way::Way;
use crate::outcome::Error;
use crate::results::stats::mean;
use crate::results::Throttles;
use crate::scenario::{Phase, Span};

/// The application that is changed: it waits for each of its kernels.
pub(super) const APP: &str = "heartwall";
/// Time on a CPU for each of its pictures, in ms, in the place of its own.
const CPU_MS: u64 = 40;
/// Lengths of kernels that follow each other at once, in ms.
const KERNELS_MS: [u64; 4] = [1, 20, 50, 127];
/// Time on a CPU between them, in us.
const GAP_US: u64 = 10;
/// Ways, each without accounting and with sampling.
const RUNS: u64 = 2 * (1 + KERNELS_MS.len() as u64);

/// What sampling costs, in percent.
pub(super) struct Isolated {
    /// With [`CPU_MS`] for each picture.
    with_cpu: f64,
    /// With kernels that follow each other.
    back_to_back: Vec<f64>,
}

impl Isolated {
    /// Runs the variants.
    pub(super) fn run(
        throttles: Throttles,
        plan: &Plan,
        progress: &mut dyn Progress,
    ) -> Result<Self, Error> {
        progress.expect(RUNS * plan.repetitions);
        let mut cost = |change: &dyn Fn(&mut Vec<Phase>)| -> Result<f64, Error> {
            let app = App::changed(APP, plan, change)?;
            let none = app.runs(throttles, Way::NONE, plan, progress)?;
            let got = ratios(
                &app,
                &none,
                throttles,
                Way::SAMPLING_ACCOUNTS,
                plan,
                progress,
            )?;
            Ok(100.0 * (mean(got) - 1.0))
        };
        let with_cpu = cost(&|phases| {
            let pictures = phases.iter_mut().filter(|phase| phase.kernel.is_some());
            pictures.for_each(|phase| phase.cpu = Span::us(CPU_MS * 1000));
        })?;
        let back_to_back = KERNELS_MS.map(|ms| {
            cost(&|phases| {
                phases.truncate(1);
                for phase in phases {
                    phase.cpu = Span::us(GAP_US);
                    phase.copy = None;
                    phase.kernel = Some(Span::us(ms * 1000));
                }
            })
        });
        Ok(Self {
            with_cpu,
            back_to_back: back_to_back.into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// What they show, beside what sampling costs the application as it is, in percent.
    pub(super) fn explain(&self, as_it_is: f64) -> String {
        let list = |all: &[String]| all.join(", ");
        let costs = self.back_to_back.iter().map(|one| format!("{one:.1}"));
        let costs: Vec<_> = costs.collect();
        let lengths: Vec<_> = KERNELS_MS.iter().map(ToString::to_string).collect();
        format!(
            "Isolated with {APP} ({as_it_is:.1} %): with {CPU_MS} ms of a CPU for each picture \
             it is {:.1} %, because pauses shorter than a season of some 150 ms end within it. \
             Long kernels lower it, because drains wait for them: {} % with kernels of {} ms back \
             to back",
            self.with_cpu,
            list(&costs),
            list(&lengths)
        )
    }
}
