// SPDX-License-Identifier: GPL-2.0

//! [pure] Sparse accounting: reads of the status word at random instants.
//!
//! Time is cut into strata of one length `S`, without gaps. In each, the status word
//! is read once, at an instant drawn uniformly, and whoever is there is charged `S`.
//!
//! *Unbiased*: every instant is as likely to be looked at as any other, whatever the
//! clients do and however regularly: nobody can run in step with the looks. That is
//! why the instants are not equidistant.
//!
//! *Variance*: a stratum of which a client holds the part `q` adds `S^2 q (1 - q)`,
//! zero if it holds all or nothing. Summed over `n` strata that is never more than
//! with `n` independent instants, `S^2 n p (1 - p)`, and less the longer commands are
//! compared to `S`. That is why there are strata. Within them the instants are
//! independent: moving on by the golden section instead was better for most loads and
//! fell in step with one of commands of 1000 and 200 us.
//!
//! *Its estimate*: half the sum of squared differences of neighbouring looks. Where
//! one look finds a client and the next does not, or the other way round, the
//! difference is `S`, so the estimate is `S^2` times [`Slot::runs`], the times that a
//! client was newly found. Strata differ from each other, so it errs to the safe side;
//! counted per channel and added up for a client, still more so.
//!
//! *Bound*: `1.96 sqrt(variance + S^2) + 2 S` with 95 % confidence; the additions are
//! those of Wilson's interval, for clients that were hardly ever found.
//!
//! What it costs: one look, with the interrupt of its timer, each `S`. See [`Pace`]
//! for how `S` is chosen.

use super::{clear, slot_of, PhaseTotals, Slot, UsedSlots};
use crate::regs::Occupant;
use crate::units::Ns;

/// Shortest stratum: 3333 looks per second, one percent of a core at 3 us each.
pub const MIN_INTERVAL: Ns = Ns::from_us(300);
/// Longest stratum while several clients are active.
pub const MAX_INTERVAL: Ns = Ns::from_us(4_000);
/// Stratum while at most one client is active. Nobody is to be told apart then; how
/// long the GPU is busy is still measured, with 100 looks per second.
pub const WATCH_INTERVAL: Ns = Ns::from_ms(10);
/// For so long at most one client must have been seen before looks become rare.
pub const QUIET: Ns = Ns::from_ms(1_000);

/// Accounts one engine by looks at random instants. One per GPU, in place of an
/// [`super::Accountant`], with the same slots and the same totals.
///
/// Strata go on over the end of a phase: a phase gets the strata that were looked at
/// in it, so its length differs from that of the clock by up to one stratum.
pub struct Sparse {
    random: u64,
    interval: Ns,
    /// Up to when time has been charged: the end of a stratum.
    charged: Ns,
    /// End of the stratum that is to be looked at.
    end: Ns,
    /// When to look at it.
    next: Ns,
    current: Occupant,
    totals: PhaseTotals,
    used: UsedSlots,
    looks: u64,
}

impl Sparse {
    /// One that has seen nothing. The same seed draws the same instants.
    pub const fn new(seed: u64) -> Self {
        Self {
            // Zero is the one state that never changes.
            random: if seed == 0 { 1 } else { seed },
            interval: MIN_INTERVAL,
            charged: Ns::ZERO,
            end: Ns::ZERO,
            next: Ns::ZERO,
            current: Occupant::Idle,
            totals: PhaseTotals::ZERO,
            used: UsedSlots::new(),
            looks: 0,
        }
    }

    /// Begins a phase with strata of `interval` and returns when to look. Clears the
    /// slots of the last phase.
    ///
    /// A stratum that the last phase left without a look keeps its end and its instant:
    /// if that were drawn anew, the beginnings of phases would be looked at more often
    /// than other times. If there has been none for long, the first begins `now`.
    pub fn begin(&mut self, slots: &mut [Slot], now: Ns, interval: Ns) -> Ns {
        clear(slots, &mut self.used);
        self.totals = PhaseTotals::default();
        self.interval = interval.max(MIN_INTERVAL).min(WATCH_INTERVAL);
        if self.looks > 0 && now <= self.end.saturating_add(self.interval) {
            return self.next;
        }
        self.charged = now;
        self.draw()
    }

    /// Notes who is there `now`, at the instant that was drawn or later, and returns
    /// when to look next.
    ///
    /// Strata that were missed, because the timer came late, are charged to whoever is
    /// found: up to the end of the stratum in which `now` lies.
    pub fn look(&mut self, slots: &mut [Slot], now: Ns, occupant: Occupant) -> Ns {
        self.looks = self.looks.saturating_add(1);
        if now > self.end {
            let missed = now.saturating_sub(self.end).get() / self.interval.get().max(1);
            let whole = self.interval.saturating_mul(missed.saturating_add(1));
            self.end = self.end.saturating_add(whole);
        }
        let time = self.end.saturating_sub(self.charged);
        self.charged = self.end;
        self.charge(slots, time, occupant);
        self.draw()
    }

    /// Ends the phase. A stratum without a look goes to the next one.
    pub const fn end(&self) -> PhaseTotals {
        self.totals
    }

    /// Indices of the slots that were used in this phase, ascending.
    pub fn used(&self) -> impl Iterator<Item = usize> + '_ {
        self.used.iter()
    }

    /// The slots that were used in this phase.
    pub const fn used_slots(&self) -> &UsedSlots {
        &self.used
    }

    /// Who was found last.
    pub const fn current(&self) -> Occupant {
        self.current
    }

    /// Looks so far.
    pub const fn looks(&self) -> u64 {
        self.looks
    }

    /// Length of the strata.
    pub const fn interval(&self) -> Ns {
        self.interval
    }

    fn charge(&mut self, slots: &mut [Slot], time: Ns, occupant: Occupant) {
        self.totals.length = self.totals.length.saturating_add(time);
        let is_new = occupant != self.current;
        self.current = occupant;
        self.totals.switches = self.totals.switches.saturating_add(is_new.into());
        if occupant == Occupant::Idle {
            self.totals.idle = self.totals.idle.saturating_add(time);
            return;
        }
        let index = slot_of(occupant);
        match index.and_then(|index| slots.get_mut(index)) {
            Some(slot) => {
                slot.held = slot.held.saturating_add(time);
                slot.runs = slot.runs.saturating_add(is_new.into());
                self.totals.held = self.totals.held.saturating_add(time);
                self.used.mark(index);
            }
            None => self.totals.unknown = self.totals.unknown.saturating_add(time),
        }
    }

    /// Begins the next stratum and draws an instant in it.
    fn draw(&mut self) -> Ns {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.end = self.charged.saturating_add(self.interval);
        // The upper half, as a fraction of 2^32; strata are shorter than 2^32 ns.
        let part = (self.random >> 32).saturating_mul(self.interval.get()) >> 32;
        self.next = self.charged.saturating_add(Ns::new(part));
        self.next
    }
}

/// Variance of the time charged for `runs` in strata of `interval`, in square
/// microseconds.
pub const fn variance_us2(runs: u64, interval: Ns) -> u64 {
    let us = interval.get() / 1000;
    us.saturating_mul(us).saturating_mul(runs)
}

/// What a time with this variance may be wrong by, with 95 % confidence.
pub fn bound(variance_us2: u64, interval: Ns) -> Ns {
    let us = interval.get() / 1000;
    let root = variance_us2
        .saturating_add(us.saturating_mul(us))
        .isqrt()
        .saturating_add(1);
    let us = (root.saturating_mul(196) / 100).saturating_add(us.saturating_mul(2));
    Ns::from_us(us)
}

/// How often to look.
///
/// As often as a bound of 0.7 points over two seconds needs with independent instants:
/// `S = 2 s (0.007 / 1.96)^2 / v`, where `v` is the largest `p (1 - p)` of all
/// clients, within [`MIN_INTERVAL`] and [`MAX_INTERVAL`]. Two equal clients want most;
/// many small ones are content with little.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// For how long at most one client has been seen.
    quiet: Ns,
    /// The one that was seen alone last.
    sole: Option<usize>,
}

impl Pace {
    /// One that knows of nobody.
    pub const fn new() -> Self {
        Self {
            quiet: Ns::ZERO,
            sole: None,
        }
    }

    /// The stratum for the next phase, from what each client used of the last one, of
    /// length `length`. `alone` says that only one client has channels at all,
    /// `limited` that a limit is in force or somebody is held back: then the time of a
    /// client that is seen alone matters too.
    pub fn interval(
        &mut self,
        length: Ns,
        alone: bool,
        limited: bool,
        used: impl Iterator<Item = Ns>,
    ) -> Ns {
        /// Microseconds for `v` of one, times 1024.
        const US: u64 = 26 * 1024;
        let (mut active, mut largest, mut sole) = (0u32, 0u64, None);
        for (at, busy) in used.enumerate().filter(|(_, busy)| !busy.is_zero()) {
            active = active.saturating_add(1);
            sole = Some(at);
            let part = crate::fair::mul_div(busy.get(), 1024, length.get().max(1)).min(1024);
            largest = largest.max(part * (1024 - part) / 1024);
        }
        // With few looks in a phase, two light clients are hardly ever found in the same.
        let another = sole.is_some() && self.sole.is_some() && sole != self.sole;
        self.sole = sole.or(self.sole).filter(|_| active < 2);
        if active > 1 || another {
            self.quiet = Ns::ZERO;
        } else {
            self.quiet = self.quiet.saturating_add(length);
        }
        if !limited && (alone || self.quiet >= QUIET) {
            return WATCH_INTERVAL;
        }
        let wanted = US.checked_div(largest).map_or(MAX_INTERVAL, Ns::from_us);
        wanted.max(MIN_INTERVAL).min(MAX_INTERVAL)
    }
}

#[cfg(any(test, loga_kunit))]
#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_sparse))]
mod tests {
    use super::*;
    use crate::ids::Chid;

    const A: Occupant = Occupant::Channel(Chid::from_bits(1));
    const B: Occupant = Occupant::Channel(Chid::from_bits(2));

    /// Looks for a second at an engine that shows `who` at a time, and returns the
    /// totals and the slots.
    fn second_of(seed: u64, who: fn(u64) -> Occupant) -> (PhaseTotals, [Slot; 4]) {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(seed);
        let start = Ns::from_ms(1000);
        let mut next = sparse.begin(&mut slots, start, MIN_INTERVAL);
        while next < Ns::from_ms(2000) {
            next = sparse.look(&mut slots, next, who(next.get()));
        }
        (sparse.end(), slots)
    }

    #[test]
    fn time_charged_adds_up_to_the_strata() {
        let (totals, slots) = second_of(1, |now| if now % 3_000_000 < 1_000_000 { A } else { B });
        assert!(totals.length.get().abs_diff(1_000_000_000) < 300_000);
        assert_eq!(totals.held, totals.length);
        let sum = slots[1].held.saturating_add(slots[2].held);
        assert_eq!(sum, totals.length);
    }

    #[test]
    fn client_that_never_stops_has_no_variance() {
        let (totals, slots) = second_of(1, |_| A);
        assert_eq!(slots[1].held, totals.length);
        assert_eq!(slots[1].runs, 1);
        assert_eq!(variance_us2(1, MIN_INTERVAL), 90_000);
    }

    // A client that runs in step with the strata, or with any multiple of them.
    #[test]
    fn client_in_step_with_the_looks_gets_its_share() {
        let in_step: [fn(u64) -> Occupant; 3] = [
            |now| {
                if now % 300_000 < 60_000 {
                    A
                } else {
                    Occupant::Idle
                }
            },
            |now| {
                if now % 150_000 < 30_000 {
                    A
                } else {
                    Occupant::Idle
                }
            },
            |now| {
                if now % 600_000 < 120_000 {
                    A
                } else {
                    Occupant::Idle
                }
            },
        ];
        for who in in_step {
            let mut sum = 0;
            for seed in 1..=10 {
                sum += second_of(seed, who).1[1].held.get();
            }
            // A fifth of ten seconds; four standard deviations are 88 ms.
            assert!(sum.abs_diff(2_000_000_000) < 90_000_000);
        }
    }

    #[test]
    fn timer_that_comes_late_loses_no_time() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        sparse.look(&mut slots, Ns::from_us(12_600), A);
        // Eight whole strata and the one in which it is.
        assert_eq!(sparse.end().length, Ns::from_us(2_700));
        assert_eq!(slots[1].held, Ns::from_us(2_700));
    }

    #[test]
    fn stratum_without_a_look_goes_to_the_next_phase() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        let mut next = sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        let mut sum = Ns::ZERO;
        for phase in 1..=100u64 {
            let end = Ns::from_us(10_000 + phase * 1_300);
            while next < end {
                next = sparse.look(&mut slots, next, A);
            }
            sum = sum.saturating_add(sparse.end().length);
            next = sparse.begin(&mut slots, end, MIN_INTERVAL);
        }
        assert!(sum.get().abs_diff(130_000_000) <= 300_000);
    }

    #[test]
    fn phase_that_ends_before_its_look_does_not_draw_it_anew() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        let first = sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        let next = sparse.look(&mut slots, first, A);
        for _ in 0..100 {
            assert_eq!(sparse.begin(&mut slots, first, MIN_INTERVAL), next);
        }
        let late = Ns::from_ms(20);
        assert!(sparse.begin(&mut slots, late, MIN_INTERVAL) >= late);
    }

    #[test]
    fn pace_for_two_that_are_never_found_in_one_phase_is_not_slow() {
        let mut pace = Pace::new();
        let (length, mut interval) = (Ns::from_ms(50), Ns::ZERO);
        for phase in 0..100 {
            let busy = |mine: bool| if mine { Ns::from_ms(10) } else { Ns::ZERO };
            let used = [busy(phase % 2 == 0), busy(phase % 2 == 1)];
            interval = pace.interval(length, false, false, used.into_iter());
        }
        assert!(interval <= MAX_INTERVAL);
    }

    #[test]
    fn bound_grows_with_the_root_of_time() {
        let one = bound(variance_us2(100, MIN_INTERVAL), MIN_INTERVAL);
        let many = bound(variance_us2(10_000, MIN_INTERVAL), MIN_INTERVAL);
        assert!(one >= Ns::from_us(5_880 + 600) && one < Ns::from_us(6_600));
        assert!(many >= Ns::from_us(58_800) && many < Ns::from_us(60_000));
        assert!(bound(u64::MAX, WATCH_INTERVAL) > many);
    }

    #[test]
    fn pace_follows_the_largest_variance() {
        let of = |parts: &[u64]| {
            let used = parts.iter().map(|part| Ns::from_us(*part));
            Pace::new().interval(Ns::from_ms(1), false, false, used)
        };
        assert_eq!(of(&[500, 500]), MIN_INTERVAL);
        assert_eq!(of(&[625, 125, 125, 125]), MIN_INTERVAL);
        assert!(of(&[10; 10]) > Ns::from_us(2_000));
        assert_eq!(of(&[1, 1]), MAX_INTERVAL);
    }

    #[test]
    fn pace_for_one_client_is_slow_after_a_while() {
        let mut pace = Pace::new();
        let (half, second) = (Ns::from_ms(500), Ns::from_ms(1000));
        let (one, both) = ([half].into_iter(), [half, half].into_iter());
        assert_eq!(
            pace.interval(second, false, false, both.clone()),
            MIN_INTERVAL
        );
        assert!(pace.interval(half, false, false, one.clone()) < WATCH_INTERVAL);
        assert_eq!(
            pace.interval(half, false, false, one.clone()),
            WATCH_INTERVAL
        );
        assert!(pace.interval(second, false, true, one) < WATCH_INTERVAL);
        assert_eq!(pace.interval(second, true, false, both), WATCH_INTERVAL);
    }
}
