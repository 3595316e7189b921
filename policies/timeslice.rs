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
//! command over any number of rounds; a drain ends after
//! [`MAX_DRAIN`](super::sampling::MAX_DRAIN), counted.
//! Source: Menychtas et al., Disengaged Scheduling for Fair, Protected Access to Fast
//! Computational Accelerators (ASPLOS 2014), timeslice with overuse control.

use super::token::{pass_token, Debt, Form, Order, Past, Slice, Token, MAX_SLICE, MIN_SLICE};
use super::{ClientState, Holder, Policy, Rule};
use crate::fair::mul_div;
use crate::units::{Ns, Weight};

/// Slice of a client of the default weight.
const SLICE: Ns = Ns::from_ms(30);
/// In the order of ids.
const ROUND: Order = Order {
    position: |client| (0, client.id),
    slice: |client, _| slice(client.weight),
};

/// One client at a time, watched during its slice.
pub struct Engaged;
/// One client at a time, left alone during its slice.
pub struct Disengaged;

impl Policy for Engaged {
    const NAME: &'static str = "timeslice-eng";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Debt;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for Engaged {
    const ENDS_IDLE: bool = true;

    fn choose(token: &Token, _: Past, clients: &mut [ClientState]) -> Option<Slice> {
        ROUND.next::<Self>(token, clients)
    }
}

impl Policy for Disengaged {
    const NAME: &'static str = "timeslice";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Debt;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for Disengaged {
    const ENDS_IDLE: bool = false;

    fn choose(token: &Token, _: Past, clients: &mut [ClientState]) -> Option<Slice> {
        ROUND.next::<Self>(token, clients)
    }
}

/// A full slice of this weight.
fn slice(weight: Weight) -> Ns {
    let normal = Weight::DEFAULT.get().into();
    let length = mul_div(SLICE.get(), weight.get().into(), normal);
    Ns::new(length).clamp(MIN_SLICE, MAX_SLICE)
}
