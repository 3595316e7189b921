// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Priorities, modes and reserves of the clients of a GPU.
//!
//! After each change of the table, [`ClientSpecs::announce`] tells the scheduler, each client gets the
//! wait queue of the spec that it follows, and its pages get that queue too: `Books` does all of it before
//! it is unlocked. Pages of protected clients have none, as far as there is room for them in
//! `Engaged::protected_pages`.

use super::scheduler::{Engaged, MAX_PROTECTED};
use crate::engaged::{Mode, Reserve, Row, Specs, Terms, Why, SPECS};
use crate::glue::gpu::client::ClientKernel;
use crate::glue::gpu::clients::ClientRows;
use crate::glue::gpu::gates::gate::Page;
use crate::glue::gpu::submission_pages::SubmissionPages;
use crate::glue::kernel::ffi;
use crate::glue::kernel::process::{exists, is_alive, number_of};
use crate::glue::kernel::storage::storage;
use crate::share::{CoarseReserve, CoarseTerms, Identity, Member, Subject};
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

/// What setting or forgetting a spec has changed.
#[must_use]
pub(crate) struct Put {
    /// The spec before.
    pub(crate) before: Option<Row>,
    /// Whether more than its lease is another one.
    pub(crate) changes: bool,
}

/// The specs of a GPU's clients.
pub(crate) struct ClientSpecs {
    table: Specs<KVVec<Option<Row>>>,
    /// Gives clients their wait queues.
    engaged: Arc<Engaged>,
}

impl ClientSpecs {
    /// None.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(engaged: Arc<Engaged>) -> Result<Self> {
        Ok(Self {
            table: Specs::new(storage(SPECS)?),
            engaged,
        })
    }

    /// The specs.
    pub(crate) const fn table(&self) -> &Specs<KVVec<Option<Row>>> {
        &self.table
    }

    /// The wait queue of a client that has none, with cgroups of tenants at level `depth`.
    pub(crate) fn join(&self, identity: &Identity, depth: u32) -> Option<usize> {
        let spec = self.table.resolve(identity);
        self.engaged.join(identity.tenant(depth), spec)
    }

    /// The wait queue of a client that has had the one `before`.
    pub(crate) fn follow(&self, before: usize, identity: &Identity, depth: u32) -> Option<usize> {
        let spec = self.table.resolve(identity);
        self.engaged.follow(before, identity.tenant(depth), spec)
    }

    /// A client with this wait queue is no more.
    pub(crate) fn leave(&self, wait_queue: usize) {
        self.engaged.leave(wait_queue);
    }

    /// Tells the scheduler what is set.
    pub(crate) fn announce(&self) {
        self.engaged.set_specs(&self.table);
    }

    /// What is promised while submissions are not decided on: to whose reserves, if a period is not
    /// below `shortest`, and nothing without it.
    pub(crate) fn coarse(
        &self,
        shortest: Option<Ns>,
    ) -> impl Iterator<Item = (Subject, Option<CoarseTerms>)> + Clone + '_ {
        self.table.all().map(move |(_, row)| {
            let is_kept = |terms: &Terms| shortest.is_some_and(|least| terms.period >= least);
            let terms = row.spec.reserve.filter(is_kept);
            (row.subject, terms.map(|terms| terms.coarse()))
        })
    }

    /// The reserve of the spec at a position.
    pub(crate) fn reserve(&self, at: usize) -> Option<Reserve> {
        self.engaged.reserve(at)
    }

    /// Forgets the specs of processes that have exited and of cgroups that are gone, and those whose
    /// lease is over. True if there was one.
    #[must_use]
    pub(crate) fn forget_ended(&mut self) -> bool {
        self.table.forget_ended(ffi::now(), exists)
    }

    /// Sets the spec of a subject as it was before.
    pub(crate) fn put_back(&mut self, subject: Subject, before: Option<Row>) {
        // There is room for it.
        let _ = match before {
            Some(row) => self.table.set(row),
            None => self.table.clear(subject),
        };
    }

    /// Sets the spec of a subject, or forgets it. `shortest` is the shortest period of a reserve, if there
    /// is a bound.
    ///
    /// # Errors
    ///
    /// The reason; nothing has changed then.
    pub(crate) fn put(
        &mut self,
        subject: Subject,
        row: Option<Row>,
        shortest: Option<Ns>,
        clients: ClientRows<'_>,
        pages: &SubmissionPages,
    ) -> Result<Put, Refusal> {
        let at = self.table.find(subject);
        let before = at.and_then(|at| self.table.get(at)).copied();
        match row {
            Some(row) => self.table.set(row)?,
            None => self.table.clear(subject)?,
        }
        let spec = |row: Row| row.spec;
        if before.is_some() && before.map(spec) == row.map(spec) {
            let changes = false;
            return Ok(Put { before, changes });
        }
        // Its own clients follow it by now, and are not among the others.
        if let Err(refused) = self.admit(subject, shortest, clients, pages) {
            self.put_back(subject, before);
            return Err(refused);
        }
        let changes = true;
        Ok(Put { before, changes })
    }

    /// Refuses a promise to a subject, which is set already, if it cannot be kept beside the others,
    /// as far as is known: clients may submit longer commands later than they have so far.
    fn admit(
        &self,
        subject: Subject,
        shortest: Option<Ns>,
        clients: ClientRows<'_>,
        pages: &SubmissionPages,
    ) -> Result<(), Refusal> {
        let own = self.table.find(subject).and_then(|at| self.table.get(at));
        let terms = own.and_then(|row| row.spec.reserve);
        if let (Some(terms), Some(shortest)) = (terms, shortest) {
            if terms.period < shortest {
                return Err(Refusal::of_period(terms.period, shortest));
            }
        }
        let mut longest = [Ns::ZERO; SPECS + 1];
        // The process of each.
        let mut of = [0u64; SPECS + 1];
        // A process that has ended submits nothing more, unless another one has its page mapped.
        let is_mapped = |at: usize| {
            let mut pages = pages.table().all().iter();
            pages.any(|page| page.at() == at && page.mappings() != 0)
        };
        for (position, (member, client)) in clients.iter().enumerate() {
            if !is_alive(member.identity().process) && !is_mapped(position) {
                continue;
            }
            let spec = self.table.resolve(member.identity());
            let promises = |spec: &usize| {
                let row = self.table.get(*spec);
                row.is_some_and(|row| row.spec.reserve.is_some())
            };
            let row = spec.and_then(|spec| self.table.get(spec));
            let mode = row.map(|row| row.spec.mode).unwrap_or_default();
            let at = spec.filter(promises).unwrap_or(SPECS);
            let command = client
                .wait_queue()
                .map_or(Ns::ZERO, |wait_queue| self.engaged.longest(wait_queue))
                .saturating_mul(mode.depth());
            if let (Some(longest), Some(of)) = (longest.get_mut(at), of.get_mut(at)) {
                if command > *longest {
                    (*longest, *of) = (command, number_of(member.identity().process));
                }
            }
        }
        self.table.admit(subject, &longest).map_err(|refused| {
            let Why::Command(at) = refused.why else {
                return Refusal::of_promise(&refused, (0, Ns::ZERO));
            };
            let reserve = self.table.get(at).and_then(|row| row.spec.reserve);
            let declared = reserve.and_then(|terms| terms.longest);
            let seen = longest.get(at).copied().unwrap_or(Ns::ZERO);
            let process = of.get(at).copied().unwrap_or(0);
            Refusal::of_promise(&refused, (process, declared.unwrap_or(seen)))
        })
    }

    /// Whether a client is protected.
    fn is_protected(&self, (member, client): (&Member, &ClientKernel)) -> bool {
        let spec = self.table.resolve(member.identity());
        let row = spec.and_then(|spec| self.table.get(spec));
        client.wait_queue().is_some() && row.is_some_and(|row| row.spec.mode == Mode::Protected)
    }

    /// Lets stores to pages of protected clients pass, and has those to all others decided on by
    /// the wait queues of their clients.
    pub(crate) fn assign_wait_queues(&self, clients: ClientRows<'_>, pages: &mut SubmissionPages) {
        let is_protected = |page: &Page| {
            let computes = page.gate().is_some_and(|gate| gate.computes());
            let client = clients.get(page.at());
            computes && client.is_some_and(|client| self.is_protected(client))
        };
        let mut protected = self.engaged.protected_pages.lock();
        protected.clear();
        pages.assign_wait_queues(clients, None, |page, gate| {
            protected.len() < MAX_PROTECTED
                && is_protected(page)
                && protected.push_within_capacity(gate.clone()).is_ok()
        });
        drop(protected);
        self.engaged.protected_changed();
    }

    /// As [`assign_wait_queues`](Self::assign_wait_queues), for the client at `at`; the pages of others
    /// stay as they are, unless there is room for them now.
    pub(crate) fn assign_wait_queue_of(
        &self,
        at: usize,
        clients: ClientRows<'_>,
        pages: &mut SubmissionPages,
    ) {
        let Some(client) = clients.get(at) else {
            return;
        };
        let is_protected = self.is_protected(client);
        let mut protected = self.engaged.protected_pages.lock();
        let (mut changed, was_full) = (false, protected.len() >= MAX_PROTECTED);
        pages.assign_wait_queues(clients, Some(at), |_, gate| {
            let known = protected.iter().position(|one| Arc::ptr_eq(one, gate));
            let wanted = is_protected && gate.computes();
            match known {
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
            }
        });
        drop(protected);
        if changed && was_full {
            // There is room for another client's.
            self.assign_wait_queues(clients, pages);
        } else if changed {
            self.engaged.protected_changed();
        }
    }
}
