// SPDX-License-Identifier: GPL-2.0

//! Policies `timeslice` and `timeslice-eng`: one client at a time.
//!
//! Rule: a token goes round among the clients that want the GPU, in the order of their
//! ids; who has it runs alone for `30 ms * weight / 100` (1 to 500 ms). At the end
//! everybody is held back until no channel has work; the time that takes is the
//! `overuse` of whose work it was, mostly the holder's. `slice = full slice - overuse`; with a full slice or more of
//! overuse the turn is skipped, and pays for one slice. The engaged form looks at the
//! holder every millisecond, and takes the token from one that has had no work for
//! three looks; the disengaged form leaves it alone.
//!
//! Good for: isolation and predictable latency; nothing about commands is estimated.
//! Bad for: utilisation: nobody else runs while the holder does not (disengaged), or
//! for three looks (engaged); many clients wait for long.
//! Bound: among clients that always want the GPU, time differs by one slice and one
//! command over any number of rounds; a drain ends after [`MAX_DRAIN`], counted.
//! Source: Menychtas et al., Disengaged Scheduling for Fair, Protected Access to Fast
//! Computational Accelerators (ASPLOS 2014), timeslice with overuse control.

use super::sampling::MAX_DRAIN;
use super::{ClientState, Look, Memory, Next, Policy};
use crate::fair::mul_div;
use crate::ids::ClientId;
use crate::units::{Ns, Weight};

/// Slice of a client of the default weight.
const SLICE: Ns = Ns::from_ms(30);
/// Shortest and longest slice.
const MIN_SLICE: Ns = Ns::from_ms(1);
const MAX_SLICE: Ns = Ns::from_ms(500);
/// Time between looks while something is watched.
const LOOK: Ns = Ns::from_ms(1);
/// Looks without work after which the engaged form takes the token.
const IDLE_LOOKS: u64 = 3;

/// Stages, as kept in the memory.
const OPEN: u64 = 0;
const RUNS: u64 = 1;
const DRAIN: u64 = 2;

/// In the memory: the stage, when it began, when it ends, whose turn it is (plus one),
/// looks without work.
const STAGE: usize = 0;
const SINCE: usize = 1;
const UNTIL: usize = 2;
const WHOSE: usize = 3;
const QUIET: usize = 4;
/// In the scratch of a client: what it owes, and whether it had work when everybody was held back.
const OVERUSE: usize = 0;
const DRAINS: usize = 1;

/// One client at a time, watched during its slice.
pub(super) struct Engaged;
/// One client at a time, left alone during its slice.
pub(super) struct Disengaged;

impl Policy for Engaged {
    const NAME: &'static str = "timeslice-eng";
    const STAGED: bool = true;

    fn look(look: &Look, memory: &mut Memory, clients: &mut [ClientState]) -> Next {
        pass_token(look, memory, clients, true)
    }
}

impl Policy for Disengaged {
    const NAME: &'static str = "timeslice";
    const STAGED: bool = true;

    fn look(look: &Look, memory: &mut Memory, clients: &mut [ClientState]) -> Next {
        pass_token(look, memory, clients, false)
    }
}

fn pass_token(
    look: &Look,
    memory: &mut Memory,
    clients: &mut [ClientState],
    engaged: bool,
) -> Next {
    let mut next = Next {
        at: look.now.saturating_add(LOOK),
        t_sys: look.t_sys,
        overdue: false,
    };
    let pending = clients.iter().any(|client| client.seen.pending);
    match memory.0[STAGE] {
        RUNS => {
            let until = Ns::new(memory.0[UNTIL]);
            if look.now < until && !(engaged && gives_up(memory, clients)) {
                if !engaged {
                    next.at = until;
                }
                return next;
            }
            begin_drain(look, memory, clients);
        }
        DRAIN => {
            let lasting = look.now.saturating_sub(Ns::new(memory.0[SINCE]));
            for client in clients.iter_mut().filter(|client| client.seen.pending) {
                client.scratch[DRAINS] = 1;
            }
            next.overdue = pending && lasting >= MAX_DRAIN;
            if !pending || next.overdue {
                charge(lasting, memory, clients);
                next.at = grant(look, memory, clients, engaged);
            }
        }
        // Nobody has the token, and everybody runs.
        _ if clients.iter().filter(|client| client.wants()).count() > 1 => {
            begin_drain(look, memory, clients);
        }
        _ => {}
    }
    next
}

/// Whether the holder has gone, or has had no work for some looks.
fn gives_up(memory: &mut Memory, clients: &[ClientState]) -> bool {
    let holder = clients.iter().find(|client| holds_token(memory, client));
    let quiet = match holder {
        Some(client) if client.wants() => 0,
        Some(_) => memory.0[QUIET].saturating_add(1),
        None => IDLE_LOOKS,
    };
    memory.0[QUIET] = quiet;
    quiet >= IDLE_LOOKS
}

fn holds_token(memory: &Memory, client: &ClientState) -> bool {
    memory.0[WHOSE] == client.id.get().saturating_add(1)
}

fn begin_drain(look: &Look, memory: &mut Memory, clients: &mut [ClientState]) {
    clients.iter_mut().for_each(|client| client.held = true);
    memory.0[STAGE] = DRAIN;
    memory.0[SINCE] = look.now.get();
}

/// Charges the time until all work was done to those whose work it was, to the holder if none
/// was seen. A queue that outlasts the bound of a drain is charged in each one that it delays, not
/// to whoever has the token by then.
fn charge(lasting: Ns, memory: &Memory, clients: &mut [ClientState]) {
    let seen = clients.iter().any(|client| client.scratch[DRAINS] != 0);
    for client in clients.iter_mut() {
        let drains = core::mem::take(&mut client.scratch[DRAINS]) != 0;
        if drains || (!seen && holds_token(memory, client)) {
            client.scratch[OVERUSE] = client.scratch[OVERUSE].saturating_add(lasting.get());
        }
    }
}

/// A full slice of this weight.
fn slice(weight: Weight) -> Ns {
    let normal = Weight::DEFAULT.get().into();
    let length = mul_div(SLICE.get(), weight.get().into(), normal);
    Ns::new(length).clamp(MIN_SLICE, MAX_SLICE)
}

/// Whole slices that a client owes.
fn slices_owed(client: &ClientState) -> u64 {
    client.scratch[OVERUSE] / slice(client.weight).get()
}

/// Gives the token to the next client that wants it, or lets everybody run when there
/// is none. Returns when to look again.
fn grant(look: &Look, memory: &mut Memory, clients: &mut [ClientState], engaged: bool) -> Ns {
    let soon = look.now.saturating_add(LOOK);
    let wanting = |client: &&ClientState| client.wants();
    // When all owe slices, as many rounds are skipped as the least of them owes.
    let rounds = clients.iter().filter(wanting).map(slices_owed).min();
    let Some(rounds) = rounds else {
        clients.iter_mut().for_each(|client| client.held = false);
        memory.0[STAGE] = OPEN;
        memory.0[WHOSE] = 0;
        return soon;
    };
    for client in clients.iter_mut().filter(|client| client.wants()) {
        pay(client, rounds);
    }
    let last = memory.0[WHOSE];
    let ready = |client: &&ClientState| client.wants() && slices_owed(client) == 0;
    let later = |client: &&ClientState| client.id.get().saturating_add(1) > last;
    let id = |client: &ClientState| client.id;
    let first: Option<ClientId> = clients.iter().filter(ready).map(id).min();
    let next = clients.iter().filter(ready).filter(later).map(id).min();
    let chosen = next.or(first).unwrap_or_default();
    let wrapped = next.is_none();
    let mut until = soon;
    for client in clients.iter_mut() {
        client.held = client.id != chosen;
        let position = client.id.get().saturating_add(1);
        let passed =
            (position > last && (wrapped || client.id < chosen)) || (wrapped && client.id < chosen);
        if client.id == chosen {
            let left = slice(client.weight).saturating_sub(Ns::new(client.scratch[OVERUSE]));
            client.scratch[OVERUSE] = 0;
            until = look.now.saturating_add(left).max(soon);
        } else if passed && client.wants() {
            pay(client, 1);
        }
    }
    memory.0[WHOSE] = chosen.get().saturating_add(1);
    memory.0[STAGE] = RUNS;
    memory.0[UNTIL] = until.get();
    memory.0[QUIET] = 0;
    if engaged {
        soon
    } else {
        until
    }
}

/// Takes so many slices from what a client owes.
fn pay(client: &mut ClientState, slices: u64) {
    let paid = slice(client.weight).saturating_mul(slices).get();
    client.scratch[OVERUSE] = client.scratch[OVERUSE].saturating_sub(paid);
}
