// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The contract of a policy as checks on random phases, run on every policy
//! of the table.

use super::{ClientState, KeptOfGpu, Phase, PolicyKind};
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

/// Clients in a random phase.
const CLIENTS: usize = 6;
/// Random phases per check.
const PHASES: u64 = 400;
/// Seeds of the chains of phases.
const SEEDS: [u64; 2] = [0x5eed, 0xfeed];

/// What a decision breaks: nothing, or something for one client or for the whole GPU.
type Verdict = Result<(), Option<GroupId>>;

/// A decision that broke a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Seed of the chain of phases.
    pub(super) seed: u64,
    /// Number of the phase in it.
    pub(super) phase: u64,
    /// The first client for which it is broken, if it is not broken for the GPU.
    pub(super) client: Option<GroupId>,
}

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

/// The first decision that breaks `check` in chains of random phases, each going on from the last.
pub(super) fn first_broken(kind: PolicyKind, check: fn(&Decision) -> Verdict) -> Option<Broken> {
    SEEDS
        .iter()
        .find_map(|seed| first_broken_from(kind, check, *seed))
}

fn first_broken_from(
    kind: PolicyKind,
    check: fn(&Decision) -> Verdict,
    seed: u64,
) -> Option<Broken> {
    let mut random = Random(seed);
    let mut clients = [ClientState::default(); CLIENTS];
    for (index, client) in clients.iter_mut().enumerate() {
        let id = GroupId::new(u64::try_from(index).unwrap_or_default());
        let weight = u32::try_from(1 + random.below(1000)).unwrap_or(1);
        *client = ClientState::new(id, Weight::new(weight).unwrap_or_default(), VTime::ZERO);
    }
    let (mut t_sys, mut kept) = (VTime::ZERO, KeptOfGpu::default());
    for number in 0..PHASES {
        let phase = random.phase(number, t_sys, &mut clients);
        let decision = Decision::of(kind, phase, kept, clients);
        if let Err(client) = check(&decision) {
            return Some(Broken {
                seed,
                phase: number,
                client,
            });
        }
        clients = decision.after;
        t_sys = decision.t_sys;
        kept = decision.kept[1];
    }
    None
}

/// The first client that `breaks` something, by what it was before and is after a decision.
fn first_client(
    decision: &Decision,
    breaks: impl Fn(&ClientState, &ClientState) -> bool,
) -> Verdict {
    let mut clients = decision.before.iter().zip(&decision.after);
    match clients.find(|(before, after)| breaks(before, after)) {
        Some((before, _)) => Err(Some(before.id)),
        None => Ok(()),
    }
}

/// Of the whole GPU.
fn holds(holds: bool) -> Verdict {
    match holds {
        true => Ok(()),
        false => Err(None),
    }
}

/// Identities, weights and measurements stay as they were.
pub(super) fn keeps_inputs(decision: &Decision) -> Verdict {
    first_client(decision, |before, after| {
        let stays = before.id == after.id
            && before.weight == after.weight
            && before.target_pct == after.target_pct
            && before.busy == after.busy
            && before.runs == after.runs
            && before.waited == after.waited
            && before.paid == after.paid
            && before.copied == after.copied
            && before.waited_to_copy == after.waited_to_copy
            && before.channels == after.channels
            && before.seen == after.seen;
        !stays
    })
}

/// No virtual time is set back, neither the system's nor a client's. Only `maxmin` forgives what a
/// client is ahead of the system, and never more.
pub(super) fn keeps_time_monotone(decision: &Decision) -> Verdict {
    holds(decision.t_sys >= decision.phase.t_sys)?;
    let least = match decision.kind {
        PolicyKind::MaxMin => decision.t_sys,
        _ => VTime::new(u64::MAX),
    };
    first_client(decision, |before, after| {
        after.vtime < before.vtime.min(least)
    })
}

/// At least one client runs.
pub(super) fn leaves_a_client_running(decision: &Decision) -> Verdict {
    holds(decision.after.iter().any(|client| !client.throttled))
}

/// No client is throttled when none used the GPU.
pub(super) fn throttles_none_when_idle(decision: &Decision) -> Verdict {
    let idle = !decision.before.iter().any(ClientState::active);
    first_client(decision, |_, after| idle && after.throttled)
}

/// The same phase gives the same decision.
pub(super) fn is_repeatable(decision: &Decision) -> Verdict {
    let again = Decision::of(
        decision.kind,
        decision.phase,
        decision.kept[0],
        decision.before,
    );
    let mut clients = decision.after.iter().zip(&again.after);
    if let Some((one, _)) = clients.find(|(one, other)| one != other) {
        return Err(Some(one.id));
    }
    holds(again.t_sys == decision.t_sys && again.kept == decision.kept)
}

/// Pseudo-random numbers that are the same in every run (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    /// A phase, and what it measured of the clients.
    fn phase(&mut self, number: u64, t_sys: VTime, clients: &mut [ClientState; CLIENTS]) -> Phase {
        let mut phase = Phase {
            poll: Ns::new(1 + self.below(50_000_000)),
            nonpoll: Ns::new(self.below(250_000_000)),
            lead: Ns::new(300_000_000),
            t_sys,
            ..Phase::default()
        };
        phase.idle = phase.poll;
        for client in clients {
            // Every fifth phase is idle, and so is a client every other time.
            let active = number % 5 != 0 && self.below(2) == 0;
            let part = if active {
                self.below(phase.poll.get())
            } else {
                0
            };
            // CAST: the number of clients is small.
            client.busy = Ns::new(part / CLIENTS as u64);
            client.runs = u32::try_from(self.below(50)).unwrap_or(0);
            // It is measured by other means, and need not fit the time used.
            client.waited = Ns::new(self.below(phase.poll.get().saturating_mul(2)));
            phase.idle = phase.idle.saturating_sub(client.busy);
        }
        phase
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}
