// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Which channels a page has, and which of them compute, by the GPU's channel table.

use super::gate::Gate;
use crate::ids::Chid;
use crate::regs::{ChannelState, Mmio};
use crate::track::pages::SLOTS;

/// Reads again which channels the page of a gate has, for the fault handler: registers may be read.
pub(crate) fn read_kinds(mmio: &impl Mmio, gate: &Gate) {
    let kinds = gate.kinds();
    if let Some(Bound { live, .. }) = Bound::read(mmio, gate.page()) {
        gate.set_kinds(kinds, live, computing_slots(mmio, gate.page(), live));
    }
}

/// Which of these slots of a page have a channel that computes, one bit each.
pub(in crate::glue::gpu) fn computing_slots(mmio: &impl Mmio, page: u16, live: u8) -> u8 {
    let mut computes = 0u8;
    // CAST (both): eight.
    let first = page.saturating_mul(SLOTS as u16);
    for slot in 0..SLOTS as u16 {
        let bit = 1u8.checked_shl(slot.into()).unwrap_or(0);
        let chid = Chid::new(first.saturating_add(slot)).filter(|_| live & bit != 0);
        let state = chid.map(|chid| ChannelState::read(mmio, chid));
        // One that does not answer may compute.
        let is_copy = |state: Result<ChannelState, _>| state.is_ok_and(|state| !state.is_compute());
        if state.is_some_and(|state| !is_copy(state)) {
            computes |= bit;
        }
    }
    computes
}

/// What the channel table says of the channels of a page.
#[derive(Default)]
pub(in crate::glue::gpu) struct Bound {
    /// Slots whose channel exists, one bit each.
    pub(in crate::glue::gpu) live: u8,
    /// Their instance blocks.
    pub(in crate::glue::gpu) contexts: [u32; SLOTS],
}

impl Bound {
    /// Reads it; `None` if the device has gone.
    pub(in crate::glue::gpu) fn read(mmio: &impl Mmio, page: u16) -> Option<Self> {
        let mut bound = Self::default();
        // CAST: eight.
        let first = page.checked_mul(SLOTS as u16)?;
        for (slot, context) in (0u16..).zip(bound.contexts.iter_mut()) {
            let chid = Chid::new(first.saturating_add(slot))?;
            if let Some(found) = ChannelState::bound(mmio, chid).ok()? {
                bound.live |= 1u8.checked_shl(slot.into()).unwrap_or(0);
                *context = found;
            }
        }
        Some(bound)
    }
}
