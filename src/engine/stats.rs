// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What an engine counts.

use crate::units::Ns;

/// What the engine has done so far. All values only grow, but for the last phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Polling phases that ended.
    pub decisions: u64,
    /// Fallbacks: times all clients were let run against a decision.
    pub fallbacks: u64,
    /// Sum of the lengths of all polling phases.
    pub polled: Ns,
    /// Sum of the lengths of all non-polling phases.
    pub unpolled: Ns,
    /// Length of the last polling phase.
    pub last_poll: Ns,
    /// Length of the non-polling phase before it.
    pub last_nonpoll: Ns,
    /// Scans for policies that work in stages.
    pub scans: u64,
    /// Times a channel did not run empty within the bound of such a policy.
    pub overdue: u64,
    /// Times the policy was changed, or enforcement switched on.
    pub changes: u64,
}
