// SPDX-License-Identifier: GPL-2.0

//! [pure] Whose threads have to be woken.

use super::PLACES;

/// Some of the places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceSet(u64);

impl PlaceSet {
    /// Adds a place.
    pub(super) fn add(&mut self, at: usize) {
        const { assert!(PLACES <= 64) };
        // CAST: few places.
        self.0 |= 1u64.checked_shl(at as u32).unwrap_or(0);
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..PLACES).filter(move |at| self.0 >> *at & 1 != 0)
    }
}

/// Whose threads have to be woken, once the caller's lock is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// One thread of each of these.
    pub one: PlaceSet,
    /// All threads of these.
    pub all: PlaceSet,
}

impl Wakes {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.one.0 | self.all.0 == 0
    }

    /// All threads at all places, but for `except`.
    pub(super) fn add_all(&mut self, except: Option<usize>) {
        let places = (0..PLACES).filter(|at| Some(*at) != except);
        places.for_each(|at| self.all.add(at));
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
        wakes.one.add(PLACES - 1);
        wakes.one.add(3);
        assert!(!wakes.is_empty() && wakes.one.iter().eq([3, PLACES - 1]));
        wakes.one.add(64);
        assert!(wakes.one.iter().count() == 2 && wakes.all.iter().count() == 0);
    }

    #[test]
    fn all_places_but_one_are_woken() {
        let mut wakes = Wakes::default();
        wakes.add_all(Some(5));
        assert!(wakes.all.iter().count() == PLACES - 1 && !wakes.all.iter().any(|at| at == 5));
        wakes.add_all(None);
        assert!(wakes.all.iter().count() == PLACES);
    }
}
