// SPDX-License-Identifier: GPL-2.0

//! Tests of the rules of `credit`, `credit-slo`, `augc` and `cosched`.

use super::augc::Augmented;
use super::cosched::CoScheduled;
use super::credit::{full_slice, Credit};
use super::credit_slo::WithTargets;
use super::timeslice::{Disengaged, Engaged};
use super::token::{debt, Form};
use super::token_bench::{Bench, CLIENTS};
use super::ScanResult;
use crate::ids::GroupId;
use crate::units::{Ns, Weight};

/// Holders of the token in a number of turns.
fn holders<const TURNS: usize>(bench: &mut Bench) -> [u64; TURNS] {
    [(); TURNS].map(|()| bench.pass())
}

/// Time from each client's turns to the next ones, in ms, in a number of turns.
fn ran(bench: &mut Bench, slices: u32) -> [u64; CLIENTS] {
    let mut ran = [0; CLIENTS];
    let mut holder = bench.pass();
    for _ in 0..slices {
        let from = bench.now;
        let next = bench.pass();
        ran[holder as usize - 1] += bench.now.saturating_sub(from).get() / 1_000_000;
        holder = next;
    }
    ran
}

/// Whether times are these, but for the drain of each first turn.
fn is_near(ran: [u64; CLIENTS], wanted: [u64; CLIENTS]) -> bool {
    ran.iter()
        .zip(wanted)
        .all(|(ran, wanted)| ran.abs_diff(wanted) <= 1)
}

/// Three clients with these weights and targets.
fn targeted(weights: [u32; CLIENTS], targets: [u32; CLIENTS]) -> Bench {
    let mut bench = Bench::weighted::<WithTargets>(weights);
    for (client, target) in bench.clients.iter_mut().zip(targets) {
        client.target_pct = target;
    }
    bench
}

/// The first client had work for so long after its turn; it was its only one.
fn overused<F: Form>(late: Ns) -> Bench {
    let mut bench = Bench::of::<F>();
    assert_eq!(bench.pass(), 1);
    debt::<F>(&mut bench.clients[0]).overuse = late;
    bench
}

/// Who has the turn, by the policy and by who is throttled.
fn turn_is_of_who_runs_alone<F: Form>() {
    let mut bench = Bench::of::<F>();
    assert_eq!(bench.token.has_turn(), None);
    let mut turns = 0;
    for _ in 0..200 {
        let before = bench.token.has_turn();
        bench.scan_busy();
        let holder = bench.token.has_turn();
        match bench.holder() {
            Some(alone) => assert_eq!(holder.map(GroupId::get), Some(alone)),
            // Its last work drains; before the first turn, that of all.
            None => assert_eq!(holder, before),
        }
        turns += u32::from(holder != before);
    }
    assert!(turns > 3);
    // None wants the GPU: all run.
    for client in &mut bench.clients {
        (client.seen.pending, client.seen.blocked) = (false, false);
    }
    for _ in 0..40 {
        bench.scan();
    }
    assert!(bench.clients.iter().all(|client| !client.throttled));
    assert_eq!(bench.token.has_turn(), None);
}

#[cfg_attr(loga_kunit, kernel::macros::kunit_tests(loga_policy_credit_rules))]
mod tests {
    use super::*;

    #[test]
    fn turn_is_of_the_client_that_runs_alone_until_the_next_one() {
        turn_is_of_who_runs_alone::<Engaged>();
        turn_is_of_who_runs_alone::<Disengaged>();
        turn_is_of_who_runs_alone::<Credit>();
        turn_is_of_who_runs_alone::<WithTargets>();
        turn_is_of_who_runs_alone::<Augmented>();
        turn_is_of_who_runs_alone::<CoScheduled>();
    }

    #[test]
    fn full_turn_is_the_ratio_of_weights_in_ticks() {
        for (own, least, ms) in [
            (256, 256, 30),
            (512, 256, 60),
            (1024, 256, 120),
            // To the nearest.
            (149, 100, 30),
            (150, 100, 60),
            (10_000, 1, 500),
        ] {
            let weight = |raw| Weight::new(raw).unwrap_or_default();
            assert_eq!(full_slice(weight(own), weight(least)), Ns::from_ms(ms));
        }
    }

    #[test]
    fn credit_goes_from_the_largest_weight_to_the_smallest() {
        let mut bench = Bench::weighted::<Credit>([256, 1024, 512]);
        assert_eq!(holders(&mut bench), [2, 3, 1, 2, 3, 1]);
    }

    #[test]
    fn credit_divides_time_by_weight() {
        let mut bench = Bench::weighted::<Credit>([256, 1024, 512]);
        // Ten rounds of 1, 4 and 2 ticks.
        assert!(is_near(ran(&mut bench, 30), [300, 1200, 600]));
    }

    #[test]
    fn credit_with_equal_weights_is_a_round_robin_of_ticks() {
        let mut bench = Bench::of::<Credit>();
        assert!(is_near(ran(&mut bench, 9), [90; CLIENTS]));
        assert_eq!(holders(&mut bench), [2, 3, 1]);
    }

    #[test]
    fn client_without_work_is_not_the_least_weight() {
        let mut bench = Bench::weighted::<Credit>([1, 100, 100]);
        for _ in 0..200 {
            for client in &mut bench.clients[1..] {
                client.seen.pending = !client.throttled;
                client.seen.blocked = client.throttled;
            }
            let before = bench.holder();
            let next = bench.scan();
            assert!(next.at >= bench.now);
            assert!(bench.holder() != Some(1));
            // A turn of a tick, though the first client has a hundredth of their weight.
            if before.is_none() && bench.holder().is_some() {
                let mut scans = 0;
                while bench.holder().is_some() {
                    bench.scan();
                    scans += 1;
                }
                assert!(scans <= 31);
            }
        }
    }

    #[test]
    fn overuse_of_a_turn_skips_it_under_credit_and_cosched() {
        for mut bench in [
            overused::<Credit>(Ns::from_ms(40)),
            overused::<CoScheduled>(Ns::from_ms(40)),
        ] {
            assert_eq!(holders(&mut bench), [2, 3, 2, 3, 1]);
        }
    }

    #[test]
    fn credit_slo_without_targets_is_credit() {
        let mut bench = targeted([256, 1024, 512], [0; CLIENTS]);
        assert!(is_near(ran(&mut bench, 30), [300, 1200, 600]));
    }

    #[test]
    fn targets_are_met_whatever_the_weights_and_the_rest_goes_by_weight() {
        for (weights, targets, least) in [
            ([1024, 256, 256], [0, 60, 0], [15, 58, 0]),
            ([1024, 256, 256], [0, 60, 30], [5, 58, 28]),
            ([100, 100, 100], [10, 10, 70], [9, 9, 67]),
            ([10_000, 1, 1], [0, 45, 45], [5, 43, 43]),
        ] {
            let mut bench = targeted(weights, targets);
            // What is settled at first.
            ran(&mut bench, 100);
            let ran = ran(&mut bench, 600);
            let all: u64 = ran.iter().sum();
            let enough = ran
                .iter()
                .zip(least)
                .all(|(own, least)| own * 100 >= all * least);
            assert!(enough);
        }
    }

    #[test]
    fn client_without_a_target_waits_ten_times_as_long_as_under_credit_at_most() {
        let mut bench = targeted([100, 100, 100], [0, 45, 45]);
        let (mut since, mut longest) = (0, 0);
        for _ in 0..500 {
            let from = bench.now;
            let holder = bench.pass();
            let slice = bench.now.saturating_sub(from).get() / 1_000_000;
            since = if holder == 1 { 0 } else { since + slice };
            longest = longest.max(since);
        }
        // Three turns in order, its own among them, each with nine times as long after it.
        assert!(longest <= 10 * 3 * 30 + 60);
    }

    #[test]
    fn turns_out_of_order_last_by_what_the_turn_in_order_lasted() {
        // It is behind always, and takes all of the time that it may.
        let mut bench = targeted([10_000, 1, 1], [0, 100, 0]);
        while bench.pass() != 1 {}
        // It has no work any more, and loses its turn of 500 ms after three scans.
        while bench.holder() == Some(1) {
            bench.clients[0].seen = ScanResult::default();
            bench.clients[1].seen.blocked = true;
            bench.scan();
        }
        let since = bench.now;
        while bench.pass() != 1 {}
        // 27 ms, then turns in order of the others with nine times as long after them.
        assert!(bench.now.saturating_sub(since) <= Ns::from_ms(30 + 2 * 300 + 30));
    }

    #[test]
    fn client_that_was_far_ahead_of_its_target_has_it_again_after_a_second() {
        let mut bench = targeted([10_000, 1_000, 1_000], [30, 0, 0]);
        ran(&mut bench, 60);
        bench.clients[0].weight = Weight::new(1).unwrap_or_default();
        // It is ahead by 30 % of a second at most.
        ran(&mut bench, 10);
        let [own, second, third] = ran(&mut bench, 40);
        assert!(own * 100 >= 28 * (own + second + third));
    }

    #[test]
    fn client_that_wanted_nothing_is_not_behind() {
        let mut bench = targeted([100, 100, 100], [20, 0, 0]);
        for _ in 0..300 {
            for client in &mut bench.clients[1..] {
                client.seen.pending = !client.throttled;
                client.seen.blocked = client.throttled;
            }
            bench.scan();
        }
        // Then it has a third, as the others, and not a fifth of a second first.
        let slices: [u64; 20] = holders(&mut bench);
        assert!(slices.iter().filter(|holder| **holder == 1).count() <= 8);
    }

    #[test]
    fn augc_without_processors_divides_time_as_credit_does() {
        let mut bench = Bench::weighted::<Augmented>([256, 1024, 512]);
        let [first, second, third] = ran(&mut bench, 70);
        assert!(first.abs_diff(300) <= 30);
        assert!(second.abs_diff(1200) <= 60);
        assert!(third.abs_diff(600) <= 60);
    }

    #[test]
    fn augc_prefers_a_client_on_a_processor_but_gives_it_no_more_time() {
        let mut bench = Bench::of::<Augmented>();
        bench.pass();
        bench.clients[2].seen.cpu = Ns::from_ms(1);
        let mut first = [0; CLIENTS];
        // The first of each round of three turns.
        holders::<2>(&mut bench);
        for _ in 0..10 {
            first[bench.pass() as usize - 1] += 1;
            holders::<2>(&mut bench);
        }
        assert_eq!(first, [0, 0, 10]);
        let [one, two, three] = ran(&mut bench, 60);
        assert!(one.abs_diff(three) <= 30);
        assert!(two.abs_diff(three) <= 30);
    }

    #[test]
    fn augc_takes_overuse_from_the_next_rounds() {
        let mut bench = overused::<Augmented>(Ns::from_ms(90));
        let slices: [u64; 12] = holders(&mut bench);
        // Its turn and three more are paid.
        let of_first = slices.iter().filter(|holder| **holder == 1).count();
        assert_eq!(of_first, 2);
    }

    #[test]
    fn augc_makes_no_client_wait_longer_than_a_round_and_a_half() {
        let mut bench = Bench::weighted::<Augmented>([100, 400, 300]);
        bench.clients[1].seen.cpu = Ns::from_ms(1);
        let mut waited = [0; CLIENTS];
        for slice in 0..400 {
            // Clients 2 and 3 are on the processor by turns.
            let on = 1 + slice % 2;
            bench.clients[on].seen.cpu = Ns::from_ms(1);
            bench.clients[3 - on].seen.cpu = Ns::ZERO;
            let holder = bench.pass() as usize - 1;
            waited = waited.map(|slices| slices + 1);
            waited[holder] = 0;
            // A round has eight turns of a tick.
            assert!(waited.iter().all(|slices| *slices <= 12));
        }
    }

    #[test]
    fn cosched_takes_the_largest_weight_that_is_on_a_processor() {
        let mut bench = Bench::weighted::<CoScheduled>([300, 200, 100]);
        bench.pass();
        bench.clients[1].seen.cpu = Ns::from_ms(1);
        bench.clients[2].seen.cpu = Ns::from_ms(1);
        // In its own turn it is no other's.
        assert_eq!(holders(&mut bench), [2, 3, 2, 3]);
        bench.clients[1].seen.cpu = Ns::ZERO;
        assert_eq!(holders(&mut bench), [1, 3, 1, 3]);
    }

    #[test]
    fn cosched_passes_no_client_over_more_than_eight_times() {
        let mut bench = Bench::weighted::<CoScheduled>([300, 200, 100]);
        bench.clients[0].seen.cpu = Ns::from_ms(1);
        let slices: [u64; 100] = holders(&mut bench);
        for client in [2, 3] {
            let mut since = 0;
            for holder in slices {
                since = if holder == client { 0 } else { since + 1 };
                // Two of them may be due at once.
                assert!(since <= 8 + 1);
            }
        }
        let of_first = slices.iter().filter(|holder| **holder == 1).count();
        assert!(of_first > 70);
    }
}
