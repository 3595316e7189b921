// SPDX-License-Identifier: GPL-2.0

//! `[pure]` How long the next command of a client will take, by its last ones.
//!
//! A record has the mean cost of the commands that came after two of certain lengths (powers of
//! two), and the mean of how far they were off: both move by an eighth of what is new. A client
//! whose last two commands have no record is expected to take as long as its longest so far; a
//! client without any command, [`UNKNOWN_COST`].
//!
//! The cost of a switch of contexts is kept apart (*impact*) and added when another client was on
//! the engine before. What is off by more than [`MAX_IMPACT`] is no switch, but another command, and
//! so is one that takes less than without a switch.
//!
//! Against a client that trains its history with short commands and then submits a long one: the
//! forecast has a margin of twice the mean error, misses cost the longest command, the history is
//! the client's own, and reserves keep what was underestimated as a debt.
//!
//! Source: TimeGraph, 5.3, with its table of methods and data sizes replaced by lengths.

use crate::units::{signed, unsigned, Ns};
use core::ops::DerefMut;

/// Records of a client. The one not used for the longest time is replaced.
pub const RECORDS: usize = 64;
/// What a client without a command is expected to take.
pub const UNKNOWN_COST: Ns = Ns::from_ms(5);
/// Most that a switch of contexts costs.
const MAX_IMPACT: Ns = Ns::from_us(500);
/// Part of what is new that a mean moves by.
const PART: u64 = 8;
/// The same, signed.
const PART_SIGNED: i64 = 8;

/// What commands after two of certain lengths took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The lengths of the two.
    key: u16,
    mean: Ns,
    /// Mean distance from the mean.
    error: Ns,
    /// When it was last used, in commands.
    used: u64,
}

/// What the next command will cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forecast {
    /// Its mean: when it is worth looking for its end.
    pub mean: Ns,
    /// Twice the mean error.
    pub margin: Ns,
    /// What a switch of contexts adds.
    pub impact: Ns,
}

impl Forecast {
    /// What a reserve has to have for it.
    pub fn charge(&self, switched: bool) -> Ns {
        self.expected(switched).saturating_add(self.margin)
    }

    /// How long it lasts.
    pub fn expected(&self, switched: bool) -> Ns {
        let impact = if switched { self.impact } else { Ns::ZERO };
        self.mean.saturating_add(impact)
    }
}

/// The commands of a client. The memory for records is the caller's.
#[derive(Clone, Debug)]
pub struct Predictor<R> {
    records: R,
    /// Records in use.
    len: usize,
    /// Lengths of the last two commands.
    last: u16,
    longest: Ns,
    /// Mean excess of commands after a switch over the mean, in nanoseconds.
    impact: i64,
    commands: u64,
}

impl<R: DerefMut<Target = [Record]>> Predictor<R> {
    /// No command yet. There should be room for [`RECORDS`].
    pub const fn new(records: R) -> Self {
        Self {
            records,
            len: 0,
            last: 0,
            longest: Ns::ZERO,
            impact: 0,
            commands: 0,
        }
    }

    /// Forgets everything, in place.
    pub(super) fn clear(&mut self) {
        (self.len, self.last, self.commands) = (0, 0, 0);
        (self.longest, self.impact) = (Ns::ZERO, 0);
    }

    /// The longest command so far.
    pub const fn longest(&self) -> Ns {
        self.longest
    }

    /// Number of commands so far.
    pub const fn commands(&self) -> u64 {
        self.commands
    }

    /// What the next command will cost.
    pub fn forecast(&self) -> Forecast {
        let known = self.known().iter().find(|record| record.key == self.last);
        let (mean, margin) = match known {
            Some(record) => (record.mean, record.error.saturating_mul(2)),
            None if self.commands == 0 => (UNKNOWN_COST, Ns::ZERO),
            None => (self.longest, Ns::ZERO),
        };
        Forecast {
            mean,
            margin,
            impact: unsigned(self.impact),
        }
    }

    /// Counts a command of which it is not known what it took.
    pub fn count(&mut self) {
        self.commands = self.commands.saturating_add(1);
    }

    /// Notes what a command took, and whether another client was on the engine before.
    pub fn learn(&mut self, took: Ns, switched: bool) {
        self.count();
        self.longest = self.longest.max(took);
        let (key, now, impact) = (self.last, self.commands, self.impact);
        self.last = (key << 7) & 0x3fff | length(took);
        let known = self.known_mut().iter_mut().find(|record| record.key == key);
        let Some(record) = known else {
            self.insert(Record {
                key,
                mean: took,
                error: Ns::ZERO,
                used: now,
            });
            return;
        };
        record.used = now;
        let expected = if switched {
            record.mean.saturating_add(unsigned(impact))
        } else {
            record.mean
        };
        let off = Ns::new(took.get().abs_diff(expected.get()));
        record.error = nearer(record.error, off);
        let over = signed(took).saturating_sub(signed(record.mean));
        // One that takes less after a switch was expected to take too long: its end was seen late.
        if switched && (0..=signed(MAX_IMPACT)).contains(&over) {
            self.impact = impact.saturating_add(over.saturating_sub(impact) / PART_SIGNED);
        } else {
            let offset = expected.saturating_sub(record.mean);
            record.mean = nearer(record.mean, took.saturating_sub(offset));
        }
    }

    fn known(&self) -> &[Record] {
        self.records.get(..self.len).unwrap_or_default()
    }

    fn known_mut(&mut self) -> &mut [Record] {
        self.records.get_mut(..self.len).unwrap_or_default()
    }

    /// Adds a record, in place of the oldest if there is no room.
    fn insert(&mut self, record: Record) {
        if self.len < self.records.len() {
            self.len = self.len.saturating_add(1);
            if let Some(last) = self.known_mut().last_mut() {
                *last = record;
            }
        } else if let Some(oldest) = self.records.iter_mut().min_by_key(|record| record.used) {
            *oldest = record;
        }
    }
}

/// A mean, moved by a part of the distance to `new`.
fn nearer(mean: Ns, new: Ns) -> Ns {
    let up = new.saturating_sub(mean).get() / PART;
    let down = mean.saturating_sub(new).get() / PART;
    mean.saturating_add(Ns::new(up))
        .saturating_sub(Ns::new(down))
}

/// Number of bits of a length: 7 bits.
fn length(time: Ns) -> u16 {
    // CAST: at most 64.
    (u64::BITS - time.get().leading_zeros()) as u16
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_engaged_history))]
mod tests {
    use super::*;

    const ROOM: [Record; RECORDS] = [Record {
        key: 0,
        mean: Ns::ZERO,
        error: Ns::ZERO,
        used: 0,
    }; RECORDS];

    fn us(us: u64) -> Ns {
        Ns::from_us(us)
    }

    #[test]
    fn history_without_a_command_expects_the_unknown() {
        let mut room = ROOM;
        let forecast = Predictor::new(&mut room[..]).forecast();
        assert_eq!((forecast.mean, forecast.margin), (UNKNOWN_COST, Ns::ZERO));
    }

    #[test]
    fn history_of_equal_commands_is_exact() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        (0..10).for_each(|_| history.learn(us(700), false));
        assert_eq!(history.forecast().charge(true), us(700));
    }

    #[test]
    fn history_of_an_alternation_tells_both_apart() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        for _ in 0..10 {
            history.learn(us(100), false);
            history.learn(us(3000), false);
        }
        assert_eq!(history.forecast().mean, us(100));
        history.learn(us(100), false);
        assert_eq!(history.forecast().mean, us(3000));
    }

    #[test]
    fn history_on_a_miss_expects_the_longest() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        history.learn(us(900), false);
        history.learn(us(5), false);
        assert_eq!(history.forecast().mean, us(900));
    }

    #[test]
    fn history_of_varying_commands_has_a_margin() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        // Lengths of the same power of two.
        (0..200).for_each(|round| history.learn(us(550 + 400 * (round % 2)), false));
        let forecast = history.forecast();
        assert!(forecast.mean > us(700));
        assert!(forecast.mean < us(800));
        assert!(forecast.charge(false) > us(1000));
    }

    #[test]
    fn history_keeps_switches_apart_from_commands() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        (0..5).for_each(|_| history.learn(us(700), false));
        (0..100).for_each(|_| history.learn(us(710), true));
        let forecast = history.forecast();
        assert_eq!(forecast.expected(false), us(700));
        assert!(forecast.expected(true) > us(709));
        assert!(forecast.expected(true) <= us(710));
    }

    #[test]
    fn history_takes_a_long_command_after_a_switch_for_a_long_command() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        (0..5).for_each(|_| history.learn(us(700), false));
        for _ in 0..40 {
            history.learn(us(9000), true);
        }
        assert!(history.forecast().mean > us(8000));
        assert_eq!(history.forecast().impact, Ns::ZERO);
    }

    #[test]
    fn length_that_was_first_seen_late_is_learned_by_commands_after_switches() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        // As long as these lengths have the same power of two.
        (0..3).for_each(|_| history.learn(us(1000), true));
        (0..100).for_each(|_| history.learn(us(700), true));
        let forecast = history.forecast();
        assert!(forecast.expected(true) >= us(700));
        assert!(forecast.expected(true) < us(705));
        assert!(forecast.mean <= forecast.expected(true));
    }

    #[test]
    fn history_never_has_more_records_than_room() {
        let mut room = ROOM;
        let mut history = Predictor::new(&mut room[..]);
        for round in 0..10_000_u64 {
            history.learn(Ns::new(1 << (round * round % 37)), false);
        }
        assert!(history.known().len() <= RECORDS);
        assert_eq!(history.longest(), Ns::new(1 << 36));
    }
}
