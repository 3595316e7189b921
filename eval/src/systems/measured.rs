// SPDX-License-Identifier: GPL-2.0

//! What the module itself takes on the model of a GPU, in a virtual machine in which an instruction
//! is a nanosecond: figures of `make bench` that documents cite (`docs/figures.md`).

use serde::Deserialize;
use std::collections::BTreeMap;

/// Those that are kept.
const KEPT: &str = include_str!("../../../docs/measured/bench.json");

/// What is kept of a scenario of the bench.
#[derive(Deserialize)]
pub(super) struct Scenario {
    commit: String,
    figures: BTreeMap<String, Figure>,
}

/// A figure, with one value for each seed.
#[derive(Deserialize)]
struct Figure {
    values: Vec<f64>,
}

/// What is kept of the scenario of this name.
///
/// # Panics
///
/// If nothing is.
pub(super) fn scenario(name: &str) -> Scenario {
    // PANIC: the file is part of the project, and tests make all figures that read it.
    let mut all: BTreeMap<String, Scenario> =
        serde_json::from_str(KEPT).expect("figures of the bench");
    all.remove(name).expect("a scenario of the bench")
}

impl Scenario {
    /// The commit that was measured.
    pub(super) fn commit(&self) -> &str {
        &self.commit[..7]
    }

    /// The mean of a figure over the seeds.
    ///
    /// # Panics
    ///
    /// If it is not kept.
    pub(super) fn mean(&self, name: &str) -> f64 {
        // PANIC: as above.
        let figure = self.figures.get(name).expect("a figure of the bench");
        let sum: f64 = figure.values.iter().sum();
        // CAST: a few seeds.
        sum / figure.values.len() as f64
    }
}
