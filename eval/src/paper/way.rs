// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The scheduler or accounting of an experiment.

use crate::scenario::{Kind, Policy};
use loga::policies::PolicyKind;

/// Cost of the scan of a channel for NEON, in us: it reads a word of memory, not registers.
pub(super) const NEON_SCAN_US: f64 = 0.1;
/// LoGA as in the paper.
pub(super) const EVENT: Policy = Policy::paper(Kind::Loga(PolicyKind::Event));
/// It accounts all the time.
pub(super) const WATCHES: Policy = Policy {
    enforce: false,
    poll_always: true,
    ..EVENT
};

/// How GPUs are shared in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// Name of the series.
    pub(super) name: &'static str,
    /// The scheduler.
    pub(super) policy: Policy,
    /// Cost of the scan of a channel, in us, where it differs from the plan.
    pub(super) scan_us: Option<f64>,
}

impl Way {
    /// No scheduler and no accounting.
    pub(super) const NONE: Self = Self::new("none", Policy::paper(Kind::Hardware));
    /// LoGA accounts.
    pub(super) const EVENT_ACCOUNTS: Self = Self::new(
        "event",
        Policy {
            enforce: false,
            ..EVENT
        },
    );
    /// LoGA accounts all the time, and all come at once.
    pub(super) const EVENT_WATCHES: Self = Self::new("event", WATCHES);
    /// NEON accounts.
    pub(super) const SAMPLING_ACCOUNTS: Self = Self {
        policy: Policy {
            enforce: false,
            ..Self::SAMPLING.policy
        },
        ..Self::SAMPLING
    };
    /// NEON: what sets it apart from the policy `sampling` of LoGA is that submissions of a client
    /// that is watched are trapped, and the cost of a scan.
    pub(super) const SAMPLING: Self = Self {
        scan_us: Some(NEON_SCAN_US),
        ..Self::new(
            "sampling",
            Policy {
                trap: true,
                ..Policy::paper(Kind::Loga(PolicyKind::Sampling))
            },
        )
    };
    /// LoGA as in the paper.
    pub(super) const EVENT: Self = Self::new("event", EVENT);
    /// LoGA-CL.
    pub(super) const EVENT_CL: Self = Self::loga(PolicyKind::EventCl);
    /// Ours.
    pub(super) const MAXMIN: Self = Self::loga(PolicyKind::MaxMin);

    /// A policy by the name of its series.
    pub(super) const fn new(name: &'static str, policy: Policy) -> Self {
        Self {
            name,
            policy,
            scan_us: None,
        }
    }

    /// LoGA with this policy.
    pub(super) const fn loga(policy: PolicyKind) -> Self {
        Self::new(policy.name(), Policy::paper(Kind::Loga(policy)))
    }
}
