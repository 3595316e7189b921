// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Time per channel group, by samples of a status word at random instants: the module's own
//! `loga::account::sparse`, in user space.

use super::bar0::Registers;
use super::decode::{occupant, Layout};
use crate::card::refusal::Refusal;
use loga::account::sparse::{bound, variance_us2, Sparse, MIN_INTERVAL};
use loga::account::{tsg_of, Slot, MAX_SLOTS};
use loga::ids::MAX_CHANNELS;
use loga::units::Ns;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that is sampled.
const LENGTH_MAX: Ns = Ns::from_ms(600_000);

/// Time that passes.
pub(crate) trait Clock {
    /// Time since some instant.
    fn now(&mut self) -> Ns;

    /// Returns at this time or later.
    fn sleep_until(&mut self, then: Ns);
}

/// The host's monotonic clock.
pub(crate) struct HostClock(Instant);

impl HostClock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        HostClock(Instant::now())
    }
}

impl Clock for HostClock {
    fn now(&mut self) -> Ns {
        let elapsed = self.0.elapsed().as_nanos();
        Ns::new(u64::try_from(elapsed).unwrap_or(u64::MAX))
    }

    fn sleep_until(&mut self, then: Ns) {
        let left = then.saturating_sub(self.now());
        thread::sleep(Duration::from_nanos(left.get()));
    }
}

/// Time of one group or channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sampled {
    /// Its id.
    pub(crate) id: u16,
    /// Whether the id is that of a channel: only before Volta.
    pub(crate) is_channel: bool,
    /// Time on the engine.
    pub(crate) ran_us: u64,
    /// What the time may be wrong by, with 95 % confidence.
    pub(crate) bound_us: u64,
    /// Times it was newly found.
    pub(crate) found: u32,
}

/// What the samples say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Samples {
    /// Number of samples.
    pub(crate) samples: u64,
    /// Length of what they stand for.
    pub(crate) length_us: u64,
    /// Length of a stratum, in which one sample is taken.
    pub(crate) stratum_us: u64,
    /// Time without work.
    pub(crate) idle_us: u64,
    /// Time with work of nobody.
    pub(crate) unknown_us: u64,
    /// Time per group, by id.
    pub(crate) groups: Vec<Sampled>,
    /// The sample that came last after its instant.
    pub(crate) latest_us: u64,
    /// Why it ended early.
    pub(crate) ended: Option<Refusal>,
}

/// Samples the status word at `offset` for `length`, at most ten minutes.
///
/// A word that is refused ends it; what was found until then stays.
pub(crate) fn sample(
    registers: &mut dyn Registers,
    clock: &mut dyn Clock,
    (offset, layout): (u32, Layout),
    length: Ns,
    seed: u64,
) -> Samples {
    let mut slots = vec![Slot::default(); MAX_SLOTS];
    let mut sparse = Sparse::new(seed);
    let begin = clock.now();
    let end = begin.saturating_add(length.min(LENGTH_MAX));
    let mut next = sparse.begin(&mut slots, begin, MIN_INTERVAL);
    let (mut latest, mut ended) = (Ns::ZERO, None);
    while next < end {
        clock.sleep_until(next);
        let word = registers.read(offset);
        // The word was read at the latest now.
        let now = clock.now().max(next);
        latest = latest.max(now.saturating_sub(next));
        let found = word.and_then(|word| {
            let by = format!("the card: read of {offset:#x}");
            let refusal = || Refusal::new(by, format!("{word:#010x}"));
            occupant(word, layout).ok_or_else(refusal)
        });
        match found {
            Ok(occupant) => next = sparse.sample(&mut slots, now, occupant),
            Err(refusal) => {
                ended = Some(refusal);
                break;
            }
        }
    }
    Samples {
        latest_us: latest.get() / 1000,
        ended,
        ..summary(&sparse, &slots)
    }
}

fn summary(sparse: &Sparse, slots: &[Slot]) -> Samples {
    let totals = sparse.end();
    let group = |index: usize| {
        let slot = slots.get(index)?;
        let tsg = tsg_of(index).map(|id| id.get());
        let channel = || u16::try_from(index).ok();
        let variance = variance_us2(slot.runs.into(), sparse.interval());
        Some(Sampled {
            id: tsg.or_else(channel)?,
            is_channel: index < MAX_CHANNELS,
            ran_us: slot.ran.get() / 1000,
            bound_us: bound(variance, sparse.interval()).get() / 1000,
            found: slot.runs,
        })
    };
    Samples {
        samples: sparse.samples(),
        length_us: totals.length.get() / 1000,
        stratum_us: sparse.interval().get() / 1000,
        idle_us: totals.idle.get() / 1000,
        unknown_us: totals.unknown.get() / 1000,
        groups: sparse.used().filter_map(group).collect(),
        latest_us: 0,
        ended: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Time that passes only while the sampler sleeps, and a little more each time.
    struct FakeClock {
        now: Rc<Cell<u64>>,
        late: u64,
    }

    impl Clock for FakeClock {
        fn now(&mut self) -> Ns {
            Ns::new(self.now.get())
        }

        fn sleep_until(&mut self, then: Ns) {
            let then = then.get() + self.late;
            self.now.set(self.now.get().max(then));
        }
    }

    /// Registers whose word is a function of time.
    struct FakeWord<F> {
        now: Rc<Cell<u64>>,
        word: F,
    }

    impl<F: Fn(u64) -> u32> Registers for FakeWord<F> {
        fn read(&mut self, offset: u32) -> Result<u32, Refusal> {
            assert_eq!(offset, 0xb0_0200);
            Ok((self.word)(self.now.get()))
        }
    }

    /// Samples a word for so many milliseconds, each sample so much too late.
    fn run(length_ms: u64, late: u64, word: impl Fn(u64) -> u32) -> Samples {
        let now = Rc::new(Cell::new(1_000_000_000));
        let mut registers = FakeWord {
            now: now.clone(),
            word,
        };
        let mut clock = FakeClock { now, late };
        let place = (0xb0_0200, Layout::Runlist);
        let length = Ns::from_ms(length_ms);
        sample(&mut registers, &mut clock, place, length, 11)
    }

    /// Two groups in turn, with slices of 2048 us and a switch of 137 us, in which the old one is
    /// saved; the second one leaves the engine idle for half of its slice.
    fn in_turn(now: u64) -> u32 {
        match now / 1000 % 4370 {
            0..2048 => 0x8000_2005,
            2048..2185 => 0x8009_a005,
            2185..3209 => 0x8000_2009,
            _ => 0,
        }
    }

    #[test]
    fn time_of_two_groups_is_right_within_the_bound() {
        let samples = run(2000, 0, in_turn);
        let [five, nine] = samples.groups[..] else {
            panic!("{:?}", samples.groups);
        };
        assert_eq!((five.id, nine.id, five.is_channel), (5, 9, false));
        for (group, part) in [(five, 2185), (nine, 1024)] {
            let exact = samples.length_us * part / 4370;
            let off = group.ran_us.abs_diff(exact);
            assert!(off <= group.bound_us, "{group:?}: {exact}");
            assert!(group.bound_us < samples.length_us / 50, "{group:?}");
        }
        assert!(samples.length_us.abs_diff(2_000_000) <= samples.stratum_us);
        assert_eq!(samples.unknown_us, 0);
        let all = five.ran_us + nine.ran_us + samples.idle_us;
        assert!(all.abs_diff(samples.length_us) <= 3);
        assert_eq!((samples.latest_us, samples.ended), (0, None));
    }

    #[test]
    fn samples_that_come_late_stand_for_what_was_missed() {
        let samples = run(100, 1_500_000, |_| 0x8000_2005);
        let [five] = samples.groups[..] else {
            panic!("{:?}", samples.groups);
        };
        assert_eq!(five.ran_us, samples.length_us);
        assert!(samples.length_us >= 99_000);
        assert!(samples.samples < 70);
        assert_eq!(samples.latest_us, 1500);
    }

    #[test]
    fn word_that_is_refused_ends_the_samples_and_keeps_what_was_found() {
        let word = |now| {
            if now < 1_050_000_000 {
                0x8000_2005
            } else {
                0xbadf_4100
            }
        };
        let samples = run(100, 0, word);
        let refusal = Refusal::new("the card: read of 0xb00200", "0xbadf4100");
        assert_eq!(samples.ended, Some(refusal));
        assert!(
            samples.length_us.abs_diff(50_000) <= 600,
            "{}",
            samples.length_us
        );
        assert_eq!(samples.groups.len(), 1);
    }

    #[test]
    fn busy_engine_without_a_context_is_unknown() {
        let samples = run(10, 0, |_| 0x8000_0005);
        assert_eq!(
            (samples.unknown_us, samples.groups.len()),
            (samples.length_us, 0)
        );
        assert!(samples.length_us > 0);
    }
}
