// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What a policy knows of a client, of the period and of its own past.

use super::KeptOfClient;
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

/// What the caller of a policy supplies; each includes all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inputs {
    /// Which clients used the GPU, and for how long.
    #[default]
    Use,
    /// Which clients waited for it: [`ClientState::waited`].
    Waits,
    /// The state of channels at any time: [`ClientState::seen`].
    Channels,
    /// Beside it, how long clients were on a processor: [`ScanResult::cpu`].
    Cpu,
}

/// The period that ends with a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Length of the polling phase in which the times were measured.
    pub poll: Ns,
    /// Length of the non-polling phase before it, for which the measured times stand too; less the
    /// time that throttled clients ran in it, which is charged to them directly.
    pub nonpoll: Ns,
    /// Time of the polling phase that is charged to throttled clients directly too, and is in no
    /// [`ClientState::busy`].
    pub direct: Ns,
    /// How far a client may be ahead of the system: the length of this period, or of an undisturbed
    /// one when this one was cut short. Otherwise every creation of a channel would throttle
    /// clients that are a little ahead.
    pub lead: Ns,
    /// Time of the polling phase in which no client's work ran.
    pub idle: Ns,
    /// System virtual time before the decision.
    pub t_sys: VTime,
}

impl Phase {
    /// The time for which the measured times stand.
    pub const fn span(&self) -> Ns {
        self.poll.saturating_add(self.nonpoll)
    }

    /// What is left of the polling phase, and of the span, for those that are not charged directly:
    /// the first stands for the second.
    pub const fn divided(&self) -> (Ns, Ns) {
        (
            self.poll.saturating_sub(self.direct),
            self.span().saturating_sub(self.direct),
        )
    }
}

/// A scan of the GPU's channels, for a policy that works in stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// When.
    pub now: Ns,
    /// Time since the scan before.
    pub since: Ns,
    /// Polling time per channel, as configured.
    pub slice: Ns,
    /// Length of a free run in sampling times, as configured.
    pub ratio: u32,
    /// System virtual time before.
    pub t_sys: VTime,
}

/// What a policy that works in stages wants after a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Next {
    /// When to scan again.
    pub at: Ns,
    /// The new system virtual time.
    pub t_sys: VTime,
    /// A channel did not run empty within the policy's bound.
    pub overdue: bool,
}

/// One client, before and after a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientState {
    /// Its identity.
    pub id: GroupId,
    /// Its weight.
    pub weight: Weight,
    /// Part of the GPU in percent that it is to get, if it wants it; 0 if nothing is set.
    pub target_pct: u32,
    /// GPU time it used in the polling phase.
    pub busy: Ns,
    /// Times the engine took up its work in the polling phase. With sparse accounting fewer: times
    /// that a sample newly found it.
    pub runs: u32,
    /// Time of the polling phase in which a channel of the client had work and none of them ran, or a
    /// thread of it waited for its turn. An estimate.
    pub waited: Ns,
    /// GPU time of the period that it is charged beside `busy`, one to one, and that is in `vtime`
    /// already: what it ran while it was throttled, by a limit too.
    pub paid: Ns,
    /// Time it used the copy engine in the polling phase; zero where that is not measured.
    pub copied: Ns,
    /// Time of the polling phase in which a channel of the client had copies to do and none of them
    /// ran. An estimate.
    pub waited_to_copy: Ns,
    /// Channels it has allocated. For policies that work in stages.
    pub channels: u32,
    /// What the last scan showed. For policies that work in stages.
    pub seen: ScanResult,
    /// Its virtual time. The decision advances it.
    pub vtime: VTime,
    /// In: it was throttled during the polling phase. Out: it is throttled from now on.
    pub throttled: bool,
    /// What the policy keeps of it. Nothing for a new client and after a change of policy; the
    /// caller does not change it.
    pub kept: KeptOfClient,
    /// Its virtual time before the decision; the engine sets and checks it.
    pub prior: VTime,
}

/// What a scan of the channels of a client shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    /// A channel has work that is not done: it waits or runs.
    pub pending: bool,
    /// A thread of the client sleeps because the client is throttled.
    pub blocked: bool,
    /// Commands submitted since the scan before.
    pub submitted: u32,
    /// Commands completed since the scan before.
    pub completed: u32,
    /// Time that its threads were on a processor since the scan before, if the policy needs it.
    pub cpu: Ns,
}

impl ScanResult {
    /// All of it in one number.
    pub(crate) fn bits(self) -> u64 {
        let counts = (u64::from(self.submitted) << 32) | u64::from(self.completed);
        let states = (u64::from(self.pending) << 63) ^ (u64::from(self.blocked) << 31);
        counts ^ states ^ self.cpu.get().rotate_left(17)
    }
}

impl ClientState {
    /// A client that has not used the GPU in this phase.
    pub const fn new(id: GroupId, weight: Weight, vtime: VTime) -> Self {
        Self {
            id,
            weight,
            target_pct: 0,
            busy: Ns::ZERO,
            runs: 0,
            waited: Ns::ZERO,
            paid: Ns::ZERO,
            copied: Ns::ZERO,
            waited_to_copy: Ns::ZERO,
            channels: 0,
            seen: ScanResult {
                pending: false,
                blocked: false,
                submitted: 0,
                completed: 0,
                cpu: Ns::ZERO,
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

    /// Whether it wants the GPU now, as far as the last scan shows.
    pub const fn wants(&self) -> bool {
        self.seen.pending || self.seen.blocked
    }
}
