// SPDX-License-Identifier: GPL-2.0

//! Tests of samples at random instants.

use super::sparse::*;
use super::{PhaseTotals, Slot};
use crate::ids::Chid;
use crate::regs::Occupant;
use crate::units::Ns;

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_account_sparse))]
mod tests {
    use super::*;

    const A: Occupant = Occupant::Channel(Chid::from_bits(1));
    const B: Occupant = Occupant::Channel(Chid::from_bits(2));

    /// Samples for a second an engine that shows `occupant` of a time, and returns the totals and
    /// the slots.
    fn second_of(seed: u64, occupant: fn(u64) -> Occupant) -> (PhaseTotals, [Slot; 4]) {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(seed);
        let start = Ns::from_ms(1000);
        let mut next = sparse.begin(&mut slots, start, MIN_INTERVAL);
        while next < Ns::from_ms(2000) {
            next = sparse.sample(&mut slots, next, occupant(next.get()));
        }
        (sparse.end(), slots)
    }

    #[test]
    fn time_charged_adds_up_to_the_strata() {
        let (totals, slots) = second_of(1, |now| if now % 3_000_000 < 1_000_000 { A } else { B });
        assert!(totals.length.get().abs_diff(1_000_000_000) < 300_000);
        assert_eq!(totals.ran, totals.length);
        let sum = slots[1].ran.saturating_add(slots[2].ran);
        assert_eq!(sum, totals.length);
    }

    #[test]
    fn client_that_never_stops_has_no_variance() {
        let (totals, slots) = second_of(1, |_| A);
        assert_eq!(slots[1].ran, totals.length);
        assert_eq!(slots[1].runs, 1);
        assert_eq!(variance_us2(1, MIN_INTERVAL), 90_000);
    }

    // A client that runs in step with the strata, or with any multiple of them.
    #[test]
    fn client_in_step_with_the_samples_gets_its_share() {
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
        for occupant in in_step {
            let mut sum = 0;
            for seed in 1..=10 {
                sum += second_of(seed, occupant).1[1].ran.get();
            }
            // A fifth of ten seconds; four standard deviations are 88 ms.
            assert!(sum.abs_diff(2_000_000_000) < 90_000_000);
        }
    }

    // Strata far longer than a round of the client: the worst case, in which they gain nothing.
    #[test]
    fn bound_holds_in_95_of_100_windows() {
        const WINDOWS: u64 = 200;
        const LENGTH: u64 = 4_000_000_000;
        const ROUND: u64 = 1_035_000;
        const BUSY: u64 = 600_000;
        let (mut beyond, mut far_beyond, mut sum) = (0, 0, 0);
        for seed in 1..=WINDOWS {
            let mut slots = [Slot::default(); 2];
            // As the kernel does: it draws from the time at which it began.
            let start = seed * 77_777_777;
            let mut sparse = Sparse::new(start);
            let mut next = sparse.begin(&mut slots, Ns::new(start), UNSHARED_INTERVAL);
            while next < Ns::new(start + LENGTH) {
                let is_busy = next.get() % ROUND < BUSY;
                let occupant = if is_busy { A } else { Occupant::Idle };
                next = sparse.sample(&mut slots, next, occupant);
            }
            let real = sparse.end().length.get() / ROUND * BUSY;
            let error = slots[1].ran.get().abs_diff(real);
            let variance = variance_us2(slots[1].runs.into(), UNSHARED_INTERVAL);
            let stated = bound(variance, UNSHARED_INTERVAL).get();
            beyond += u64::from(error > stated);
            far_beyond += u64::from(error > stated * 2);
            sum += slots[1].ran.get() / 1_000;
        }
        // 5 of 100, and three standard deviations of such a count.
        assert!(beyond <= 19);
        assert_eq!(far_beyond, 0);
        // It is right on average: four standard deviations, each 99 ms in a window, are 28 ms.
        let mean = sum * 1_000 / WINDOWS;
        assert!(mean.abs_diff(LENGTH / ROUND * BUSY) < 28_000_000);
    }

    #[test]
    fn timer_that_comes_late_loses_no_time() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        sparse.sample(&mut slots, Ns::from_us(12_600), A);
        // Eight whole strata and the one in which it is.
        assert_eq!(sparse.end().length, Ns::from_us(2_700));
        assert_eq!(slots[1].ran, Ns::from_us(2_700));
    }

    #[test]
    fn stratum_without_a_sample_goes_to_the_next_phase() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        let mut next = sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        let mut sum = Ns::ZERO;
        for phase in 1..=100u64 {
            let end = Ns::from_us(10_000 + phase * 1_300);
            while next < end {
                next = sparse.sample(&mut slots, next, A);
            }
            sum = sum.saturating_add(sparse.end().length);
            next = sparse.begin(&mut slots, end, MIN_INTERVAL);
        }
        assert!(sum.get().abs_diff(130_000_000) <= 300_000);
    }

    #[test]
    fn phase_that_ends_before_its_sample_does_not_draw_it_anew() {
        let mut slots = [Slot::default(); 4];
        let mut sparse = Sparse::new(7);
        let first = sparse.begin(&mut slots, Ns::from_ms(10), MIN_INTERVAL);
        let next = sparse.sample(&mut slots, first, A);
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
            interval = pace.interval(length, false, false, false, used.into_iter());
        }
        assert!(interval <= MAX_INTERVAL);
    }

    #[test]
    fn bound_grows_with_the_root_of_time() {
        let one = bound(variance_us2(100, MIN_INTERVAL), MIN_INTERVAL);
        let many = bound(variance_us2(10_000, MIN_INTERVAL), MIN_INTERVAL);
        assert!(one >= Ns::from_us(5_880 + 600));
        assert!(one < Ns::from_us(6_600));
        assert!(many >= Ns::from_us(58_800));
        assert!(many < Ns::from_us(60_000));
        assert!(bound(u64::MAX, UNSHARED_INTERVAL) > many);
    }

    #[test]
    fn pace_follows_the_largest_variance() {
        let of = |parts: &[u64]| {
            let used = parts.iter().map(|part| Ns::from_us(*part));
            Pace::new().interval(Ns::from_ms(1), false, false, false, used)
        };
        assert_eq!(of(&[500, 500]), MIN_INTERVAL);
        assert_eq!(of(&[625, 125, 125, 125]), MIN_INTERVAL);
        assert!(of(&[10; 10]) > Ns::from_us(2_000));
        assert_eq!(of(&[1, 1]), MAX_INTERVAL);
    }

    #[test]
    fn pace_after_a_client_was_throttled_is_that_of_before() {
        let mut pace = Pace::new();
        let phase = Ns::from_ms(144);
        let both = [Ns::from_ms(72), Ns::from_ms(72)];
        let other = [Ns::ZERO, phase];
        // The first is throttled in the next phase, in which the other one runs alone.
        pace.interval(phase, false, false, true, both.into_iter());
        let alone = pace.interval(phase, false, false, true, other.into_iter());
        assert_eq!(alone, MAX_INTERVAL);
        // It runs again in the next one.
        let again = pace.interval(phase, false, false, false, other.into_iter());
        assert_eq!(again, MIN_INTERVAL);
        // It does not run any more.
        pace.interval(phase, false, false, false, other.into_iter());
        let gone = pace.interval(phase, false, false, false, other.into_iter());
        assert_eq!(gone, MAX_INTERVAL);
    }

    #[test]
    fn pace_for_one_client_is_slow_after_a_while() {
        let mut pace = Pace::new();
        let (half, second) = (Ns::from_ms(500), Ns::from_ms(1000));
        let (one, both) = ([half].into_iter(), [half, half].into_iter());
        assert_eq!(
            pace.interval(second, false, false, false, both.clone()),
            MIN_INTERVAL
        );
        assert!(pace.interval(half, false, false, false, one.clone()) < UNSHARED_INTERVAL);
        assert_eq!(
            pace.interval(half, false, false, false, one.clone()),
            UNSHARED_INTERVAL
        );
        assert!(pace.interval(second, false, true, false, one) < UNSHARED_INTERVAL);
        assert_eq!(
            pace.interval(second, true, false, false, both),
            UNSHARED_INTERVAL
        );
    }
}
