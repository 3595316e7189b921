// SPDX-License-Identifier: GPL-2.0

//! Policy `augc`: as `credit`, but clients that were on a processor come earlier in their round.
//!
//! Rule: in each round every client has the time `left` of its turn in `credit`. Of those that want
//! the GPU and have time left, the one with the largest `left + boost` runs alone for a tick of
//! 30 ms. `boost = slice / 2 * p`, `p` being the part of the last turn, if it was another's, in
//! which threads of the client were on a processor. What it runs, its overuse included, is taken
//! from `left`; when no client that wants the GPU has any, the next round begins. What is not used
//! is lost at the end of a round, what is owed is not.
//!
//! Good for: clients that spin on shared processors and get both together more often.
//! Bad for: as `credit`; with processors for all it is `credit` in ticks.
//! Bound: a client that always wants the GPU waits no longer than the rest of one round and its
//! place in the next: the boost changes the order in a round, not what is in it.
//! Source: Gupta and others, Pegasus (USENIX ATC 2011), AugC, section 4.3. There the boost is the
//! rest of the CPU credits of the coming period, which a module cannot know; and the text promises
//! each client its turn without saying how.

use super::credit::{full_slice, TICK};
use super::token::{least_wanting, pass_token, Debt, Form, Past, Slice, Token};
use super::{ClientState, Holder, Inputs, Policy, Rule};
use crate::ids::GroupId;
use crate::units::{signed, Ns, Weight};

/// Turns in proportion to weights, first to clients that are on a processor.
pub struct Augmented;

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    debt: Debt,
    /// Time left in this round, in ns; negative if it owes some.
    left: i64,
}

impl AsMut<Debt> for Standing {
    fn as_mut(&mut self) -> &mut Debt {
        &mut self.debt
    }
}

impl Policy for Augmented {
    const NAME: &'static str = "augc";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    const NEEDS: Inputs = Inputs::Cpu;
    type OfClient = Standing;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for Augmented {
    const ENDS_IDLE: bool = true;

    fn choose(token: &Token, past: Past, clients: &mut [ClientState]) -> Option<Slice> {
        let lasted = past.lasted;
        let least = least_wanting(clients)?;
        for client in clients.iter_mut() {
            let ran = if Some(client.id) == token.holder {
                lasted
            } else {
                Ns::ZERO
            };
            let own = client.kept.of_mut::<Self>();
            let overuse = core::mem::take(&mut own.debt.overuse);
            own.left = own.left.saturating_sub(signed(ran.saturating_add(overuse)));
        }
        begin_rounds(least, clients);
        let mut best: Option<(i64, GroupId)> = None;
        for client in clients.iter_mut() {
            let slice = full_slice(client.weight, least);
            let (id, wants) = (client.id, client.wants());
            let own = client.kept.of_mut::<Self>();
            let cpu = core::mem::take(&mut own.debt.cpu);
            if !wants || own.left <= 0 {
                continue;
            }
            let boost = boost(slice, cpu, lasted);
            let value = own.left.saturating_add(signed(boost));
            let better = best.is_none_or(|(most, first)| (value, first) > (most, id));
            best = if better { Some((value, id)) } else { best };
        }
        best.map(|(_, client)| Slice {
            client,
            position: (0, client),
            length: TICK,
            ahead: None,
        })
    }
}

/// Begins as many rounds as it takes until a client that wants the GPU has time left.
fn begin_rounds(least: Weight, clients: &mut [ClientState]) {
    let mut rounds = u64::MAX;
    for client in clients.iter_mut().filter(|client| client.wants()) {
        let slice = full_slice(client.weight, least);
        let left = client.kept.of_mut::<Augmented>().left;
        let short = u64::try_from(1_i64.saturating_sub(left)).unwrap_or(0);
        rounds = rounds.min(short.div_ceil(slice.get().max(1)));
    }
    if rounds == 0 {
        return;
    }
    for client in clients.iter_mut() {
        let slice = full_slice(client.weight, least);
        let own = client.kept.of_mut::<Augmented>();
        let earned = signed(slice.saturating_mul(rounds));
        own.left = own.left.saturating_add(earned).min(signed(slice));
    }
}

/// How much earlier a client comes that was on a processor for `cpu` of `lasted`.
fn boost(slice: Ns, cpu: Ns, lasted: Ns) -> Ns {
    let half = slice.get() / 2;
    let length = lasted.get().max(1);
    Ns::new(crate::fair::mul_div(half, cpu.get().min(length), length))
}
