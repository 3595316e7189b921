// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Which channels of the clients' pages exist, by the GPU's channel table, and the end of pages
//! without any.

use super::books::{Books, Page};
use super::gates::gate::Gate;
use super::gates::kinds::{computing_slots, Bound};
use super::polling::phase::PollingPhase;
use super::submission_pages::list;
use super::Gpu;
use crate::account;
use crate::engine::Census;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::trace;
use crate::track::call::Allocators;
use crate::track::pages::Change;
use kernel::sync::atomic::Full;
use kernel::sync::Arc;

/// Most pages whose channels a decision reads again.
const PAGES_PER_DECISION: usize = 16;

impl Books {
    /// Reads from the channel table which channels of a page exist, one bit each, whether the owner
    /// lives or not: the driver frees them when the control file is closed, which any process may
    /// hold. Nothing if there is no such page, or if the device does not answer while the owner
    /// lives.
    pub(super) fn live_channels(&self, gpu: &Gpu, number: u16) -> Option<u8> {
        self.bound_channels(gpu, number).map(|bound| bound.live)
    }

    fn bound_channels(&self, gpu: &Gpu, number: u16) -> Option<Bound> {
        let page = self.pages.get(number).filter(|_| !gpu.device.is_away())?;
        let client = self.clients.get(page.at());
        let owner_lives = client.is_some_and(|client| client.pid.identity().is_some());
        let bound = Bound::read(&gpu.device.bar0, number);
        bound.or((!owner_lives).then(Bound::default))
    }

    /// Notes which channels of a page exist.
    pub(super) fn read_channels(&mut self, gpu: &Gpu, number: u16) {
        let (Some(bound), Some(page)) = (self.bound_channels(gpu, number), self.pages.get(number))
        else {
            return;
        };
        let live = bound.live;
        let client = self.clients.get(page.at());
        if let (Some(gate), Some(client)) = (page.gate(), client) {
            let (before, kinds) = (gate.wait_queue(), gate.kinds());
            let computes = computing_slots(&gpu.device.bar0, number, live);
            gate.set_kinds(kinds, live, computes);
            // Its first channel that computes: entries of before have to go.
            if before.is_none() && gate.wait_queue().is_some() {
                list(
                    &mut self.gate_updates,
                    gate,
                    page.owner().get(),
                    client.tgid,
                    None,
                );
            }
        }
        let is_gone = live == 0 && page.mappings() == 0;
        if is_gone && !self.state.engine.is_parked() {
            // It keeps its owner until what was measured of its channels is booked.
            self.pages.end(number);
            return;
        }
        self.note_live(number, live);
        self.pages.set_contexts(number, &bound.contexts);
    }

    /// The user of a process, if it is a client or lives.
    pub(super) fn user_of(&self, process: &Process) -> Option<u32> {
        let members = self.state.shares.members();
        let member = self.find_process(process).and_then(|at| members.get(at));
        let identity = member.map(|member| *member.identity());
        identity
            .or_else(|| process.identity())
            .map(|identity| identity.user)
    }

    /// A channel may have been allocated in any page of these users: stores to those of copies are
    /// decided on until their channels are read again. Returns the gate of one page, whose entries have
    /// to go; `None`: there is no further one.
    pub(super) fn doubt_copies(&self, allocators: &Allocators) -> Option<Arc<Gate>> {
        let members = self.state.shares.members();
        let concerns = |page: &&Page| {
            let member = members.get(page.at());
            member.is_some_and(|member| allocators.include(member.identity().user))
        };
        let mut gates = self
            .pages
            .all()
            .iter()
            .filter(concerns)
            .filter_map(Page::gate);
        gates.find(|gate| gate.doubt()).cloned()
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

    /// Ends the pages that are not mapped and have no channels any more: the driver has freed those of a
    /// control file. Of many pages the next decisions end the rest.
    pub(super) fn end_freed(&mut self, gpu: &Gpu) {
        let mut at = 0;
        for _ in 0..PAGES_PER_DECISION {
            let mut rest = self.pages.all().iter().enumerate().skip(at);
            let Some((found, page)) = rest.find(|(_, page)| page.mappings() == 0) else {
                break;
            };
            at = found.saturating_add(1);
            let number = page.number();
            if self.live_channels(gpu, number) == Some(0) {
                self.pages.end(number);
            }
        }
        if self.state.engine.is_parked() {
            self.forget_ended();
        }
        self.note_channels(gpu);
    }

    /// Removes the pages that have ended, and clients that own no page then and have exited.
    pub(super) fn forget_ended(&mut self) {
        // TIMEOUT: each pass removes a page.
        while let Some(page) = self.pages.ended() {
            let (number, owner, at) = (page.number(), page.owner(), page.at());
            self.note_live(number, 0);
            if !self.pages.has_owner(owner) {
                self.refresh_client(at, true);
            }
        }
    }

    /// Reads the channels of pages again that may have changed.
    pub(super) fn reread_channels(&mut self, gpu: &Gpu) {
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

    /// Reads the channels of all pages, if a TSG has run of which no channel is known: they were
    /// allocated since the last read. Called when a phase has ended, before it is booked.
    pub(super) fn find_tsgs(&mut self, phase: &PollingPhase, gpu: &Gpu) {
        let is_unknown = |index: usize| {
            let slot = phase.slots.get(index).filter(|slot| slot.context != 0);
            let tsg = account::tsg_of(index).zip(slot);
            tsg.is_some_and(|(id, slot)| self.pages.channel_of_tsg(id, slot.context).is_none())
        };
        if gpu.device.is_away() || !phase.used().iter().any(is_unknown) {
            return;
        }
        for at in (0..self.pages.all().len()).rev() {
            if let Some(number) = self.pages.all().get(at).map(|page| page.number()) {
                self.read_channels(gpu, number);
            }
        }
    }

    /// Counts the existing channels, for the engine, and notes of which clients they came or went.
    pub(super) fn census(&mut self) -> Census {
        for client in self.clients.iter_mut() {
            (client.channels, client.channels_before) = (0, client.channels);
        }
        for page in self.pages.all() {
            if let Some(client) = self.clients.get_mut(page.at()) {
                client.channels = client.channels.saturating_add(page.allocated());
            }
        }
        let mut census = Census::default();
        for (at, client) in self.clients.iter().enumerate() {
            census.add(client.channels);
            if client.channels != client.channels_before {
                self.state.shares.note_changed(at);
            }
        }
        census
    }

    /// Passes the number of channels to the engine; wakes the main thread if a decision is due.
    pub(super) fn note_channels(&mut self, gpu: &Gpu) {
        let census = self.census();
        if self.specs.any_protected() {
            self.assign_wait_queues();
        }
        if self.state.engine.count(ffi::now(), census) {
            gpu.wake();
        }
    }
}
