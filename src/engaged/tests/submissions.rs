// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what happens to clients that wait, hold the engine, or stop doing so.

use super::{
    Client, Kind, Mode, Prio, Record, Setting, Step, Submissions, Terms, BACKGROUND, HT_DEPTH,
    HT_SLICE, MAX_GRANT, RECORDS,
};
use crate::policies::dispatch::DispatcherKind;
use crate::units::Ns;
use crate::Vectors;
use std::vec;
use std::vec::Vec;

pub(super) const US: fn(u64) -> Ns = Ns::from_us;

pub(super) fn engine(kind: DispatcherKind, settings: &[Setting]) -> Submissions<Vectors> {
    let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
    let clients: Vec<_> = (0..8).map(|_| vacant()).collect();
    let mut engine = Submissions::new(kind, clients, vec![None; 8]);
    for setting in settings {
        engine.join(*setting).unwrap();
    }
    engine
}

fn client(prio: u32, mode: Mode) -> Setting {
    Setting {
        prio: Prio::new(prio).unwrap(),
        mode,
        reserve: BACKGROUND,
    }
}

pub(super) fn prt(prio: u32) -> Setting {
    client(prio, Mode::Prt)
}

pub(super) fn ht(prio: u32) -> Setting {
    client(prio, Mode::Ht)
}

pub(super) fn prio(settings: &[Setting]) -> Submissions<Vectors> {
    engine(DispatcherKind::Prio, settings)
}

pub(super) fn granted(step: Step) -> Option<usize> {
    step.grant.map(|grant| grant.client)
}

#[test]
fn arrival_at_an_idle_engine_passes() {
    let mut engine = prio(&[prt(1)]);
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    assert_eq!(engine.holder(), Some(0));
}

#[test]
fn arrival_under_prt_waits_for_its_own_submission() {
    let mut engine = prio(&[prt(1)]);
    engine.arrive(US(0), 0);
    assert_eq!(granted(engine.arrive(US(1), 0)), None);
    assert_eq!(granted(engine.completed(US(2), 0, US(2))), Some(0));
}

#[test]
fn completion_passes_the_engine_to_the_highest_priority_at_once() {
    let mut engine = prio(&[prt(1), prt(5), prt(3)]);
    engine.arrive(US(0), 0);
    for at in [0, 2, 1] {
        assert_eq!(granted(engine.arrive(US(1), at)), None);
    }
    let order = [1, 2, 0].map(Some);
    let mut holder = 0;
    for next in order {
        let step = engine.completed(US(2), holder, US(1));
        assert_eq!(granted(step), next);
        holder = next.unwrap();
    }
}

#[test]
fn equal_priorities_pass_in_the_order_of_their_arrival() {
    let mut engine = prio(&[prt(1), prt(1), prt(1)]);
    engine.arrive(US(0), 0);
    for at in [2, 0, 1] {
        engine.arrive(US(1), at);
    }
    assert_eq!(granted(engine.completed(US(2), 0, US(1))), Some(2));
    engine.arrive(US(3), 2);
    assert_eq!(granted(engine.completed(US(4), 2, US(1))), Some(0));
    assert_eq!(granted(engine.completed(US(5), 0, US(1))), Some(1));
}

#[test]
fn ht_submits_beside_its_own_up_to_a_depth() {
    let mut engine = prio(&[ht(1)]);
    for _ in 0..HT_DEPTH {
        assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    }
    assert_eq!(granted(engine.arrive(US(1), 0)), None);
    assert_eq!(granted(engine.completed(US(2), 0, US(2))), Some(0));
}

#[test]
fn ht_adds_nothing_while_a_higher_priority_is_ready() {
    let mut engine = prio(&[ht(1), prt(2)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(0), 0);
    assert_eq!(granted(engine.arrive(US(1), 1)), None);
    assert_eq!(granted(engine.arrive(US(1), 0)), None);
    assert_eq!(granted(engine.completed(US(2), 0, US(2))), None);
    assert_eq!(granted(engine.completed(US(3), 0, US(1))), Some(1));
}

#[test]
fn ht_beside_an_equal_goes_on_for_a_slice_only() {
    let mut engine = prio(&[ht(1), ht(1)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(1), 1);
    // It always has something queued.
    let mut now = US(1);
    while now < HT_SLICE {
        assert_eq!(granted(engine.arrive(now, 0)), Some(0));
        now = now.saturating_add(US(100));
        assert_eq!(granted(engine.completed(now, 0, US(100))), None);
    }
    assert_eq!(granted(engine.arrive(now, 0)), None);
    assert_eq!(granted(engine.completed(now, 0, US(100))), Some(1));
}

#[test]
fn ht_beside_a_lower_priority_keeps_the_engine() {
    let mut engine = prio(&[ht(2), prt(1)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(0), 1);
    let late = HT_SLICE.saturating_mul(5);
    assert_eq!(granted(engine.arrive(late, 0)), Some(0));
}

/// One client without anything left until 10 ms, and one of the background.
fn exhausted() -> Submissions<Vectors> {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Pe, US(1000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(9) }).unwrap();
    engine.join(prt(1)).unwrap();
    engine.arrive(US(0), 0);
    engine.completed(US(1500), 0, US(1500));
    engine
}

#[test]
fn client_without_budget_does_not_take_the_turn_from_one_that_is_ready() {
    let mut engine = exhausted();
    let step = engine.arrive(US(1500), 0);
    assert_eq!((step.grant, step.timer), (None, Some(US(10_000))));
    assert_eq!(granted(engine.arrive(US(1600), 1)), Some(1));
    engine.arrive(US(1700), 1);
    // It is of higher priority, but has nothing left.
    assert_eq!(granted(engine.completed(US(1800), 1, US(100))), Some(1));
}

#[test]
fn replenishment_lets_a_client_pass() {
    let mut engine = exhausted();
    engine.arrive(US(1500), 0);
    assert_eq!(granted(engine.timer(US(9_999))), None);
    assert_eq!(granted(engine.timer(US(10_000))), Some(0));
}

#[test]
fn replenishment_while_another_runs_counts_at_its_completion() {
    let mut engine = exhausted();
    engine.arrive(US(1500), 0);
    engine.arrive(US(9000), 1);
    engine.arrive(US(9001), 1);
    assert_eq!(granted(engine.completed(US(10_001), 1, US(1000))), Some(0));
}

#[test]
fn waiter_that_dies_gets_no_grant() {
    let mut engine = prio(&[prt(1), prt(5), prt(3)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(1), 1);
    engine.arrive(US(1), 2);
    engine.withdrawn(US(2), 1);
    assert_eq!(granted(engine.completed(US(3), 0, US(3))), Some(2));
    assert_eq!(granted(engine.completed(US(4), 2, US(1))), None);
}

#[test]
fn holder_that_dies_passes_the_turn_on() {
    let mut engine = prio(&[ht(5), prt(1)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(0), 0);
    engine.arrive(US(1), 1);
    assert_eq!(granted(engine.left(US(2), 0)), Some(1));
    // Its completion may still come.
    assert_eq!(granted(engine.completed(US(3), 0, US(3))), None);
    assert_eq!(engine.holder(), Some(1));
    assert!(engine.client(0).is_none());
}

#[test]
fn holder_that_does_not_submit_passes_the_turn_on_and_pays() {
    let mut engine = exhausted();
    engine.arrive(US(10_000), 0);
    engine.arrive(US(10_001), 1);
    let before = engine.reserve(1).unwrap().left(US(10_020));
    assert_eq!(granted(engine.returned(US(10_020), 0)), Some(1));
    assert_eq!(before - engine.reserve(1).unwrap().left(US(10_020)), 20_000);
    assert_eq!(engine.counters().unused, 1);
}

#[test]
fn completion_that_never_comes_lets_all_pass_after_the_bound() {
    let mut engine = prio(&[prt(1), prt(9)]);
    engine.arrive(US(0), 0);
    assert_eq!(engine.arrive(US(5), 1).timer, Some(MAX_GRANT));
    let before = Ns::new(MAX_GRANT.get() - 1);
    assert!(!engine.timer(before).opened);
    assert!(engine.timer(MAX_GRANT).opened);
    assert!(engine.is_open());
    let later = MAX_GRANT.saturating_add(US(1));
    assert_eq!(granted(engine.arrive(later, 1)), Some(1));
    assert_eq!(granted(engine.arrive(later, 1)), Some(1));
    // The late completion ends it.
    engine.completed(MAX_GRANT.saturating_mul(2), 0, MAX_GRANT);
    assert!(!engine.is_open());
    assert_eq!(engine.counters().opens, 1);
}

#[test]
fn completion_that_never_comes_opens_nothing_while_no_client_waits() {
    let mut engine = prio(&[prt(1)]);
    engine.arrive(US(0), 0);
    assert!(!engine.timer(MAX_GRANT).opened);
}

#[test]
fn open_engine_closes_when_the_holder_is_gone() {
    let mut engine = prio(&[prt(1), prt(9)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(0), 1);
    assert!(engine.timer(MAX_GRANT).opened);
    engine.left(MAX_GRANT, 0);
    assert!(!engine.is_open());
}

#[test]
fn priority_that_changes_while_waiting_counts_at_the_next_selection() {
    let mut engine = prio(&[prt(1), prt(5), prt(3)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(1), 1);
    engine.arrive(US(1), 2);
    engine.set(US(2), 2, prt(7));
    assert_eq!(granted(engine.completed(US(3), 0, US(3))), Some(2));
    // Its place among equals stays that of its arrival.
    engine.arrive(US(4), 0);
    engine.set(US(4), 0, prt(5));
    assert_eq!(granted(engine.completed(US(5), 2, US(1))), Some(1));
}

#[test]
fn reserve_that_is_shared_counts_what_all_use() {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Pe, US(1000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    for _ in 0..5 {
        engine.join(Setting { reserve, ..prt(3) }).unwrap();
    }
    let mut used = 0;
    let mut now = US(0);
    for at in 0..5 {
        if granted(engine.arrive(now, at)).is_some() {
            now = now.saturating_add(US(600));
            engine.completed(now, at, US(600));
            used += 1;
        }
    }
    assert_eq!(used, 2);
    assert_eq!(engine.reserve(reserve).unwrap().left(now), -200_000);
}

#[test]
fn reserve_up_to_its_part_comes_first_and_beyond_it_last() {
    for dispatcher in DispatcherKind::ALL {
        let mut engine = engine(*dispatcher, &[]);
        let terms = Terms::new(Kind::Pe, US(1000), US(10_000)).unwrap();
        let soft = Terms {
            hard: false,
            ..terms
        };
        let reserve = engine.promise(US(0), soft).unwrap();
        engine.join(Setting { reserve, ..prt(0) }).unwrap();
        engine.join(prt(30)).unwrap();
        assert_eq!(granted(engine.arrive(US(0), 1)), Some(1));
        engine.arrive(US(1), 0);
        engine.arrive(US(1), 1);
        assert_eq!(granted(engine.completed(US(5_000), 1, US(5_000))), Some(0));
        engine.arrive(US(5_000), 0);
        assert_eq!(granted(engine.completed(US(6_000), 0, US(1_000))), Some(1));
        // Nobody else wants it.
        assert_eq!(granted(engine.completed(US(6_500), 1, US(500))), Some(0));
    }
}

#[test]
fn commands_longer_than_twice_their_forecast_cost_the_longest_from_then_on() {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Cbs, US(1000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(3) }).unwrap();
    let mut now = US(0);
    for round in 0..40_u64 {
        let step = engine.arrive(now, 0);
        if step.grant.is_none() {
            now = step.timer.unwrap();
            assert_eq!(granted(engine.timer(now)), Some(0));
        }
        let used = match round % 4 {
            3 => US(200 + 100 * round * round),
            _ => US(10),
        };
        now = now.saturating_add(used);
        engine.completed(now, 0, used);
    }
    assert_eq!(engine.counters().doubted, 1);
    let client = engine.client(0).unwrap();
    assert_eq!(client.forecast().charge(false), client.history().longest());
    assert_eq!(engine.reserve(reserve).unwrap().terms().kind, Kind::Cbs);
}

#[test]
fn edf_passes_the_earliest_deadline_first() {
    let mut engine = engine(DispatcherKind::Edf, &[prt(39)]);
    for period in [20_000, 10_000] {
        let terms = Terms::new(Kind::Cbs, US(1000), US(period)).unwrap();
        let longest = Some(US(500));
        let reserve = engine.promise(US(0), Terms { longest, ..terms }).unwrap();
        engine.join(Setting { reserve, ..prt(1) }).unwrap();
    }
    engine.arrive(US(0), 0);
    engine.arrive(US(1), 0);
    engine.arrive(US(1), 1);
    engine.arrive(US(1), 2);
    assert_eq!(granted(engine.completed(US(2), 0, US(2))), Some(2));
    assert_eq!(granted(engine.completed(US(3), 2, US(1))), Some(1));
    assert_eq!(granted(engine.completed(US(4), 1, US(1))), Some(0));
}

#[test]
fn apriori_of_a_client_that_pays_for_switches_does_not_starve_it() {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Ae, US(1000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(1) }).unwrap();
    engine.join(prt(0)).unwrap();
    let (mut now, mut got) = (US(0), 0);
    // Its commands take 3 ms, and 0.2 ms more after a switch; there is one before each after 0.5 s.
    while now < US(1_500_000) {
        let alone = now < US(500_000);
        let step = engine.arrive(now, 0);
        let step = if alone { step } else { engine.arrive(now, 1) };
        let Some(holder) = granted(step).or(engine.holder()) else {
            now = step.timer.unwrap();
            engine.timer(now);
            continue;
        };
        let used = match (holder, alone) {
            (0, true) => US(3000),
            (0, false) => US(3200),
            _ => US(500),
        };
        now = now.saturating_add(used);
        got += u32::from(holder == 0 && !alone);
        engine.completed(now, holder, used);
    }
    assert!(got >= 20, "{got} commands");
}

#[test]
fn client_beyond_the_room_is_refused() {
    let mut engine = prio(&[prt(1); 8]);
    assert_eq!(engine.join(prt(1)), None);
    engine.left(US(0), 3);
    assert_eq!(engine.join(prt(1)), Some(3));
}

#[test]
fn overdue_client_waits_while_the_others_pass_and_comes_after_what_it_ran_beside_them() {
    let mut engine = prio(&[prt(1), prt(5)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(10), 0);
    engine.arrive(US(20), 1);
    let step = engine.timer(MAX_GRANT);
    assert!(step.opened);
    assert!(engine.is_open_for(1));
    assert!(!engine.is_open_for(0));
    assert_eq!(granted(engine.arrive(MAX_GRANT, 1)), Some(1));
    assert_eq!(granted(engine.arrive(MAX_GRANT, 0)), None);
    // It goes on for 30 ms, of which it has 10 ms free of charge.
    let end = Ns::from_ms(2_030);
    let step = engine.completed(end, 0, end);
    assert_eq!((granted(step), engine.is_open()), (None, false));
    let again = step.timer.unwrap();
    assert!(again > Ns::from_ms(2_030 + 20_000));
    assert!(again < Ns::from_ms(2_030 + 31_000));
    assert_eq!(granted(engine.timer(again)), Some(0));
}

#[test]
fn overdue_client_pays_nothing_to_those_that_come_after_it() {
    let mut engine = prio(&[prt(5), prt(5)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(10), 0);
    engine.arrive(US(20), 1);
    assert!(engine.timer(MAX_GRANT).opened);
    assert_eq!(
        granted(engine.completed(Ns::from_ms(2_030), 0, US(1))),
        Some(0)
    );
}

#[test]
fn work_beside_the_turn_of_a_client_that_comes_before_is_paid() {
    let mut engine = prio(&[prt(1), prt(5)]);
    engine.arrive(US(0), 1);
    engine.arrive(US(0), 0);
    assert!(engine.ran_beside(Ns::from_ms(40), 0, Ns::from_ms(30)));
    assert!(!engine.ran_beside(Ns::from_ms(40), 1, Ns::from_ms(30)));
    let step = engine.completed(Ns::from_ms(40), 1, US(1));
    assert_eq!(granted(step), None);
    let again = step.timer.unwrap();
    assert!(again > Ns::from_ms(20_000));
    assert!(again < Ns::from_ms(31_000));
    assert_eq!(granted(engine.timer(again)), Some(0));
}
