// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `guf`: the GPU of which the least is used.
//!
//! `cost = (U + u) / speed`, with u the part of its time for which a program uses the GPU, computing
//! or copying, and U the sum over the programs there.
//!
//! Good for: programs of very different use. Bad for: it takes neither the length of kernels nor
//! weights into account.
//! Source: Strings (Sengupta and others, SC 2014), section IV, GUF.

use super::{Bound, Demand, Needs, Policy, Question, Unit};

/// The least use of the GPU.
pub(super) struct LeastUse;

/// Use of both engines.
fn use_of(demand: &Demand) -> u64 {
    demand.want.saturating_add(demand.copy)
}

impl Policy for LeastUse {
    const NAME: &'static str = "guf";
    const COST: &'static str = "use over speed";
    const UNIT: Unit = Unit::Millionths;
    const NEEDS: Needs = Needs::Demand;
    const TERMS: [&'static str; 2] = ["there", "own"];

    fn terms(question: &Question<'_>) -> [u64; 2] {
        let gpu = question.gpu;
        let own = use_of(&question.newcomer.demand);
        let all = gpu.sum(|one: &Bound| use_of(&one.demand));
        [gpu.per_speed(all), gpu.per_speed(own)]
    }
}
