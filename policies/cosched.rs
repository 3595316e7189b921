// SPDX-License-Identifier: GPL-2.0

//! Policy `cosched`: the GPU goes to a client that is on a processor, by weight.
//!
//! Rule: of the clients that want the GPU and of which a thread was on a processor in the last
//! turn, which was another's, the one with the largest weight runs alone for a tick of 30 ms; if
//! there is none, the one with the largest weight of all that want it. Among equal ones it is the
//! one that was passed over most often. A client that was passed over 8 times is first. Overuse
//! shortens the next turn; a tick or more skips it, and pays for one.
//!
//! Good for: a client that spins on a shared processor and shall have both at once.
//! Bad for: shares: weights are priorities, and a client with a thread that never sleeps has every
//! other turn; as `timeslice` else. Not for users who do not trust each other.
//! Bound: a client that always wants the GPU waits for at most `8 + n` turns of `n` clients.
//! Source: Gupta and others, Pegasus (USENIX ATC 2011), CoSched, algorithm 2. There a small weight
//! never runs beside a large one that is always on a processor. There it is known which guests will
//! be on one; here a client that wants the GPU sleeps until it has it, so that only its other
//! threads, or other processes of its group, can show that it would be.

use super::credit::TICK;
use super::token::{debt, pass_token, Debt, Form, Past, Slice, Token};
use super::{ClientState, Holder, Inputs, Policy, Rule};
use crate::ids::GroupId;
use crate::units::{Ns, Weight};
use core::cmp::Reverse;

/// Times that a client may be passed over.
const MAX_SKIPS: u32 = 8;

/// The client on a processor with the largest weight.
pub struct CoScheduled;

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    debt: Debt,
    /// Times that it wanted the GPU and another got it.
    skips: u32,
}

impl AsMut<Debt> for Standing {
    fn as_mut(&mut self) -> &mut Debt {
        &mut self.debt
    }
}

impl Policy for CoScheduled {
    const NAME: &'static str = "cosched";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    const NEEDS: Inputs = Inputs::Cpu;
    type OfClient = Standing;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for CoScheduled {
    const ENDS_IDLE: bool = true;

    fn choose(_: &Token, _: Past, clients: &mut [ClientState]) -> Option<Slice> {
        pay_together(clients);
        let mut best = None;
        for client in clients.iter_mut().filter(|client| client.wants()) {
            let value = value(client);
            if debt::<Self>(client).overuse < TICK {
                best = best.max(Some(value));
            }
        }
        let best = best?;
        let (.., Reverse(chosen)) = best;
        let mut length = TICK;
        for client in clients.iter_mut() {
            let (wants, is_chosen, value) = (client.wants(), client.id == chosen, value(client));
            let own = client.kept.of_mut::<Self>();
            own.debt.cpu = Ns::ZERO;
            if !wants {
                continue;
            }
            own.skips = own.skips.saturating_add(1);
            if is_chosen {
                length = TICK.saturating_sub(core::mem::take(&mut own.debt.overuse));
                own.skips = 0;
            } else if value > best {
                // Its turn, which it owes.
                own.debt.overuse = own.debt.overuse.saturating_sub(TICK);
                own.skips = 0;
            }
        }
        Some(Slice {
            client: chosen,
            position: (0, chosen),
            length,
            ahead: None,
        })
    }
}

/// Which client is first: overdue ones, then those on a processor, then by weight, then those that
/// were passed over most often.
type Value = (u32, bool, Weight, u32, Reverse<GroupId>);

fn value(client: &mut ClientState) -> Value {
    let (id, weight) = (client.id, client.weight);
    let own = client.kept.of_mut::<CoScheduled>();
    let overdue = own.skips.saturating_sub(MAX_SKIPS.saturating_sub(1));
    (
        overdue,
        !own.debt.cpu.is_zero(),
        weight,
        own.skips,
        Reverse(id),
    )
}

/// If all clients that want the GPU owe turns, all pay as many as the least of them owes.
fn pay_together(clients: &mut [ClientState]) {
    let owed = |client: &mut ClientState| debt::<CoScheduled>(client).overuse.get() / TICK.get();
    let wanting = clients.iter_mut().filter(|client| client.wants());
    let slices = wanting.map(owed).min().unwrap_or(0);
    for client in clients.iter_mut().filter(|client| client.wants()) {
        let debt = debt::<CoScheduled>(client);
        debt.overuse = debt.overuse.saturating_sub(TICK.saturating_mul(slices));
    }
}
