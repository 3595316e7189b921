// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The GPU of each `/dev/nvidiaN`, as the driver reports it.

use crate::glue::gpu::device::bar::{Address, Found};
use crate::glue::kernel::ffi::Card;
use crate::glue::kernel::order;
use kernel::prelude::*;

/// The minor that the driver gave the GPU at this address, if the driver lists the GPU.
pub(crate) fn of(address: &Address, cards: &[Card]) -> Option<u32> {
    let is_it = |card: &&Card| {
        (card.domain, card.bus, card.slot) == (address.domain, address.bus, address.devfn >> 3)
    };
    cards.iter().find(is_it).map(|card| card.minor)
}

/// Gives each GPU its minor, and sorts the GPUs by it.
///
/// If the driver does not report minors (its list is empty, or in a form that LoGA does not know),
/// it numbers the GPUs as it finds them: for those present at load, in bus order.
pub(super) fn numbered(mut found: KVec<Found>, cards: &[Card]) -> KVec<Found> {
    let is_listed = |gpu: &Found| {
        let minor = of(&gpu.address, cards)?;
        let same = |card: &&Card| card.minor == minor && card.bar0 == gpu.bar0.start();
        cards.iter().find(same).map(|card| card.minor)
    };
    let says = found.iter().any(|gpu| is_listed(gpu).is_some());
    for (number, gpu) in (0..).zip(found.iter_mut()) {
        gpu.minor = if says { is_listed(gpu) } else { Some(number) };
    }
    order::sort_by_key(&mut found, |gpu| gpu.minor.unwrap_or(u32::MAX));
    found
}
