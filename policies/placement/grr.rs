// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `grr`: the next GPU in turn.
//!
//! `cost = (index - last - 1) mod N`, over the N GPUs of the pool.
//!
//! Good for: programs that are alike, and GPUs of one speed. Bad for: all others, since it knows
//! neither what runs nor what ended.
//! Source: Strings (Sengupta and others, SC 2014), section IV, GRR.

use super::{Cost, Policy, Question, Unit};

/// The next GPU in turn.
pub(super) struct RoundRobin;

impl Policy for RoundRobin {
    const NAME: &'static str = "grr";
    const COST: &'static str = "GPUs before it in turn";
    const UNIT: Unit = Unit::Count;

    fn cost(question: &Question<'_>) -> Cost {
        let count = question.gpus.len();
        let first = match question.last {
            Some(last) => last.saturating_add(1).checked_rem(count).unwrap_or(0),
            None => 0,
        };
        let steps = match question.at.checked_sub(first) {
            Some(steps) => steps,
            None => question.at.saturating_add(count).saturating_sub(first),
        };
        // CAST: usize fits u64 on every supported target.
        (steps as u64, 0)
    }
}
