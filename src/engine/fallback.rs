// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Why all clients run against the decision.

use super::Violation;
use crate::units::Ns;

/// Why all clients run against the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The policy broke its contract.
    Contract(Violation),
    /// The main thread missed a deadline.
    Late {
        /// By this much.
        by: Ns,
    },
    /// A client was throttled on an idle GPU.
    IdleThrottle {
        /// For this long.
        lasting: Ns,
    },
    /// A policy throttled all clients without a break.
    Barrier {
        /// For this long.
        lasting: Ns,
    },
}
