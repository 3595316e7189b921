// SPDX-License-Identifier: GPL-2.0

//! Policy `credit`: turns in proportion to weights, in ticks.
//!
//! Rule: a token goes round among the clients that want the GPU, from the largest weight to the
//! smallest, and among equal ones in the order of their ids; its holder runs alone for
//! `round(weight / least)` ticks of 30 ms (1 to 64 of them, 500 ms at most), `least` being the
//! smallest weight of those that want it. Overuse as in `timeslice`. A holder that has had no work
//! for three scans loses the token.
//!
//! Good for: clients whose turns shall be long compared with their calls; with equal weights it is
//! a plain round robin, with the processes' CPU weights as weights XenoCredit.
//! Bad for: latency: a client waits for the turns of all others, and a client of a small weight makes
//! these longer, 500 ms at most, which any user can do with its own; utilisation, as `timeslice`.
//! Bound: as `timeslice`, with these turns; time is in proportion to weights whose ratios are
//! whole numbers, others are off by half a tick in each turn.
//! Source: Gupta and others, Pegasus (USENIX ATC 2011), AccCredit, algorithm 1. There a holder
//! keeps its ticks whether it uses them or not, and a call that outlasts its turn is not charged.

use super::token::{pass_token, Debt, Form, Order, Past, Slice, Token, MAX_SLICE};
use super::{ClientState, Holder, Policy, Rule};
use crate::units::{Ns, Weight};

/// Shortest turn, and unit of the others.
pub(super) const TICK: Ns = Ns::from_ms(30);
/// Most ticks of a turn.
const MAX_TICKS: u32 = 64;
/// From the largest weight to the smallest.
pub(super) const ROUND: Order = Order {
    position: |client| (Weight::MAX.saturating_sub(client.weight.get()), client.id),
    slice: |client, least| full_slice(client.weight, least),
};

/// Turns in proportion to weights.
pub struct Credit;

impl Policy for Credit {
    const NAME: &'static str = "credit";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Debt;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for Credit {
    const ENDS_IDLE: bool = true;

    fn choose(token: &Token, _: Past, clients: &mut [ClientState]) -> Option<Slice> {
        ROUND.next::<Self>(token, clients)
    }
}

/// The turn of a client that owes nothing, beside others of which the smallest weight is `least`.
pub(super) fn full_slice(weight: Weight, least: Weight) -> Ns {
    let (weight, least) = (weight.get(), least.get().max(1));
    let ticks = weight.saturating_add(least / 2) / least;
    let slice = TICK.saturating_mul(ticks.clamp(1, MAX_TICKS).into());
    slice.min(MAX_SLICE)
}
