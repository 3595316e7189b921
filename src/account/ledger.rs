// SPDX-License-Identifier: GPL-2.0

//! [pure] From time per channel to time per client.

use super::{PhaseTotals, Slot};
use crate::policies::ClientState;

/// Says which element of the client table owns a slot; nothing for no owner.
pub trait Owner {
    /// The owner of the slot at `index`.
    fn owner(&self, index: usize) -> Option<usize>;
}

impl<F: Fn(usize) -> Option<usize>> Owner for F {
    fn owner(&self, index: usize) -> Option<usize> {
        self(index)
    }
}

/// Somebody to whom time is charged.
pub trait Charge {
    /// Adds what one of its channels did in the phase.
    fn charge(&mut self, slot: &Slot);
}

impl Charge for ClientState {
    fn charge(&mut self, slot: &Slot) {
        self.busy = self.busy.saturating_add(slot.held);
        self.runs = self.runs.saturating_add(slot.runs);
    }
}

/// Adds the used slots to their owners and what nobody owns to `unknown`.
///
/// `used` are the indices from [`super::Accountant::used`]. Time is conserved:
/// afterwards `length == idle + unknown + sum of what the clients got`, and that sum
/// is `held`.
pub fn settle<C: Charge>(
    totals: &mut PhaseTotals,
    slots: &[Slot],
    used: impl Iterator<Item = usize>,
    owners: &impl Owner,
    clients: &mut [C],
) {
    for index in used {
        let Some(slot) = slots.get(index) else {
            continue;
        };
        match owners.owner(index).and_then(|at| clients.get_mut(at)) {
            Some(client) => client.charge(slot),
            None => {
                totals.held = totals.held.saturating_sub(slot.held);
                totals.unknown = totals.unknown.saturating_add(slot.held);
            }
        }
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_ledger))]
mod tests {
    use super::*;
    use crate::units::Ns;

    #[test]
    fn settle_gives_each_owner_the_sum_of_its_channels() {
        let slot = |held| Slot {
            held: Ns::new(held),
            runs: 1,
        };
        let slots = [slot(10), slot(20), slot(30), slot(40)];
        let mut totals = PhaseTotals {
            length: Ns::new(100),
            held: Ns::new(100),
            ..PhaseTotals::default()
        };
        let mut clients = [ClientState::default(); 2];
        let owners = |index| [Some(0), Some(1), Some(0), None][index];
        settle(&mut totals, &slots, 0..4, &owners, &mut clients);
        assert_eq!(clients[0].busy, Ns::new(40));
        assert_eq!(clients[0].runs, 2);
        assert_eq!(clients[1].busy, Ns::new(20));
        assert_eq!(totals.unknown, Ns::new(40));
        assert_eq!(totals.held, Ns::new(60));
    }

    #[test]
    fn settle_with_an_owner_out_of_range_is_unknown_time() {
        let slots = [Slot {
            held: Ns::new(10),
            runs: 1,
        }];
        let mut totals = PhaseTotals {
            length: Ns::new(10),
            held: Ns::new(10),
            ..PhaseTotals::default()
        };
        let mut nobody: [ClientState; 0] = [];
        settle(&mut totals, &slots, 0..1, &|_| Some(5), &mut nobody);
        assert_eq!(totals.unknown, Ns::new(10));
        assert_eq!(totals.held, Ns::ZERO);
    }
}
