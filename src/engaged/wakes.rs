// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Whose threads have to be woken.

use super::WAIT_QUEUES;

/// Some of the wait queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSet(u64);

impl QueueSet {
    /// Adds a wait queue.
    pub(super) fn add(&mut self, at: usize) {
        const { assert!(WAIT_QUEUES <= 64) };
        // CAST: few wait queues.
        self.0 |= 1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// Takes a wait queue out.
    pub(super) fn remove(&mut self, at: usize) {
        // CAST: few wait queues.
        self.0 &= !1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// Whether a wait queue is among them.
    pub(super) fn has(self, at: usize) -> bool {
        self.iter().any(|one| one == at)
    }

    /// Whether there is none.
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..WAIT_QUEUES).filter(move |at| self.0 >> *at & 1 != 0)
    }
}

/// Whose threads have to be woken, once the caller's lock is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// One thread of each of these.
    pub one: QueueSet,
    /// All threads of these.
    pub all: QueueSet,
}

impl Wakes {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.one.is_empty() && self.all.is_empty()
    }

    /// Those of others too.
    #[cfg(test)]
    pub(super) fn add(&mut self, others: &Self) {
        self.one.0 |= others.one.0;
        self.all.0 |= others.all.0;
    }

    /// All threads at all wait queues, but for `except`.
    pub(super) fn add_all(&mut self, except: Option<usize>) {
        let wait_queues = (0..WAIT_QUEUES).filter(|at| Some(*at) != except);
        wait_queues.for_each(|at| self.all.add(at));
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_wakes))]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_that_were_added() {
        let mut wakes = Wakes::default();
        assert!(wakes.is_empty());
        wakes.one.add(WAIT_QUEUES - 1);
        wakes.one.add(3);
        assert!(!wakes.is_empty());
        assert!(wakes.one.iter().eq([3, WAIT_QUEUES - 1]));
        wakes.one.add(64);
        assert!(wakes.one.iter().count() == 2);
        assert!(wakes.all.iter().count() == 0);
    }

    #[test]
    fn all_places_but_one_are_woken() {
        let mut wakes = Wakes::default();
        wakes.add_all(Some(5));
        assert!(wakes.all.iter().count() == WAIT_QUEUES - 1);
        assert!(!wakes.all.iter().any(|at| at == 5));
        wakes.add_all(None);
        assert!(wakes.all.iter().count() == WAIT_QUEUES);
    }
}
