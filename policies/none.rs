// SPDX-License-Identifier: GPL-2.0

//! Policy `none`: no client is throttled.
//!
//! Rule: `throttled = false`.
//! Good for: measuring what the hardware's own round robin gives.
//! Bad for: fairness; the client that submits the longest commands gets the most time.
//! Bound: none.
//! Source: LoGA paper, section 2 (the unscheduled GPU).

use super::{ClientState, Phase, Policy, Rule};
use crate::units::VTime;

/// No client is throttled, and virtual time stands still.
pub struct Unmanaged;

impl Policy for Unmanaged {
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
