// SPDX-License-Identifier: GPL-2.0

//! [glue] Changing what a GPU is set to, while it is in use.

use super::Gpu;
use crate::error::Error;
use crate::glue::control::events;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::is_alive;
use crate::request::Turned;
use crate::share::{Change, Entry, Subject, Who};
use crate::uapi::Refusal;

impl Gpu {
    /// Changes the knobs that are given, all of them or none. Who was throttled under another
    /// policy runs, until that one has decided; a decision is due at once.
    ///
    /// # Errors
    ///
    /// What is wrong; then nothing has changed.
    pub(crate) fn configure(&self, knobs: &Turned) -> Result<(), Refusal> {
        let mut locked = self.books.lock();
        let books = &mut *locked;
        let old = *books.state.engine.config();
        let mut new = old;
        knobs.apply(&mut new);
        let now = ffi::now();
        if books.state.configure(now, new)? {
            books.release_all(self, now);
        }
        if new.policy != old.policy {
            events::policy(self.device.number(), new.policy.name());
        }
        drop(locked);
        self.turn_gates();
        Ok(())
    }

    /// Changes what is set for a subject, or clears it without a `change`. `within` says where the
    /// subject is, if it is there. Returns what was set before. Without `all`, it only lowers: what
    /// the user of a process may do itself.
    ///
    /// # Errors
    ///
    /// What is wrong; then nothing has changed.
    pub(crate) fn set_share(
        &self,
        subject: Subject,
        within: Option<Who>,
        change: Option<&Change>,
        all: bool,
    ) -> Result<Option<Entry>, Error> {
        // Those who may not change everything do not crowd out those who may.
        let _turn = (!all).then(|| self.readers.lock());
        let mut books = self.books.lock();
        let settings = &mut books.state.settings;
        let before = settings.entry(subject).copied();
        let own = within.filter(|_| subject.is_process());
        match (change, all, own) {
            (Some(change), true, _) => {
                settings.retain_processes(is_alive);
                settings.set(subject, within, change)?;
            }
            (None, true, _) => settings.clear(subject)?,
            (Some(change), false, Some(who)) => match settings.lower(&who, change) {
                // Processes that are gone may be in the way.
                Err(Error::Full { .. }) => {
                    settings.retain_processes(is_alive);
                    settings.lower(&who, change)?;
                }
                lowered => lowered?,
            },
            (None, false, Some(who)) => settings.clear_lowered(&who)?,
            (_, false, None) => return Err(Error::NotOwn),
        }
        Ok(before)
    }

    /// Puts back what was set before.
    pub(crate) fn restore_share(&self, subject: Subject, before: Option<Entry>) {
        let mut books = self.books.lock();
        books.state.settings.restore(subject, before);
    }
}
