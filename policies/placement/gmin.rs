// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `gmin`: the GPU to which the fewest programs are bound.
//!
//! `cost = n`.
//!
//! Good for: programs that are alike. Bad for: programs that are bound and do nothing count as much
//! as those that always compute.
//! Source: Strings (Sengupta and others, SC 2014), section IV, GMin.

use super::{Cost, Policy, Question, Unit};

/// The fewest programs.
pub(super) struct FewestPrograms;

impl Policy for FewestPrograms {
    const NAME: &'static str = "gmin";
    const COST: &'static str = "programs there";
    const UNIT: Unit = Unit::Count;

    fn cost(question: &Question<'_>) -> Cost {
        (question.gpu.sum(|_| 1), 0)
    }
}
