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

/// Adds the used slots to their owners and what nobody owns to `unknown`.
///
/// `used` are the indices from [`super::Accountant::used`]. Time is conserved:
/// afterwards `length == idle + unknown + sum of what the clients got`, and that sum
/// is `held`.
pub fn settle(
    totals: &mut PhaseTotals,
    slots: &[Slot],
    used: impl Iterator<Item = usize>,
    owners: &impl Owner,
    clients: &mut [ClientState],
) {
    for index in used {
        let Some(slot) = slots.get(index) else {
            continue;
        };
        match owners.owner(index).and_then(|at| clients.get_mut(at)) {
            Some(client) => {
                client.busy = client.busy.saturating_add(slot.held);
                client.runs = client.runs.saturating_add(slot.runs);
            }
            None => {
                totals.held = totals.held.saturating_sub(slot.held);
                totals.unknown = totals.unknown.saturating_add(slot.held);
            }
        }
    }
}
