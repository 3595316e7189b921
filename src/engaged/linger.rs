// SPDX-License-Identifier: GPL-2.0

//! [pure] Linger: for how long the engine is kept free after protected work.
//!
//! It is a set length, or it *adapts*, and the set length is the most.
//!
//! Rule, if it adapts: a pause of protected work that ends while the engine is kept free for it is
//! *met*, another one is *missed*. The engine is kept free for as long as nine tenths of the met
//! pauses last, and not at all while fewer than a quarter are met. Pauses longer than that get known
//! because the most is tried after each 32nd one, and after the first eight. The engine is kept free
//! from an account, which earns a fifth of the time, [`MOST`] at most.
//!
//! Bound: in any window `w` the engine is kept free while other clients wait for `w / 5`, [`MOST`]
//! and one pause at most.
//!
//! Only pauses count in which another client waits: in others the completion thread does not read
//! the channels of protected clients, and the shield keeps no client from the engine.

use crate::units::Ns;

/// Most that the account has.
const MOST: Ns = Ns::from_ms(50);
/// Part of the time that it earns.
const PART: u64 = 5;

/// Lengths of pauses are kept to half a power of two: the first length, and how many there are.
const LEAST_LOG: u32 = 14;
const LENGTHS: usize = 20;
/// Beyond so many known pauses all count half.
const KNOWN_MOST: u16 = 64;
/// So many pauses have to be known.
const KNOWN_LEAST: u16 = 8;
/// The most is tried once in so many pauses.
const TRIED_EVERY: u8 = 32;

/// What is known of the pauses of protected work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linger {
    set: Ns,
    adapts: bool,
    /// Pauses that were met, by length.
    met: [u16; LENGTHS],
    missed: u16,
    /// Pauses since the most was last tried.
    untried: u8,
    /// What the account lacks of [`MOST`], at that time.
    lacks: Ns,
    at: Ns,
}

impl Linger {
    /// Sets the length, or the most. What is known of pauses is kept.
    pub(super) fn set(&mut self, length: Ns, adapts: bool) {
        (self.set, self.adapts) = (length, adapts);
    }

    /// Whether it follows the pauses.
    pub(super) const fn adapts(&self) -> bool {
        self.adapts
    }

    /// Protected work ends: for how long the engine is kept free now.
    pub(super) fn begin(&mut self, now: Ns) -> Ns {
        if !self.adapts {
            return self.set;
        }
        self.untried = self.untried.saturating_add(1);
        let tries = self.known() < KNOWN_LEAST || self.untried >= TRIED_EVERY;
        let length = if tries { self.set } else { self.usual() };
        if tries {
            self.untried = 0;
        }
        let left = MOST.saturating_sub(self.lacks(now));
        length.min(self.set).min(left)
    }

    /// Protected work comes again after a pause in which another client waited, and for the first
    /// `kept` of which the engine was kept free.
    pub(super) fn end(&mut self, now: Ns, pause: Ns, kept: Ns) {
        self.lacks = self.lacks(now).saturating_add(pause.min(kept)).min(MOST);
        self.at = now;
        if kept == Ns::ZERO {
            return;
        }
        let counter = if pause <= kept {
            self.met.get_mut(bucket(pause))
        } else {
            Some(&mut self.missed)
        };
        if let Some(counter) = counter {
            *counter = counter.saturating_add(1);
        }
        if self.known() > KNOWN_MOST {
            self.met.iter_mut().for_each(|count| *count /= 2);
            self.missed /= 2;
        }
    }

    /// How many pauses are known.
    fn known(&self) -> u16 {
        self.met().saturating_add(self.missed)
    }

    /// How many of them were met.
    fn met(&self) -> u16 {
        self.met
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The length below which nine tenths of the met pauses stay; nothing if few are met.
    fn usual(&self) -> Ns {
        let met = self.met();
        if met < self.known().div_ceil(4) {
            return Ns::ZERO;
        }
        let enough = met.saturating_sub(met / 10);
        let mut below = 0u16;
        let first = self.met.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= enough
        });
        first.map_or(Ns::ZERO, length)
    }

    /// What the account lacks now.
    fn lacks(&self, now: Ns) -> Ns {
        let earned = Ns::new(now.saturating_sub(self.at).get() / PART);
        self.lacks.saturating_sub(earned)
    }
}

/// Where a length is counted.
fn bucket(pause: Ns) -> usize {
    let ns = pause.get().max(1 << LEAST_LOG);
    let log = ns.ilog2();
    let upper = ns >> log.saturating_sub(1) & 1;
    let halves = log.saturating_sub(LEAST_LOG).saturating_mul(2);
    // CAST: at most 100.
    let bucket = halves as usize + upper as usize;
    bucket.min(LENGTHS - 1)
}

/// The end of the lengths that are counted there.
fn length(bucket: usize) -> Ns {
    // CAST: below LENGTHS.
    let next = bucket as u32 + 1;
    let power = 1u64 << (LEAST_LOG + next / 2);
    Ns::new(if next % 2 == 0 { power } else { power / 2 * 3 })
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_linger))]
mod tests {
    use super::*;

    const US: fn(u64) -> Ns = Ns::from_us;

    /// Pauses of these lengths in turn, each 10 ms after the other; for how long the engine is kept
    /// free after the last.
    fn after(pauses: &[Ns], times: usize) -> Ns {
        let mut linger = Linger::default();
        linger.set(US(5_000), true);
        let mut now = Ns::ZERO;
        let mut kept = Ns::ZERO;
        for pause in pauses.iter().cycle().take(times) {
            now = now.saturating_add(US(30_000));
            kept = linger.begin(now);
            now = now.saturating_add(*pause);
            linger.end(now, *pause, kept);
        }
        kept
    }

    #[test]
    fn lengths_are_counted_below_their_ends() {
        for us in 1..5_000 {
            let at = bucket(US(us));
            assert!(US(us) < length(at));
            assert!(at == 0 || US(us) >= length(at - 1));
        }
        assert_eq!(bucket(US(60_000_000)), LENGTHS - 1);
        assert!(length(LENGTHS - 1) > US(5_000));
    }

    #[test]
    fn length_that_is_set_counts_as_it_is() {
        let mut linger = Linger::default();
        linger.set(US(700), false);
        for n in 1..100 {
            assert_eq!(linger.begin(US(n)), US(700));
            linger.end(US(n), US(1), US(700));
        }
    }

    #[test]
    fn short_pauses_are_met_and_the_long_one_of_a_frame_is_not_waited_for() {
        // Four commands of a frame with 300 us between them, and 12 ms to the next frame.
        let frame = [US(300), US(300), US(300), US(12_000)];
        for times in [60, 61, 62, 63, 110, 111] {
            let kept = after(&frame, times);
            assert!(kept > US(300) && kept <= US(450));
        }
    }

    #[test]
    fn pauses_that_are_too_long_are_not_waited_for() {
        assert_eq!(after(&[US(12_000)], 30), Ns::ZERO);
        // They are tried now and then, since they may become short.
        assert_eq!(after(&[US(12_000)], 8 + 32), US(5_000));
        assert_eq!(after(&[US(12_000)], 8 + 33), Ns::ZERO);
    }

    #[test]
    fn pauses_that_become_short_get_known() {
        let mut pauses = [US(12_000); 400];
        pauses[100..].fill(US(300));
        // 8 missed at first; each 32nd short one is met.
        assert!(after(&pauses, 399) > US(300));
    }

    #[test]
    fn engine_is_kept_free_for_a_fifth_of_the_time_at_most() {
        let mut linger = Linger::default();
        linger.set(US(5_000), true);
        let (mut now, mut free) = (Ns::ZERO, Ns::ZERO);
        // Work of 1 ms and pauses of 4.
        while now < Ns::from_ms(10_000) {
            now = now.saturating_add(US(1_000));
            let kept = linger.begin(now).min(US(4_000));
            now = now.saturating_add(US(4_000));
            linger.end(now, US(4_000), kept);
            free = free.saturating_add(kept);
        }
        assert!(free <= Ns::from_ms(2_000 + 50 + 5));
        assert!(free >= Ns::from_ms(1_800));
    }
}
