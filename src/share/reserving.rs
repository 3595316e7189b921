// SPDX-License-Identifier: GPL-2.0

//! `[pure]` The table of coarse reserves, and what is charged to them.

use super::budget::Spent;
use super::coarse::{CoarseReserve, CoarseTerms};
use super::setting::{Identity, Subject};
use super::settings::{Resolved, Settings};
use crate::fair::mul_div;
use crate::storage::{Bounded, Storage};
use crate::units::Ns;

impl<S: Storage> Settings<S> {
    /// Makes room for coarse reserves.
    pub fn with_reserves(mut self, store: S::Of<CoarseReserve>) -> Self {
        self.reserves = Some(Bounded::new(store));
        self
    }

    /// Sets all coarse reserves. One that was there before keeps its budget, debts included;
    /// without room the last ones are left out.
    pub fn set_reserves(
        &mut self,
        rows: impl Iterator<Item = (Subject, Option<CoarseTerms>)> + Clone,
    ) {
        let Some(reserves) = &mut self.reserves else {
            return;
        };
        let listed = |one: &CoarseReserve| rows.clone().any(|(subject, _)| subject == one.subject);
        reserves.retain(listed);
        for (subject, terms) in rows.clone() {
            let mut all = reserves.all_mut().iter_mut();
            match all.find(|one| one.subject == subject) {
                Some(one) => one.terms = terms,
                // A table without room promises nothing to the rest.
                None => drop(reserves.push(CoarseReserve {
                    subject,
                    terms,
                    ..CoarseReserve::default()
                })),
            }
        }
        self.changed();
    }

    /// The coarse reserve of a subject, if something is promised to it.
    pub fn coarse(&self, subject: Subject) -> Option<&CoarseReserve> {
        let mut all = self.all_reserves().iter();
        all.find(|one| one.subject == subject && one.terms.is_some())
    }

    /// Position of the coarse reserve that a process follows.
    pub(super) fn reserve_of(&self, identity: &Identity) -> Option<u8> {
        let all = self.all_reserves();
        // Mostly none is set.
        all.first()?;
        let find = |subject| all.iter().position(|one| one.subject == subject);
        let at = identity.subjects().find_map(find)?;
        u8::try_from(at).ok()
    }

    /// Whether there is any coarse reserve.
    pub(super) fn has_reserves(&self) -> bool {
        !self.all_reserves().is_empty()
    }

    /// Whether a process comes before the policy.
    pub(super) fn has_left(&self, resolved: &Resolved) -> bool {
        self.reserve(resolved).is_some_and(CoarseReserve::has_left)
    }

    /// Whether its reserve throttles a process.
    pub(super) fn is_used_up(&self, resolved: &Resolved) -> bool {
        self.reserve(resolved)
            .is_some_and(CoarseReserve::is_exhausted)
    }

    /// Charges what a process used. What it got by the policy is not charged to a soft reserve.
    /// `holds`: others were held back for it.
    pub(super) fn spend_reserve(
        &mut self,
        resolved: &Resolved,
        used: Ns,
        came_first: bool,
        holds: bool,
    ) {
        let at = resolved.reserve.map(usize::from);
        let all = self.reserves.as_mut().map(Bounded::all_mut);
        let Some(one) = all.zip(at).and_then(|(all, at)| all.get_mut(at)) else {
            return;
        };
        if came_first || one.terms.is_some_and(|terms| terms.hard) {
            one.used = one.used.saturating_add(used);
            one.spent.used = one.spent.used.saturating_add(used);
        }
        one.spent.allowed |= came_first;
        one.holds |= holds;
    }

    /// Books what was spent, and decides whose processes come first.
    pub(super) fn settle_reserves(&mut self, now: Ns, span: Ns, next: Ns) {
        // CAST: as many as there are specs.
        let holders = self.all_reserves().iter().filter(|one| one.holds).count() as u64;
        let payers = self.all_reserves().iter().filter(|one| one.shares_cost());
        let used = payers.map(|one| one.spent.used);
        let used = used.fold(Ns::ZERO, Ns::saturating_add);
        // The hardware may give nearly all to those with long kernels, also after their turn.
        let part = |one: &CoarseReserve| match (used.is_zero(), one.holds) {
            (false, _) => mul_div(span.get(), one.spent.used.get(), used.get()),
            (true, true) => span.get().checked_div(holders).unwrap_or(0),
            (true, false) => 0,
        };
        for one in self.reserves.iter_mut().flat_map(Bounded::all_mut) {
            let pays = holders > 0 && one.shares_cost();
            let held = Spent {
                used: Ns::new(if pays { part(one) } else { 0 }),
                allowed: one.holds,
            };
            let spent = core::mem::take(&mut one.spent);
            one.holds = false;
            if let Some(terms) = one.terms {
                one.budget.settle(terms.rate, now, span, next, &spent);
                one.exclusive.settle(terms.rate, now, span, next, &held);
            }
        }
    }

    /// Starts all budgets anew.
    pub(super) fn suspend_reserves(&mut self) {
        for one in self.reserves.iter_mut().flat_map(Bounded::all_mut) {
            one.budget.restart();
            one.exclusive.restart();
            (one.spent, one.holds) = (Spent::default(), false);
        }
    }

    fn all_reserves(&self) -> &[CoarseReserve] {
        self.reserves.as_ref().map(Bounded::all).unwrap_or_default()
    }

    fn reserve(&self, resolved: &Resolved) -> Option<&CoarseReserve> {
        self.all_reserves().get(usize::from(resolved.reserve?))
    }
}
