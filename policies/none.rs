// SPDX-License-Identifier: GPL-2.0

//! Policy `none`: nobody is throttled.
//!
//! Rule: `throttled = false`.
//! Good for: measuring what the hardware's own round robin gives.
//! Bad for: fairness; who submits the longest commands gets the most time.
//! Bound: none.
//! Source: LoGA paper, section 2 (the unscheduled GPU).

use super::{ClientState, Phase, Policy, Rule};
use crate::units::VTime;

/// Nobody is throttled, and virtual time stands still.
pub struct Nobody;

impl Policy for Nobody {
    const NAME: &'static str = "none";
    const RULE: Rule<Self> = Rule::Phases(release);
    type OfClient = ();
    type OfGpu = ();
}

fn release(phase: &Phase, (): &mut (), clients: &mut [ClientState]) -> VTime {
    clients
        .iter_mut()
        .for_each(|client| client.throttled = false);
    phase.t_sys
}
