// SPDX-License-Identifier: GPL-2.0

//! [glue] Changing what a GPU is set to, while it is in use.

use super::events;
use super::ffi;
use super::gpu::Gpu;
use super::process::Chosen;
use crate::engine::{Config, Scale};
use crate::error::Error;
use crate::share::{Change, Setting};
use crate::uapi::{Knobs, Refusal};
use crate::units::Weight;

impl Gpu {
    /// Changes the knobs that are given, all of them or none. Who was held back under another
    /// policy runs, until that one has decided; a decision is due at once.
    ///
    /// # Errors
    ///
    /// What is wrong; then nothing has changed.
    pub(super) fn configure(&self, knobs: &Knobs) -> Result<(), Refusal> {
        let mut books = self.books.lock();
        let now = ffi::now();
        let old = *books.engine.config();
        let new = Config {
            policy: knobs.policy.unwrap_or(old.policy),
            enforce: knobs.enforce.unwrap_or(old.enforce),
            poll_ms: knobs.poll_ms.unwrap_or(old.poll_ms),
            ratio: knobs.ratio.unwrap_or(old.ratio),
            randomize: knobs.randomize.unwrap_or(old.randomize),
            accounting: knobs.accounting.unwrap_or(old.accounting),
            scale: match knobs.scale_active {
                Some(true) => Scale::Active,
                Some(false) => Scale::Channels,
                None => old.scale,
            },
            ..old
        };
        books.engine.set_config(new)?;
        let t_sys = books.engine.start_vtime();
        let books = &mut *books;
        if let Some(by) = knobs.group_by {
            books.shares.set_group_by(by, &books.settings, t_sys);
        }
        if new.policy != old.policy || !new.enforce {
            books.release_all(now);
        }
        if new.policy != old.policy {
            events::policy(self.number(), new.policy.name());
        }
        Ok(())
    }

    /// Changes what is set for somebody, or clears it without a `change`. Returns what was set
    /// before.
    ///
    /// # Errors
    ///
    /// What is wrong; then nothing has changed.
    pub(super) fn set_share(
        &self,
        chosen: &Chosen,
        change: Option<&Change>,
    ) -> Result<Option<Setting>, Error> {
        let mut books = self.books.lock();
        let settings = &mut books.settings;
        let before = settings.get(chosen.subject).copied();
        match change {
            Some(change) => {
                settings.retain_processes(super::process::is_alive);
                settings.set(chosen.subject, chosen.within, change)?;
            }
            None => settings.clear(chosen.subject)?,
        }
        Ok(before)
    }

    /// Puts back what was set before. For a process that is gone, that is nothing.
    pub(super) fn restore_share(&self, chosen: &Chosen, before: Option<Setting>) {
        let mut books = self.books.lock();
        // Nothing is set if the process is gone, and what was accepted before is again.
        let _ = books.settings.clear(chosen.subject);
        if let Some(before) = before.filter(|_| !chosen.is_gone()) {
            let change = Change {
                weight: before.weight.map(Weight::get),
                limit: before.limit.map(|limit| limit.get()),
                class: before.class,
            };
            let _ = books.settings.set(chosen.subject, chosen.within, &change);
        }
    }
}
