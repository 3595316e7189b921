// SPDX-License-Identifier: GPL-2.0

//! `[pure]` When the channels of protected clients have to be read.
//!
//! A protected client is not stopped, so its work shows in its channels only. They are read when a
//! decision needs to know about them: what was read less than [`FRESH`] ago is known. While work is
//! there and another client waits, they are read again and again for its end, and where the length of
//! a pause has to be known, for the end of that; the reads are a sixteenth of the time since it was
//! first seen apart, so that its end is seen late by that part.

use crate::units::Ns;

/// How long what was read is true enough to decide by.
const FRESH: Ns = Ns::from_us(100);
/// Least and most time between two reads.
const LEAST_STEP: Ns = Ns::from_us(20);
const MOST_STEP: Ns = Ns::from_ms(1);
/// Part of the time since work was first seen that passes until the next read.
const PART: u64 = 16;

/// What is known of the channels of protected clients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Protected {
    /// Whether there are any.
    any: bool,
    /// When they were last read.
    read: Option<Ns>,
    /// Whether work was there then, and since when each read has said the same.
    busy: bool,
    since: Ns,
    /// The next read.
    next: Option<Ns>,
}

impl Protected {
    /// There are protected clients from now on, other ones, or none.
    pub fn set(&mut self, any: bool) {
        *self = Self {
            any,
            ..Self::default()
        };
    }

    /// A decision is made now. Returns whether what is known is too old for it: then they have to be
    /// read at once.
    pub fn decide(&mut self, now: Ns) -> bool {
        let is_old = |read: Ns| now.saturating_sub(read) > FRESH;
        let stale = self.any && self.read.is_none_or(is_old);
        // Its end was not looked for, since no client waited for it.
        let unwatched = self.busy && self.next.is_none();
        if stale || unwatched {
            let next = self.next.map_or(now, |next| next.min(now));
            self.next = Some(next);
        }
        stale
    }

    /// They were read; `busy`: one has work. `watched`: the end of it, or of the pause, has to be seen.
    pub fn note(&mut self, now: Ns, busy: bool, watched: bool) {
        if self.read.is_none() || busy != self.busy {
            self.since = now;
        }
        (self.read, self.busy) = (Some(now), busy);
        let part = Ns::new(now.saturating_sub(self.since).get() / PART);
        let next = now.saturating_add(part.min(MOST_STEP).max(LEAST_STEP));
        self.next = watched.then_some(next);
    }

    /// When they have to be read, if nothing else happens before.
    pub const fn next(&self) -> Option<Ns> {
        self.next
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_protected))]
mod tests {
    use super::*;

    const US: fn(u64) -> Ns = Ns::from_us;

    #[test]
    fn without_protected_clients_all_is_known() {
        let mut protected = Protected::default();
        assert!(!protected.decide(US(1)));
        protected.set(true);
        assert!(protected.decide(US(1)));
        protected.set(false);
        assert!(!protected.decide(US(1)));
        assert!(protected.next().is_none());
    }

    #[test]
    fn what_was_read_is_known_for_a_while() {
        let mut protected = Protected::default();
        protected.set(true);
        assert!(protected.decide(US(5)));
        assert_eq!(protected.next(), Some(US(5)));
        protected.note(US(7), false, false);
        assert_eq!(protected.next(), None);
        assert!(!protected.decide(US(107)));
        assert!(protected.next().is_none());
        assert!(protected.decide(US(108)));
        assert!(protected.next() == Some(US(108)));
    }

    #[test]
    fn end_of_work_that_was_not_looked_for_is_when_a_client_comes() {
        let mut protected = Protected::default();
        protected.set(true);
        protected.note(US(7), true, false);
        assert_eq!(protected.next(), None);
        assert!(!protected.decide(US(9)));
        assert_eq!(protected.next(), Some(US(9)));
    }

    #[test]
    fn end_of_work_is_looked_for_less_and_less_often_while_a_client_waits() {
        let mut protected = Protected::default();
        protected.set(true);
        let (mut now, mut reads) = (US(0), 0);
        while now < US(16_000) {
            protected.note(now, true, true);
            let next = protected.next().unwrap();
            assert!(next >= now.saturating_add(US(20)));
            assert!(next <= now.saturating_add(US(1000)));
            (now, reads) = (next, reads + 1);
        }
        // 16 at the least step, and a 16th more each time from 0.3 to 16 ms.
        assert!((70..90).contains(&reads));
        protected.note(now, true, false);
        assert_eq!(protected.next(), None);
        // Other work is looked at often again.
        protected.note(now, false, true);
        protected.note(now, true, true);
        assert_eq!(protected.next(), Some(now.saturating_add(US(20))));
    }
}
