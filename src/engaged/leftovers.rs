// SPDX-License-Identifier: GPL-2.0

//! [pure] Channels with work that goes on after the turn in which it was submitted has ended.
//!
//! A channel that waits for a semaphore keeps nobody from the engine: what it waits for may itself
//! wait for its turn. So its client's turn ends after [`REST`], and the channel stays noted here with
//! its client. When it goes on, it does so beside the turn of another. Its state is read every
//! [`ACTIVE`] while it has work for the engine, and less and less often while it rests; the time
//! before a read that finds it on the engine is charged to its client, and not to the client of the
//! turn.
//!
//! Bound: what a client runs beside the turns of clients that come before it is at most a thousandth
//! of any window, 10 ms, and what it submitted in one turn, see [`Overlap`]: it gets no grant before
//! that is so again. Of what it ran beyond 60 ms, for which it waits for 60 s, one part in a hundred
//! counts: a command of some seconds does not stop its client for hours, and one that submits as
//! much as it can whenever it may runs for one part in ten of the time at most. What many users
//! owe that share a wait queue, 60 s pay.

use super::account::Account;
use crate::ids::Chid;
use crate::units::Ns;

/// Most channels that are noted.
pub const LEFTOVERS: usize = 128;
/// Most of them of the clients at one wait queue.
const OF_QUEUE: usize = 16;
/// How long a channel waits for a semaphore before the turn of its client ends. What it waits for
/// may be another channel of the client, whose end it sees a little later.
pub(super) const REST: Ns = Ns::from_us(100);
/// Between two reads while one of them has work for the engine.
const ACTIVE: Ns = Ns::from_us(100);
/// Least and most time between two reads while none has.
const LEAST_STEP: Ns = Ns::from_us(20);
const MOST_STEP: Ns = Ns::from_ms(1);
/// Part of the time since one last had work that passes until the next read.
const PART: u64 = 16;

/// What a client may run beside the turns of clients that come before it.
pub(super) type Overlap = Account<1000, 10, 60>;

/// What a channel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It has no work left.
    Nothing,
    /// It has work, and none for the engine.
    Rests,
    /// It has work for the engine, and is not on it.
    Waits,
    /// It is on the engine.
    Runs,
}

/// A channel, and the wait queue of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leftover {
    chid: Chid,
    at: u8,
}

impl Leftover {
    fn wait_queue(self) -> usize {
        self.at.into()
    }
}

/// The channels.
#[derive(Clone, Copy, Debug)]
pub struct Leftovers {
    all: [Option<Leftover>; LEFTOVERS],
    /// From here on none is there.
    end: usize,
    /// When they were last read, and since when none has had work for the engine.
    read: Ns,
    since: Ns,
    next: Option<Ns>,
}

impl Default for Leftovers {
    fn default() -> Self {
        Self {
            all: [None; LEFTOVERS],
            end: 0,
            read: Ns::ZERO,
            since: Ns::ZERO,
            next: None,
        }
    }
}

impl Leftovers {
    /// The turn of the client at a wait queue has ended, and this channel has work left. False if
    /// there is no room for it.
    pub fn add(&mut self, now: Ns, chid: Chid, at: usize) -> bool {
        self.remove(|other, _| other == chid);
        let own = self
            .all
            .iter()
            .flatten()
            .filter(|left| left.wait_queue() == at);
        if own.count() >= OF_QUEUE {
            return false;
        }
        let Some(free) = self.all.iter().position(Option::is_none) else {
            return false;
        };
        if let Some(slot) = self.all.get_mut(free) {
            // CAST: few wait queues.
            *slot = Some(Leftover { chid, at: at as u8 });
        }
        self.end = self.end.max(free.saturating_add(1));
        if self.next.is_none() {
            self.read = now;
        }
        self.since = now;
        self.next = Some(now.saturating_add(LEAST_STEP));
        true
    }

    /// Forgets those of which `gone` says so, by channel and wait queue.
    pub fn remove(&mut self, mut gone: impl FnMut(Chid, usize) -> bool) {
        for slot in self.all.iter_mut().take(self.end) {
            *slot = slot.filter(|left| !gone(left.chid, left.wait_queue()));
        }
        let last = self.channels().last();
        self.end = last.map_or(0, |(last, _)| last.saturating_add(1));
        if self.end == 0 {
            self.next = None;
        }
    }

    /// The channels, each with its position.
    pub fn channels(&self) -> impl Iterator<Item = (usize, Chid)> + '_ {
        let all = self.all.iter().take(self.end).enumerate();
        all.filter_map(|(at, left)| Some((at, left.as_ref()?.chid)))
    }

    /// They were read: `doing` says what the channel at a position does. Returns the wait queue of
    /// which one is on the engine, and for how long that has been.
    pub fn note(
        &mut self,
        now: Ns,
        mut doing: impl FnMut(usize, Chid) -> Doing,
    ) -> Option<(usize, Ns)> {
        let elapsed = now.saturating_sub(self.read);
        let (mut ran, mut active) = (None, false);
        for (position, slot) in self.all.iter_mut().take(self.end).enumerate() {
            let Some(left) = *slot else {
                continue;
            };
            match doing(position, left.chid) {
                Doing::Nothing => *slot = None,
                Doing::Rests => {}
                Doing::Waits => active = true,
                Doing::Runs => (ran, active) = (Some((left.wait_queue(), elapsed)), true),
            }
        }
        self.read = now;
        self.since = if active { now } else { self.since };
        let part = Ns::new(now.saturating_sub(self.since).get() / PART);
        let rests = part.min(MOST_STEP).max(LEAST_STEP);
        self.next = Some(now.saturating_add(if active { ACTIVE } else { rests }));
        self.remove(|_, _| false);
        ran
    }

    /// When they have to be read.
    pub const fn next(&self) -> Option<Ns> {
        self.next
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_leftovers))]
mod tests {
    use super::*;

    const US: fn(u64) -> Ns = Ns::from_us;
    const A: Chid = Chid::from_bits(3);
    const B: Chid = Chid::from_bits(4);

    #[test]
    fn time_on_the_engine_is_that_since_the_read_before() {
        let mut left = Leftovers::default();
        assert!(left.next().is_none() && left.add(US(100), A, 7));
        assert_eq!(left.next(), Some(US(120)));
        assert_eq!(left.note(US(120), |_, _| Doing::Rests), None);
        assert_eq!(left.note(US(150), |_, _| Doing::Waits), None);
        assert_eq!(left.next(), Some(US(250)));
        let ran = left.note(US(250), |_, _| Doing::Runs);
        assert_eq!(ran, Some((7, US(100))));
        assert_eq!(left.note(US(350), |_, _| Doing::Nothing), None);
        assert!(left.next().is_none() && left.channels().next().is_none());
    }

    #[test]
    fn reads_of_channels_that_rest_grow_apart_up_to_a_bound() {
        let mut left = Leftovers::default();
        assert!(left.add(US(0), A, 7));
        assert_eq!(left.note(US(1600), |_, _| Doing::Rests), None);
        assert_eq!(left.next(), Some(US(1700)));
        assert_eq!(left.note(US(100_000), |_, _| Doing::Rests), None);
        assert_eq!(left.next(), Some(US(101_000)));
    }

    #[test]
    fn place_has_so_many_and_leaves_with_all_of_them() {
        let mut left = Leftovers::default();
        for number in 0..OF_QUEUE {
            // CAST: a few.
            assert!(left.add(US(0), Chid::from_bits(10 + number as u32), 7));
        }
        assert!(!left.add(US(0), A, 7) && left.add(US(0), B, 8));
        assert!(left.add(US(0), B, 8));
        left.remove(|_, at| at == 7);
        assert_eq!(left.channels().map(|(_, chid)| chid).next(), Some(B));
        left.remove(|chid, _| chid == B);
        assert!(left.next().is_none());
    }
}
