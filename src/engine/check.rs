// SPDX-License-Identifier: GPL-2.0

//! [pure] Runs a policy and checks what it did.

use crate::policies::{ClientState, Phase};
use crate::units::VTime;

/// How a policy broke its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It changed an identity, a weight or a measurement.
    Inputs,
    /// It set back the virtual time of a client.
    VirtualTime,
    /// It set back the system virtual time.
    SystemTime,
    /// It held somebody back although nobody used the GPU.
    IdleHold,
    /// It held everybody back.
    NobodyRuns,
}

/// Runs `rule` and returns the new system virtual time. After a violation, virtual
/// times are as before and nobody is held back.
pub(super) fn run(
    phase: &Phase,
    clients: &mut [ClientState],
    rule: &dyn Fn(&Phase, &mut [ClientState]) -> VTime,
) -> Result<VTime, Violation> {
    for client in clients.iter_mut() {
        client.prior = client.vtime;
    }
    let before = fingerprint(clients);
    let t_sys = rule(phase, clients);
    match violation(phase, clients, before, t_sys) {
        None => Ok(t_sys),
        Some(violation) => {
            for client in clients.iter_mut() {
                client.vtime = client.prior;
                client.held = false;
            }
            Err(violation)
        }
    }
}

/// What is wrong with an answer, if anything.
fn violation(
    phase: &Phase,
    clients: &[ClientState],
    before: u64,
    t_sys: VTime,
) -> Option<Violation> {
    if fingerprint(clients) != before {
        return Some(Violation::Inputs);
    }
    if clients.iter().any(|client| client.vtime < client.prior) {
        return Some(Violation::VirtualTime);
    }
    if t_sys < phase.t_sys {
        return Some(Violation::SystemTime);
    }
    if clients.iter().any(|client| client.held) {
        if !clients.iter().any(ClientState::active) {
            return Some(Violation::IdleHold);
        }
        if clients.iter().all(|client| client.held) {
            return Some(Violation::NobodyRuns);
        }
    }
    None
}

/// A number that changes when a policy touches what it may only read (FNV-1a over
/// the fields; this is against mistakes, not malice).
fn fingerprint(clients: &[ClientState]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    clients.iter().fold(BASIS, |sum, client| {
        [
            client.id.get(),
            client.weight.get().into(),
            client.busy.get(),
            client.runs.into(),
            client.prior.get(),
        ]
        .into_iter()
        .fold(sum, |sum, field| (sum ^ field).wrapping_mul(PRIME))
    })
}
