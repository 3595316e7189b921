// SPDX-License-Identifier: GPL-2.0

//! [glue] Which GPU is `/dev/nvidiaN`: the driver says so.

use crate::glue::gpu::bar::{Address, Found};
use crate::glue::kernel::ffi::Card;
use crate::glue::kernel::order;
use kernel::prelude::*;

/// The minor that the driver gave the GPU at this address, if it lists it.
pub(crate) fn of(address: &Address, cards: &[Card]) -> Option<u32> {
    let is_it = |card: &&Card| {
        (card.domain, card.bus, card.slot) == (address.domain, address.bus, address.devfn >> 3)
    };
    cards.iter().find(is_it).map(|card| card.minor)
}

/// The GPUs in the order of their minors, each with its own.
///
/// A driver that does not say (its list is empty, or in a form that LoGA does not know) numbers
/// the GPUs as it finds them, which for those it has at load is the order of the bus.
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
