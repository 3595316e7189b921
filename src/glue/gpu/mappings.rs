// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Calls of applications that map and unmap submission pages of a GPU, and the updates of gates
//! that follow.

use super::books::{NoClient, Room};
use super::gates::gate::Gate;
use super::gates::updates::GateUpdate;
use super::submission_pages::TakenPage;
use super::Gpu;
use crate::glue::control::events;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::Process;
use crate::glue::trace;
use crate::track::call::Allocators;
use crate::track::pages::MAX_PAGES;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;

/// TIMEOUT: for this long a page waits for the decision before which it does not move. One is due in
/// some 50 ms, see `Engine::decide_soon`; without it the page moves, and what was measured of it is its
/// new owner's.
const BOOKED_WITHIN: Ns = Ns::from_ms(500);
/// TIMEOUT: new clients may use up the room while it is made; this bounds the retries.
const TRIES: usize = 8;

/// The process that becomes the owner of a mapped page.
pub(crate) struct Claimant {
    pub(crate) process: Process,
    /// See [`PageClaim::proven`](crate::track::pages::PageClaim::proven).
    pub(crate) proven: bool,
}

impl Gpu {
    /// Adds a new mapping of a submission page. May sleep; no lock of LoGA's may be held.
    ///
    /// A page moves to another owner only after what was measured of it is booked: until then the
    /// caller waits here, and the driver has not let the new owner store to it yet.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller was killed meanwhile; `EMFILE` if the owner has `MAX_MAPPINGS` mappings;
    /// `ENFILE` if there is no row for the owner, see [`row_for`](crate::share::row_for); `ESRCH` for a process that has
    /// begun to exit and is no client; `ENOMEM` if the machine has no memory. No page has changed then.
    pub(crate) fn take(&self, page: u16, claimant: &Claimant) -> Result<TakenPage> {
        let gate = Gate::new(page)?;
        let (mut room, mut is_new, mut is_booked) = (None, false, false);
        for _ in 0..TRIES {
            let mut books = self.brief_books();
            let spare = room.take().and_then(|room| books.grow(room));
            let wanted = match books.client_of(&claimant.process) {
                Ok(client) => {
                    let at = client.at;
                    is_new |= client.is_new;
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
                    let taken = books.map(page, at, claimant.proven, gate);
                    if taken.is_ok() && books.count_channels() {
                        self.wake();
                    }
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

    /// Waits until the period is booked that is being measured. It ends soon.
    ///
    /// # Errors
    ///
    /// `EINTR` if the caller is killed.
    fn wait_until_booked(&self) -> Result {
        let (since, mut asked) = (ffi::now(), None);
        while ffi::now().saturating_sub(since) < BOOKED_WITHIN {
            let mut books = self.brief_books();
            let engine = &mut books.state.engine;
            let decisions = engine.stats().decisions;
            if engine.is_parked() || *asked.get_or_insert(decisions) != decisions {
                break;
            }
            let wakes = engine.decide_soon(ffi::now());
            drop(books);
            if wakes {
                self.wake();
            }
            // SAFETY: Process context, and no lock is held that a thread of LoGA's waits for.
            if unsafe { ffi::loga_sleep_killable(2) } {
                return Err(EINTR);
            }
        }
        Ok(())
    }

    /// Gives a new client the claim of the process that started it, and reports one that has claimed
    /// other GPUs and not this one.
    fn settle_claims(&self, process: &Process) {
        let gpu = self.device.number();
        let Some(claimed) = self.claims.appeared(process, gpu) else {
            return;
        };
        let books = self.brief_books();
        let client = books.clients.find(process);
        let client = client.and_then(|at| books.rows().get(at));
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
        self.brief_books().pages.copy(page)
    }

    /// Removes an area with a page.
    pub(crate) fn unmapped(&self, page: u16) {
        if self.brief_books().unmap(page) {
            self.wake();
        }
    }

    /// The driver has closed a control file, and freed its channels.
    pub(crate) fn control_closed(&self) {
        self.freed.store(1, Relaxed);
        if self.brief_books().end_freed() {
            self.wake();
        }
    }

    /// Updates one gate, if that is due: a call of an application does the work of no other.
    fn update_gate(&self, gate: &Arc<Gate>) {
        let update = self.brief_books().pages.update_of(gate);
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
            let next = self.books.lock().pages.next_update();
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
        self.books.lock().update_all_gates();
        self.update_gates();
        // TIMEOUT: up to the last page; each is waited for from the time on when it was handed over.
        for at in 0.. {
            let gate = match self.books.lock().pages.table().all().get(at) {
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
