// SPDX-License-Identifier: GPL-2.0

//! Tests of the rules of `timeslice` and `timeslice-eng`, one for each.

use super::sampling::MAX_DRAIN;
use super::timeslice::{Disengaged, Engaged};
use super::token::Stage;
use super::token_bench::{Bench, CLIENTS};
use crate::ids::GroupId;
use crate::units::{Ns, Weight};

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_timeslice_rules))]
mod tests {
    use super::*;

    #[test]
    fn client_that_wants_alone_is_not_throttled() {
        let mut bench = Bench::of::<Disengaged>();
        for _ in 0..50 {
            bench.clients[1].seen.pending = true;
            bench.scan();
            assert!(bench.clients.iter().all(|client| !client.throttled));
        }
    }

    #[test]
    fn barrier_comes_before_the_first_slice() {
        let mut bench = Bench::of::<Disengaged>();
        bench.scan_busy();
        assert!(bench.clients.iter().all(|client| client.throttled));
        bench.clients[0].seen.pending = true;
        bench.scan();
        assert!(bench.clients.iter().all(|client| client.throttled));
        bench.scan_busy();
        assert_eq!(bench.holder(), Some(1));
    }

    // Regression: the holder of the token paid for another client's queue that ran on through its
    // turn.
    #[test]
    fn queue_that_outlasts_a_drain_is_charged_to_its_client() {
        let mut bench = Bench::of::<Disengaged>();
        assert_eq!(bench.pass(), 1);
        // From here on the first has work that throttling does not stop.
        let (mut slices, mut queued) = ([0u32; CLIENTS], 5_000u32);
        for _ in 0..40_000 {
            for client in &mut bench.clients {
                client.seen.pending = !client.throttled || (client.id.get() == 1 && queued > 0);
                client.seen.blocked = client.throttled;
            }
            let before = bench.holder();
            bench.scan();
            queued = queued.saturating_sub(1);
            if let Some(holder) = bench.holder().filter(|_| before.is_none()) {
                slices[holder as usize - 1] += 1;
            }
        }
        // It ran for five seconds: the others each have that before it is its turn again.
        assert!(slices[0] + 100 < slices[1]);
        assert!(slices[1].abs_diff(slices[2]) <= 1);
    }

    #[test]
    fn token_goes_round_in_the_order_of_ids() {
        for mut bench in [Bench::of::<Disengaged>(), Bench::of::<Engaged>()] {
            let mut holders = [0; 6];
            for holder in &mut holders {
                *holder = bench.pass();
            }
            assert_eq!(holders, [1, 2, 3, 1, 2, 3]);
        }
    }

    #[test]
    fn slice_is_30_ms_by_weight_and_left_alone() {
        for (weight, ms) in [(100, 30), (300, 90), (1, 1), (10_000, 500)] {
            let mut bench = Bench::of::<Disengaged>();
            bench.clients[0].weight = Weight::new(weight).unwrap_or_default();
            bench.scan_busy();
            let granted = bench.now;
            let next = bench.scan_busy();
            assert_eq!(bench.holder(), Some(1));
            assert_eq!(next.at.saturating_sub(granted), Ns::from_ms(ms));
        }
    }

    #[test]
    fn drain_that_does_not_end_is_counted_and_the_token_goes_on() {
        let mut bench = Bench::of::<Disengaged>();
        bench.scan_busy();
        let began = bench.now;
        while bench.overdue == 0 {
            bench.clients[2].seen.pending = true;
            bench.scan();
            assert!(bench.now < began.saturating_add(Ns::from_ms(20_000)));
        }
        assert!(bench.now.saturating_sub(began) >= MAX_DRAIN);
        assert!(bench.holder().is_some());
    }

    /// A first slice with work that takes `late_ms` beyond it, then the first slice of each other
    /// client.
    fn overused(late_ms: u64) -> Bench {
        let mut bench = Bench::of::<Disengaged>();
        assert_eq!(bench.pass(), 1);
        bench.scan_busy();
        for _ in 0..late_ms {
            bench.clients[0].seen.pending = true;
            bench.scan();
            assert_eq!(bench.holder(), None);
        }
        bench
    }

    #[test]
    fn overuse_shortens_the_next_slice() {
        let mut bench = overused(10);
        assert_eq!(bench.pass(), 2);
        assert_eq!(bench.pass(), 3);
        // The scan that finds the channels empty comes a millisecond later.
        bench.scan_busy();
        let granted = bench.now;
        bench.scan_busy();
        assert_eq!(bench.holder(), Some(1));
        let slice = bench.now.saturating_sub(granted);
        assert_eq!(slice, Ns::from_ms(30 - 11));
    }

    #[test]
    fn overuse_of_a_slice_and_more_skips_a_turn_and_pays_one() {
        let mut bench = overused(40);
        let mut holders = [0; 5];
        for holder in &mut holders {
            *holder = bench.pass();
        }
        assert_eq!(holders, [2, 3, 2, 3, 1]);
    }

    #[test]
    fn overuse_of_all_skips_rounds_instead_of_time() {
        let mut bench = Bench::of::<Disengaged>();
        for client in &mut bench.clients {
            client.kept.of_mut::<Disengaged>().overuse = Ns::from_ms(3_000);
        }
        bench.scan_busy();
        let before = bench.now;
        bench.scan_busy();
        assert_eq!(bench.holder(), Some(1));
        // At once, and a full slice.
        assert_eq!(bench.now.saturating_sub(before), Ns::from_ms(30));
    }

    #[test]
    fn holder_without_work_keeps_its_slice_disengaged() {
        let mut bench = Bench::of::<Disengaged>();
        bench.pass();
        let end = bench.now;
        assert_eq!(
            bench.token.stage,
            Stage::Runs {
                until: end,
                quiet: 0
            }
        );
    }

    #[test]
    fn holder_without_work_for_three_scans_gives_up_engaged() {
        let mut bench = Bench::of::<Engaged>();
        assert_eq!(bench.pass(), 1);
        let mut scans = 0;
        while bench.holder() == Some(1) {
            bench.clients[0].seen = Default::default();
            bench.scan();
            scans += 1;
        }
        assert_eq!(scans, 3);
    }

    #[test]
    fn holder_with_work_in_between_keeps_its_slice_engaged() {
        let mut bench = Bench::of::<Engaged>();
        assert_eq!(bench.pass(), 1);
        for step in 0..24 {
            bench.clients[0].seen.pending = step % 3 == 2;
            bench.scan();
            assert_eq!(bench.holder(), Some(1));
        }
    }

    #[test]
    fn holder_that_is_gone_gives_up() {
        let mut bench = Bench::of::<Engaged>();
        assert_eq!(bench.pass(), 1);
        bench.clients[0].id = GroupId::new(9);
        bench.clients[0].seen = Default::default();
        bench.scan();
        assert!(bench.clients.iter().all(|client| client.throttled));
    }

    #[test]
    fn all_clients_run_when_none_wants_the_gpu() {
        let mut bench = Bench::of::<Engaged>();
        bench.pass();
        for _ in 0..10 {
            for client in &mut bench.clients {
                client.seen = Default::default();
            }
            bench.scan();
        }
        assert!(bench.clients.iter().all(|client| !client.throttled));
    }
}
