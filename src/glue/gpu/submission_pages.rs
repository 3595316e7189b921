// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The submission pages of a GPU's clients: who owns them, which channels they have, and their
//! gates.
//!
//! A page in the table has a gate. A gate whose entries have to go, or whose sleepers have to be woken, is
//! listed in the same call in which that is decided; whoever has the books locked updates it
//! afterwards. Which channels exist is what the GPU's channel table said when the page was read last,
//! whether the owner lives or not: the driver frees channels when the control file is closed, which any
//! process may hold.
//!
//! Of the clients, which are passed in, only those that own a page are looked at.

use super::client::GateChange;
use super::clients::{ClientRows, Clients};
use super::device::bar::MappedRange;
use super::device::Device;
use super::gates::gate::{Gate, Page};
use super::gates::kinds::{computing_slots, Bound};
use super::gates::updates::{GateUpdate, GateUpdates};
use crate::account::{EngineKind, Slot};
use crate::glue::control::events;
use crate::glue::kernel::storage::{storage, Vectors};
use crate::glue::trace;
use crate::ids::{Chid, ClientId, TsgId};
use crate::policies::ScanResult;
use crate::regs::{ChannelState, Ring};
use crate::track::pages::{Change, PageClaim, Pages, MAX_PAGES};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Release;
use kernel::sync::Arc;

/// Areas in which one client may have submission pages mapped, copies of forked children included.
/// CUDA makes some dozens for a process; each one adds a microsecond to a revocation.
const MAX_MAPPINGS: u32 = 512;
/// Above this number of areas, a new one is not copied into forked children.
const MAX_COPIED: u32 = 128;
/// From this number of areas on, those that a fork copies are not copied again, and neither are
/// their originals: a fork cannot be refused. Those that were not copied so far can add to it once,
/// so that there are [`MAX_MAPPINGS`] and [`MAX_COPIED`] at most.
const MAX_COPIES: u32 = 256;
/// Most pages whose channels a decision reads again.
const PAGES_PER_DECISION: usize = 16;

/// A page that has got an owner.
pub(crate) struct TakenPage {
    pub(crate) gate: Arc<Gate>,
    /// Forked children get copies of the mapping.
    pub(crate) copied: bool,
}

/// The submission pages of a GPU's clients.
pub(crate) struct SubmissionPages {
    device: Arc<Device>,
    table: Pages<Vectors, Arc<Gate>>,
    /// Areas in which any page is mapped.
    areas: u32,
    updates: GateUpdates,
}

impl SubmissionPages {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(device: Arc<Device>) -> Result<Self> {
        Ok(Self {
            device,
            table: Pages::new(storage(MAX_PAGES)?),
            areas: 0,
            updates: GateUpdates::new()?,
        })
    }

    /// The pages and their channels.
    pub(crate) const fn table(&self) -> &Pages<Vectors, Arc<Gate>> {
        &self.table
    }

    /// Whether any page is mapped.
    pub(super) const fn is_any_mapped(&self) -> bool {
        self.areas != 0
    }

    /// The gate to update next. It is to be taken out with the books locked, and to be updated without.
    pub(super) fn next_update(&mut self) -> Option<GateUpdate> {
        self.updates.pop()
    }

    /// As [`next_update`](Self::next_update), of this gate, if it is to be updated.
    pub(super) fn update_of(&mut self, gate: &Arc<Gate>) -> Option<GateUpdate> {
        self.updates.take(gate)
    }

    /// Notes that a page is being mapped by a client, which becomes its owner, unless the page has an
    /// owner and the claim is not proven. A page without owner gets `gate`.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the owner has [`MAX_MAPPINGS`] areas, `ENOMEM` without room.
    pub(super) fn map(
        &mut self,
        clients: &Clients,
        number: u16,
        claim: &PageClaim,
        gate: Arc<Gate>,
        is_parked: bool,
    ) -> Result<TakenPage> {
        let of_page = self.table.get(number).map(|page| page.owner());
        let payer = of_page.filter(|_| !claim.proven).unwrap_or(claim.owner);
        let areas = self.areas_of(Some(payer), number);
        if areas >= MAX_MAPPINGS {
            return Err(EMFILE);
        }
        let claimed = self.table.map(number, claim, gate).ok_or(ENOMEM)?;
        self.areas = self.areas.saturating_add(1);
        self.read_channels(clients, number, is_parked);
        let page = self.table.get(number).ok_or(EINVAL)?;
        let gate = page.gate().ok_or(EINVAL)?.clone();
        gate.set_client(claimed.owner.get());
        let client = clients.get(page.at()).ok_or(EINVAL)?;
        gate.set_wait_queue(client.wait_queue());
        let is_shut = client.set_gate(&gate);
        // Mappings of the former owner exist: their entries may be present, their threads waiting.
        if claimed.moved {
            let released = (!is_shut).then_some(Ns::ZERO);
            let owner = claimed.owner.get();
            self.updates.list(&gate, owner, client.tgid(), released);
        }
        Ok(TakenPage {
            gate,
            copied: areas < MAX_COPIED,
        })
    }

    /// Notes another area with a page: a copy for a forked child, or one that is moved or split. False if
    /// it is not to be copied again.
    pub(super) fn copy(&mut self, number: u16) -> bool {
        self.areas = self.areas.saturating_add(1);
        self.table.copy(number);
        let owner = self.table.get(number).map(|page| page.owner());
        self.areas_of(owner, number) < MAX_COPIES
    }

    /// Notes that an area with a page has gone. True if the page is not mapped any more, and its channels
    /// are gone too: it keeps its owner until [`take_ended`](Self::take_ended).
    pub(super) fn unmap(&mut self, clients: &Clients, number: u16) -> bool {
        self.areas = self.areas.saturating_sub(1);
        let has_ended = self.table.unmap(number) && self.has_no_channels(clients, number);
        if has_ended {
            self.table.end(number);
        }
        has_ended
    }

    /// Areas of a client, and those with this page: one that changes its owner brings them along.
    fn areas_of(&self, owner: Option<ClientId>, number: u16) -> u32 {
        let pages = self.table.all().iter();
        pages
            .filter(|page| Some(page.owner()) == owner || page.number() == number)
            .fold(0u32, |count, page| count.saturating_add(page.mappings()))
    }

    /// The client at `at`, which owned no page, is no more: the positions behind it change.
    pub(super) fn forget_position(&mut self, at: usize) {
        self.table.forget_position(at);
    }

    /// Reads from the channel table which channels of a page exist. Nothing if there is no such page, or if
    /// the device does not answer while the owner lives.
    fn bound_channels(&self, clients: &Clients, number: u16) -> Option<Bound> {
        let page = self.table.get(number);
        let page = page.filter(|_| !self.device.is_away())?;
        let client = clients.get(page.at());
        let owner_lives = client.is_some_and(|client| client.lives());
        let bound = Bound::read(&self.device.bar0, number);
        bound.or((!owner_lives).then(Bound::default))
    }

    fn has_no_channels(&self, clients: &Clients, number: u16) -> bool {
        let bound = self.bound_channels(clients, number);
        bound.is_some_and(|bound| bound.live == 0)
    }

    /// Notes which channels of a page exist.
    fn read_channels(&mut self, clients: &Clients, number: u16, is_parked: bool) {
        let (Some(bound), Some(page)) =
            (self.bound_channels(clients, number), self.table.get(number))
        else {
            return;
        };
        let live = bound.live;
        let client = clients.get(page.at());
        if let (Some(gate), Some(client)) = (page.gate(), client) {
            let (before, kinds) = (gate.wait_queue(), gate.kinds());
            let computes = computing_slots(&self.device.bar0, number, live);
            gate.set_kinds(kinds, live, computes);
            // Its first channel that computes: entries of before have to go.
            if before.is_none() && gate.wait_queue().is_some() {
                let owner = page.owner().get();
                self.updates.list(gate, owner, client.tgid(), None);
            }
        }
        let is_gone = live == 0 && page.mappings() == 0;
        if is_gone && !is_parked {
            // It keeps its owner until what was measured of its channels is booked.
            self.table.end(number);
            return;
        }
        self.note_live(number, live);
        self.table.set_contexts(number, &bound.contexts);
    }

    /// Reads the channels of pages again that may have changed, some of them at a time, and of all pages
    /// if channels were `freed`. True if there was one.
    pub(super) fn read_doubtful(
        &mut self,
        clients: &Clients,
        is_parked: bool,
        freed: bool,
    ) -> bool {
        if freed {
            self.table.doubt_all();
        }
        let mut any = false;
        for _ in 0..PAGES_PER_DECISION {
            let Some(number) = self.table.doubtful() else {
                break;
            };
            self.read_channels(clients, number, is_parked);
            any = true;
        }
        any
    }

    /// Reads the channels of all pages.
    pub(super) fn read_all(&mut self, clients: &Clients, is_parked: bool) {
        for at in (0..self.table.all().len()).rev() {
            if let Some(number) = self.table.all().get(at).map(|page| page.number()) {
                self.read_channels(clients, number, is_parked);
            }
        }
    }

    /// Notes which channels of a page exist, for traces too.
    fn note_live(&mut self, number: u16, live: u8) {
        let gpu = self.device.number();
        self.table
            .set_live(number, live, |chid, owner, change, record| match change {
                Change::Created => {
                    trace::channel_create(gpu, chid.get().into(), owner.get());
                }
                Change::Destroyed => {
                    let measured = record.measured.get();
                    let chid = chid.get().into();
                    trace::channel_destroy(gpu, chid, owner.get(), measured);
                }
            });
    }

    /// Ends the pages that are not mapped and have no channels any more: the driver has freed those of a
    /// control file. Of many pages the next decisions end the rest.
    pub(super) fn end_freed(&mut self, clients: &Clients) {
        let mut at = 0;
        for _ in 0..PAGES_PER_DECISION {
            let mut rest = self.table.all().iter().enumerate().skip(at);
            let Some((found, page)) = rest.find(|(_, page)| page.mappings() == 0) else {
                break;
            };
            at = found.saturating_add(1);
            let number = page.number();
            if self.has_no_channels(clients, number) {
                self.table.end(number);
            }
        }
    }

    /// Removes a page that has ended, if there is one: returns the number of its owner, and the owner's
    /// position.
    pub(super) fn take_ended(&mut self) -> Option<(ClientId, usize)> {
        let page = self.table.ended()?;
        let (number, owner, at) = (page.number(), page.owner(), page.at());
        self.note_live(number, 0);
        Some((owner, at))
    }

    /// A channel was on an engine as a part of this TSG.
    pub(super) fn note_tsg(&mut self, chid: Chid, id: TsgId) {
        self.table.note_tsg(chid, id);
    }

    /// Charges a channel. Returns the position of its owner.
    pub(super) fn charge(
        &mut self,
        on: EngineKind,
        chid: Chid,
        slot: &Slot,
        counts_runs: bool,
    ) -> Option<usize> {
        self.table.charge(on, chid, slot, counts_runs)
    }

    /// Reads the state and the ring of every channel, and whether threads sleep at the gate of its page.
    /// Calls `seen` with the position of the owner for each page, and for each channel.
    pub(super) fn scan(
        &mut self,
        slots: Option<&MappedRange>,
        mut seen: impl FnMut(usize, &ScanResult, u32),
    ) {
        for page in self.table.all_mut() {
            let of_page = ScanResult {
                blocked: page.gate().is_some_and(|gate| gate.has_sleepers()),
                ..ScanResult::default()
            };
            let at = page.at();
            seen(at, &of_page, 0);
            for (chid, channel) in page.channels_mut() {
                let Ok(state) = ChannelState::read(&self.device.bar0, chid) else {
                    self.device.lost.store(1, Release);
                    return;
                };
                let ring = slots.and_then(|slots| Ring::read(slots, chid));
                seen(at, &channel.commands.note_scan(state, ring), 1);
            }
        }
    }

    /// Stores to those pages of copies that `concerns` names are decided on until their channels are read
    /// again. Returns the gate of one page, whose entries have to go; `None`: there is no further one.
    pub(super) fn doubt_copies(&self, concerns: impl Fn(&Page) -> bool) -> Option<Arc<Gate>> {
        let pages = self.table.all().iter().filter(|page| concerns(page));
        let mut gates = pages.filter_map(Page::gate);
        gates.find(|gate| gate.doubt()).cloned()
    }

    /// Opens and shuts gates as was decided `now` of their owners, for as long as that applies: goes over
    /// the pages once, however many clients are throttled or released together.
    pub(super) fn set_gates(&mut self, clients: &Clients, now: Ns, until: Ns) {
        for page in self.table.all() {
            let (Some(client), Some(gate)) = (clients.get(page.at()), page.gate()) else {
                continue;
            };
            let released = match client.gate_change(gate, now) {
                Some(GateChange::StaysShut) => {
                    gate.keep_shut(until);
                    continue;
                }
                Some(GateChange::Shuts) => None,
                Some(GateChange::Opens(time)) => Some(time),
                None => continue,
            };
            client.set_gate(gate);
            let owner = page.owner().get();
            self.updates.list(gate, owner, client.tgid(), released);
        }
    }

    /// Has stores to pages decided on by the wait queues of their owners, except to pages that `passes`
    /// names: all pages, or those of the client at one position.
    pub(crate) fn assign_wait_queues(
        &mut self,
        clients: ClientRows<'_>,
        of: Option<usize>,
        mut passes: impl FnMut(&Page, &Arc<Gate>) -> bool,
    ) {
        let is_meant = |page: &&Page| of.is_none_or(|at| page.at() == at);
        for page in self.table.all().iter().filter(is_meant) {
            let (Some(gate), Some((_, client))) = (page.gate(), clients.get(page.at())) else {
                continue;
            };
            let passes = passes(page, gate);
            let before = gate.wait_queue();
            gate.set_wait_queue(client.wait_queue().filter(|_| !passes));
            // Entries of before have to go.
            if before.is_none() && gate.wait_queue().is_some() {
                let owner = page.owner().get();
                self.updates.list(gate, owner, client.tgid(), None);
            }
        }
    }

    /// Lists all gates to be updated.
    pub(super) fn update_all(&mut self, clients: &Clients) {
        for page in self.table.all() {
            if let (Some(gate), Some(client)) = (page.gate(), clients.get(page.at())) {
                let owner = page.owner().get();
                self.updates.list(gate, owner, client.tgid(), None);
            }
        }
    }

    /// The first page from position `from` on that has a gate and an owner which has ended, this
    /// client or any: its position, the owner's number in the caller's pid namespace, and the gate.
    pub(super) fn find_of_ended(
        &self,
        clients: &Clients,
        from: usize,
        client: Option<u64>,
    ) -> Option<(usize, i32, Arc<Gate>)> {
        let mut pages = self.table.all().iter().enumerate().skip(from);
        pages.find_map(|(position, page)| {
            let is_meant = client.is_none_or(|client| client == page.owner().get());
            let gate = page.gate().filter(|_| is_meant)?;
            let owner = clients.get(page.at())?;
            (!owner.lives()).then(|| (position, owner.process().number(), gate.clone()))
        })
    }

    /// Counts the pages that stay open although they were to be closed, since a lock is held that
    /// removing their entries needs, and names their clients once.
    pub(super) fn count_stuck(&self, clients: ClientRows<'_>) -> u32 {
        let mut stuck = 0u32;
        for page in self.table.all() {
            let Some(gate) = page.gate() else { continue };
            stuck = stuck.saturating_add(gate.is_stuck().into());
            let client = clients.get(page.at());
            if let Some((member, client)) = client.filter(|_| gate.is_to_be_named()) {
                let gpu = self.device.number();
                events::stuck(gpu, &client.about(member), page.number());
            }
        }
        stuck
    }
}
