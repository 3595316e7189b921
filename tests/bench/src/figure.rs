// SPDX-License-Identifier: GPL-2.0

//! Figures: what was measured, in which unit, and what it is held against.

use serde::Serialize;
use std::ops::RangeInclusive;

/// One measured number.
#[derive(Serialize)]
struct Figure {
    scenario: String,
    name: String,
    value: f64,
    unit: &'static str,
    /// Smallest and largest acceptable value; nothing where none is given.
    target: Option<(f64, f64)>,
    met: bool,
}

/// All figures of a run.
#[derive(Default, Serialize)]
pub(crate) struct Figures {
    figures: Vec<Figure>,
    failures: Vec<String>,
}

impl Figures {
    /// Notes a number that has a target, and prints it.
    pub(crate) fn check(
        &mut self,
        scenario: &str,
        name: &str,
        value: f64,
        unit: &'static str,
        target: RangeInclusive<f64>,
    ) {
        self.add(
            scenario,
            name,
            value,
            unit,
            Some((*target.start(), *target.end())),
        );
    }

    /// Notes a number without a target, and prints it.
    pub(crate) fn tell(&mut self, scenario: &str, name: &str, value: f64, unit: &'static str) {
        self.add(scenario, name, value, unit, None);
    }

    fn add(
        &mut self,
        scenario: &str,
        name: &str,
        value: f64,
        unit: &'static str,
        target: Option<(f64, f64)>,
    ) {
        let met = target.is_none_or(|(least, most)| (least..=most).contains(&value));
        let against = match target {
            Some((least, most)) => format!(
                "  want {least:.2} to {most:.2}: {}",
                if met { "met" } else { "MISSED" }
            ),
            None => String::new(),
        };
        println!("{scenario:<14} {name:<44} {value:>12.3} {unit}{against}");
        self.figures.push(Figure {
            scenario: scenario.to_owned(),
            name: name.to_owned(),
            value,
            unit,
            target,
            met,
        });
    }

    /// Notes a scenario that could not be carried out.
    pub(crate) fn fail(&mut self, scenario: &str, error: &str) {
        self.failures.push(format!("{scenario}: {error}"));
    }

    /// How many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.figures.len()
    }

    /// Targets missed and scenarios not carried out.
    pub(crate) fn missed(&self) -> usize {
        self.failures.len() + self.figures.iter().filter(|figure| !figure.met).count()
    }

    /// All of it.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
