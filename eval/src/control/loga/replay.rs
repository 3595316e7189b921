// SPDX-License-Identifier: GPL-2.0

//! The engine without a GPU: recorded periods go in, decisions come out.

use crate::replay::{Decided, Observed};
use loga::account::PhaseTotals;
use loga::engine::{Config, Engine};
use loga::error::Error;
use loga::ids::ClientId;
use loga::policies::{ClientState, PolicyKind};
use loga::units::{Ns, Weight};

/// The engine without a GPU: recorded periods go in, decisions come out.
pub struct Replay {
    engine: Engine,
    states: Vec<ClientState>,
}

impl Replay {
    /// No clients yet.
    ///
    /// # Errors
    ///
    /// A setting out of range, which does not happen.
    pub fn new(policy: PolicyKind) -> Result<Self, Error> {
        let config = Config {
            policy,
            enforce: true,
            ..Config::default()
        };
        Ok(Self {
            engine: Engine::new(config, 1)?,
            states: Vec::new(),
        })
    }

    /// Decides at the end of a period whose phases had these lengths in ns. `clients` are in order
    /// of their ids. Who was not there in the period before is new, and starts at the time of the
    /// system; who is not there now has gone.
    ///
    /// # Errors
    ///
    /// A weight is out of range, or the policy broke its contract.
    pub fn decide(
        &mut self,
        poll: u64,
        nonpoll: u64,
        clients: &[Observed],
    ) -> Result<(u64, Vec<Decided>), String> {
        let mut states = Vec::with_capacity(clients.len());
        let mut used = Ns::ZERO;
        for client in clients {
            let weight = Weight::new(client.weight)
                .map_err(|error| format!("client {}: {error}", client.id))?;
            let id = ClientId::new(client.id);
            let known = self.states.binary_search_by_key(&id, |state| state.id);
            let mut state = match known {
                Ok(at) => self.states[at],
                Err(_) => ClientState::new(id, weight, self.engine.start_vtime()),
            };
            state.weight = weight;
            state.busy = Ns::new(client.busy_ns);
            state.runs = u32::from(client.busy_ns > 0);
            used = used.saturating_add(state.busy);
            states.push(state);
        }
        let length = Ns::new(poll);
        let totals = PhaseTotals {
            length,
            held: used,
            idle: length.saturating_sub(used),
            ..PhaseTotals::default()
        };
        let fallbacks = self.engine.stats().fallbacks;
        self.engine
            .decide_recorded(Ns::new(nonpoll), &totals, &mut states);
        if self.engine.stats().fallbacks != fallbacks {
            let reason = self.engine.last_fallback();
            return Err(format!("the policy broke its contract: {reason:?}"));
        }
        self.states = states;
        let decided = |state: &ClientState| Decided {
            id: state.id.get(),
            vtime_ns: state.vtime.get(),
            held: state.held,
        };
        let decided = self.states.iter().map(decided).collect();
        Ok((self.engine.start_vtime().get(), decided))
    }
}
