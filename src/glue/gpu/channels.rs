// SPDX-License-Identifier: GPL-2.0

//! [glue] Which channels of the clients' pages exist, by the GPU's channel table, and the end of pages
//! without any.

use super::books::Books;
use super::gate::Gate;
use super::holdings::list;
use super::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::trace;
use crate::ids::Chid;
use crate::regs::{ChannelState, Mmio, Work};
use crate::track::pages::{Change, SLOTS};
use kernel::sync::atomic::Full;

/// Most pages whose channels a decision reads again.
const PAGES_PER_DECISION: usize = 16;

impl Books {
    /// Reads from the channel table which channels of a page exist, one bit each. Nothing if there
    /// is no such page, or if the device does not answer while the owner lives.
    pub(super) fn live_channels(&self, gpu: &Gpu, number: u16) -> Option<u8> {
        let page = self.pages.get(number).filter(|_| !gpu.device.is_away())?;
        let client = self.clients.get(page.at());
        let owner_lives = client.is_some_and(|client| client.pid.identity().is_some());
        let live = live_slots(&gpu.device.bar0, number, owner_lives);
        live.or((!owner_lives).then_some(0))
    }

    /// Notes which channels of a page exist.
    pub(super) fn read_channels(&mut self, gpu: &Gpu, number: u16) {
        let (Some(live), Some(page)) = (self.live_channels(gpu, number), self.pages.get(number))
        else {
            return;
        };
        let client = self.clients.get(page.at());
        if let (Some(gate), Some(client)) = (page.gate(), client) {
            let (before, kinds) = (gate.place(), gate.kinds());
            let computes = computing_slots(&gpu.device.bar0, number, live);
            gate.set_kinds(kinds, live, computes);
            // Its first channel that computes: entries of before have to go.
            if before.is_none() && gate.place().is_some() {
                list(&mut self.turns, gate, page.owner().get(), client.tgid, None);
            }
        }
        self.note_live(number, live);
    }

    /// A channel may have been allocated in any page: stores to those of copies are decided on until
    /// their channels are read again.
    pub(super) fn doubt_copies(&mut self) {
        for page in self.pages.all() {
            let (Some(gate), Some(client)) = (page.gate(), self.clients.get(page.at())) else {
                continue;
            };
            if gate.doubt() {
                list(&mut self.turns, gate, page.owner().get(), client.tgid, None);
            }
        }
    }

    /// Notes which channels of a page exist, for traces too.
    fn note_live(&mut self, number: u16, live: u8) {
        let books_gpu = self.gpu;
        self.pages
            .set_live(number, live, |chid, owner, change, record| match change {
                Change::Created => {
                    trace::channel_create(books_gpu, chid.get().into(), owner.get());
                }
                Change::Destroyed => {
                    let measured = record.measured.get();
                    let chid = chid.get().into();
                    trace::channel_destroy(books_gpu, chid, owner.get(), measured);
                }
            });
    }

    /// Removes the pages that have ended, and clients that own no page then and have exited.
    pub(super) fn forget_ended(&mut self) {
        // TIMEOUT: each pass removes a page.
        while let Some(page) = self.pages.ended() {
            let (number, owner, at) = (page.number(), page.owner(), page.at());
            self.note_live(number, 0);
            if !self.pages.has_owner(owner) {
                self.refresh_client(at);
            }
        }
    }

    /// Reads the channels of pages again that may have changed. Called at a decision.
    pub(super) fn reread_channels(&mut self, gpu: &Gpu) {
        self.forget_ended();
        if gpu.device.is_away() {
            return;
        }
        if gpu.freed.xchg(0, Full) != 0 {
            self.pages.doubt_all();
        }
        let mut any = false;
        for _ in 0..PAGES_PER_DECISION {
            let Some(page) = self.pages.doubtful() else {
                break;
            };
            self.read_channels(gpu, page);
            any = true;
        }
        // Counting visits all clients, which a decision must not do.
        if any {
            self.note_channels(gpu);
        }
    }

    /// Passes the number of channels to the engine; wakes the main thread if a decision is due.
    pub(super) fn note_channels(&mut self, gpu: &Gpu) {
        let census = self.census();
        if self.specs.any_protected() {
            self.place_gates();
        }
        if self.state.engine.count(ffi::now(), census) {
            gpu.wake();
        }
    }
}

/// Reads again which channels the page of a gate has, for the fault handler: registers may be read.
pub(super) fn read_kinds(mmio: &impl Mmio, gate: &Gate) {
    let kinds = gate.kinds();
    if let Some(live) = live_slots(mmio, gate.page(), true) {
        gate.set_kinds(kinds, live, computing_slots(mmio, gate.page(), live));
    }
}

/// Which of these slots of a page have a channel that computes, one bit each.
fn computing_slots(mmio: &impl Mmio, page: u16, live: u8) -> u8 {
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

/// The slots of a page whose channel exists, one bit each; `None` if the device has gone. A channel
/// of an owner that has exited counts only while it has work.
fn live_slots(mmio: &impl Mmio, page: u16, owner_lives: bool) -> Option<u8> {
    let mut live = 0u8;
    // CAST: eight.
    let first = page.checked_mul(SLOTS as u16)?;
    for slot in 0..SLOTS as u16 {
        let chid = Chid::new(first.saturating_add(slot))?;
        let exists = if owner_lives {
            ChannelState::is_bound(mmio, chid).ok()?
        } else {
            ChannelState::read(mmio, chid).ok()?.work() != Work::None
        };
        live |= u8::from(exists).checked_shl(slot.into()).unwrap_or(0);
    }
    Some(live)
}
