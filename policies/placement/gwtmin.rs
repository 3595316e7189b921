// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `gwtmin`: the GPU to which the fewest programs are bound for its speed.
//!
//! `cost = (n + 1) / speed`. The program itself counts too: with `n / speed` an idle slow GPU would
//! be as good as an idle fast one.
//!
//! Good for: GPUs of different speeds. Bad for: as `gmin`; and one speed does not fit all programs.
//! Source: Strings (Sengupta and others, SC 2014), section IV, GWtMin.

use super::{Cost, Policy, Question, Unit, PPM};

/// The fewest programs for its speed.
pub(super) struct FewestForSpeed;

impl Policy for FewestForSpeed {
    const NAME: &'static str = "gwtmin";
    const COST: &'static str = "programs over speed";
    const UNIT: Unit = Unit::Millionths;

    fn cost(question: &Question<'_>) -> Cost {
        let gpu = question.gpu;
        let count = gpu.sum(|_| 1).saturating_add(1);
        (gpu.per_speed(count.saturating_mul(PPM)), 0)
    }
}
