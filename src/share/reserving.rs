// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The table of coarse reserves, and what is charged to them.
//!
//! Each subject is listed once. The order is kept while others come and go, but not the positions: a
//! position is valid until the table is set again.

use super::coarse::{CoarseReserve, CoarseTerms};
use super::setting::{Identity, Subject};
use crate::fair::mul_div;
use crate::storage::{Bounded, Storage};
use crate::units::Ns;

/// The coarse reserves of a GPU.
pub(super) struct CoarseReserves<S: Storage> {
    /// None without storage.
    table: Option<Bounded<S::Of<CoarseReserve>>>,
}

impl<S: Storage> CoarseReserves<S> {
    /// No room for any.
    pub(super) const fn none() -> Self {
        Self { table: None }
    }

    /// An empty table.
    pub(super) fn new(store: S::Of<CoarseReserve>) -> Self {
        Self {
            table: Some(Bounded::new(store)),
        }
    }

    /// Sets all of them. One that was there before keeps its budget, debts included; without room the
    /// last ones are left out. False if there is no room for any.
    pub(super) fn set(
        &mut self,
        rows: impl Iterator<Item = (Subject, Option<CoarseTerms>)> + Clone,
    ) -> bool {
        let Some(table) = &mut self.table else {
            return false;
        };
        table.retain(|one| rows.clone().any(|(subject, _)| subject == one.subject()));
        for (subject, terms) in rows.clone() {
            let mut all = table.all_mut().iter_mut();
            match all.find(|one| one.subject() == subject) {
                Some(one) => one.set_terms(terms),
                // A table without room promises nothing to the rest.
                None => drop(table.push(CoarseReserve::new(subject, terms))),
            }
        }
        true
    }

    /// The reserve of a subject, if something is promised to it.
    pub(super) fn of(&self, subject: Subject) -> Option<&CoarseReserve> {
        let mut all = self.all().iter();
        all.find(|one| one.subject() == subject && one.terms().is_some())
    }

    /// Position of the one that a process follows.
    pub(super) fn followed_by(&self, identity: &Identity) -> Option<u8> {
        let all = self.all();
        // Mostly none is set.
        all.first()?;
        let find = |subject| all.iter().position(|one| one.subject() == subject);
        let at = identity.subjects().find_map(find)?;
        u8::try_from(at).ok()
    }

    /// All of them.
    pub(super) fn all(&self) -> &[CoarseReserve] {
        self.table.as_ref().map(Bounded::all).unwrap_or_default()
    }

    /// The one at a position.
    pub(super) fn get(&self, at: u8) -> Option<&CoarseReserve> {
        self.all().get(usize::from(at))
    }

    /// The one at a position, to charge it.
    pub(super) fn get_mut(&mut self, at: u8) -> Option<&mut CoarseReserve> {
        let all = self.table.as_mut().map(Bounded::all_mut)?;
        all.get_mut(usize::from(at))
    }

    /// Books what was spent, and decides whose processes come first.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns) {
        // CAST: as many as there are specs.
        let holders = self.all().iter().filter(|one| one.holds()).count() as u64;
        let payers = self.all().iter().filter(|one| one.shares_cost());
        let used = payers.map(CoarseReserve::spent);
        let used = used.fold(Ns::ZERO, Ns::saturating_add);
        // The hardware may give nearly all to those with long kernels, also after their turn.
        let part = |one: &CoarseReserve| match (used.is_zero(), one.holds()) {
            (false, _) => mul_div(span.get(), one.spent().get(), used.get()),
            (true, true) => span.get().checked_div(holders).unwrap_or(0),
            (true, false) => 0,
        };
        for one in self.table.iter_mut().flat_map(Bounded::all_mut) {
            let pays = holders > 0 && one.shares_cost();
            let held = Ns::new(if pays { part(one) } else { 0 });
            one.settle(now, span, next, held);
        }
    }

    /// Starts all budgets anew.
    pub(super) fn suspend(&mut self) {
        for one in self.table.iter_mut().flat_map(Bounded::all_mut) {
            one.restart();
        }
    }
}
