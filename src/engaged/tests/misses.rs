// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of deadlines that are missed.

use super::submissions::{engine, granted, ht, prt, US};
use super::{
    Client, Kind, Miss, Mode, Owed, Record, Setting, Step, Submissions, Terms, Void, MAX_GRANT,
    RECORDS, SHARED_QUEUE,
};
use crate::policies::dispatch::DispatcherKind;
use crate::units::Ns;
use crate::Vectors;
use std::vec;

/// Client 0 with 2 ms in 10 ms, and a longest command if it is declared; client 1 without a reserve.
fn promised(dispatcher: DispatcherKind, kind: Kind, longest: Option<Ns>) -> Submissions<Vectors> {
    let mut engine = engine(dispatcher, &[]);
    let terms = Terms::new(kind, US(2_000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), Terms { longest, ..terms }).unwrap();
    engine.join(Setting { reserve, ..prt(1) }).unwrap();
    engine.join(prt(9)).unwrap();
    engine
}

fn edf(kind: Kind) -> Submissions<Vectors> {
    promised(DispatcherKind::Edf, kind, Some(US(1_000)))
}

/// Client 1 is on the engine until then, and client 0 has come 1 ms after it; then that one uses the
/// engine for 0.5 ms.
fn behind(engine: &mut Submissions<Vectors>, until: u64) -> Option<Miss> {
    engine.arrive(US(0), 1);
    assert_eq!(granted(engine.arrive(US(1_000), 0)), None);
    let step = engine.completed(US(until), 1, US(until));
    assert_eq!(granted(step), Some(0));
    engine.completed(US(until + 500), 0, US(500)).miss
}

fn void(miss: Option<Miss>) -> Option<Void> {
    miss.expect("nothing was missed").void
}

#[test]
fn submission_that_ends_in_time_is_no_miss() {
    for kind in [Kind::Pe, Kind::Ae, Kind::Cbs] {
        // Due at 11 ms.
        let mut engine = edf(kind);
        assert_eq!(behind(&mut engine, 10_500), None, "{kind:?}");
        let misses = engine.reserve(1).unwrap().served().misses;
        assert_eq!(misses, Default::default());
    }
}

#[test]
fn late_submission_is_promised_while_all_conditions_hold() {
    let mut engine = edf(Kind::Cbs);
    engine.set_bound(1, Some(US(12_000)));
    let miss = behind(&mut engine, 12_000);
    let expected = Miss {
        client: 0,
        late: US(1_500),
        void: None,
    };
    assert_eq!(miss, Some(expected));
    assert_eq!(engine.reserve(1).unwrap().served().misses.promised, 1);
    assert_eq!(engine.counters().misses.promised, 1);
}

#[test]
fn only_a_firm_reserve_promises_a_deadline() {
    for (kind, longest) in [
        (Kind::Pe, Some(US(1_000))),
        (Kind::Ae, Some(US(1_000))),
        (Kind::Cbs, None),
    ] {
        let mut engine = promised(DispatcherKind::Edf, kind, longest);
        assert_eq!(behind(&mut engine, 30_000), None, "{kind:?}");
        assert_eq!(engine.counters().misses, Default::default());
    }
}

#[test]
fn deadline_that_is_promised_comes_before_an_earlier_one_that_is_not() {
    let mut engine = edf(Kind::Cbs);
    let terms = Terms::new(Kind::Pe, US(1_000), US(5_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(39) }).unwrap();
    engine.arrive(US(0), 1);
    engine.arrive(US(100), 2);
    engine.arrive(US(200), 0);
    assert_eq!(granted(engine.completed(US(300), 1, US(300))), Some(0));
    assert_eq!(granted(engine.completed(US(400), 0, US(100))), Some(2));
}

#[test]
fn client_with_a_command_longer_than_a_deadline_bears_gets_no_grant_until_that_is_paid() {
    let mut engine = edf(Kind::Cbs);
    engine.set_bound(1, Some(US(5_000)));
    engine.arrive(US(0), 1);
    engine.completed(US(5_000), 1, US(5_000));
    assert_eq!(engine.counters().exceeded, 0);
    assert_eq!(granted(engine.arrive(US(5_000), 1)), Some(1));
    // 8 ms too much, of which four fifths of the time would pay.
    engine.completed(US(18_000), 1, US(13_000));
    let step = engine.arrive(US(18_000), 1);
    assert_eq!((granted(step), step.timer), (None, Some(US(28_000))));
    assert_eq!(engine.counters().exceeded, 1);
    // The other one does not wait for that.
    assert_eq!(granted(engine.arrive(US(18_100), 0)), Some(0));
}

#[test]
fn miss_behind_a_command_longer_than_its_deadline_bears_is_void() {
    let mut engine = edf(Kind::Cbs);
    engine.set_bound(1, Some(US(11_999)));
    assert_eq!(void(behind(&mut engine, 12_000)), Some(Void::Foreign));
    let misses = engine.reserve(1).unwrap().served().misses;
    assert_eq!((misses.promised, misses.void(Void::Foreign)), (0, 1));
    // Nothing of it is left for those that come later.
    let mut late = |from: u64| {
        engine.arrive(US(from), 1);
        engine.arrive(US(from + 100), 0);
        engine.completed(US(from + 11_000), 1, US(11_000));
        engine.completed(US(from + 11_500), 0, US(500)).miss
    };
    assert_eq!(void(late(50_000)), None);
}

#[test]
fn client_without_promised_deadlines_keeps_none_void() {
    let mut engine = edf(Kind::Cbs);
    engine.set_bound(1, Some(US(5_000)));
    let terms = Terms::new(Kind::Pe, US(1_000), US(10_000)).unwrap();
    let soft = Terms {
        hard: false,
        ..terms
    };
    let reserve = engine.promise(US(0), soft).unwrap();
    engine.join(Setting { reserve, ..prt(1) }).unwrap();
    engine.arrive(US(0), 1);
    engine.arrive(US(0), 2);
    // Too long; then the soft one goes on without a pause.
    assert_eq!(granted(engine.completed(US(6_000), 1, US(6_000))), Some(2));
    engine.arrive(US(6_000), 2);
    assert_eq!(engine.reserve(1).unwrap().disturbed(), None);
}

#[test]
fn client_of_the_wait_queue_of_all_users_waits_for_a_second_at_most() {
    for (at, most) in [(1, 100_000), (SHARED_QUEUE, 1_000)] {
        let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
        let clients = (0..=SHARED_QUEUE).map(|_| vacant()).collect();
        let mut engine = Submissions::<Vectors>::new(DispatcherKind::Edf, clients, vec![None; 3]);
        let terms = Terms::new(Kind::Cbs, US(9_000), US(10_000)).unwrap();
        engine.promise(US(0), terms).unwrap();
        engine.set_bound(1, Some(US(100)));
        engine.join_at(at, prt(1), Owed::default());
        engine.arrive(US(0), at);
        engine.completed(US(1_900_000), at, US(1_900_000));
        let step = engine.arrive(US(1_900_000), at);
        let waits = step.timer.unwrap().saturating_sub(US(1_900_000));
        assert!(waits >= US(1_000_000), "{at}: {waits:?}");
        assert!(waits <= Ns::from_ms(most), "{at}: {waits:?}");
    }
}

#[test]
fn miss_of_what_queued_up_behind_a_long_command_is_void_too() {
    let mut engine = edf(Kind::Cbs);
    engine.set_bound(1, Some(US(5_000)));
    let other = Terms::new(Kind::Cbs, US(4_000), US(10_000)).unwrap();
    let longest = Some(US(1_000));
    let other = Terms { longest, ..other };
    let reserve = engine.promise(US(0), other).unwrap();
    engine.join(Setting { reserve, ..prt(1) }).unwrap();
    engine.arrive(US(0), 1);
    engine.arrive(US(100), 2);
    engine.arrive(US(3_000), 0);
    // Due at 13 ms; the other one is first.
    let first = granted(engine.completed(US(13_000), 1, US(13_000)));
    let second = if first == Some(0) { 2 } else { 0 };
    engine.completed(US(13_900), first.unwrap(), US(900));
    let miss = engine.completed(US(14_800), second, US(900)).miss;
    assert_eq!(void(miss), Some(Void::Foreign));
}

#[test]
fn miss_of_a_client_with_a_command_longer_than_it_has_left_or_declared_is_void() {
    let mut engine = edf(Kind::Cbs);
    engine.arrive(US(0), 1);
    engine.arrive(US(1_000), 0);
    engine.completed(US(10_000), 1, US(10_000));
    let miss = engine.completed(US(11_100), 0, US(1_100)).miss;
    assert_eq!(void(miss), Some(Void::Own));
    // Three commands of 0.9 ms, of which 2 ms are left before the first.
    let mut engine = edf(Kind::Cbs);
    let terms = *engine.reserve(1).unwrap().terms();
    engine.set_reserve(
        US(0),
        1,
        Some(Terms {
            commands: 3,
            ..terms
        }),
    );
    for at in [1_000, 1_900] {
        assert_eq!(granted(engine.arrive(US(at), 0)), Some(0));
        assert_eq!(engine.completed(US(at + 900), 0, US(900)).miss, None);
    }
    engine.arrive(US(2_800), 1);
    engine.arrive(US(2_800), 0);
    engine.completed(US(12_500), 1, US(9_700));
    let miss = engine.completed(US(13_400), 0, US(900)).miss;
    assert_eq!(void(miss), Some(Void::Own));
}

#[test]
fn miss_behind_protected_work_is_void() {
    let mut engine = edf(Kind::Cbs);
    engine.protected(US(0), true);
    assert_eq!(granted(engine.arrive(US(1_000), 0)), None);
    assert_eq!(granted(engine.protected(US(12_000), false)), Some(0));
    let miss = engine.completed(US(12_500), 0, US(500)).miss;
    assert_eq!(void(miss), Some(Void::Foreign));
}

#[test]
fn miss_beside_work_that_was_not_decided_on_is_void() {
    let mut engine = edf(Kind::Cbs);
    engine.arrive(US(0), 0);
    let Step { miss, .. } = engine.completed_beside_others(US(11_000), 0, US(11_000));
    assert_eq!(void(miss), Some(Void::Fallback));
    // And that of one that waited meanwhile.
    let mut engine = edf(Kind::Cbs);
    engine.arrive(US(0), 1);
    engine.arrive(US(1_000), 0);
    engine.completed_beside_others(US(12_000), 1, US(12_000));
    let miss = engine.completed(US(12_500), 0, US(500)).miss;
    assert_eq!(void(miss), Some(Void::Fallback));
}

#[test]
fn overdue_wait_that_ends_since_all_have_to_pass_is_a_void_miss() {
    let mut engine = edf(Kind::Cbs);
    engine.arrive(US(0), 1);
    engine.arrive(US(1_000), 0);
    assert!(engine.timer(MAX_GRANT).opened);
    let misses = engine.reserve(1).unwrap().served().misses;
    assert_eq!((misses.promised, misses.void(Void::Fallback)), (0, 1));
    assert_eq!(engine.counters().misses, misses);
}

#[test]
fn miss_of_a_client_that_others_pass_by_priority_is_void() {
    let mut engine = promised(DispatcherKind::Prio, Kind::Cbs, Some(US(1_000)));
    let terms = Terms::new(Kind::Pe, US(9_000), US(100_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(30) }).unwrap();
    engine.arrive(US(0), 1);
    engine.arrive(US(1_000), 0);
    engine.arrive(US(1_000), 2);
    assert_eq!(granted(engine.completed(US(4_000), 1, US(4_000))), Some(2));
    assert_eq!(granted(engine.completed(US(12_000), 2, US(8_000))), Some(0));
    let miss = engine.completed(US(12_500), 0, US(500)).miss;
    assert_eq!(void(miss), Some(Void::Order));
}

#[test]
fn soft_reserve_that_pays_afterwards_promises_no_deadline() {
    let mut engine = engine(DispatcherKind::Edf, &[]);
    let terms = Terms::new(Kind::Pe, US(2_000), US(10_000)).unwrap();
    let soft = Terms {
        hard: false,
        ..terms
    };
    let reserve = engine.promise(US(0), soft).unwrap();
    let mode = Mode::Prt;
    engine
        .join(Setting {
            reserve,
            mode,
            ..prt(1)
        })
        .unwrap();
    engine.join(prt(9)).unwrap();
    assert_eq!(behind(&mut engine, 30_000), None);
}

/// A firm reserve of these, in us.
fn firm(capacity: u64, period: u64, longest: u64, commands: u64) -> Terms {
    let terms = Terms::new(Kind::Cbs, US(capacity), US(period)).unwrap();
    let longest = Some(US(longest));
    Terms { longest, ..terms }.declared(commands).unwrap()
}

#[test]
fn miss_behind_more_in_flight_than_the_mode_of_its_client_allows_is_void() {
    let mut engine = engine(DispatcherKind::Edf, &[]);
    engine.set_reserve(US(0), 1, Some(firm(8_000, 100_000, 2_000, 4)));
    let many = Setting {
        reserve: 1,
        ..ht(5)
    };
    engine.join(many).unwrap();
    for _ in 0..4 {
        assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    }
    let one = Setting {
        mode: Mode::Prt,
        ..many
    };
    engine.set(US(10), 0, one);
    // Admission counts with one at a time.
    engine.set_reserve(US(20), 2, Some(firm(1_000, 5_000, 1_000, 1)));
    engine.set_bound(2, Some(US(3_500)));
    engine.join(Setting { reserve: 2, ..one }).unwrap();
    engine.arrive(US(20), 1);
    for end in [2_000, 4_000, 6_000, 8_000] {
        engine.completed(US(end), 0, US(2_000));
    }
    assert_eq!(engine.holder(), Some(1));
    let miss = engine.completed(US(8_900), 1, US(900)).miss;
    assert_eq!(void(miss), Some(Void::Foreign));
    // Who has kept its word owes nothing for it.
    assert!(engine.client(0).unwrap().owed().until(US(8_900)).is_zero());
}

#[test]
fn submissions_beside_one_that_has_used_too_much_are_late_by_their_own_fault() {
    let mut engine = engine(DispatcherKind::Edf, &[]);
    engine.set_reserve(US(0), 1, Some(firm(6_000, 7_300, 6_000, 3)));
    let alone = Setting {
        reserve: 1,
        ..ht(5)
    };
    engine.join(alone).unwrap();
    for _ in 0..4 {
        assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    }
    for end in [4_000, 8_000, 12_000] {
        engine.completed(US(end), 0, US(4_000));
    }
    // It has paid for three: the next one refills it before the fourth ends, 8.7 ms late.
    assert_eq!(granted(engine.arrive(US(14_700), 0)), Some(0));
    let miss = engine.completed(US(16_000), 0, US(4_000)).miss;
    assert!(engine.reserve(1).unwrap().left(US(16_000)) > 0);
    assert_eq!(void(miss), Some(Void::Own));
}
