// SPDX-License-Identifier: GPL-2.0

//! Figures: measured numbers with their units and targets.

use crate::window::Observation;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;

/// Smallest and largest acceptable value.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Target {
    least: f64,
    most: f64,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            write!(f, "{}", self.least)
        } else if self.least == f64::MIN {
            write!(f, "at most {}", self.most)
        } else if self.most == f64::MAX {
            write!(f, "at least {}", self.least)
        } else {
            write!(f, "{} to {}", self.least, self.most)
        }
    }
}

/// One measured number.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    /// Nothing if it is not a number: then it meets no target.
    pub(crate) value: Option<f64>,
    pub(crate) unit: String,
    pub(crate) target: Option<Target>,
}

impl Figure {
    /// Whether the target is met; nothing where there is none.
    pub(crate) fn met(&self) -> Option<bool> {
        let target = self.target?;
        let value = self.value.unwrap_or(f64::NAN);
        Some((target.least..=target.most).contains(&value))
    }
}

/// What one scenario found.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Findings {
    pub(crate) scenario: String,
    pub(crate) figures: Vec<Figure>,
    /// The observations that the figures were calculated from.
    pub(crate) observations: Vec<Observation>,
    /// Why it ended early.
    pub(crate) error: Option<String>,
}

impl Findings {
    /// Nothing yet.
    pub(crate) fn new(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            figures: Vec::new(),
            observations: Vec::new(),
            error: None,
        }
    }

    /// Notes a number without a target.
    pub(crate) fn record(&mut self, name: &str, value: f64, unit: &str) {
        self.check(name, value, unit, None);
    }

    /// Notes why the scenario ended early.
    pub(crate) fn fail(&mut self, error: String) {
        self.error = Some(error);
    }

    /// Notes a number, with its target if it has one, and prints it, so that a long run shows its
    /// progress.
    pub(crate) fn check(
        &mut self,
        name: &str,
        value: f64,
        unit: &str,
        target: impl Into<Option<RangeInclusive<f64>>>,
    ) {
        println!("{}: {name}: {value:.3} {unit}", self.scenario);
        let target = target.into().map(|range| Target {
            least: *range.start(),
            most: *range.end(),
        });
        self.figures.push(Figure {
            name: name.to_owned(),
            value: value.is_finite().then_some(value),
            unit: unit.to_owned(),
            target,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_that_is_no_number_meets_no_target() {
        let mut findings = Findings::new("test");
        findings.check("ratio", f64::NAN, "", 0.0..=1.0);
        findings.check("inside", 1.0, "", 0.0..=1.0);
        findings.check("outside", 1.1, "", 0.0..=1.0);
        findings.record("untargeted", 5.0, "");
        let met: Vec<_> = findings.figures.iter().map(Figure::met).collect();
        assert_eq!(met, [Some(false), Some(true), Some(false), None]);
    }

    #[test]
    fn findings_round_trip_as_json() {
        let mut findings = Findings::new("test");
        findings.check("share", 26.5, "%", 24.0..=30.0);
        findings.check("no number", f64::NAN, "%", f64::MIN..=0.5);
        let json = serde_json::to_string(&findings).expect("json");
        let back: Findings = serde_json::from_str(&json).expect("the same");
        assert_eq!(back.figures, findings.figures);
    }
}
