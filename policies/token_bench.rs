// SPDX-License-Identifier: GPL-2.0

//! Clients that pass a token, for tests of the policies that do.

use super::token::{pass_token, Form, Token};
use super::{ClientState, Next, Scan};
use crate::ids::GroupId;
use crate::units::{Ns, VTime, Weight};

pub(super) const CLIENTS: usize = 3;

/// Three clients that want the GPU, scanned when the policy asks for it.
pub(super) struct Bench {
    pub(super) clients: [ClientState; CLIENTS],
    pub(super) token: Token,
    pub(super) now: Ns,
    pub(super) overdue: u32,
    rule: fn(&Scan, &mut Token, &mut [ClientState]) -> Next,
}

impl Bench {
    pub(super) fn of<F: Form>() -> Self {
        let client = |id| ClientState::new(GroupId::new(id), Weight::DEFAULT, VTime::ZERO);
        Self {
            clients: [client(1), client(2), client(3)],
            token: Token::default(),
            now: Ns::from_ms(1_000),
            overdue: 0,
            rule: pass_token::<F>,
        }
    }

    /// The same with these weights.
    pub(super) fn weighted<F: Form>(weights: [u32; CLIENTS]) -> Self {
        let mut bench = Self::of::<F>();
        for (client, weight) in bench.clients.iter_mut().zip(weights) {
            client.weight = Weight::new(weight).unwrap_or_default();
        }
        bench
    }

    /// A scan now; then time moves on to the next.
    pub(super) fn scan(&mut self) -> Next {
        let scan = Scan {
            now: self.now,
            ..Scan::default()
        };
        let next = (self.rule)(&scan, &mut self.token, &mut self.clients);
        self.overdue += u32::from(next.overdue);
        self.now = next.at;
        next
    }

    /// A scan of clients that all want the GPU: a throttled client sleeps, a running one has work,
    /// and has none any more when all are throttled.
    pub(super) fn scan_busy(&mut self) -> Next {
        for client in &mut self.clients {
            client.seen.pending = !client.throttled;
            client.seen.blocked = client.throttled;
        }
        self.scan()
    }

    /// The client that runs alone.
    pub(super) fn holder(&self) -> Option<u64> {
        let mut running = self.clients.iter().filter(|client| !client.throttled);
        match (running.next(), running.next()) {
            (Some(client), None) => Some(client.id.get()),
            _ => None,
        }
    }

    /// Scans until all clients were throttled and the token is given anew; returns its holder.
    pub(super) fn pass(&mut self) -> u64 {
        let mut drained = false;
        for _ in 0..2_000 {
            drained |= self.clients.iter().all(|client| client.throttled);
            self.scan_busy();
            if drained && self.holder().is_some() {
                break;
            }
        }
        self.holder().unwrap_or_default()
    }
}
