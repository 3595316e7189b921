// SPDX-License-Identifier: GPL-2.0

//! Policy `none`: nobody is held back.
//!
//! Rule: `held = false`.
//! Good for: measuring what the hardware's own round robin gives.
//! Bad for: fairness; who submits the longest commands gets the most time.
//! Bound: none.
//! Source: LoGA paper, section 2 (the unscheduled GPU).

use super::{ClientState, Memory, Phase, Policy};
use crate::units::VTime;

/// Nobody is held back, and virtual time stands still.
pub(super) struct Nobody;

impl Policy for Nobody {
    const NAME: &'static str = "none";

    fn decide(phase: &Phase, _: &mut Memory, clients: &mut [ClientState]) -> VTime {
        for client in clients {
            client.held = false;
        }
        phase.t_sys
    }
}
