// SPDX-License-Identifier: GPL-2.0

//! [pure] The contract of a policy as checks on random phases, run on every policy
//! of the table.

use super::{ClientState, KeptOfGpu, Phase, PolicyKind};
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

/// Clients in a random phase.
const CLIENTS: usize = 6;
/// Random phases per check.
const PHASES: u64 = 400;

/// A decision: the phase, the clients before and after, the new system time.
pub(super) struct Decision {
    kind: PolicyKind,
    phase: Phase,
    before: [ClientState; CLIENTS],
    after: [ClientState; CLIENTS],
    t_sys: VTime,
    kept: [KeptOfGpu; 2],
}

impl Decision {
    fn of(kind: PolicyKind, phase: Phase, kept: KeptOfGpu, before: [ClientState; CLIENTS]) -> Self {
        let (mut after, mut new) = (before, kept);
        let t_sys = kind.decide(&phase, &mut new, &mut after);
        Self {
            kind,
            phase,
            before,
            after,
            t_sys,
            kept: [kept, new],
        }
    }
}

/// Whether `check` holds for a chain of random phases, each going on from the last.
pub(super) fn holds_for(kind: PolicyKind, check: fn(&Decision) -> bool) -> bool {
    let mut random = Random(0x5eed);
    let mut clients = [ClientState::default(); CLIENTS];
    for (index, client) in clients.iter_mut().enumerate() {
        let id = GroupId::new(u64::try_from(index).unwrap_or_default());
        let weight = u32::try_from(1 + random.below(1000)).unwrap_or(1);
        *client = ClientState::new(id, Weight::new(weight).unwrap_or_default(), VTime::ZERO);
    }
    let (mut t_sys, mut kept) = (VTime::ZERO, KeptOfGpu::default());
    for round in 0..PHASES {
        let mut phase = Phase {
            poll: Ns::new(1 + random.below(50_000_000)),
            nonpoll: Ns::new(random.below(250_000_000)),
            lead: Ns::new(300_000_000),
            t_sys,
            ..Phase::default()
        };
        phase.idle = phase.poll;
        for client in &mut clients {
            // Every fifth phase is idle, and so is a client every other time.
            let active = round % 5 != 0 && random.below(2) == 0;
            let part = if active {
                random.below(phase.poll.get())
            } else {
                0
            };
            // CAST: the number of clients is small.
            client.busy = Ns::new(part / CLIENTS as u64);
            client.runs = u32::try_from(random.below(50)).unwrap_or(0);
            // It is measured by other means, and need not fit the time used.
            client.waited = Ns::new(random.below(phase.poll.get().saturating_mul(2)));
            phase.idle = phase.idle.saturating_sub(client.busy);
        }
        let decision = Decision::of(kind, phase, kept, clients);
        if !check(&decision) {
            return false;
        }
        clients = decision.after;
        t_sys = decision.t_sys;
        kept = decision.kept[1];
    }
    true
}

/// Identities, weights and measurements stay as they were.
pub(super) fn keeps_inputs(decision: &Decision) -> bool {
    decision
        .before
        .iter()
        .zip(&decision.after)
        .all(|(before, after)| {
            before.id == after.id
                && before.weight == after.weight
                && before.target_pct == after.target_pct
                && before.busy == after.busy
                && before.runs == after.runs
                && before.waited == after.waited
                && before.paid == after.paid
                && before.copied == after.copied
                && before.waited_to_copy == after.waited_to_copy
                && before.channels == after.channels
                && before.seen == after.seen
        })
}

/// No virtual time is set back, neither a client's nor the system's.
pub(super) fn keeps_time_monotone(decision: &Decision) -> bool {
    decision.t_sys >= decision.phase.t_sys
        && decision
            .before
            .iter()
            .zip(&decision.after)
            .all(|(before, after)| after.vtime >= before.vtime)
}

/// At least one client runs.
pub(super) fn leaves_a_client_running(decision: &Decision) -> bool {
    decision.after.iter().any(|client| !client.throttled)
}

/// No client is throttled when none used the GPU.
pub(super) fn throttles_none_when_idle(decision: &Decision) -> bool {
    decision.before.iter().any(ClientState::active)
        || !decision.after.iter().any(|client| client.throttled)
}

/// The same phase gives the same decision.
pub(super) fn is_repeatable(decision: &Decision) -> bool {
    let again = Decision::of(
        decision.kind,
        decision.phase,
        decision.kept[0],
        decision.before,
    );
    again.after == decision.after && again.t_sys == decision.t_sys && again.kept == decision.kept
}

/// Pseudo-random numbers that are the same in every run (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
