// SPDX-License-Identifier: GPL-2.0

//! [glue] Priorities, modes and reserves of the clients of a GPU.

use super::books::Books;
use super::Gpu;
use crate::engaged::{Promised, Spec, Why, SPECS};
use crate::glue::kernel::process::{is_alive, number_of};
use crate::share::Subject;
use crate::uapi::Refusal;
use crate::units::Ns;
use kernel::prelude::*;

impl Books {
    /// Gives the client at `at` the place of the spec that it follows.
    pub(super) fn follow_spec(&mut self, at: usize) {
        let (Some(member), Some(client)) = (
            self.state.shares.members().get(at),
            self.clients.get_mut(at),
        ) else {
            return;
        };
        let Some(before) = client.place else {
            return;
        };
        let identity = member.identity();
        let spec = self.specs.resolve(identity);
        client.place = self.engaged.follow(before, identity.user, spec);
        if client.place == Some(before) {
            return;
        }
        let own = self.pages.all().iter().filter(|page| page.at() == at);
        for gate in own.filter_map(|page| page.gate()) {
            gate.set_place(client.place);
        }
    }

    /// Forgets the specs of processes that have exited.
    pub(crate) fn forget_specs_of_exited(&mut self) {
        if self.specs.retain_processes(is_alive) {
            self.engaged.set_specs(&self.specs);
        }
    }

    /// Carries out what has been set.
    fn specs_changed(&mut self) {
        self.engaged.set_specs(&self.specs);
        (0..self.clients.len()).for_each(|at| self.follow_spec(at));
    }

    /// Refuses a promise that cannot be kept beside the others, as far as is known: clients may
    /// submit longer commands later than they have so far.
    fn admit(&self, subject: Subject, promised: &Promised) -> Result<(), Refusal> {
        let mut longest = [Ns::ZERO; SPECS + 1];
        // The process of each.
        let mut of = [0u64; SPECS + 1];
        let members = self.state.shares.members().iter();
        for (member, client) in members.zip(self.clients.iter()) {
            let spec = self.specs.resolve(member.identity());
            let promises = |spec: &usize| {
                let row = self.specs.get(*spec);
                row.is_some_and(|row| row.spec.reserve.is_some() || row.subject == subject)
            };
            let at = spec.filter(promises).unwrap_or(SPECS);
            let command = client
                .place
                .map_or(Ns::ZERO, |place| self.engaged.longest(place));
            if let (Some(longest), Some(of)) = (longest.get_mut(at), of.get_mut(at)) {
                if command > *longest {
                    (*longest, *of) = (command, number_of(member.identity().process));
                }
            }
        }
        self.specs
            .admit(subject, promised, &longest)
            .map_err(|refused| {
                let Why::Command(at) = refused.why else {
                    return Refusal::of_promise(&refused, (0, Ns::ZERO));
                };
                let reserve = self.specs.get(at).and_then(|row| row.spec.reserve);
                let declared = reserve.and_then(|reserve| reserve.terms.longest);
                let seen = longest.get(at).copied().unwrap_or(Ns::ZERO);
                let process = of.get(at).copied().unwrap_or(0);
                Refusal::of_promise(&refused, (process, declared.unwrap_or(seen)))
            })
    }
}

impl Gpu {
    /// Sets the spec of a subject, or forgets it. Returns the one before.
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(crate) fn set_spec(
        &self,
        subject: Subject,
        spec: Option<Spec>,
    ) -> Result<Option<Spec>, Refusal> {
        let mut books = self.books.lock();
        books.forget_specs_of_exited();
        let at = books.specs.find(subject);
        let before = at.and_then(|at| books.specs.get(at)).map(|row| row.spec);
        match spec {
            Some(spec) => {
                if let Some(promised) = &spec.reserve {
                    books.admit(subject, promised)?;
                }
                books.specs.set(subject, spec)?;
            }
            None => books.specs.clear(subject)?,
        }
        books.specs_changed();
        Ok(before)
    }

    /// Sets the spec of a subject as it was before.
    pub(crate) fn restore_spec(&self, subject: Subject, before: Option<Spec>) {
        let mut books = self.books.lock();
        // There is room for it.
        let _ = match before {
            Some(spec) => books.specs.set(subject, spec),
            None => books.specs.clear(subject),
        };
        books.specs_changed();
    }
}
