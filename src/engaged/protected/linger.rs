// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Linger: for how long the engine is kept free after protected work.
//!
//! It is a set length, or it *adapts*, and the set length is the most.
//!
//! Rule, if it adapts: pauses of protected work get known that end within the most, whether the engine
//! is kept free for them or not: the caller reads on while a command of another runs. The engine is
//! kept free for as long as nine tenths of those last, and not at all if they are fewer than a quarter
//! of all; for the most while fewer than [`KNOWN_LEAST`] are known. It is kept free from an account,
//! which earns a fifth of the time, [`MOST`] at most.
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
/// So many pauses have to be known.
const KNOWN_LEAST: u8 = 8;
/// What a pause counts at first, and what part of that it loses with each that follows.
const WEIGHT: u32 = 1 << 16;
const FORGOTTEN: u32 = 64;

/// What is known of the pauses of protected work.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Linger {
    set: Ns,
    adapts: bool,
    /// Weight of the pauses that ended within the most, by length, and of the longer ones.
    short: [u32; LENGTHS],
    long: u32,
    /// How many are known, [`KNOWN_LEAST`] at most.
    known: u8,
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

    /// For how long the end of a pause has to be looked for.
    pub(super) fn learns_for(&self) -> Ns {
        if self.adapts {
            self.set
        } else {
            Ns::ZERO
        }
    }

    /// Protected work ends: for how long the engine is kept free now.
    pub(super) fn begin(&self, now: Ns) -> Ns {
        if !self.adapts {
            return self.set;
        }
        let length = if self.known < KNOWN_LEAST {
            self.set
        } else {
            self.usual()
        };
        let left = MOST.saturating_sub(self.lacks(now));
        length.min(self.set).min(left)
    }

    /// Protected work comes again after a pause in which another client waited, and for the first
    /// `kept` of which the engine was kept free. A pause that is longer than
    /// [`learns_for`](Self::learns_for) may be seen to end late.
    pub(super) fn end(&mut self, now: Ns, pause: Ns, kept: Ns) {
        self.lacks = self.lacks(now).saturating_add(pause.min(kept)).min(MOST);
        self.at = now;
        if self.learns_for() == Ns::ZERO {
            return;
        }
        let all = self.short.iter_mut().chain([&mut self.long]);
        all.for_each(|weight| *weight -= *weight / FORGOTTEN);
        let weight = if pause <= self.set {
            self.short.get_mut(bucket(pause))
        } else {
            Some(&mut self.long)
        };
        if let Some(weight) = weight {
            *weight = weight.saturating_add(WEIGHT);
        }
        self.known = self.known.saturating_add(1).min(KNOWN_LEAST);
    }

    /// The length below which nine tenths of the short pauses stay; nothing if few are short.
    fn usual(&self) -> Ns {
        let sum = |sum: u32, weight: &u32| sum.saturating_add(*weight);
        let short = self.short.iter().fold(0, sum);
        if short.saturating_mul(3) < self.long {
            return Ns::ZERO;
        }
        let enough = short.saturating_sub(short / 10);
        let mut below = 0;
        let first = self.short.iter().position(|weight| {
            below = sum(below, weight);
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
            assert!(kept > US(300));
            assert!(kept <= US(450));
        }
    }

    #[test]
    fn pauses_that_are_longer_than_the_engine_is_kept_free_become_part_of_the_length() {
        // Three of four are short at first: a length is known below which the others do not stay.
        let mut pauses = [US(100); 1_000];
        pauses[..100].fill(US(50));
        for long in [US(90), US(400), US(3_000)] {
            pauses[100..]
                .iter_mut()
                .step_by(4)
                .for_each(|pause| *pause = long);
            assert!(after(&pauses, 101) < US(100));
            assert!(after(&pauses, 999) >= long.max(US(100)));
        }
    }

    #[test]
    fn one_in_twenty_pauses_is_not_waited_for() {
        let mut pauses = [US(100); 20];
        pauses[7] = US(3_000);
        for times in 201..240 {
            let kept = after(&pauses, times);
            assert!(kept > US(100));
            assert!(kept < US(200));
        }
    }

    #[test]
    fn pauses_that_are_too_long_are_not_waited_for() {
        assert_eq!(after(&[US(12_000)], 8), US(5_000));
        for times in 9..100 {
            assert_eq!(after(&[US(12_000)], times), Ns::ZERO);
        }
    }

    #[test]
    fn pauses_that_become_short_get_known() {
        let mut pauses = [US(12_000); 150];
        pauses[100..].fill(US(300));
        assert_eq!(after(&pauses, 101), Ns::ZERO);
        assert!(after(&pauses, 140) > US(300));
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
