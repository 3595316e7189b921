// SPDX-License-Identifier: GPL-2.0

//! `[glue]` What only the main thread of a GPU uses, without a lock.

use crate::account::waits::SampledClient;
use crate::glue::gpu::device::bar::MappedRange;
use crate::glue::gpu::device::Device;
use crate::ids::Chid;
use crate::regs::{self, Chip};
use crate::units::Ns;
use kernel::prelude::*;

/// Least time between two events about channels that no client owns.
const UNKNOWN_STEP: Ns = Ns::from_ms(1_000);

/// Room to sample clients and channels.
pub(super) type SamplingRoom = (KVVec<SampledClient>, KVVec<Chid>);

/// What only the main thread uses.
#[derive(Default)]
pub(super) struct MainState {
    /// Room to sample more clients and channels in the next phase, and the present capacities.
    sampling_room: Option<SamplingRoom>,
    sampling_room_of: (usize, usize),
    /// The slots of the channels, once a scan needs them.
    slots: Option<MappedRange>,
    /// Grants of the dispatcher that were used up to the last decision.
    grants: u64,
    /// When unknown time was last reported.
    unknown_reported: Option<Ns>,
}

impl MainState {
    /// Makes room to sample so many clients and channels, if there is too little. Without memory there
    /// is none. May sleep.
    pub(super) fn make_sampling_room(&mut self, clients: usize, channels: usize) {
        let (clients_before, channels_before) = self.sampling_room_of;
        let is_enough = clients <= clients_before && channels <= channels_before;
        if self.sampling_room.is_some() || is_enough {
            return;
        }
        // Half as much more, so that this happens rarely.
        let grown = |count: usize| count.saturating_add(count / 2).saturating_add(16);
        let (mut watched, mut list) = (KVVec::new(), KVVec::new());
        let made = watched
            .extend_with(grown(clients), SampledClient::default(), GFP_KERNEL)
            .and_then(|()| list.extend_with(grown(channels), Chid::from_bits(0), GFP_KERNEL));
        if made.is_ok() {
            self.sampling_room = Some((watched, list));
        }
    }

    /// The room that was made, if it is larger.
    pub(super) fn take_sampling_room(&mut self) -> Option<SamplingRoom> {
        self.sampling_room.take()
    }

    /// There is room to sample so many clients and channels.
    pub(super) const fn note_sampling_room(&mut self, room: (usize, usize)) {
        self.sampling_room_of = room;
    }

    /// Maps the slots of the channels, if the driver has moved them since. Without them, scans
    /// show no commands.
    pub(super) fn map_slots(&mut self, device: &Device, chip: Option<Chip>) {
        let (Some(base), Some(chip)) = (regs::userd_base(&device.bar0), chip) else {
            return;
        };
        let is_mapped = |slots: &MappedRange| slots.begins_at(&device.bar1, base);
        if !self.slots.as_ref().is_some_and(is_mapped) {
            self.slots = MappedRange::map_slots(&device.bar1, base, chip.channels).ok();
        }
    }

    /// The slots of the channels, if they could be mapped.
    pub(super) const fn slots(&self) -> Option<&MappedRange> {
        self.slots.as_ref()
    }

    /// How many of the dispatcher's grants were used since this was asked last; `grants` is all of them.
    pub(super) const fn take_grants(&mut self, grants: u64) -> u64 {
        let before = core::mem::replace(&mut self.grants, grants);
        grants.saturating_sub(before)
    }

    /// Whether time of a channel that no client owns is to be reported now.
    pub(super) fn reports_unknown(&mut self, now: Ns) -> bool {
        let last = self.unknown_reported;
        let is_due = last.is_none_or(|last| now.saturating_sub(last) >= UNKNOWN_STEP);
        if is_due {
            self.unknown_reported = Some(now);
        }
        is_due
    }
}
