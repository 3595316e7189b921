// SPDX-License-Identifier: GPL-2.0

//! [pure] Runs a policy and checks what it did.

use crate::policies::{ClientState, Look, Next, Phase};
use crate::units::{Ns, VTime};

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
    /// It wants to look again in the past, or too late.
    Deadline,
}

/// Runs `rule` and returns the new system virtual time. After a violation, virtual
/// times are as before and nobody is held back.
pub(super) fn run(
    phase: &Phase,
    clients: &mut [ClientState],
    rule: &dyn Fn(&Phase, &mut [ClientState]) -> VTime,
) -> Result<VTime, Violation> {
    let before = remember(clients);
    let t_sys = rule(phase, clients);
    let violation = touched(clients, before, t_sys, phase.t_sys).or_else(|| bad_hold(clients));
    match violation {
        None => Ok(t_sys),
        Some(violation) => Err(undo(clients, violation)),
    }
}

/// As [`run`], for a look. `longest` is how far ahead the next look may be.
pub(super) fn run_look(
    look: &Look,
    clients: &mut [ClientState],
    longest: Ns,
    rule: &mut dyn FnMut(&Look, &mut [ClientState]) -> Next,
) -> Result<Next, Violation> {
    let before = remember(clients);
    let next = rule(look, clients);
    let late = look.now.saturating_add(longest);
    let deadline = (next.at <= look.now || next.at > late).then_some(Violation::Deadline);
    match touched(clients, before, next.t_sys, look.t_sys).or(deadline) {
        None => Ok(next),
        Some(violation) => Err(undo(clients, violation)),
    }
}

/// Keeps what a policy may not set back, and returns a number for what it may not touch.
fn remember(clients: &mut [ClientState]) -> u64 {
    for client in clients.iter_mut() {
        client.prior = client.vtime;
    }
    fingerprint(clients)
}

/// Lets everybody run, with virtual times as they were.
fn undo(clients: &mut [ClientState], violation: Violation) -> Violation {
    for client in clients.iter_mut() {
        client.vtime = client.prior;
        client.held = false;
    }
    violation
}

/// What was touched that may not be, if anything.
fn touched(
    clients: &[ClientState],
    before: u64,
    t_sys: VTime,
    t_sys_before: VTime,
) -> Option<Violation> {
    if fingerprint(clients) != before {
        return Some(Violation::Inputs);
    }
    if clients.iter().any(|client| client.vtime < client.prior) {
        return Some(Violation::VirtualTime);
    }
    (t_sys < t_sys_before).then_some(Violation::SystemTime)
}

/// Whether somebody is held back who may not be.
fn bad_hold(clients: &[ClientState]) -> Option<Violation> {
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
            client.waited.get(),
            client.channels.into(),
            client.seen.bits(),
            client.prior.get(),
        ]
        .into_iter()
        .fold(sum, |sum, field| (sum ^ field).wrapping_mul(PRIME))
    })
}
