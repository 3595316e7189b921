// SPDX-License-Identifier: GPL-2.0

//! Clients at a decision: half of them used the GPU, their weights and virtual times differ.

use loga::account::PhaseTotals;
use loga::ids::GroupId;
use loga::policies::ClientState;
use loga::units::{Ns, VTime, Weight};

/// The measured numbers of clients.
pub const COUNTS: [u64; 4] = [10, 100, 1_000, 10_000];

/// Length of the polling phase.
const PHASE: Ns = Ns::from_ms(120);

/// A number of clients and the phase in which they used the GPU.
pub fn at_decision(count: u64) -> (PhaseTotals, Vec<ClientState>) {
    let share = PHASE.get() / count;
    let client = |number: u64| {
        // CAST: at most 300.
        let weight = Weight::new(50 + (number * 7 % 251) as u32).unwrap_or(Weight::DEFAULT);
        let vtime = VTime::new(number * 7919 % 1000 * 1_000_000);
        let mut state = ClientState::new(GroupId::new(number), weight, vtime);
        if number % 2 == 0 {
            state.busy = Ns::new(share * (number % 4 + 1) / 2);
            // CAST: at most 9.
            state.runs = (number % 10) as u32;
        }
        state
    };
    let clients: Vec<_> = (0..count).map(client).collect();
    let ran = clients
        .iter()
        .fold(Ns::ZERO, |sum, client| sum.saturating_add(client.busy));
    let totals = PhaseTotals {
        length: PHASE,
        idle: PHASE.saturating_sub(ran),
        ran,
        ..PhaseTotals::default()
    };
    (totals, clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_the_clients_fit_the_phase() {
        for count in COUNTS {
            let (totals, clients) = at_decision(count);
            assert_eq!(clients.len() as u64, count);
            assert_eq!(totals.idle.saturating_add(totals.ran), totals.length);
            assert!(clients.iter().any(|client| client.active()));
            assert!(clients.iter().any(|client| !client.active()));
        }
    }
}
