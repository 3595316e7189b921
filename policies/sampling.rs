// SPDX-License-Identifier: GPL-2.0

//! Policy `sampling`: each client alone for a while, then a free run by what was learned.
//!
//! Rule: barrier (all held back), drain (until no channel has work), each client that
//! is not held back alone for `poll_ms` per channel, looked at every millisecond, until
//! 96 commands are done; then a free run of `ratio` times as long.
//! `dvt = average / sum of averages * t_freerun * 100 / weight`, where `average` is the
//! time with work pending over the commands completed and `t_freerun` the length of the
//! free run before; `t_sys = min vt` over clients that had commands or were held back;
//! who is idle and behind is lifted to `t_sys`; `held = vt > t_sys + t_freerun * 100 /
//! w_min`, with the longer of both free runs, `w_min` as in `event`.
//!
//! The prototype charges for the free run to come. With it, who is held back next has
//! paid already, and who is not sampled shortens the free run: of two clients that always
//! want more, with commands of 1000 and 100 us, the first got 31 %. Charged for what is
//! past, both get half.
//!
//! Good for: comparison with NEON; hardware that shows completions and nothing else.
//! Bad for: utilisation: who is alone rarely fills the GPU; and for clients that use it
//! rarely, whose average command counts as much as if they ran it back to back.
//! Bound: one command that never ends stops a drain after [`MAX_DRAIN`], counted; who
//! still has work then is charged as if its commands were that long.
//! Source: LoGA paper, section 2.3; Menychtas et al., Disengaged Scheduling for Fair,
//! Protected Access to Fast Computational Accelerators (ASPLOS 2014).

use super::{ClientState, Look, Memory, Next, Policy};
use crate::fair;
use crate::ids::ClientId;
use crate::units::{Ns, VTime, Weight};

/// Time between looks while something is watched.
const LOOK: Ns = Ns::from_ms(1);
/// A drain ends after this long, whatever still runs.
pub(super) const MAX_DRAIN: Ns = Ns::from_ms(1_000);
/// Commands after which a turn ends early.
const ENOUGH: u64 = 96;
/// Longest free run.
const MAX_FREE_RUN: Ns = Ns::from_ms(10_000);

/// Stages, as kept in the memory.
const FREE_RUN: u64 = 0;
const DRAIN: u64 = 1;
const TURN: u64 = 2;
const EMPTY: u64 = 3;

/// In the memory: the stage, since when, whose turn it is, when sampling began, how long the
/// free run before it was.
const STAGE: usize = 0;
const SINCE: usize = 1;
const WHOSE: usize = 2;
const BEGAN: usize = 3;
const RAN: usize = 4;
/// In the scratch of a client: time with work pending, commands completed, whether it
/// is held back in free runs.
const PENDING: usize = 0;
const DONE: usize = 1;
const BACK: usize = 2;

/// Each client alone for a while, then a free run.
pub(super) struct Sampling;

impl Policy for Sampling {
    const NAME: &'static str = "sampling";
    const STAGED: bool = true;

    fn look(look: &Look, memory: &mut Memory, clients: &mut [ClientState]) -> Next {
        let lasting = look.now.saturating_sub(Ns::new(memory.0[SINCE]));
        let mut overdue = false;
        match memory.0[STAGE] {
            DRAIN | EMPTY => {
                observe(look, memory, clients);
                let drained = !clients.iter().any(|client| client.seen.pending);
                overdue = !drained && lasting >= MAX_DRAIN;
                if overdue && memory.0[STAGE] == DRAIN {
                    charge_pending(lasting, clients);
                }
                if drained || overdue {
                    return next_turn(look, memory, clients, overdue);
                }
            }
            TURN => {
                observe(look, memory, clients);
                if turn_is_over(look, memory, clients, lasting) {
                    hold_all(clients);
                    enter(memory, EMPTY, look.now);
                }
            }
            _ => {
                hold_all(clients);
                for client in clients.iter_mut() {
                    client.scratch[PENDING] = 0;
                    client.scratch[DONE] = 0;
                }
                memory.0[RAN] = if memory.0[SINCE] == 0 {
                    0
                } else {
                    lasting.min(MAX_FREE_RUN).get()
                };
                enter(memory, DRAIN, look.now);
                memory.0[WHOSE] = 0;
                memory.0[BEGAN] = look.now.get();
            }
        }
        Next {
            at: look.now.saturating_add(LOOK),
            t_sys: look.t_sys,
            overdue,
        }
    }
}

fn hold_all(clients: &mut [ClientState]) {
    clients.iter_mut().for_each(|client| client.held = true);
}

fn enter(memory: &mut Memory, stage: u64, now: Ns) {
    memory.0[STAGE] = stage;
    memory.0[SINCE] = now.get();
}

/// Whether it is the turn of this client. Zero is nobody's.
fn is_turn(memory: &Memory, client: &ClientState) -> bool {
    memory.0[WHOSE] == client.id.get().saturating_add(1)
}

/// Adds a look to what is known of the client whose turn it is.
fn observe(look: &Look, memory: &Memory, clients: &mut [ClientState]) {
    for client in clients.iter_mut().filter(|client| is_turn(memory, client)) {
        let seen = client.seen;
        if seen.pending || seen.completed > 0 {
            // A command that ended since the last look ran for half of that, on average.
            let time = if seen.pending {
                look.since.get()
            } else {
                look.since.get() / 2
            };
            client.scratch[PENDING] = client.scratch[PENDING].saturating_add(time);
        }
        client.scratch[DONE] = client.scratch[DONE].saturating_add(seen.completed.into());
    }
}

/// Who still has work after a drain is what others wait for.
fn charge_pending(lasting: Ns, clients: &mut [ClientState]) {
    for client in clients.iter_mut().filter(|client| client.seen.pending) {
        client.scratch[PENDING] = lasting.get();
    }
}

fn turn_is_over(look: &Look, memory: &Memory, clients: &[ClientState], lasting: Ns) -> bool {
    clients
        .iter()
        .find(|client| is_turn(memory, client))
        .is_none_or(|client| {
            let length = look.turn.saturating_mul(client.channels.max(1).into());
            lasting >= length || client.scratch[DONE] >= ENOUGH
        })
}

/// Begins the next client's turn, or the free run when all have had theirs.
fn next_turn(look: &Look, memory: &mut Memory, clients: &mut [ClientState], late: bool) -> Next {
    let last = memory.0[WHOSE];
    let after = |client: &&ClientState| {
        client.id.get().saturating_add(1) > last && client.scratch[BACK] == 0 && client.channels > 0
    };
    let next: Option<ClientId> = clients.iter().filter(after).map(|client| client.id).min();
    let mut answer = Next {
        at: look.now.saturating_add(LOOK),
        t_sys: look.t_sys,
        overdue: late,
    };
    // Beside a command that never ends nobody can be watched alone.
    if let Some(id) = next.filter(|_| !late) {
        for client in clients.iter_mut() {
            client.held = client.id != id;
        }
        memory.0[WHOSE] = id.get().saturating_add(1);
        enter(memory, TURN, look.now);
        return answer;
    }
    let season = look.now.saturating_sub(Ns::new(memory.0[BEGAN]));
    let run = season
        .max(LOOK)
        .saturating_mul(look.ratio.into())
        .min(MAX_FREE_RUN);
    // A command that never ended ran all along.
    let drained = if late { season } else { Ns::ZERO };
    let past = Ns::new(memory.0[RAN]).saturating_add(drained);
    let lead = run.max(past);
    answer.t_sys = judge(look.t_sys, past, lead, clients, late);
    answer.at = look.now.saturating_add(run);
    enter(memory, FREE_RUN, look.now);
    answer
}

/// Average length of a client's commands.
fn average(client: &ClientState) -> Ns {
    Ns::new(client.scratch[PENDING] / client.scratch[DONE].max(1))
}

/// Advances virtual times by averages, for the free run that is past, and says who is held back
/// in the next: who is further ahead than `lead`. After a drain that came too `late` nobody had a
/// turn: who wants the GPU is not idle then.
fn judge(t_sys: VTime, past: Ns, lead: Ns, clients: &mut [ClientState], late: bool) -> VTime {
    let sum = clients
        .iter()
        .fold(Ns::ZERO, |sum, client| sum.saturating_add(average(client)));
    for client in clients.iter_mut() {
        let by = fair::advance(average(client), sum, past, client.weight);
        client.vtime = client.vtime.saturating_add(by);
    }
    let counts = |client: &&ClientState| {
        !average(client).is_zero() || client.scratch[BACK] != 0 || (late && client.wants())
    };
    let least = clients.iter().filter(counts).map(|c| c.vtime).min();
    let t_sys = least.map_or(t_sys, |least| least.max(t_sys));
    let lightest = clients.iter().filter(counts).map(|c| c.weight).min();
    let limit = fair::threshold(t_sys, lead, lightest.unwrap_or(Weight::DEFAULT));
    for client in clients.iter_mut() {
        client.vtime = client.vtime.max(t_sys);
        client.held = !sum.is_zero() && client.vtime > limit;
        client.scratch[BACK] = client.held.into();
    }
    t_sys
}
