// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The result of an experiment, wherever it ran: one JSON file, the same layout for the simulator,
//! the virtual machine and a host with a card. `docs/eval.md` describes it.
//!
//! There are numbers here and where they come from, no verdicts: whether a finding of the paper
//! holds is calculated from the numbers each time a report is made.

mod experiment;
mod figures;
mod file;
mod point;
pub mod reduced;
pub mod stats;
mod throttles;
pub mod whole;

pub use experiment::{Axis, Difference, Experiment, Origin, Setting, SettingValue, Unit};
pub use figures::FIGURES;
pub use file::Error;
pub use point::{geometric_mean, At, Point, Series};
pub use throttles::{Throttles, ALONE, FOUR, TEN_LONG, TEN_SHORT};

/// Version of the layout: raised when a member changes its meaning or goes away.
pub const VERSION: u32 = 2;

/// Name of the point that the paper draws at the right of Figure 7.
pub const GEOMETRIC_MEAN: &str = "geometric mean";
