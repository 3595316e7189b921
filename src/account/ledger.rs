// SPDX-License-Identifier: GPL-2.0

//! `[pure]` From time per channel to time per client.

use super::{EngineKind, PhaseTotals, Slot};
use crate::policies::ClientState;

/// Returns which element of the client table owns a slot; nothing for no owner.
pub trait Owner {
    /// The owner of the slot at `index`, of a channel of an engine. Asked once for each slot that
    /// was used.
    fn owner(&mut self, on: EngineKind, index: usize) -> Option<usize>;
}

/// The owner of a channel does not depend on its engine.
impl<F: FnMut(usize) -> Option<usize>> Owner for F {
    fn owner(&mut self, _on: EngineKind, index: usize) -> Option<usize> {
        self(index)
    }
}

/// An account to which time is charged.
pub trait Charge {
    /// Adds what one of its channels did on an engine in the phase.
    fn charge(&mut self, on: EngineKind, slot: &Slot);
}

impl Charge for ClientState {
    fn charge(&mut self, on: EngineKind, slot: &Slot) {
        match on {
            EngineKind::Compute => {
                self.busy = self.busy.saturating_add(slot.ran);
                self.runs = self.runs.saturating_add(slot.runs);
            }
            EngineKind::Copy => self.copied = self.copied.saturating_add(slot.ran),
        }
    }
}

/// The accounts to which time is charged, by position.
pub trait Accounts {
    /// Adds what a channel of the client at `at` did on an engine in the phase; false if there is no
    /// client.
    fn charge_at(&mut self, at: usize, on: EngineKind, slot: &Slot) -> bool;
}

impl<C: Charge> Accounts for [C] {
    fn charge_at(&mut self, at: usize, on: EngineKind, slot: &Slot) -> bool {
        let there = self.get_mut(at);
        let charged = there.map(|client| client.charge(on, slot));
        charged.is_some()
    }
}

/// Adds the used slots of an engine to their owners, and slots without an owner to `unknown`.
///
/// `used` are the indices from [`super::Accountant::used`]. Time is conserved:
/// afterwards `length == idle + unknown + sum of what the clients got`, and that sum
/// is `ran`.
pub fn settle<A: Accounts + ?Sized>(
    on: EngineKind,
    totals: &mut PhaseTotals,
    slots: &[Slot],
    used: impl Iterator<Item = usize>,
    owners: &mut impl Owner,
    clients: &mut A,
) {
    for index in used {
        let Some(slot) = slots.get(index) else {
            continue;
        };
        let owner = owners.owner(on, index);
        if !owner.is_some_and(|at| clients.charge_at(at, on, slot)) {
            totals.ran = totals.ran.saturating_sub(slot.ran);
            totals.unknown = totals.unknown.saturating_add(slot.ran);
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
        let slot = |ran| Slot {
            ran: Ns::new(ran),
            runs: 1,
            ..Slot::default()
        };
        let slots = [slot(10), slot(20), slot(30), slot(40)];
        let mut totals = PhaseTotals {
            length: Ns::new(100),
            ran: Ns::new(100),
            ..PhaseTotals::default()
        };
        let mut clients = [ClientState::default(); 2];
        let mut owners = |index| [Some(0), Some(1), Some(0), None][index];
        let compute = EngineKind::Compute;
        settle(
            compute,
            &mut totals,
            &slots,
            0..4,
            &mut owners,
            &mut clients[..],
        );
        assert_eq!(clients[0].busy, Ns::new(40));
        assert_eq!(clients[0].runs, 2);
        assert_eq!(clients[1].busy, Ns::new(20));
        assert_eq!(totals.unknown, Ns::new(40));
        assert_eq!(totals.ran, Ns::new(60));
    }

    #[test]
    fn settle_of_copies_adds_nothing_to_compute() {
        let slots = [Slot {
            ran: Ns::new(10),
            runs: 1,
            ..Slot::default()
        }];
        let mut totals = PhaseTotals {
            length: Ns::new(10),
            ran: Ns::new(10),
            ..PhaseTotals::default()
        };
        let mut clients = [ClientState::default()];
        let (on, mut owner) = (EngineKind::Copy, Some);
        settle(on, &mut totals, &slots, 0..1, &mut owner, &mut clients[..]);
        assert_eq!((clients[0].busy, clients[0].runs), (Ns::ZERO, 0));
        assert_eq!(clients[0].copied, Ns::new(10));
        assert_eq!(totals.ran, Ns::new(10));
    }

    #[test]
    fn settle_with_an_owner_out_of_range_is_unknown_time() {
        let slots = [Slot {
            ran: Ns::new(10),
            runs: 1,
            ..Slot::default()
        }];
        let mut totals = PhaseTotals {
            length: Ns::new(10),
            ran: Ns::new(10),
            ..PhaseTotals::default()
        };
        let mut no_clients: [ClientState; 0] = [];
        settle(
            EngineKind::Compute,
            &mut totals,
            &slots,
            0..1,
            &mut |_| Some(5),
            &mut no_clients[..],
        );
        assert_eq!(totals.unknown, Ns::new(10));
        assert_eq!(totals.ran, Ns::ZERO);
    }
}
