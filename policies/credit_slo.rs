// SPDX-License-Identifier: GPL-2.0

//! Policy `credit-slo`: as `credit`, and clients with a target that are behind it come first.
//!
//! Rule: a client with a target of `p` % is *behind* by `b`, which grows by `p` % of the time in
//! which it wants the GPU, and falls by its turns; `-p % <= b <= p %` of a second. Of the clients
//! that want the GPU and have `b > 0`, the one with the largest `b / p` runs alone for a tick of 30
//! ms. Such turns take at most nine times as long as the turn in the order of `credit` before them did;
//! without a client that is behind, or after that, the next turn is that of `credit`.
//!
//! Good for: clients that need a part of the GPU, whatever their weights and those of others.
//! Bad for: as `credit`; a target is no limit and no reserve, and counts turns, so that a client that
//! does not use its turns gets less.
//! Bound: with targets of 90 % together and turns that are used, a client that always wants the GPU
//! has `p` % of the turns over time; a client without a target waits at most ten times as long as
//! under `credit`.
//! Source: Gupta and others, Pegasus (USENIX ATC 2011), SLAF, section 4.3. There a violator gets one
//! tick more in each round, so that its part is at most `(t + 1) / (r + 1)` in a round of `r` ticks of
//! which `t` are its own: less than most targets.

use super::credit::{ROUND, TICK};
use super::token::{pass_token, Debt, Form, Past, Slice, Token};
use super::{ClientState, Holder, Policy, Rule};
use crate::units::{signed, Ns};

/// How much time turns out of order may take for each turn in order.
const AHEAD: u64 = 9;
/// A client is behind, or ahead, by at most its part of this time.
const WINDOW: Ns = Ns::from_ms(1_000);

/// Turns in proportion to weights, and parts for clients with a target.
pub struct WithTargets;

/// What is kept of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    debt: Debt,
    /// How far it is behind its target, in ns; negative if it is ahead.
    behind: i64,
}

impl AsMut<Debt> for Standing {
    fn as_mut(&mut self) -> &mut Debt {
        &mut self.debt
    }
}

impl Policy for WithTargets {
    const NAME: &'static str = "credit-slo";
    const RULE: Rule<Self> = Rule::Scans(pass_token::<Self>);
    type OfClient = Standing;
    type OfGpu = Token;
    const HOLDER: Option<Holder<Self>> = Some(Token::has_turn);
}

impl Form for WithTargets {
    const ENDS_IDLE: bool = true;

    fn choose(token: &Token, past: Past, clients: &mut [ClientState]) -> Option<Slice> {
        settle(token, past, clients);
        let mut most: Option<(i64, &ClientState)> = None;
        for client in clients.iter().filter(|client| client.wants()) {
            let behind = client.kept.of::<Self>().map_or(0, |own| own.behind);
            let part = i64::from(client.target_pct.max(1));
            // How long ago it had all that it should have; the first of equal ones.
            let since = behind / part;
            if behind > 0 && most.is_none_or(|(longest, _)| since > longest) {
                most = Some((since, client));
            }
        }
        let left = left(token, past);
        match most.filter(|_| !left.is_zero()) {
            Some((_, client)) => {
                let length = TICK.min(left);
                Some(Slice {
                    client: client.id,
                    // Turns in order go on from there.
                    position: token.position,
                    length,
                    ahead: Some(left.saturating_sub(length)),
                })
            }
            None => ROUND.next::<Self>(token, clients),
        }
    }
}

/// How long turns out of order may last from now on.
fn left(token: &Token, past: Past) -> Ns {
    match (token.holder, token.ahead) {
        // Before the first turn all clients ran.
        (None, _) => Ns::ZERO,
        (_, Some(left)) => left,
        // The turn in order has ended.
        (_, None) => past.lasted.saturating_mul(AHEAD),
    }
}

/// Brings up to date how far each client is behind its target.
fn settle(token: &Token, past: Past, clients: &mut [ClientState]) {
    // Before the first turn all clients ran.
    let Some(holder) = token.holder else {
        return;
    };
    for client in clients.iter_mut() {
        let (id, wants) = (client.id, client.wants());
        let part =
            |time: Ns| signed(Ns::new(time.get() / 100).saturating_mul(client.target_pct.into()));
        let (due, most) = (part(past.whole), part(WINDOW));
        let own = client.kept.of_mut::<WithTargets>();
        let grown = if wants { due } else { 0 };
        let had = if id == holder { signed(past.lasted) } else { 0 };
        let behind = own.behind.saturating_add(grown).saturating_sub(had);
        own.behind = behind.clamp(-most, most);
    }
}
