// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Channels with work that goes on after the turn in which it was submitted has ended.
//!
//! A channel that waits for a semaphore keeps nobody from the engine: what it waits for may itself
//! wait for its turn. So its client's turn ends after [`REST`], and the channel stays noted here with
//! its client. When it goes on, it does so beside the turn of another. Its state is read every
//! [`ACTIVE`] while it has work for the engine, and less and less often while it rests; the time
//! before a read that finds it on the engine is charged to its client, and not to the client of the
//! turn.
//!
//! Bound: what a client runs beside the turns of clients that come before it is at most a thousandth
//! of any window, 10 ms, and what it submitted in one turn, see `allowance`: it gets no grant before
//! that is so again. Of what it ran beyond 60 ms, for which it waits for 60 s, one part in a hundred
//! counts: a command of some seconds does not stop its client for hours, and one that submits as
//! much as it can whenever it may runs for one part in ten of the time at most. What many users
//! owe that share a wait queue, 60 s pay.
//!
//! There are [`LEFTOVERS`] entries, 16 at most for the clients of a wait queue. Of a wait queue whose
//! clients have left more than is noted, the *rest is found on the engine*: at each read the engine's
//! own status says who is on it, and if it is one of theirs, it pays as if it were noted. So nobody
//! gains by filling the table, and nobody loses by finding it full.
//!
//! What a client writes is not believed ([`Doing::of`]). A channel is forgotten when two reads in a
//! row have found that it has nothing left.

use crate::engaged::outcome::QueueSet;
use crate::ids::Chid;
use crate::regs::{ChannelState, Work};
use crate::units::Ns;

/// Most channels that are noted.
pub const LEFTOVERS: usize = 128;
/// Most of them of the clients at one wait queue.
const OF_QUEUE: usize = 16;
/// How long the channels of a turn have no work for the engine before it ends. What one waits for
/// may be another channel of the client, whose end it sees a little later.
pub(super) const REST: Ns = Ns::from_us(100);
/// The same where only the indices of a channel, which its client may write, say that it has work: the
/// engine takes some time to see what was submitted.
pub(super) const UNSEEN: Ns = Ns::from_ms(1);
/// Between two reads while one of them has work for the engine.
const ACTIVE: Ns = Ns::from_us(100);
/// Least and most time between two reads while none has.
const LEAST_STEP: Ns = Ns::from_us(20);
const MOST_STEP: Ns = Ns::from_ms(1);
/// Part of the time since one last had work that passes until the next read.
const PART: u64 = 16;

/// What a channel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It has no work left.
    Nothing,
    /// It has work, and none for the engine.
    Rests,
    /// Only its indices say that it has work.
    Queued,
    /// It has work for the engine, and is not on it.
    Waits,
    /// It is on the engine.
    Runs,
}

impl Doing {
    /// What a channel does that exists. `queued`: the indices in its slot, which its client may write,
    /// differ. They decide nothing but what becomes of a channel that has no work for the engine: its
    /// turn goes on for [`UNSEEN`] then, at its client's cost, and it stays noted. A channel that cannot
    /// be scheduled may have work whatever they say.
    pub const fn of(state: ChannelState, queued: bool) -> Self {
        match state.work() {
            Work::Runs => Self::Runs,
            Work::Waits => Self::Waits,
            Work::Acquires => Self::Rests,
            Work::None if !state.is_schedulable() => Self::Rests,
            Work::None if queued => Self::Queued,
            Work::None => Self::Nothing,
        }
    }
}

/// A channel, and the wait queue of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leftover {
    chid: Chid,
    at: u8,
    /// The last read has found that it has nothing left. One that was just enabled may show none.
    done: bool,
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
    /// The wait queues whose clients have left more than is noted.
    crowded: QueueSet,
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
            crowded: QueueSet::default(),
            read: Ns::ZERO,
            since: Ns::ZERO,
            next: None,
        }
    }
}

impl Leftovers {
    /// None is noted any more.
    pub(crate) fn clear(&mut self) {
        self.all.fill(None);
        self.end = 0;
        self.crowded = QueueSet::default();
        (self.read, self.since) = (Ns::ZERO, Ns::ZERO);
        self.next = None;
    }

    /// The turn of the client at a wait queue has ended, and this channel has work left.
    pub fn add(&mut self, now: Ns, chid: Chid, at: usize) {
        self.remove(|other, _| other == chid);
        let all = self.all.iter().flatten();
        let owns = all.filter(|left| left.wait_queue() == at).count();
        let free = self.all.iter().position(Option::is_none);
        let free = free.filter(|_| owns < OF_QUEUE);
        match free.and_then(|free| Some((free, self.all.get_mut(free)?))) {
            Some((free, slot)) => {
                let done = false;
                // CAST: few wait queues.
                let at = at as u8;
                *slot = Some(Leftover { chid, at, done });
                self.end = self.end.max(free.saturating_add(1));
            }
            None => self.crowded.add(at),
        }
        self.begin(now);
    }

    /// The client at a wait queue has submitted to more channels than are waited for.
    pub(crate) fn crowd(&mut self, now: Ns, at: usize) {
        self.crowded.add(at);
        self.begin(now);
    }

    /// They have to be read soon.
    fn begin(&mut self, now: Ns) {
        if self.next.is_none() {
            self.read = now;
        }
        self.since = now;
        self.next = Some(now.saturating_add(LEAST_STEP));
    }

    /// The clients at a wait queue have left it.
    pub(crate) fn leave(&mut self, at: usize) {
        self.crowded.remove(at);
        self.remove(|_, of| of == at);
    }

    /// Forgets those of which `gone` says so, by channel and wait queue.
    pub fn remove(&mut self, mut gone: impl FnMut(Chid, usize) -> bool) {
        for slot in self.all.iter_mut().take(self.end) {
            *slot = slot.filter(|left| !gone(left.chid, left.wait_queue()));
        }
        let last = self.channels().last();
        self.end = last.map_or(0, |(last, _)| last.saturating_add(1));
        if self.end == 0 && !self.is_crowded() {
            self.next = None;
        }
    }

    /// Whether clients have left more than is noted: whoever is on the engine has to be read.
    pub const fn is_crowded(&self) -> bool {
        !self.crowded.is_empty()
    }

    /// Whether a channel is noted.
    pub fn has(&self, chid: Chid) -> bool {
        self.channels().any(|(_, noted)| noted == chid)
    }

    /// The channels, each with its position.
    pub fn channels(&self) -> impl Iterator<Item = (usize, Chid)> + '_ {
        let all = self.all.iter().take(self.end).enumerate();
        all.filter_map(|(at, left)| Some((at, left.as_ref()?.chid)))
    }

    /// They were read: `doing` says what the channel at a position does, `stray` of which wait queue a
    /// channel is on the engine that is not noted. Returns the wait queue of which one is on the
    /// engine, and for how long that has been.
    pub fn note(
        &mut self,
        now: Ns,
        stray: Option<usize>,
        mut doing: impl FnMut(usize, Chid) -> Doing,
    ) -> Option<(usize, Ns)> {
        let elapsed = now.saturating_sub(self.read);
        let stray = stray.filter(|at| self.crowded.has(*at));
        let (mut ran, mut active) = (stray.map(|at| (at, elapsed)), stray.is_some());
        for (position, slot) in self.all.iter_mut().take(self.end).enumerate() {
            let Some(left) = *slot else {
                continue;
            };
            let does = doing(position, left.chid);
            match does {
                Doing::Nothing | Doing::Rests | Doing::Queued => {}
                Doing::Waits => active = true,
                Doing::Runs => (ran, active) = (Some((left.wait_queue(), elapsed)), true),
            }
            let done = does == Doing::Nothing;
            *slot = (!done || !left.done).then_some(Leftover { done, ..left });
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
        assert!(left.next().is_none());
        left.add(US(100), A, 7);
        assert_eq!(left.next(), Some(US(120)));
        assert_eq!(left.note(US(120), None, |_, _| Doing::Rests), None);
        assert_eq!(left.note(US(150), None, |_, _| Doing::Waits), None);
        assert_eq!(left.next(), Some(US(250)));
        let ran = left.note(US(250), None, |_, _| Doing::Runs);
        assert_eq!(ran, Some((7, US(100))));
        assert_eq!(left.note(US(350), None, |_, _| Doing::Nothing), None);
        assert_eq!(left.note(US(370), None, |_, _| Doing::Nothing), None);
        assert!(left.next().is_none());
        assert!(left.channels().next().is_none());
    }

    #[test]
    fn channel_that_shows_nothing_once_stays_noted() {
        let mut left = Leftovers::default();
        left.add(US(0), A, 7);
        assert_eq!(left.note(US(20), None, |_, _| Doing::Nothing), None);
        assert!(left.has(A));
        assert!(left.next() == Some(US(40)));
        assert_eq!(
            left.note(US(40), None, |_, _| Doing::Runs),
            Some((7, US(20)))
        );
        assert_eq!(left.note(US(140), None, |_, _| Doing::Nothing), None);
        assert!(left.has(A));
    }

    #[test]
    fn reads_of_channels_that_rest_grow_apart_up_to_a_bound() {
        let mut left = Leftovers::default();
        left.add(US(0), A, 7);
        assert_eq!(left.note(US(1600), None, |_, _| Doing::Rests), None);
        assert_eq!(left.next(), Some(US(1700)));
        assert_eq!(left.note(US(100_000), None, |_, _| Doing::Rests), None);
        assert_eq!(left.next(), Some(US(101_000)));
    }

    #[test]
    fn channels_that_are_not_noted_are_found_on_the_engine() {
        let mut left = Leftovers::default();
        for number in 0..OF_QUEUE {
            // CAST: a few.
            left.add(US(0), Chid::from_bits(10 + number as u32), 7);
        }
        assert!(!left.is_crowded());
        left.add(US(0), A, 7);
        assert!(left.is_crowded());
        assert!(!left.has(A));
        left.add(US(0), B, 8);
        assert!(left.has(B));
        // Of another wait queue that has left no more than is noted: its turn, or none at all.
        assert_eq!(left.note(US(20), Some(8), |_, _| Doing::Rests), None);
        let ran = left.note(US(40), Some(7), |_, _| Doing::Rests);
        assert_eq!((ran, left.next()), (Some((7, US(20))), Some(US(140))));
        // Also after all that were noted have ended.
        left.remove(|_, _| true);
        let ran = left.note(US(140), Some(7), |_, _| Doing::Rests);
        assert_eq!((ran, left.next()), (Some((7, US(100))), Some(US(240))));
        left.leave(7);
        assert!(!left.is_crowded());
        assert!(left.next().is_none());
    }

    #[test]
    fn full_table_makes_the_next_client_crowded() {
        let mut left = Leftovers::default();
        for number in 0..LEFTOVERS {
            // CAST: a few.
            left.add(
                US(0),
                Chid::from_bits(10 + number as u32),
                number / OF_QUEUE,
            );
        }
        assert!(!left.is_crowded());
        left.add(US(0), A, 20);
        assert_eq!(left.note(US(20), Some(0), |_, _| Doing::Rests), None);
        let ran = left.note(US(40), Some(20), |_, _| Doing::Rests);
        assert_eq!(ran, Some((20, US(20))));
    }

    #[test]
    fn what_a_client_writes_keeps_a_channel_noted_at_most() {
        let doing = |word, queued| Doing::of(ChannelState::from_bits(word), queued);
        const IDLE: u32 = 0x0000_0001;
        const DISABLED: u32 = 0x0000_0000;
        // PENDING, ON_PBDMA_AND_ENG, PENDING_ACQUIRE.
        let hardware = [
            (0x1100_0001, Doing::Waits),
            (0x1600_0001, Doing::Runs),
            (0x1300_0001, Doing::Rests),
            (DISABLED, Doing::Rests),
        ];
        for (word, expected) in hardware {
            assert!([false, true].map(|queued| doing(word, queued)) == [expected; 2]);
        }
        assert_eq!(doing(IDLE, false), Doing::Nothing);
        assert_eq!(doing(IDLE, true), Doing::Queued);
        let mut left = Leftovers::default();
        left.add(US(0), A, 7);
        assert_eq!(left.note(US(20), None, |_, _| Doing::Queued), None);
        assert_eq!(left.note(US(40), None, |_, _| Doing::Queued), None);
        assert!(left.has(A));
    }
}
