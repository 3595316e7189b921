// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What is counted of deadlines that were missed. See `table` for when one is.

use crate::units::Ns;

/// Why a missed deadline was not promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// It used more than its reserve had left, or than is declared; or one of its reserve did that was
    /// in flight beside it.
    Own,
    /// A command of another client was longer than its deadline bears, and was not declared so; or
    /// work of protected clients was there, with which admission does not count.
    Foreign,
    /// All clients had to pass, or submissions had passed without a decision.
    Fallback,
    /// The dispatcher passes others by their priority: no deadline is promised.
    Order,
}

impl Void {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Own, Self::Foreign, Self::Fallback, Self::Order];
}

/// Deadlines that were missed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Those that were promised.
    pub promised: u64,
    void: [u64; Void::ALL.len()],
}

impl Misses {
    /// Those that were void for this reason.
    pub fn void(&self, why: Void) -> u64 {
        // CAST: a small number.
        self.void.get(why as usize).copied().unwrap_or(0)
    }

    /// Adds those of others.
    pub fn add_all(&mut self, others: &Self) {
        self.promised = self.promised.saturating_add(others.promised);
        for (sum, more) in self.void.iter_mut().zip(others.void) {
            *sum = sum.saturating_add(more);
        }
    }

    /// Counts one.
    pub(crate) fn add(&mut self, void: Option<Void>) {
        let sum = match void {
            // CAST: a small number.
            Some(why) => self.void.get_mut(why as usize),
            None => Some(&mut self.promised),
        };
        if let Some(sum) = sum {
            *sum = sum.saturating_add(1);
        }
    }
}

/// A deadline that was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Position of the client.
    pub client: usize,
    /// By how much.
    pub late: Ns,
    /// Why it was not promised, if it was not.
    pub void: Option<Void>,
}
