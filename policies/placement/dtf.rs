// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Placement `dtf`: programs that copy go beside programs that compute.
//!
//! `cost = (max(C + c, X + x) / speed, (C + c + X + x) / speed)`, with c and x the parts of its time
//! for which a program computes and copies, and C and X the sums over the programs there.
//!
//! Good for: programs of which some copy much, on GPUs that copy and compute at a time. Bad for: as
//! `guf`.
//! Source: Strings (Sengupta and others, SC 2014), section IV, DTF, which gives no formula.

use super::{Cost, Needs, Policy, Question, Unit};

/// The least use of the engine that is used more.
pub(super) struct LeastUsedEngine;

impl Policy for LeastUsedEngine {
    const NAME: &'static str = "dtf";
    const COST: &'static str = "use of the busier engine over speed";
    const UNIT: Unit = Unit::Millionths;
    const NEEDS: Needs = Needs::Demand;
    const TERMS: [&'static str; 2] = ["compute", "copies"];

    fn terms(question: &Question<'_>) -> [u64; 2] {
        let (gpu, own) = (question.gpu, &question.newcomer.demand);
        let compute = gpu.sum(|one| one.demand.want).saturating_add(own.want);
        let copy = gpu.sum(|one| one.demand.copy).saturating_add(own.copy);
        [gpu.per_speed(compute), gpu.per_speed(copy)]
    }

    fn cost(question: &Question<'_>) -> Cost {
        let [compute, copy] = Self::terms(question);
        (compute.max(copy), compute.saturating_add(copy))
    }
}
