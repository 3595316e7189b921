// SPDX-License-Identifier: GPL-2.0

//! [tool] Who schedules or accounts in an experiment.

use crate::scenario::{Kind, Policy};
use loga::policies::PolicyKind;

/// What a look at a channel costs NEON, in us: it reads a word of memory, not registers.
pub(super) const NEON_LOOK_US: f64 = 0.1;
/// LoGA as in the paper.
pub(super) const EVENT: Policy = Policy::of(Kind::Loga(PolicyKind::Event));
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
    /// Who schedules.
    pub(super) policy: Policy,
    /// What a look at a channel costs, in us, where it is not what the plan says.
    pub(super) look_us: Option<f64>,
}

impl Way {
    /// No scheduler and no accounting.
    pub(super) const NONE: Self = Self::new("none", Policy::of(Kind::Hardware));
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
    /// that is watched are trapped, and what a look costs.
    pub(super) const SAMPLING: Self = Self {
        look_us: Some(NEON_LOOK_US),
        ..Self::new(
            "sampling",
            Policy {
                trap: true,
                ..Policy::of(Kind::Loga(PolicyKind::Sampling))
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
            look_us: None,
        }
    }

    /// LoGA with this policy.
    pub(super) const fn loga(policy: PolicyKind) -> Self {
        Self::new(policy.name(), Policy::of(Kind::Loga(policy)))
    }
}
