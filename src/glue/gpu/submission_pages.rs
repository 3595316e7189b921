// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The pages of a GPU's clients: mapped, unmapped, and their gates.

use super::books::{Books, ClientKernel, GateUpdate, NoClient, Room};
use super::gates::gate::Gate;
use super::Gpu;
use crate::glue::control::events;
use crate::glue::engaged::scheduler::EngagedRoom;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::trace;
use crate::ids::ClientId;
use crate::track::call::Allocators;
use crate::track::pages::{PageClaim, MAX_PAGES};
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
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
/// TIMEOUT: new clients may use up the room while it is made; this bounds the retries.
const TRIES: usize = 8;

/// The process that becomes the owner of a mapped page.
pub(crate) struct Claimant {
    pub(crate) process: Process,
    /// See [`PageClaim::proven`].
    pub(crate) proven: bool,
}

/// A page that has got an owner.
pub(crate) struct TakenPage {
    pub(crate) gate: Arc<Gate>,
    /// Forked children get copies of the mapping.
    pub(crate) copied: bool,
}

impl Gpu {
    /// Adds a new mapping of a submission page. May sleep; no lock of LoGA's may be held.
    ///
    /// A page moves to another owner only after what was measured of it is booked: until then the
    /// caller waits here, and the driver has not let the new owner store to it yet.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller was killed meanwhile; `EMFILE` if the owner has [`MAX_MAPPINGS`] mappings;
    /// `ENFILE` if there is no row for the owner, see [`row_for`](crate::share::row_for); `ESRCH` for a process that has
    /// begun to exit and is no client; `ENOMEM` if the machine has no memory. No page has changed then.
    pub(crate) fn take(&self, page: u16, claimant: &Claimant) -> Result<TakenPage> {
        let gate = Gate::new(page)?;
        let (mut room, mut is_new, mut is_booked) = (None, false, false);
        for _ in 0..TRIES {
            let mut books = self.brief_books();
            let spare = room.take().and_then(|room| books.grow(room));
            let before = books.next_id;
            let wanted = match books.client_of(&claimant.process) {
                Ok(at) => {
                    is_new |= books.next_id > before;
                    if !is_booked && books.is_measured_of_another(page, at, claimant.proven) {
                        drop(books);
                        drop(spare);
                        self.wait_until_booked()?;
                        is_booked = true;
                        continue;
                    }
                    if is_booked && is_new {
                        books.state.owe_anew(at);
                    }
                    let taken = books.take(self, page, at, claimant.proven, gate);
                    drop(books);
                    drop(spare);
                    if let Ok(taken) = &taken {
                        self.update_gate(&taken.gate);
                    }
                    self.map_slots();
                    if is_new {
                        self.settle_claims(&claimant.process);
                    }
                    return taken;
                }
                Err(NoClient::Refused(errno)) => return Err(errno),
                Err(NoClient::Room(wanted)) => wanted,
            };
            drop(books);
            room = Some(Room::new(wanted)?);
        }
        Err(ENOMEM)
    }

    /// Gives a new client the claim of the process that started it, and reports one that has claimed
    /// other GPUs and not this one.
    fn settle_claims(&self, process: &Process) {
        let gpu = self.device.number();
        let Some(claimed) = self.claims.appeared(process, gpu) else {
            return;
        };
        let books = self.brief_books();
        let at = books.find_process(process);
        let client = at.and_then(|at| {
            let member = books.state.shares.members().get(at)?;
            Some((member, books.clients.get(at)?))
        });
        if let Some((member, client)) = client {
            events::elsewhere(gpu, &client.about(member), claimed);
        }
    }

    /// Maps the slots of the channels, if submissions are decided on and the driver has moved them.
    pub(super) fn map_slots(&self) {
        if self.engaged.is_on() {
            let chip = self.brief_books().presence.chip;
            self.engaged.map_slots(&self.device, chip);
        }
    }

    /// A channel may have been allocated through a control file of `allocator`: where submissions are
    /// decided on, no page of the caller's user, or of the allocator's as far as it is known, is taken
    /// for one of copies until its channels are read again. May sleep; no lock of LoGA's may be held.
    pub(crate) fn doubt_copies(&self, allocator: Option<&Process>) {
        if !self.engaged.is_on() {
            return;
        }
        let allocators = Process::of_caller().ok().and_then(|caller| {
            let books = self.brief_books();
            Some(Allocators {
                caller: books.user_of(&caller)?,
                through: allocator.and_then(|allocator| books.user_of(allocator)),
            })
        });
        // Whoever calls has not ended: it has a user.
        let Some(allocators) = allocators else {
            return;
        };
        // TIMEOUT: a page whose channels are read meanwhile is not of copies any more.
        for _ in 0..MAX_PAGES {
            let Some(gate) = self.brief_books().doubt_copies(&allocators) else {
                return;
            };
            gate.apply();
        }
    }

    /// Adds an area with a page: a copy for a forked child, or one that is moved or split. False if it
    /// is not to be copied again.
    pub(crate) fn copied(&self, page: u16) -> bool {
        let mut books = self.brief_books();
        books.mappings = books.mappings.saturating_add(1);
        books.pages.copy(page);
        let owner = books.pages.get(page).map(|page| page.owner());
        books.areas_of(owner, page) < MAX_COPIES
    }

    /// Removes an area with a page. While a phase is measured, a page
    /// whose channels are gone too keeps its owner until that is booked: they may have run in it.
    pub(crate) fn unmapped(&self, page: u16) {
        let mut books = self.brief_books();
        books.mappings = books.mappings.saturating_sub(1);
        if books.pages.unmap(page) && books.live_channels(self, page) == Some(0) {
            books.pages.end(page);
            if books.state.engine.is_parked() {
                books.forget_ended();
            }
        }
        books.note_channels(self);
    }

    /// The driver has closed a control file, and freed its channels.
    pub(crate) fn control_closed(&self) {
        self.freed.store(1, Relaxed);
        self.brief_books().end_freed(self);
    }

    /// Updates one gate, if that is due: a call of an application does the work of no other.
    fn update_gate(&self, gate: &Arc<Gate>) {
        let mut books = self.brief_books();
        let mut updates = books.gate_updates.iter();
        let at = updates.position(|update| Arc::ptr_eq(&update.gate, gate));
        let update = at.and_then(|at| books.gate_updates.remove(at).ok());
        drop(books);
        if let Some(update) = update {
            let begin = ffi::now();
            update.gate.apply();
            self.note_updated(&update, ffi::now().saturating_sub(begin));
        }
    }

    /// Updates the gates that decisions have shut or opened. May sleep; no lock of LoGA's may be
    /// held.
    pub(crate) fn update_gates(&self) {
        let mut begin = ffi::now();
        let mut updated: Option<GateUpdate> = None;
        // TIMEOUT: each gate is in the list once, and the list has a fixed capacity.
        loop {
            let next = self.books.lock().gate_updates.pop();
            let ends = match (&updated, &next) {
                (Some(last), Some(next)) => last.client != next.client,
                (Some(_), None) => true,
                (None, _) => false,
            };
            if let Some(last) = updated.take().filter(|_| ends) {
                self.note_updated(&last, ffi::now().saturating_sub(begin));
                begin = ffi::now();
            }
            let Some(next) = next else {
                return;
            };
            next.gate.apply();
            updated = Some(next);
        }
    }

    /// Removes the entries of all pages whose owners' submissions are decided on. May sleep; no lock
    /// of LoGA's may be held.
    pub(crate) fn revoke_all(&self) {
        self.books.lock().list_gates();
        self.update_gates();
        // TIMEOUT: up to the last page; each is waited for from the time on when it was handed over.
        for at in 0.. {
            let gate = match self.books.lock().pages.all().get(at) {
                Some(page) => page.gate().cloned(),
                None => break,
            };
            if let Some(gate) = gate {
                gate.settle();
            }
        }
    }

    /// Records how long it took to update all gates of a client.
    fn note_updated(&self, update: &GateUpdate, took: Ns) {
        let mut costs = self.took.lock();
        match update.throttled {
            None => {
                costs.revoke.add(took);
                trace::gate_revoke(self.device.number(), update.client, update.tgid, took.get());
            }
            Some(throttled) => {
                costs.restore.add(took);
                trace::gate_restore(
                    self.device.number(),
                    update.client,
                    update.tgid,
                    throttled.get(),
                );
            }
        }
    }
}

impl Books {
    /// Makes the client at `at` the owner of a page that is being mapped, unless the page has an
    /// owner and the claim is not proven.
    fn take(
        &mut self,
        gpu: &Gpu,
        number: u16,
        at: usize,
        proven: bool,
        gate: Arc<Gate>,
    ) -> Result<TakenPage> {
        let owner = self.state.shares.members().get(at).ok_or(EINVAL)?.id();
        let of_page = self.pages.get(number).map(|page| page.owner());
        let payer = of_page.filter(|_| !proven).unwrap_or(owner);
        let mappings = self.areas_of(Some(payer), number);
        if mappings >= MAX_MAPPINGS {
            return Err(EMFILE);
        }
        let claim = PageClaim { owner, at, proven };
        let claimed = self.pages.map(number, &claim, gate).ok_or(ENOMEM)?;
        self.mappings = self.mappings.saturating_add(1);
        self.read_channels(gpu, number);
        let page = self.pages.get(number).ok_or(EINVAL)?;
        let gate = page.gate().ok_or(EINVAL)?.clone();
        gate.set_client(claimed.owner.get());
        let client = self.clients.get(page.at()).ok_or(EINVAL)?;
        gate.set_wait_queue(client.wait_queue);
        let is_shut = match client.throttled_since {
            Some(_) => {
                gate.shut(client.throttled_until);
                true
            }
            None => {
                gate.open();
                false
            }
        };
        // Mappings of the former owner exist: their entries may be present, their threads waiting.
        if claimed.moved {
            let released = (!is_shut).then_some(Ns::ZERO);
            let owner = claimed.owner.get();
            list(&mut self.gate_updates, &gate, owner, client.tgid, released);
        }
        self.note_channels(gpu);
        Ok(TakenPage {
            gate,
            copied: mappings < MAX_COPIED,
        })
    }

    /// Areas of a client, and those with this page: one that changes its owner brings them along.
    fn areas_of(&self, owner: Option<ClientId>, number: u16) -> u32 {
        let pages = self.pages.all().iter();
        pages
            .filter(|page| Some(page.owner()) == owner || page.number() == number)
            .fold(0u32, |count, page| count.saturating_add(page.mappings()))
    }

    /// Decides on each submission from now on, or no more. The gates have to be updated then.
    pub(super) fn engage(&mut self, gpu: &Gpu, room: Option<EngagedRoom>) {
        match room {
            Some(room) => gpu.engaged.engage(room, gpu.completion_waker()),
            None => gpu.engaged.disengage(),
        }
        gpu.engaged.set_specs(&self.specs);
        self.set_reserves();
        let depth = self.state.shares.depth();
        let members = self.state.shares.members().iter();
        for (member, client) in members.zip(self.clients.iter_mut()) {
            let spec = self.specs.resolve(member.identity());
            client.wait_queue = gpu.engaged.join(member.identity().tenant(depth), spec);
        }
        self.assign_wait_queues();
        self.list_gates();
    }

    /// Lists all gates to be updated.
    fn list_gates(&mut self) {
        for page in self.pages.all() {
            let (Some(gate), Some(client)) = (page.gate(), self.clients.get(page.at())) else {
                continue;
            };
            list(
                &mut self.gate_updates,
                gate,
                page.owner().get(),
                client.tgid,
                None,
            );
        }
    }

    /// The first page from position `from` on that has a gate and an owner which has ended, this
    /// client or any: its position, the owner's number in the caller's pid namespace, and the gate.
    pub(super) fn page_of_ended(
        &self,
        from: usize,
        client: Option<u64>,
    ) -> Option<(usize, i32, Arc<Gate>)> {
        let mut pages = self.pages.all().iter().enumerate().skip(from);
        pages.find_map(|(position, page)| {
            let is_meant = client.is_none_or(|client| client == page.owner().get());
            let gate = page.gate().filter(|_| is_meant)?;
            let owner = self.clients.get(page.at())?;
            let has_ended = owner.pid.identity().is_none();
            has_ended.then(|| (position, owner.pid.number(), gate.clone()))
        })
    }

    /// Counts the pages that stay open although they were to be closed, since a lock is held that
    /// removing their entries needs, and names their clients once.
    pub(super) fn note_stuck(&self, gpu: &Gpu) {
        let mut stuck = 0u32;
        for page in self.pages.all() {
            let Some(gate) = page.gate() else { continue };
            stuck = stuck.saturating_add(gate.is_stuck().into());
            let member = self.state.shares.members().get(page.at());
            let client = self
                .clients
                .get(page.at())
                .filter(|_| gate.is_to_be_named());
            if let (Some(client), Some(member)) = (client, member) {
                events::stuck(self.gpu, &client.about(member), page.number());
            }
        }
        gpu.stuck.store(stuck, Relaxed);
    }

    /// Opens and shuts gates according to the decision, which applies for `patience` at most.
    /// [`Gpu::update_gates`] does the rest. A client that is asleep is not throttled: its gates are
    /// open.
    pub(super) fn drive_gates(&mut self, gpu: &Gpu, now: Ns, patience: Ns) {
        let until = now.saturating_add(patience);
        self.decided_until = until;
        let (mut throttled, mut released) = (0u32, false);
        for at in self.state.shares.awake() {
            let (Some(member), Some(client)) = (
                self.state.shares.members().get(at),
                self.clients.get_mut(at),
            ) else {
                continue;
            };
            match (client.throttled_since, member.throttled_by()) {
                (None, Some(by)) => {
                    client.throttled_since = Some(now);
                    events::throttled(self.gpu, &client.about(member), by);
                    self.sums.revokes = self.sums.revokes.saturating_add(1);
                }
                (Some(since), None) => {
                    let time = now.saturating_sub(since);
                    client.throttled_since = None;
                    client.released = Some((now, time));
                    released = true;
                    events::released(self.gpu, &client.about(member), time);
                    self.sums.restores = self.sums.restores.saturating_add(1);
                    continue;
                }
                (Some(_), Some(_)) => {}
                (None, None) => continue,
            }
            throttled = throttled.saturating_add(1);
            client.throttled_until = until;
        }
        gpu.throttled.store(throttled, Relaxed);
        if throttled != 0 || released {
            self.set_gates(now, until);
        }
    }

    /// Opens and shuts gates as was decided `now`: goes over the pages once, however many clients
    /// are throttled or released together.
    fn set_gates(&mut self, now: Ns, until: Ns) {
        for page in self.pages.all() {
            let (Some(client), Some(gate)) = (self.clients.get(page.at()), page.gate()) else {
                continue;
            };
            let released = match (client.throttled_since, client.released) {
                (Some(since), _) if since != now && gate.is_shut() => {
                    gate.keep_shut(until);
                    continue;
                }
                // Throttled now, or the last decision came so late that a fault opened the gate.
                (Some(_), _) => None,
                (None, Some((at, time))) if at == now => Some(time),
                (None, _) => continue,
            };
            let owner = page.owner().get();
            set_gate(&mut self.gate_updates, gate, owner, client, released);
        }
    }

    /// Lets all clients run until the next decision, whatever was decided.
    pub(super) fn release_all(&mut self, gpu: &Gpu, now: Ns) {
        self.state.shares.release(now);
        self.drive_gates(gpu, now, Ns::ZERO);
    }
}

/// Shuts or opens a gate, and lists it to be updated.
fn set_gate(
    updates: &mut KVec<GateUpdate>,
    gate: &Arc<Gate>,
    client: u64,
    kernel: &ClientKernel,
    throttled: Option<Ns>,
) {
    match throttled {
        None => gate.shut(kernel.throttled_until),
        Some(_) => gate.open(),
    }
    list(updates, gate, client, kernel.tgid, throttled);
}

/// Lists a gate to be updated.
pub(crate) fn list(
    updates: &mut KVec<GateUpdate>,
    gate: &Arc<Gate>,
    client: u64,
    tgid: i32,
    throttled: Option<Ns>,
) {
    if gate.begin_update() {
        let update = GateUpdate {
            gate: gate.clone(),
            client,
            tgid,
            throttled,
        };
        // There is room: a gate is in the list once.
        let _ = updates.push_within_capacity(update);
    }
}
