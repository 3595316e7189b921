// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Priorities, modes and reserves of the clients of a GPU.

use super::scheduler::MAX_PROTECTED;
use crate::engaged::{Mode, Reserve, Row, SchedulingParameters, Specs, Terms, Why, SPECS};
use crate::glue::gpu::books::{Books, ClientKernel, Page};
use crate::glue::gpu::submission_pages::list;
use crate::glue::gpu::Gpu;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{exists, is_alive, number_of};
use crate::share::{shortest_period, CoarseReserve, Member, Subject};
use crate::uapi::Refusal;
use crate::units::Ns;
use kernel::prelude::*;
use kernel::sync::Arc;

/// A spec, and its reserve: while submissions are decided on, and while they are not.
pub(crate) struct ListedSpec {
    pub(crate) row: Row,
    pub(crate) reserve: Option<Reserve>,
    pub(crate) coarse: Option<CoarseReserve>,
}

/// Whether a client is protected.
fn is_protected(
    specs: &Specs<KVVec<Option<Row>>>,
    client: Option<&ClientKernel>,
    member: Option<&Member>,
) -> bool {
    let spec = member.and_then(|member| specs.resolve(member.identity()));
    let row = spec.and_then(|spec| specs.get(spec));
    client.is_some_and(|client| client.wait_queue.is_some())
        && row.is_some_and(|row| row.spec.mode == Mode::Protected)
}

impl Books {
    /// Gives the client at `at` the wait queue of the spec that it follows. Its pages follow by
    /// [`assign_wait_queues`](Self::assign_wait_queues).
    pub(crate) fn follow_spec(&mut self, at: usize) {
        let (Some(member), Some(client)) = (
            self.state.shares.members().get(at),
            self.clients.get_mut(at),
        ) else {
            return;
        };
        let Some(before) = client.wait_queue else {
            return;
        };
        let identity = member.identity();
        let spec = self.specs.resolve(identity);
        let tenant = identity.tenant(self.state.shares.depth());
        client.wait_queue = self.engaged.follow(before, tenant, spec);
    }

    /// As [`follow_spec`](Self::follow_spec), for the client's pages too; those of others stay as they
    /// are.
    pub(crate) fn follow_spec_with_pages(&mut self, at: usize) {
        self.follow_spec(at);
        let Some(client) = self.clients.get(at) else {
            return;
        };
        let member = self.state.shares.members().get(at);
        let is_protected = is_protected(&self.specs, Some(client), member);
        let mut protected = self.engaged.protected_pages.lock();
        let (mut changed, was_full) = (false, protected.len() >= MAX_PROTECTED);
        for page in self.pages.all().iter().filter(|page| page.at() == at) {
            let Some(gate) = page.gate() else {
                continue;
            };
            let known = protected.iter().position(|one| Arc::ptr_eq(one, gate));
            let wanted = is_protected && gate.computes();
            let passes = match known {
                Some(known) if !wanted => {
                    let _ = protected.remove(known);
                    changed = true;
                    false
                }
                None if wanted && protected.len() < MAX_PROTECTED => {
                    let passes = protected.push_within_capacity(gate.clone()).is_ok();
                    changed |= passes;
                    passes
                }
                known => known.is_some(),
            };
            let before = gate.wait_queue();
            gate.set_wait_queue(client.wait_queue.filter(|_| !passes));
            // Entries of before have to go.
            if before.is_none() && gate.wait_queue().is_some() {
                let owner = page.owner().get();
                list(&mut self.gate_updates, gate, owner, client.tgid, None);
            }
        }
        drop(protected);
        if changed && was_full {
            // There is room for another client's.
            self.assign_wait_queues();
        } else if changed {
            self.engaged.protected_changed();
        }
    }

    /// Lets stores to pages of protected clients pass, and has those to all others decided on by
    /// the wait queues of their clients.
    pub(crate) fn assign_wait_queues(&mut self) {
        let is_protected = |page: &Page| {
            let computes = page.gate().is_some_and(|gate| gate.computes());
            let client = self.clients.get(page.at());
            let member = self.state.shares.members().get(page.at());
            computes && is_protected(&self.specs, client, member)
        };
        let mut protected = self.engaged.protected_pages.lock();
        protected.clear();
        for page in self.pages.all() {
            let (Some(gate), Some(client)) = (page.gate(), self.clients.get(page.at())) else {
                continue;
            };
            let passes = protected.len() < MAX_PROTECTED
                && is_protected(page)
                && protected.push_within_capacity(gate.clone()).is_ok();
            let before = gate.wait_queue();
            gate.set_wait_queue(client.wait_queue.filter(|_| !passes));
            // Entries of before have to go.
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
        drop(protected);
        self.engaged.protected_changed();
    }

    /// Forgets the specs of processes that have exited and of cgroups that are gone, and those whose
    /// lease is over.
    pub(crate) fn forget_ended_specs(&mut self) {
        if self.specs.forget_ended(ffi::now(), exists) {
            self.specs_changed();
        }
    }

    /// Carries out what has been set.
    fn specs_changed(&mut self) {
        self.engaged.set_specs(&self.specs);
        self.set_reserves();
        (0..self.clients.len()).for_each(|at| self.follow_spec(at));
        self.assign_wait_queues();
    }

    /// The shortest period of a reserve while submissions are not decided on; nothing while they are,
    /// and without enforcement.
    fn shortest_period(&self) -> Option<Ns> {
        let engine = &self.state.engine;
        let is_coarse = engine.config().enforce && engine.config().dispatch.is_none();
        is_coarse.then(|| shortest_period(engine.usual_period()))
    }

    /// Promises what is promised while submissions are not decided on, or nothing while they are.
    pub(crate) fn set_reserves(&mut self) {
        let shortest = self.shortest_period();
        let rows = self.specs.all().map(|(_, row)| {
            let is_kept = |terms: &Terms| shortest.is_some_and(|least| terms.period >= least);
            let terms = row.spec.reserve.filter(is_kept);
            (row.subject, terms.map(|terms| terms.coarse()))
        });
        self.state.settings.set_reserves(rows);
    }

    /// Sets the spec of a subject as it was before.
    fn put_back(&mut self, subject: Subject, before: Option<Row>) {
        // There is room for it.
        let _ = match before {
            Some(row) => self.specs.set(row),
            None => self.specs.clear(subject),
        };
    }

    /// Sets the spec of a subject, or forgets it. Returns the one before.
    fn put(&mut self, subject: Subject, row: Option<Row>) -> Result<Option<Row>, Refusal> {
        self.forget_ended_specs();
        let at = self.specs.find(subject);
        let before = at.and_then(|at| self.specs.get(at)).copied();
        match row {
            Some(row) => self.specs.set(row)?,
            None => self.specs.clear(subject)?,
        }
        let spec = |row: Row| row.spec;
        if before.is_some() && before.map(spec) == row.map(spec) {
            // Only its lease is another one.
            return Ok(before);
        }
        // Its own clients follow it by now, and are not among the others.
        if let Err(refused) = self.admit(subject) {
            self.put_back(subject, before);
            return Err(refused);
        }
        self.specs_changed();
        Ok(before)
    }

    /// Refuses a promise to a subject, which is set already, if it cannot be kept beside the others,
    /// as far as is known: clients may submit longer commands later than they have so far.
    fn admit(&self, subject: Subject) -> Result<(), Refusal> {
        let own = self.specs.find(subject).and_then(|at| self.specs.get(at));
        let terms = own.and_then(|row| row.spec.reserve);
        if let (Some(terms), Some(shortest)) = (terms, self.shortest_period()) {
            if terms.period < shortest {
                return Err(Refusal::of_period(terms.period, shortest));
            }
        }
        let mut longest = [Ns::ZERO; SPECS + 1];
        // The process of each.
        let mut of = [0u64; SPECS + 1];
        // A process that has ended submits nothing more, unless another one has its page mapped.
        let is_mapped = |at: usize| {
            let mut pages = self.pages.all().iter();
            pages.any(|page| page.at() == at && page.mappings() != 0)
        };
        let members = self.state.shares.members().iter().enumerate();
        for ((position, member), client) in members.zip(self.clients.iter()) {
            if !is_alive(member.identity().process) && !is_mapped(position) {
                continue;
            }
            let spec = self.specs.resolve(member.identity());
            let promises = |spec: &usize| {
                let row = self.specs.get(*spec);
                row.is_some_and(|row| row.spec.reserve.is_some())
            };
            let row = spec.and_then(|spec| self.specs.get(spec));
            let mode = row.map(|row| row.spec.mode).unwrap_or_default();
            let at = spec.filter(promises).unwrap_or(SPECS);
            let command = client
                .wait_queue
                .map_or(Ns::ZERO, |wait_queue| self.engaged.longest(wait_queue))
                .saturating_mul(mode.depth());
            if let (Some(longest), Some(of)) = (longest.get_mut(at), of.get_mut(at)) {
                if command > *longest {
                    (*longest, *of) = (command, number_of(member.identity().process));
                }
            }
        }
        self.specs.admit(subject, &longest).map_err(|refused| {
            let Why::Command(at) = refused.why else {
                return Refusal::of_promise(&refused, (0, Ns::ZERO));
            };
            let reserve = self.specs.get(at).and_then(|row| row.spec.reserve);
            let declared = reserve.and_then(|terms| terms.longest);
            let seen = longest.get(at).copied().unwrap_or(Ns::ZERO);
            let process = of.get(at).copied().unwrap_or(0);
            Refusal::of_promise(&refused, (process, declared.unwrap_or(seen)))
        })
    }
}

impl Gpu {
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
        let result = self.books.lock().put(subject, row);
        // Also of specs that have ended.
        self.update_gates();
        result
    }

    /// Sets the spec of a subject as it was before.
    pub(crate) fn restore_spec(&self, subject: Subject, before: Option<Row>) {
        let mut books = self.books.lock();
        books.put_back(subject, before);
        books.specs_changed();
        drop(books);
        self.update_gates();
    }

    /// Adds all specs with their reserves to `rows`, which has room for [`SPECS`].
    pub(crate) fn list_specs(&self, rows: &mut KVec<ListedSpec>) {
        let mut books = self.books.lock();
        books.forget_ended_specs();
        for (at, row) in books.specs.all() {
            // There is room.
            let _ = rows.push_within_capacity(ListedSpec {
                row: *row,
                reserve: self.engaged.reserve(at),
                coarse: books.state.settings.coarse(row.subject).copied(),
            });
        }
        drop(books);
        self.update_gates();
    }
}
