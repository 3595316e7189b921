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

/// Runs `rule` and returns the new system virtual time, and how many clients are held back. After
/// a violation, virtual times are as before and nobody is held back.
pub(super) fn run(
    phase: &Phase,
    clients: &mut [ClientState],
    rule: &dyn Fn(&Phase, &mut [ClientState]) -> VTime,
) -> Result<(VTime, usize), Violation> {
    let before = remember(clients);
    let t_sys = rule(phase, clients);
    let checked = touched(clients, before, t_sys, phase.t_sys)
        .and_then(|held| bad_hold(clients, held).map_or(Ok(held), Err));
    match checked {
        Ok(held) => Ok((t_sys, held)),
        Err(violation) => Err(undo(clients, violation)),
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
    let touched = touched(clients, before, next.t_sys, look.t_sys).err();
    match touched.or(deadline) {
        None => Ok(next),
        Some(violation) => Err(undo(clients, violation)),
    }
}

/// Keeps what a policy may not set back, and returns a number for what it may not touch.
fn remember(clients: &mut [ClientState]) -> u64 {
    clients.iter_mut().fold(BASIS, |sum, client| {
        client.prior = client.vtime;
        add_inputs(sum, client)
    })
}

/// Lets everybody run, with virtual times as they were.
fn undo(clients: &mut [ClientState], violation: Violation) -> Violation {
    for client in clients.iter_mut() {
        client.vtime = client.prior;
        client.held = false;
    }
    violation
}

/// How many clients are held back, or what was touched that may not be.
fn touched(
    clients: &[ClientState],
    before: u64,
    t_sys: VTime,
    t_sys_before: VTime,
) -> Result<usize, Violation> {
    let (mut sum, mut set_back, mut held) = (BASIS, false, 0usize);
    for client in clients {
        sum = add_inputs(sum, client);
        set_back |= client.vtime < client.prior;
        held = held.saturating_add(client.held.into());
    }
    if sum != before {
        return Err(Violation::Inputs);
    }
    if set_back {
        return Err(Violation::VirtualTime);
    }
    if t_sys < t_sys_before {
        return Err(Violation::SystemTime);
    }
    Ok(held)
}

/// Whether one of the `held` clients that are held back may not be.
fn bad_hold(clients: &[ClientState], held: usize) -> Option<Violation> {
    if held == 0 {
        return None;
    }
    if !clients.iter().any(ClientState::active) {
        return Some(Violation::IdleHold);
    }
    (held == clients.len()).then_some(Violation::NobodyRuns)
}

/// Where [`add_inputs`] begins.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Adds what a policy may only read of a client to a number that changes when it is touched
/// (FNV-1a, by fields instead of bytes; this is against mistakes, not malice).
fn add_inputs(sum: u64, client: &ClientState) -> u64 {
    let add = |sum: u64, field: u64| (sum ^ field).wrapping_mul(0x0000_0100_0000_01b3);
    // Not folded over a list of the fields, which would be written down for every client.
    let counts = (u64::from(client.runs) << 32) | u64::from(client.weight.get());
    let seen = client.seen.bits() ^ u64::from(client.channels).rotate_left(17);
    let sum = add(sum, client.id.get());
    let sum = add(sum, counts);
    let sum = add(sum, client.busy.get());
    let sum = add(sum, client.waited.get());
    let sum = add(sum, seen);
    add(sum, client.prior.get())
}
