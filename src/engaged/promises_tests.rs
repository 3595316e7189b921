// SPDX-License-Identifier: GPL-2.0

//! [double] Tests of reserves that change while clients use them.

use super::submissions_tests::{granted, prio, prt, US};
use super::{Kind, Misses, Served, Setting, Terms, BACKGROUND};

fn terms(kind: Kind, capacity_us: u64, period_us: u64) -> Terms {
    Terms::new(kind, US(capacity_us), US(period_us)).unwrap()
}

fn of(reserve: usize) -> Setting {
    Setting { reserve, ..prt(5) }
}

#[test]
fn command_of_a_reserve_that_is_gone_is_not_charged_to_the_next_one() {
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 1_000, 10_000)));
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    engine.set_reserve(US(100), 1, None);
    assert!(engine.reserve(1).is_none());
    engine.set_reserve(US(200), 1, Some(terms(Kind::Pe, 2_000, 10_000)));
    engine.completed(US(9_000), 0, US(9_000));
    assert_eq!(engine.reserve(1).unwrap().left(US(9_000)), 2_000_000);
}

#[test]
fn commands_served_are_counted_with_those_longer_than_declared() {
    let mut engine = prio(&[of(1)]);
    let longest = Some(US(300));
    let declared = Terms {
        longest,
        ..terms(Kind::Pe, 5_000, 10_000)
    };
    engine.set_reserve(US(0), 1, Some(declared));
    for (at, used) in [(0, 200), (1_000, 400), (2_000, 300)] {
        assert_eq!(granted(engine.arrive(US(at), 0)), Some(0));
        engine.completed(US(at + used), 0, US(used));
    }
    let served = Served {
        commands: 3,
        used: US(900),
        longest: US(400),
        breaches: 1,
        misses: Misses::default(),
    };
    assert_eq!(engine.reserve(1).unwrap().served(), &served);
    assert_eq!(engine.counters().breaches, 1);
}

#[test]
fn changed_promise_of_one_kind_keeps_its_debt() {
    for kind in [Kind::Pe, Kind::Ae, Kind::Cbs] {
        let mut engine = prio(&[of(1)]);
        engine.set_reserve(US(0), 1, Some(terms(kind, 5_000, 10_000)));
        assert_eq!(granted(engine.arrive(US(0), 0)), Some(0), "{kind:?}");
        engine.completed(US(9_000), 0, US(9_000));
        let debt = engine.reserve(1).unwrap().left(US(9_000));
        let from = engine.reserve(1).unwrap().offer(US(9_000), US(1)).from;
        assert!(debt < 0 && from > US(9_000), "{kind:?}");
        engine.set_reserve(US(9_000), 1, Some(terms(kind, 5_001, 10_000)));
        let reserve = engine.reserve(1).unwrap();
        assert_eq!(reserve.offer(US(9_000), US(1)).from, from, "{kind:?}");
        assert!(kind == Kind::Cbs || reserve.left(US(9_000)) == debt);
        let other = terms(Kind::Pe, 6_000, 10_000);
        if kind != Kind::Pe {
            engine.set_reserve(US(9_000), 1, Some(other));
            assert_eq!(engine.reserve(1).unwrap().left(US(9_000)), 6_000_000);
        }
    }
}

#[test]
fn reserve_that_is_made_smaller_during_a_command_gets_no_more_than_before() {
    let longest = Some(US(9_000));
    let firm = |capacity| Terms {
        longest,
        ..terms(Kind::Cbs, capacity, 10_000)
    };
    // By another promise, and by one that is cleared and set anew.
    for clears in [false, true] {
        let mut engine = prio(&[of(1)]);
        engine.set_reserve(US(0), 1, Some(firm(9_000)));
        assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
        if clears {
            engine.set_reserve(US(10), 1, None);
        }
        engine.set_reserve(US(10), 1, Some(firm(100)));
        engine.completed(US(500), 0, US(500));
        let from = engine.reserve(1).unwrap().offer(US(500), US(100)).from;
        assert_eq!(from, US(10_000), "{clears}");
    }
}

#[test]
fn reserve_that_grows_waits_for_what_one_that_shrinks_has_used_ahead() {
    let cbs = |capacity| Some(terms(Kind::Cbs, capacity, 10_000));
    for less in [cbs(100), None] {
        let mut engine = prio(&[of(1), of(2)]);
        engine.set_reserve(US(0), 1, cbs(5_000));
        engine.set_reserve(US(0), 2, cbs(1_000));
        // What it used is paid for at 9.8 ms.
        engine.arrive(US(0), 0);
        engine.completed(US(4_900), 0, US(4_900));
        engine.set_reserve(US(5_000), 1, less);
        engine.set_reserve(US(5_000), 2, cbs(5_000));
        let offer = engine.reserve(2).unwrap().offer(US(5_000), US(100));
        assert_eq!(offer.from, US(9_800), "{less:?}");
    }
}

#[test]
fn background_gets_no_less_than_what_is_not_promised() {
    let mut engine = prio(&[prt(0)]);
    engine.set_reserve(US(0), 3, Some(terms(Kind::Pe, 900, 100_000)));
    let background = engine.reserve(BACKGROUND).unwrap();
    assert_eq!(background.terms().capacity, US(99_100));
}

#[test]
fn submissions_beyond_those_declared_pay_what_each_costs() {
    let mut engine = prio(&[of(1)]);
    let declared = terms(Kind::Cbs, 5_000, 10_000).declared(2).unwrap();
    engine.set_reserve(US(0), 1, Some(declared));
    let mut left = 5_000_000;
    // It begins anew only when what it used is paid for, at twice that.
    for (at, fee) in [(0, 0), (60, 0), (120, 60), (180, 60)] {
        assert_eq!(granted(engine.arrive(US(at), 0)), Some(0));
        engine.completed(US(at + 50), 0, US(50));
        left -= 50_000 + fee * 1000;
        let reserve = engine.reserve(1).unwrap();
        assert_eq!(reserve.left(US(at + 50)), left, "{at}");
    }
}

#[test]
fn client_that_waits_when_its_promise_changes_is_granted_by_the_new_one() {
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 100, 1_000_000)));
    engine.arrive(US(0), 0);
    engine.completed(US(50_000), 0, US(50_000));
    let step = engine.arrive(US(50_000), 0);
    // It owes 50 ms of 100 us a second, of which what takes a minute is remembered.
    assert_eq!(granted(step), None);
    assert!(step.timer.unwrap() > US(59_000_000));
    engine.set_reserve(US(60_000), 1, Some(terms(Kind::Cbs, 50_000, 100_000)));
    assert_eq!(granted(engine.timer(US(60_000))), Some(0));
}

#[test]
fn background_is_there_while_something_is_promised() {
    let mut engine = prio(&[prt(0)]);
    engine.set_reserve(US(0), 3, Some(terms(Kind::Pe, 6_000, 10_000)));
    let background = engine.reserve(BACKGROUND).unwrap();
    assert_eq!(background.terms().capacity, US(40_000));
    engine.set_reserve(US(0), 3, None);
    assert!(engine.reserve(BACKGROUND).is_none());
    // It is no position of a promise.
    engine.set_reserve(US(0), BACKGROUND, Some(terms(Kind::Pe, 10, 10_000)));
    assert!(engine.reserve(BACKGROUND).is_none());
}

#[test]
fn length_beside_work_that_passed_undecided_is_not_learned() {
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 20_000, 40_000)));
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    // 5 ms were expected: that much is charged, not what others used.
    engine.completed_beside_others(US(30_000), 0, US(30_000));
    let history = engine.client(0).unwrap().history();
    assert_eq!((history.commands(), history.longest()), (1, US(0)));
    assert_eq!(engine.reserve(1).unwrap().left(US(30_000)), 15_000_000);
    assert_eq!(granted(engine.arrive(US(30_000), 0)), Some(0));
    engine.completed(US(31_000), 0, US(1_000));
    let history = engine.client(0).unwrap().history();
    assert_eq!((history.commands(), history.longest()), (2, US(1_000)));
}
