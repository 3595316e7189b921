// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Changing the knobs, shares and specs of a GPU at run time.

use super::books::Books;
use super::Gpu;
use crate::engaged::{Row, SchedulingParameters};
use crate::error::Error;
use crate::glue::control::events;
use crate::glue::engaged::scheduler::EngagedRoom;
use crate::glue::engaged::specs::ListedSpec;
use crate::glue::kernel::ffi;
use crate::glue::kernel::pi_mutex::PiGuard;
use crate::glue::kernel::process::Process;
use crate::knobs::Config;
use crate::request::KnobChange;
use crate::share::{Change, Entry, Identity, Subject};
use crate::uapi::Refusal;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

impl Gpu {
    /// Memory for what knobs ask for.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn prepare(&self, knobs: &KnobChange) -> Result<Option<EngagedRoom>> {
        let mut wanted = Config::default();
        knobs.apply(&mut wanted);
        wanted.dispatch.map(EngagedRoom::new).transpose()
    }

    /// The knobs as they have effect: while the completion thread does not run, no dispatcher decides.
    pub(crate) fn effective_config(&self, books: &Books) -> Config {
        let mut config = *books.state.engine.config();
        config.dispatch = config.dispatch.filter(|_| !self.engaged.is_silent());
        config
    }

    /// Changes the given knobs, all of them or none, with what [`prepare`](Self::prepare) has
    /// returned. With a new policy all clients run until it has decided; a decision is due at once.
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(crate) fn configure(
        &self,
        knobs: &KnobChange,
        room: Option<EngagedRoom>,
    ) -> Result<(), Refusal> {
        let mut locked = self.books.lock();
        let books = &mut *locked;
        let old = *books.state.engine.config();
        let mut new = old;
        knobs.apply(&mut new);
        let now = ffi::now();
        if books.state.configure(now, new)? {
            self.release_all(books, now);
        }
        if new.policy != old.policy {
            events::policy(self.device.number(), new.policy.name());
        }
        if new.dispatch != old.dispatch {
            match room {
                Some(room) => self.engaged.engage(room, self.completion_waker()),
                None => self.engaged.disengage(),
            }
            books.join_wait_queues();
        } else {
            books.set_reserves();
        }
        self.engaged.set_linger(&new);
        self.cgroup_depth.store(new.cgroup_depth, Relaxed);
        drop(locked);
        if old.caution().is_none() {
            self.caution(&new);
        }
        self.map_slots();
        self.update_gates();
        Ok(())
    }

    /// Says what is to be known of the values of knobs, if there is something.
    pub(super) fn caution(&self, config: &Config) {
        if let Some(caution) = config.caution() {
            let gpu = self.device.number();
            pr_notice!("gpu {gpu}: {caution}\n");
        }
    }

    /// Changes the settings of a subject, or clears them without a `change`. `within` is the place
    /// of the subject, if it exists, and `process` is the process, if it is one. Returns the settings
    /// before. Without `all` it only lowers: the user of a process may do this itself, after
    /// [`Gpu::enter_as_reader`].
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(crate) fn set_share(
        &self,
        subject: Subject,
        process: Option<&Process>,
        within: Option<Identity>,
        change: Option<&Change>,
        all: bool,
    ) -> Result<Option<Entry>, Error> {
        let mut books = self.books.lock();
        let books = &mut **books;
        let at = process.and_then(|process| books.clients.find(process));
        if all && change.is_some() {
            books.forget_settings();
        }
        let before = books.state.settings.entry(subject).copied();
        let own = within.filter(|_| subject.is_process());
        match (change, all, own) {
            (Some(change), true, _) => books.state.settings.set(subject, within, change)?,
            (None, true, _) => books.state.settings.clear(subject)?,
            (Some(change), false, Some(identity)) => {
                match books.state.lower(at, &identity, change) {
                    // Entries of exited processes may fill the table.
                    Err(Error::Full { .. }) => {
                        books.forget_settings();
                        books.state.lower(at, &identity, change)?;
                    }
                    lowered => lowered?,
                }
            }
            (None, false, Some(identity)) => books.state.clear_lowered(at, &identity)?,
            (_, false, None) => return Err(Error::NotOwn),
        }
        Ok(before)
    }

    /// Refuses a process to which nothing that is set for it would apply: returns the refusal. May
    /// sleep, and takes locks of pages: not for callers inside [`Gpu::enter_as_reader`].
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS`: a signal has come.
    pub(crate) fn refuse_heir(&self, process: &Process, all: bool) -> Result<Option<Error>> {
        let is_client = {
            let _first = self.enter_without(all)?;
            self.books.lock().clients.find(process).is_some()
        };
        if is_client {
            return Ok(None);
        }
        let user = self.user_of_pages(Some(process), None, all)?;
        Ok(user.map(|(_, from)| Error::Inherited {
            from: from.unsigned_abs().into(),
        }))
    }

    /// As [`Gpu::enter_as_reader`], for a caller that may not change or read `all`.
    fn enter_without(&self, all: bool) -> Result<Option<PiGuard<'_, ()>>> {
        (!all).then(|| self.enter_as_reader()).transpose()
    }

    /// A living process that uses the pages of a client that has ended; its number in the caller's
    /// pid namespace. `all` as in [`Gpu::set_share`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ERESTARTSYS`: a signal has come.
    pub(crate) fn user_of_ended(&self, client: u64, all: bool) -> Result<Option<i32>> {
        let user = self.user_of_pages(None, Some(client), all)?;
        Ok(user.map(|(user, _)| user))
    }

    /// A living process, this one or any, that uses the pages of a client which has ended, this one
    /// or any; its number and that of the client's process.
    fn user_of_pages(
        &self,
        process: Option<&Process>,
        client: Option<u64>,
        all: bool,
    ) -> Result<Option<(i32, i32)>> {
        let mut from = 0;
        // TIMEOUT: bounded by the pages there are.
        loop {
            let page = {
                let _first = self.enter_without(all)?;
                let books = self.books.lock();
                books.pages.find_of_ended(&books.clients, from, client)
            };
            let Some((position, owner, gate)) = page else {
                return Ok(None);
            };
            if let Some(user) = gate.user(process) {
                return Ok(Some((user, owner)));
            }
            from = position.saturating_add(1);
        }
    }

    /// Whether a process may not open this GPU. Without enforcement all may.
    pub(crate) fn denies(&self, identity: &Identity) -> bool {
        let _first = self.openers.enter();
        let books = self.books.lock();
        books.state.engine.config().enforce && books.state.settings.denies(identity)
    }

    /// Restores the settings from before; `process` is the subject, if it is one.
    pub(crate) fn restore_share(
        &self,
        subject: Subject,
        process: Option<&Process>,
        before: Option<Entry>,
    ) {
        let mut books = self.books.lock();
        let at = process.and_then(|process| books.clients.find(process));
        books.state.restore(at, subject, before);
    }

    /// Sets the spec of a subject, for as long as it has a lease, or forgets it. Returns the one
    /// before.
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(crate) fn set_spec(
        &self,
        subject: Subject,
        spec: Option<SchedulingParameters>,
        lease: Option<Ns>,
    ) -> Result<Option<Row>, Refusal> {
        let row = spec.map(|spec| Row {
            subject,
            spec,
            until: lease.map(|lease| ffi::now().saturating_add(lease)),
        });
        let result = self.books.lock().set_spec(subject, row);
        // Also of specs that have ended.
        self.update_gates();
        result
    }

    /// Sets the spec of a subject as it was before.
    pub(crate) fn restore_spec(&self, subject: Subject, before: Option<Row>) {
        self.books.lock().restore_spec(subject, before);
        self.update_gates();
    }

    /// Adds all specs with their reserves to `rows`, which has room for
    /// [`SPECS`](crate::engaged::SPECS).
    pub(crate) fn list_specs(&self, rows: &mut KVec<ListedSpec>) {
        let mut books = self.books.lock();
        books.forget_ended_specs();
        for (at, row) in books.specs.table().all() {
            // There is room.
            let _ = rows.push_within_capacity(ListedSpec {
                row: *row,
                reserve: books.specs.reserve(at),
                coarse: books.state.settings.coarse(row.subject).copied(),
            });
        }
        drop(books);
        self.update_gates();
    }
}
