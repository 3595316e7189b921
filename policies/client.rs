// SPDX-License-Identifier: GPL-2.0

//! [pure] What a policy knows of a client, of the period and of its own past.

use super::KeptOfClient;
use crate::ids::ClientId;
use crate::units::{Ns, VTime, Weight};

/// What the caller of a policy can tell it, each with all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// Who used the GPU, and for how long.
    #[default]
    Use,
    /// Who waited for it: [`ClientState::waited`].
    Waits,
    /// The state of channels at any time: [`ClientState::seen`].
    Channels,
}

/// The period that ends with a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Length of the polling phase in which the times were measured.
    pub poll: Ns,
    /// Length of the non-polling phase before it, for which it stands too; less the time of those
    /// who were throttled, who have paid it.
    pub nonpoll: Ns,
    /// How far a client may be ahead of the system: the length of this period, or
    /// of an undisturbed one when this one was cut short. Otherwise every channel
    /// that is created would throttle whoever is a little ahead.
    pub lead: Ns,
    /// Time of the polling phase in which nobody's work ran.
    pub idle: Ns,
    /// System virtual time before the decision.
    pub t_sys: VTime,
}

impl Phase {
    /// The time for which the measured times stand.
    pub const fn span(&self) -> Ns {
        self.poll.saturating_add(self.nonpoll)
    }
}

/// A look at the GPU, for a policy that works in stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// When.
    pub now: Ns,
    /// Time since the look before.
    pub since: Ns,
    /// Polling time per channel, as configured.
    pub turn: Ns,
    /// Length of a free run in sampling times, as configured.
    pub ratio: u32,
    /// System virtual time before.
    pub t_sys: VTime,
}

/// What a policy that works in stages wants after a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// When to look again.
    pub at: Ns,
    /// The new system virtual time.
    pub t_sys: VTime,
    /// A channel did not run empty within the policy's bound.
    pub overdue: bool,
}

/// One client, before and after a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientState {
    /// Who it is.
    pub id: ClientId,
    /// Its weight.
    pub weight: Weight,
    /// GPU time it used in the polling phase.
    pub busy: Ns,
    /// Times the engine took up its work in the polling phase. With sparse accounting
    /// fewer: times that it was newly found.
    pub runs: u32,
    /// Time of the polling phase in which a channel of it had work and none of them
    /// ran. An estimate.
    pub waited: Ns,
    /// Channels it has allocated. For policies that work in stages.
    pub channels: u32,
    /// What the last look showed. For policies that work in stages.
    pub seen: Seen,
    /// Its virtual time. The decision advances it.
    pub vtime: VTime,
    /// In: it was throttled during the polling phase. Out: it is throttled from now on.
    pub throttled: bool,
    /// What the policy keeps of it. Nothing for a new client and after a change of policy; the
    /// caller leaves it as it is.
    pub kept: KeptOfClient,
    /// Its virtual time before the decision; the engine sets and checks it.
    pub prior: VTime,
}

/// What a look at the channels of a client shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A channel has work that is not done: it waits or runs.
    pub pending: bool,
    /// A thread of it sleeps because it is throttled.
    pub blocked: bool,
    /// Commands submitted since the look before.
    pub submitted: u32,
    /// Commands completed since the look before.
    pub completed: u32,
}

impl Seen {
    /// All of it in one number.
    pub(crate) fn bits(self) -> u64 {
        let counts = (u64::from(self.submitted) << 32) | u64::from(self.completed);
        counts ^ (u64::from(self.pending) << 63) ^ (u64::from(self.blocked) << 31)
    }
}

impl ClientState {
    /// A client that has not used the GPU in this phase.
    pub const fn new(id: ClientId, weight: Weight, vtime: VTime) -> Self {
        Self {
            id,
            weight,
            busy: Ns::ZERO,
            runs: 0,
            waited: Ns::ZERO,
            channels: 0,
            seen: Seen {
                pending: false,
                blocked: false,
                submitted: 0,
                completed: 0,
            },
            vtime,
            throttled: false,
            kept: KeptOfClient::Nothing,
            prior: vtime,
        }
    }

    /// Whether it used the GPU in the polling phase.
    pub const fn active(&self) -> bool {
        !self.busy.is_zero()
    }

    /// Whether it wants the GPU now, as far as the last look shows.
    pub const fn wants(&self) -> bool {
        self.seen.pending || self.seen.blocked
    }
}
