// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Tables in memory of the caller: the kernel allocates one way, the host another, and
//! neither while a lock is held.

use core::ops::DerefMut;

/// A kind of memory for tables of any element. A table never grows by itself.
pub trait Storage {
    /// Memory for elements `T`.
    type Of<T: 'static>: DerefMut<Target = [T]>;
}

/// Slices of a caller.
pub struct Borrowed<'a>(core::marker::PhantomData<&'a ()>);

impl<'a> Storage for Borrowed<'a> {
    type Of<T: 'static> = &'a mut [T];
}

/// A list in memory of the caller, such as a vector of default elements. The length of the memory
/// is the room.
///
/// # Invariants
///
/// `len` is not larger than the storage.
#[derive(Debug)]
pub struct Bounded<S> {
    store: S,
    len: usize,
}

impl<T: Default, S: DerefMut<Target = [T]>> Bounded<S> {
    /// An empty list in this storage.
    pub const fn new(store: S) -> Self {
        Self { store, len: 0 }
    }

    /// Elements there is room for.
    pub fn room(&self) -> usize {
        self.store.len()
    }

    /// Whether there is room for no further element.
    pub fn is_full(&self) -> bool {
        self.len >= self.room()
    }

    /// The elements.
    pub fn all(&self) -> &[T] {
        self.store.get(..self.len).unwrap_or_default()
    }

    /// The elements, to change them.
    pub fn all_mut(&mut self) -> &mut [T] {
        self.store.get_mut(..self.len).unwrap_or_default()
    }

    /// The whole memory: the elements, and what is kept where there are none.
    pub fn memory(&self) -> &[T] {
        &self.store
    }

    /// As [`Bounded::memory`], to change it.
    pub fn memory_mut(&mut self) -> &mut [T] {
        &mut self.store
    }

    /// Adds an element at the end and returns its position; nothing if it is full.
    pub fn push(&mut self, element: T) -> Option<usize> {
        let at = self.len;
        *self.store.get_mut(at)? = element;
        self.len = at.saturating_add(1);
        Some(at)
    }

    /// Adds an element before the one at `at`; false if it is full.
    pub fn insert(&mut self, at: usize, element: T) -> bool {
        let Some(last) = self.push(element) else {
            return false;
        };
        for index in (at..last).rev() {
            self.all_mut().swap(index, index.saturating_add(1));
        }
        true
    }

    /// Takes the element at `at` out; the later ones move up.
    pub fn remove(&mut self, at: usize) -> Option<T> {
        let last = self.len.checked_sub(1)?;
        if at > last {
            return None;
        }
        for index in at..last {
            self.all_mut().swap(index, index.saturating_add(1));
        }
        let taken = self.store.get_mut(last).map(core::mem::take);
        self.len = last;
        taken
    }

    /// Takes out the elements that are not to be kept; the others stay in order.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let mut kept = 0usize;
        for at in 0..self.len {
            if self.all().get(at).is_some_and(&keep) {
                // Both are positions of elements.
                self.all_mut().swap(kept, at);
                kept = kept.saturating_add(1);
            }
        }
        for element in self.all_mut().iter_mut().skip(kept) {
            *element = T::default();
        }
        self.len = kept;
    }

    /// Takes all elements out.
    pub fn clear(&mut self) {
        for element in self.all_mut() {
            *element = T::default();
        }
        self.len = 0;
    }

    /// Moves the elements to a larger storage. A smaller one is not taken. Returns the one that is
    /// not used any more.
    pub fn grow(&mut self, mut store: S) -> S {
        if store.len() <= self.store.len() {
            return store;
        }
        for (new, old) in store.iter_mut().zip(self.store.iter_mut()) {
            *new = core::mem::take(old);
        }
        core::mem::replace(&mut self.store, store)
    }
}

/// Elements from a guess on that [`find_near`] looks at.
const NEAR: usize = 4;

/// Position of the element with this key, in a table that is in ascending order of it. It is found
/// fast at `guess` or little behind it: callers that go through a table remember where they were.
pub fn find_near<T, K: Ord>(
    table: &[T],
    guess: usize,
    key: &K,
    of: impl Fn(&T) -> K,
) -> Option<usize> {
    let mut at = guess;
    while let Some(element) = table.get(at).filter(|_| at.wrapping_sub(guess) < NEAR) {
        if of(element) == *key {
            return Some(at);
        }
        at = at.wrapping_add(1);
    }
    table.binary_search_by_key(key, of).ok()
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_storage))]
mod tests {
    use super::*;

    #[test]
    fn element_is_found_from_any_guess() {
        let table = [1, 3, 5, 7, 9, 11, 13];
        for guess in [0, 1, 2, 6, 7, usize::MAX] {
            let find = |key| find_near(&table, guess, &key, |element| *element);
            for (at, key) in table.iter().enumerate() {
                assert_eq!(find(*key), Some(at));
            }
            for missing in [0, 4, 10, 14] {
                assert_eq!(find(missing), None);
            }
        }
        assert_eq!(find_near(&[], 0, &1, |element| *element), None);
    }

    #[test]
    fn push_past_the_room_is_refused() {
        let mut store = [0; 2];
        let mut list = Bounded::new(&mut store[..]);
        assert_eq!(list.push(1), Some(0));
        assert_eq!(list.push(2), Some(1));
        assert!(list.is_full());
        assert_eq!(list.push(3), None);
        assert!(list.all() == [1, 2]);
    }

    #[test]
    fn insert_and_remove_keep_the_order() {
        let mut store = [0; 4];
        let mut list = Bounded::new(&mut store[..]);
        assert!(list.insert(0, 3));
        assert!(list.insert(0, 1));
        assert!(list.insert(1, 2));
        assert!(list.all() == [1, 2, 3]);
        assert_eq!(list.remove(1), Some(2));
        assert_eq!(list.remove(2), None);
        assert!(list.all() == [1, 3]);
    }

    #[test]
    fn retain_keeps_the_order_and_makes_room() {
        let mut store = [0; 4];
        let mut list = Bounded::new(&mut store[..]);
        for element in [4, 1, 3, 2] {
            list.push(element);
        }
        list.retain(|element| *element != 1 && *element != 3);
        assert!(list.all() == [4, 2]);
        assert_eq!(list.push(7), Some(2));
        assert!(list.all() == [4, 2, 7]);
        list.retain(|_| false);
        assert!(list.all().is_empty());
    }

    #[test]
    fn grow_keeps_the_elements() {
        let (mut small, mut large) = ([0; 1], [0; 3]);
        let mut list = Bounded::new(&mut small[..]);
        list.push(7);
        list.grow(&mut large[..]);
        assert_eq!(list.room(), 3);
        assert!(list.all() == [7]);
    }
}
