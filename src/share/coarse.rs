// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Coarse reserves: GPU time that is promised while submissions are not decided on.
//!
//! A process follows the most specific subject that is listed, as it does with `dispatch`. Each
//! reserve has a [`Budget`] that grows by `C` in every `T`. At a decision a process *comes first* if
//! its reserve lets it run until the next one; if any that comes first wants the GPU, only those run
//! until then. What a process uses while it comes first is charged to its reserve and to nothing
//! that the policy divides. Without budget a hard reserve throttles its processes, as a limit does;
//! with a soft one they are divided by the policy, as others are.
//!
//! While others are held back for it, the GPU may idle: the policy decides once in a period. So a
//! second budget of the same rate pays for that time, whole periods of it. Those that come first pay for
//! what they used of what they used together, and so do others whose processes drain their queues
//! though they may not run, until they owe a capacity; if none used any, those that come first pay
//! equal parts. Without that budget the processes of a reserve are divided by the policy, also of a
//! hard one: one that wants little, all the time, holds others back for `C` in every `T` and no more.
//!
//! Promise, with `P` the length of a polling period and the sum of all `C / T` at most 0.9: in any
//! time `w` in which its processes keep the GPU busy whenever they come first, a reserve alone gets
//! `w * C / T - C - P` at least. Several that come first share the GPU as the hardware does: who gets
//! little of it pays little, and comes first for longer.
//! Bounds: of the use of a hard one, that of [`Budget`]; of the time for which others are held back,
//! the sum of those of all. Both are of use only if `T` is several periods: [`shortest_period`].

use super::budget::{Budget, Rate, Spent};
use super::setting::Subject;
use crate::units::{signed, Ns};

/// Polling periods that a period of a reserve lasts at least.
const PERIODS: u64 = 4;

/// The shortest period of a coarse reserve, with polling periods of this length.
pub const fn shortest_period(period: Ns) -> Ns {
    period.saturating_mul(PERIODS)
}

/// What is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoarseTerms {
    /// GPU time in each period.
    pub rate: Rate,
    /// It is a limit as well.
    pub hard: bool,
}

/// A subject, what is promised to it, and what is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct CoarseReserve {
    subject: Subject,
    /// Nothing for a subject that only hides less specific ones.
    terms: Option<CoarseTerms>,
    budget: Budget,
    spent: Spent,
    /// Of the time in which others are held back for it.
    exclusive: Budget,
    /// Others were held back for it in the period that is being booked.
    holds: bool,
    used: Ns,
}

impl CoarseReserve {
    /// Nothing is used of it.
    pub(super) fn new(subject: Subject, terms: Option<CoarseTerms>) -> Self {
        Self {
            subject,
            terms,
            ..Self::default()
        }
    }

    /// Whose it is.
    pub(super) const fn subject(&self) -> Subject {
        self.subject
    }

    /// What is promised.
    pub(super) const fn terms(&self) -> Option<CoarseTerms> {
        self.terms
    }

    /// Promises something else. The budget stays, debts included.
    pub(super) const fn set_terms(&mut self, terms: Option<CoarseTerms>) {
        self.terms = terms;
    }

    /// What is left, negative for a debt, in nanoseconds.
    pub const fn left_ns(&self) -> i64 {
        self.budget.credit_ns()
    }

    /// GPU time that was charged to it.
    pub const fn used(&self) -> Ns {
        self.used
    }

    /// Charges what a process used. What it got by the policy is not charged to a soft reserve.
    /// `holds`: others were held back for it.
    pub(super) fn charge(&mut self, used: Ns, came_first: bool, holds: bool) {
        if came_first || self.terms.is_some_and(|terms| terms.hard) {
            self.used = self.used.saturating_add(used);
            self.spent.used = self.spent.used.saturating_add(used);
        }
        self.spent.allowed |= came_first;
        self.holds |= holds;
    }

    /// What was charged in the period that is being booked.
    pub(super) const fn spent(&self) -> Ns {
        self.spent.used
    }

    /// Whether others were held back for it in that period.
    pub(super) const fn holds(&self) -> bool {
        self.holds
    }

    /// Books that period. Others were `held` back so long at its cost.
    pub(super) fn settle(&mut self, now: Ns, span: Ns, next: Ns, held: Ns) {
        let held = Spent {
            used: held,
            allowed: self.holds,
        };
        let spent = core::mem::take(&mut self.spent);
        self.holds = false;
        if let Some(terms) = self.terms {
            self.budget.settle(terms.rate, now, span, next, &spent);
            self.exclusive.settle(terms.rate, now, span, next, &held);
        }
    }

    /// Starts its budgets anew.
    pub(super) fn restart(&mut self) {
        self.budget.restart();
        self.exclusive.restart();
        (self.spent, self.holds) = (Spent::default(), false);
    }

    /// Whether its processes come first.
    pub(super) fn has_left(&self) -> bool {
        self.terms.is_some() && !self.budget.throttled() && !self.exclusive.throttled()
    }

    /// Whether it pays for the time in which others are held back: one that they are held back for,
    /// and one that owes a capacity of such time at most.
    pub(super) fn shares_cost(&self) -> bool {
        let most = |terms: CoarseTerms| signed(terms.rate.capacity).saturating_neg();
        let owes_little = |terms| self.exclusive.credit_ns() >= most(terms);
        self.holds || self.terms.is_some_and(owes_little)
    }

    /// Whether it throttles its processes.
    pub(super) fn is_exhausted(&self) -> bool {
        self.budget.throttled() && self.terms.is_some_and(|terms| terms.hard)
    }
}
