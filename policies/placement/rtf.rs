// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `rtf`: the GPU whose programs, with the new one, will be done the earliest.
//!
//! `cost = sum of what its programs have left + T / speed`, with T the time of the program alone on
//! the fastest GPU. A program without a history counts as if it had half of T left.
//!
//! Good for: programs of known and very different lengths. Bad for: programs that run for long and
//! use little.
//! Source: Strings (Sengupta and others, SC 2014), section IV, RTF; the floor of what is left is
//! [`remaining`](super::remaining)'s.

use super::{Needs, Policy, Question, Unit};
use crate::units::Ns;

/// The least time until its programs have ended.
pub(super) struct EarliestEnd;

impl Policy for EarliestEnd {
    const NAME: &'static str = "rtf";
    const COST: &'static str = "time until all there have ended";
    const UNIT: Unit = Unit::Time;
    const NEEDS: Needs = Needs::Time;
    const TERMS: [&'static str; 2] = ["there", "own"];

    fn terms(question: &Question<'_>) -> [u64; 2] {
        let gpu = question.gpu;
        let own = question.newcomer.time.unwrap_or_default();
        let unknown = Ns::new(own.get() / 2);
        let left = gpu.sum(|one| one.left.unwrap_or(unknown).get());
        [left, gpu.per_speed(own.get())]
    }
}
