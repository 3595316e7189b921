// SPDX-License-Identifier: GPL-2.0

//! Whether two places agree: the simulator and the real module in the virtual machine.

use crate::results::{At, Experiment};

/// How far apart two places may be at any point and agree, in percent.
pub const LIMIT: f64 = 10.0;

/// One point in two places.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Series and part of the figure.
    pub series: String,
    /// Part of the figure, if there are several.
    pub panel: Option<String>,
    /// Where on the x axis.
    pub at: At,
    /// Mean in the simulator.
    pub simulated: f64,
    /// Mean in the other place.
    pub real: f64,
    /// The simulator's over the other's, less one, in percent.
    pub off: f64,
}

/// A figure in two places.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Its points that are in both.
    pub pairs: Vec<Pair>,
}

impl Agreement {
    /// The pair that is furthest apart.
    pub fn worst(&self) -> Option<&Pair> {
        let far = |one: &&Pair, other: &&Pair| one.off.abs().total_cmp(&other.off.abs());
        self.pairs.iter().max_by(far)
    }

    /// Whether all pairs are within [`LIMIT`].
    pub fn agrees(&self) -> bool {
        self.worst().is_some_and(|worst| worst.off.abs() <= LIMIT)
    }
}

/// Compares the points that both have; what was asked for needs no comparison.
pub fn agreement(simulated: &Experiment, real: &Experiment) -> Agreement {
    let mut pairs = Vec::new();
    for series in real.series.iter().filter(|one| one.name != "intended") {
        let Some(other) = simulated.series(&series.name, series.panel.as_deref()) else {
            continue;
        };
        for point in &series.points {
            let Some(simulated) = other.point(&point.at) else {
                continue;
            };
            pairs.push(Pair {
                series: series.name.clone(),
                panel: series.panel.clone(),
                at: point.at.clone(),
                simulated: simulated.mean,
                real: point.mean,
                off: 100.0 * (simulated.mean / point.mean - 1.0),
            });
        }
    }
    Agreement { pairs }
}
