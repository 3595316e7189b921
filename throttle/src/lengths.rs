// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Lengths of kernels: what was asked for, what the device's own events say, the difference.

use crate::statistics::SAMPLES_MAX;
use serde::{Deserialize, Serialize};

/// Asked and measured lengths of kernels, in ns.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    errors: Vec<f64>,
    count: u64,
    asked_ns: u64,
    measured_ns: u64,
}

impl Lengths {
    /// Notes one kernel.
    pub fn note(&mut self, asked_ns: u64, measured_ns: u64) {
        self.count = self.count.saturating_add(1);
        self.asked_ns = self.asked_ns.saturating_add(asked_ns);
        self.measured_ns = self.measured_ns.saturating_add(measured_ns);
        if self.errors.len() < SAMPLES_MAX && asked_ns > 0 {
            let error = (measured_ns as f64 - asked_ns as f64) / asked_ns as f64;
            self.errors.push(100.0 * error);
        }
    }

    /// The figures to print.
    pub fn check(&self) -> LengthCheck {
        let mut sorted = self.errors.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let far = |error: &&f64, other: &&f64| error.abs().total_cmp(&other.abs());
        LengthCheck {
            kernels: self.count,
            asked_us: self.asked_ns as f64 / 1000.0,
            measured_us: self.measured_ns as f64 / 1000.0,
            error_mean_percent: if self.asked_ns == 0 {
                0.0
            } else {
                100.0 * (self.measured_ns as f64 / self.asked_ns as f64 - 1.0)
            },
            error_median_percent: sorted.get(sorted.len() / 2).copied().unwrap_or(0.0),
            error_least_percent: sorted.first().copied().unwrap_or(0.0),
            error_worst_percent: sorted.iter().max_by(far).copied().unwrap_or(0.0),
        }
    }
}

/// How far kernels were from the length asked for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LengthCheck {
    /// Kernels measured.
    pub kernels: u64,
    /// Sum of the lengths asked for.
    pub asked_us: f64,
    /// Sum of the lengths by the device's events.
    pub measured_us: f64,
    /// Measured over asked, less one.
    pub error_mean_percent: f64,
    /// Median of the kernels' errors (the upper one of two).
    pub error_median_percent: f64,
    /// Error of the shortest kernel for its length: what others on the device did not disturb.
    pub error_least_percent: f64,
    /// The error farthest from zero.
    pub error_worst_percent: f64,
}

/// What a kernel spins on.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Timer {
    /// CUDA's %globaltimer, in ns.
    GlobalTimer,
    /// CUDA's %clock64, in cycles.
    Clock64,
    /// None: a loop of a number of rounds.
    Loop,
}

/// A device, how its kernels spin, and how exactly.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct DeviceReport {
    /// The library and its version.
    pub library: String,
    /// The device's name for itself.
    pub name: String,
    /// What the kernels spin on.
    pub timer: Timer,
    /// Units of the timer in a microsecond by the device's events.
    pub units_per_us: f64,
    /// Length of a kernel that does not spin by the device's events; spinning is shorter by it.
    pub fixed_us: f64,
    /// Kernels before the start, one at a time.
    pub check: LengthCheck,
    /// Kernels of the run.
    pub run: LengthCheck,
}

impl DeviceReport {
    /// One line for a person.
    pub fn text(&self) -> String {
        let one = |what: &str, check: &LengthCheck| {
            format!(
                "{what} {} kernels: mean {:+.1} %, median {:+.1} %, \
                 least {:+.1} %, worst {:+.1} %",
                check.kernels,
                check.error_mean_percent,
                check.error_median_percent,
                check.error_least_percent,
                check.error_worst_percent
            )
        };
        let timer = match self.timer {
            Timer::GlobalTimer => "%globaltimer",
            Timer::Clock64 => "%clock64",
            Timer::Loop => "a loop",
        };
        format!(
            "{} ({}), spins on {timer}; length by its own events against the length asked for, {}; {}",
            self.name,
            self.library,
            one("before the start,", &self.check),
            one("in the run,", &self.run)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_of_known_lengths_is_exact() {
        let mut lengths = Lengths::default();
        for (asked, measured) in [(1000, 1000), (1000, 1100), (2000, 1000)] {
            lengths.note(asked, measured);
        }
        let check = lengths.check();
        assert_eq!(check.kernels, 3);
        assert_eq!((check.asked_us, check.measured_us), (4.0, 3.1));
        assert!((check.error_mean_percent + 22.5).abs() < 1e-9);
        assert_eq!(check.error_median_percent, 0.0);
        assert_eq!(check.error_least_percent, -50.0);
        assert_eq!(check.error_worst_percent, -50.0);
    }

    #[test]
    fn check_of_nothing_is_zero() {
        assert_eq!(Lengths::default().check(), LengthCheck::default());
    }
}
