// SPDX-License-Identifier: GPL-2.0

//! `[pure]` One client at a time: the token that `timeslice` and the credit policies pass on.
//!
//! Its holder runs alone for its turn. Then all clients are throttled until no channel has work;
//! the time that takes is the `overuse` of the clients that had work, mostly of the holder. Which
//! client is next, and how long its turn is, says the [`Form`]. When no client wants the GPU all
//! of them run.

use super::sampling::MAX_DRAIN;
use super::{ClientState, Inputs, Keeps, Next, Scan};
use crate::ids::GroupId;
use crate::units::{Ns, Weight};

/// Shortest and longest turn.
pub(super) const MIN_SLICE: Ns = Ns::from_ms(1);
pub(super) const MAX_SLICE: Ns = Ns::from_ms(500);
/// Time between scans while a turn or a drain is watched.
pub(super) const SCAN_INTERVAL: Ns = Ns::from_ms(1);
/// Scans without work after which a holder that is watched loses the token.
pub(super) const IDLE_SCANS: u32 = 3;

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

/// Where a client comes in a round: a number, and among equal ones its id.
pub(super) type RoundPosition = (u32, GroupId);

/// What is kept of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Token {
    pub(super) stage: Stage,
    /// The client that has the token or had it last; none if all clients ran since.
    pub(super) holder: Option<GroupId>,
    /// Its place when it got the token.
    pub(super) position: RoundPosition,
    /// When it got the token.
    since: Ns,
    /// For a turn out of order: how long further ones may last until the next one in order.
    pub(super) ahead: Option<Ns>,
}

impl Token {
    /// The client that has the turn; until the next one has it, also while its last work drains.
    pub(super) fn has_turn(&self) -> Option<GroupId> {
        self.holder.filter(|_| self.stage != Stage::Open)
    }
}

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Debt {
    /// The time it owes.
    pub(super) overuse: Ns,
    /// It had work when all clients were throttled.
    drains: bool,
    /// Time on a processor since the present turn began, which is another's; if the form needs it.
    pub(super) cpu: Ns,
}

impl AsMut<Debt> for Debt {
    fn as_mut(&mut self) -> &mut Debt {
        self
    }
}

/// The next holder, and the length of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) client: GroupId,
    pub(super) position: RoundPosition,
    pub(super) length: Ns,
    /// [`Token::ahead`] from then on.
    pub(super) ahead: Option<Ns>,
}

/// The turn that has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Past {
    /// How long its holder had the token.
    pub(super) lasted: Ns,
    /// That, and until no channel had work.
    pub(super) whole: Ns,
}

/// A policy that passes the token.
pub(super) trait Form: Keeps<OfGpu = Token, OfClient: AsMut<Debt>> {
    /// The holder is watched during its turn, and loses the token when it has had no work for
    /// [`IDLE_SCANS`].
    const ENDS_IDLE: bool;

    /// The next holder; none if no client wants the GPU.
    fn choose(token: &Token, past: Past, clients: &mut [ClientState]) -> Option<Slice>;
}

/// The smallest weight of the clients that want the GPU, if there are any.
pub(super) fn least_wanting(clients: &[ClientState]) -> Option<Weight> {
    let wanting = clients.iter().filter(|client| client.wants());
    wanting.map(|client| client.weight).min()
}

/// What is kept of a client.
pub(super) fn debt<F: Form>(client: &mut ClientState) -> &mut Debt {
    client.kept.of_mut::<F>().as_mut()
}

/// The rule of all forms, after a scan.
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
    if F::NEEDS == Inputs::Cpu && token.stage != Stage::Open {
        note_cpu::<F>(token.holder, clients);
    }
    match token.stage {
        Stage::Runs { until, quiet } => {
            let quiet = if F::ENDS_IDLE {
                quiet_scans(token.holder, quiet, clients)
            } else {
                0
            };
            if scan.now >= until || quiet >= IDLE_SCANS {
                begin_drain(scan, token, clients);
                return next;
            }
            token.stage = Stage::Runs { until, quiet };
            if !F::ENDS_IDLE {
                next.at = until;
            }
        }
        Stage::Drain { since } => {
            let lasting = scan.now.saturating_sub(since);
            let mut pending = false;
            for client in clients.iter_mut().filter(|client| client.seen.pending) {
                debt::<F>(client).drains = true;
                pending = true;
            }
            next.overdue = pending && lasting >= MAX_DRAIN;
            if !pending || next.overdue {
                charge::<F>(lasting, token.holder, clients);
                let past = Past {
                    lasted: since.saturating_sub(token.since),
                    whole: scan.now.saturating_sub(token.since),
                };
                next.at = grant::<F>(scan, token, past, clients);
            }
        }
        Stage::Open if clients.iter().filter(|client| client.wants()).count() > 1 => {
            begin_drain(scan, token, clients);
        }
        Stage::Open => {}
    }
    next
}

/// Adds up how long clients are on a processor while another has the token.
fn note_cpu<F: Form>(holder: Option<GroupId>, clients: &mut [ClientState]) {
    for client in clients
        .iter_mut()
        .filter(|client| Some(client.id) != holder)
    {
        let cpu = client.seen.cpu;
        let debt = debt::<F>(client);
        debt.cpu = debt.cpu.saturating_add(cpu);
    }
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
    let mut seen = false;
    for client in clients.iter_mut() {
        seen |= debt::<F>(client).drains;
    }
    for client in clients.iter_mut() {
        let is_holder = Some(client.id) == holder;
        let debt = debt::<F>(client);
        let drains = core::mem::take(&mut debt.drains);
        if drains || (!seen && is_holder) {
            debt.overuse = debt.overuse.saturating_add(lasting);
        }
    }
}

/// Gives the token to the next client, or lets all clients run when there is none. Returns when to
/// scan again.
fn grant<F: Form>(scan: &Scan, token: &mut Token, past: Past, clients: &mut [ClientState]) -> Ns {
    let soon = scan.now.saturating_add(SCAN_INTERVAL);
    let Some(slice) = F::choose(token, past, clients) else {
        clients
            .iter_mut()
            .for_each(|client| client.throttled = false);
        *token = Token::default();
        return soon;
    };
    for client in clients.iter_mut() {
        client.throttled = client.id != slice.client;
    }
    let until = scan.now.saturating_add(slice.length).max(soon);
    *token = Token {
        stage: Stage::Runs { until, quiet: 0 },
        holder: Some(slice.client),
        position: slice.position,
        since: scan.now,
        ahead: slice.ahead,
    };
    if F::ENDS_IDLE {
        soon
    } else {
        until
    }
}

/// Which clients come one after the other.
pub(super) struct Order {
    /// Where a client comes in a round.
    pub(super) position: fn(&ClientState) -> RoundPosition,
    /// Its full turn, if the least weight of those that want the GPU is this one.
    pub(super) slice: fn(&ClientState, Weight) -> Ns,
}

impl Order {
    /// The next client that wants the GPU, one round after the other. What it owes shortens its
    /// turn; a full turn or more skips it, and pays for one.
    pub(super) fn next<F: Form>(
        &self,
        token: &Token,
        clients: &mut [ClientState],
    ) -> Option<Slice> {
        let least = least_wanting(clients)?;
        let owed = |client: &mut ClientState| {
            let slice = (self.slice)(client, least).get().max(1);
            debt::<F>(client).overuse.get() / slice
        };
        // When all owe turns, as many rounds are skipped as the least of them owes.
        let wanting = clients.iter_mut().filter(|client| client.wants());
        let rounds = wanting.map(owed).min()?;
        let pay = |client: &mut ClientState, slices: u64| {
            let paid = (self.slice)(client, least).saturating_mul(slices);
            let debt = debt::<F>(client);
            debt.overuse = debt.overuse.saturating_sub(paid);
        };
        let (mut first, mut later): (Option<RoundPosition>, Option<RoundPosition>) = (None, None);
        let after_last =
            |position: RoundPosition| token.holder.is_none() || position > token.position;
        for client in clients.iter_mut().filter(|client| client.wants()) {
            pay(client, rounds);
            let position = (self.position)(client);
            let full = (self.slice)(client, least);
            if debt::<F>(client).overuse >= full {
                continue;
            }
            first = Some(first.map_or(position, |first| first.min(position)));
            if after_last(position) {
                later = Some(later.map_or(position, |later| later.min(position)));
            }
        }
        let (wrapped, chosen) = (later.is_none(), later.or(first)?);
        let mut found = None;
        for client in clients.iter_mut().filter(|client| client.wants()) {
            let position = (self.position)(client);
            let passed = (after_last(position) && (wrapped || position < chosen))
                || (wrapped && position < chosen);
            if position == chosen {
                let full = (self.slice)(client, least);
                let overuse = core::mem::take(&mut debt::<F>(client).overuse);
                found = Some(Slice {
                    client: client.id,
                    position,
                    length: full.saturating_sub(overuse),
                    ahead: None,
                });
            } else if passed {
                pay(client, 1);
            }
        }
        found
    }
}
