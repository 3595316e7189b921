// SPDX-License-Identifier: GPL-2.0

//! Policies `timeslice` and `timeslice-eng`: one client at a time.
//!
//! Rule: a token goes round among the clients that want the GPU, in the order of their ids; its
//! holder runs alone for `30 ms * weight / 100` (1 to 500 ms). At the end all clients are throttled
//! until no channel has work; the time that takes is the `overuse` of the clients that had work,
//! mostly of the holder. `slice = full slice - overuse`; with a full slice or more of overuse the
//! turn is skipped, and pays for one slice. The engaged form scans the holder's channels every
//! millisecond, and takes the token from a holder that has had no work for three scans; the
//! disengaged form does not.
//!
//! Good for: isolation and predictable latency; nothing about commands is estimated.
//! Bad for: utilisation: no other client runs while the holder is idle (disengaged), or for three
//! scans (engaged); many clients wait for long.
//! Bound: among clients that always want the GPU, time differs by one slice and one
//! command over any number of rounds; a drain ends after [`MAX_DRAIN`], counted.
//! Source: Menychtas et al., Disengaged Scheduling for Fair, Protected Access to Fast
//! Computational Accelerators (ASPLOS 2014), timeslice with overuse control.

use super::sampling::MAX_DRAIN;
use super::{ClientState, Keeps, Next, Policy, Rule, Scan};
use crate::fair::mul_div;
use crate::ids::GroupId;
use crate::units::{Ns, Weight};

/// Slice of a client of the default weight.
const SLICE: Ns = Ns::from_ms(30);
/// Shortest and longest slice.
const MIN_SLICE: Ns = Ns::from_ms(1);
const MAX_SLICE: Ns = Ns::from_ms(500);
/// Time between scans while a slice or a drain is watched.
const SCAN_INTERVAL: Ns = Ns::from_ms(1);
/// Scans without work after which the engaged form takes the token.
const IDLE_SCANS: u32 = 3;

/// Where the token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// No client has it, and all run.
    #[default]
    Open,
    /// Its holder runs alone, and had no work in the last `quiet` scans.
    Runs { until: Ns, quiet: u32 },
    /// All are throttled until no channel has work.
    Drain { since: Ns },
}

/// What is kept of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    pub(super) stage: Stage,
    /// The client that has the token or had it last; none if all clients ran since.
    holder: Option<GroupId>,
}

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// The time it owes.
    pub(super) overuse: Ns,
    /// It had work when all clients were throttled.
    drains: bool,
}

/// A form of the policy.
pub(super) trait Form: Keeps<OfClient = Debt, OfGpu = Token> {
    /// The holder is watched during its slice.
    const ENGAGED: bool;
}

/// One client at a time, watched during its slice.
pub struct Engaged;
/// One client at a time, left alone during its slice.
pub struct Disengaged;

impl Policy for Engaged {
    const NAME: &'static str = "timeslice-eng";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Debt;
    type OfGpu = Token;
}

impl Form for Engaged {
    const ENGAGED: bool = true;
}

impl Policy for Disengaged {
    const NAME: &'static str = "timeslice";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Debt;
    type OfGpu = Token;
}

impl Form for Disengaged {
    const ENGAGED: bool = false;
}

pub(super) fn pass_token<F: Form>(
    scan: &Scan,
    token: &mut Token,
    clients: &mut [ClientState],
) -> Next {
    let mut next = Next {
        at: scan.now.saturating_add(SCAN_INTERVAL),
        t_sys: scan.t_sys,
        overdue: false,
    };
    match token.stage {
        Stage::Runs { until, quiet } => {
            let quiet = if F::ENGAGED {
                quiet_scans(token.holder, quiet, clients)
            } else {
                0
            };
            if scan.now >= until || quiet >= IDLE_SCANS {
                begin_drain(scan, token, clients);
                return next;
            }
            token.stage = Stage::Runs { until, quiet };
            if !F::ENGAGED {
                next.at = until;
            }
        }
        Stage::Drain { since } => {
            let lasting = scan.now.saturating_sub(since);
            let mut pending = false;
            for client in clients.iter_mut().filter(|client| client.seen.pending) {
                client.kept.of_mut::<F>().drains = true;
                pending = true;
            }
            next.overdue = pending && lasting >= MAX_DRAIN;
            if !pending || next.overdue {
                charge::<F>(lasting, token.holder, clients);
                next.at = grant::<F>(scan, token, clients);
            }
        }
        Stage::Open if clients.iter().filter(|client| client.wants()).count() > 1 => {
            begin_drain(scan, token, clients);
        }
        Stage::Open => {}
    }
    next
}

/// For how many scans the holder has had no work; [`IDLE_SCANS`] if it has gone.
fn quiet_scans(holder: Option<GroupId>, before: u32, clients: &[ClientState]) -> u32 {
    match clients.iter().find(|client| Some(client.id) == holder) {
        Some(client) if client.wants() => 0,
        Some(_) => before.saturating_add(1),
        None => IDLE_SCANS,
    }
}

fn begin_drain(scan: &Scan, token: &mut Token, clients: &mut [ClientState]) {
    clients
        .iter_mut()
        .for_each(|client| client.throttled = true);
    token.stage = Stage::Drain { since: scan.now };
}

/// Charges the time until all work was done to the clients that had work, or to the holder if none
/// was seen. A queue that outlasts the bound of a drain is charged to its client in each drain that
/// it delays, not to the holder of the token by then.
fn charge<F: Form>(lasting: Ns, holder: Option<GroupId>, clients: &mut [ClientState]) {
    let seen = clients.iter().any(|client| debt::<F>(client).drains);
    for client in clients.iter_mut() {
        let debt = client.kept.of_mut::<F>();
        let drains = core::mem::take(&mut debt.drains);
        if drains || (!seen && Some(client.id) == holder) {
            debt.overuse = debt.overuse.saturating_add(lasting);
        }
    }
}

/// A full slice of this weight.
fn slice(weight: Weight) -> Ns {
    let normal = Weight::DEFAULT.get().into();
    let length = mul_div(SLICE.get(), weight.get().into(), normal);
    Ns::new(length).clamp(MIN_SLICE, MAX_SLICE)
}

/// What a client owes.
fn debt<F: Form>(client: &ClientState) -> Debt {
    client.kept.of::<F>().copied().unwrap_or_default()
}

/// Whole slices that a client owes.
fn slices_owed<F: Form>(client: &ClientState) -> u64 {
    debt::<F>(client).overuse.get() / slice(client.weight).get()
}

/// Gives the token to the next client that wants it, or lets all clients run when there is none.
/// Returns when to scan again.
fn grant<F: Form>(scan: &Scan, token: &mut Token, clients: &mut [ClientState]) -> Ns {
    let soon = scan.now.saturating_add(SCAN_INTERVAL);
    let wanting = |client: &&ClientState| client.wants();
    // When all owe slices, as many rounds are skipped as the least of them owes.
    let rounds = clients.iter().filter(wanting).map(slices_owed::<F>).min();
    let Some(rounds) = rounds else {
        clients
            .iter_mut()
            .for_each(|client| client.throttled = false);
        *token = Token::default();
        return soon;
    };
    for client in clients.iter_mut().filter(|client| client.wants()) {
        pay::<F>(client, rounds);
    }
    let after_last = |id: GroupId| token.holder.is_none_or(|last| id > last);
    let ready = |client: &&ClientState| client.wants() && slices_owed::<F>(client) == 0;
    let later = |client: &&ClientState| after_last(client.id);
    let id = |client: &ClientState| client.id;
    let first: Option<GroupId> = clients.iter().filter(ready).map(id).min();
    let next = clients.iter().filter(ready).filter(later).map(id).min();
    let chosen = next.or(first).unwrap_or_default();
    let wrapped = next.is_none();
    let mut until = soon;
    for client in clients.iter_mut() {
        client.throttled = client.id != chosen;
        let passed = (after_last(client.id) && (wrapped || client.id < chosen))
            || (wrapped && client.id < chosen);
        if client.id == chosen {
            let overuse = core::mem::take(&mut client.kept.of_mut::<F>().overuse);
            let left = slice(client.weight).saturating_sub(overuse);
            until = scan.now.saturating_add(left).max(soon);
        } else if passed && client.wants() {
            pay::<F>(client, 1);
        }
    }
    *token = Token {
        stage: Stage::Runs { until, quiet: 0 },
        holder: Some(chosen),
    };
    if F::ENGAGED {
        soon
    } else {
        until
    }
}

/// Takes `slices` slices from what a client owes.
fn pay<F: Form>(client: &mut ClientState, slices: u64) {
    let paid = slice(client.weight).saturating_mul(slices);
    let debt = client.kept.of_mut::<F>();
    debt.overuse = debt.overuse.saturating_sub(paid);
}
