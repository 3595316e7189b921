// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of reserves that change while clients use them.

use super::submissions::{engine, granted, ht, prio, prt, US};
use super::{Kind, Misses, Owed, Served, Setting, Submissions, Terms, BACKGROUND};
use crate::policies::dispatch::DispatcherKind;
use crate::Vectors;

fn terms(kind: Kind, capacity_us: u64, period_us: u64) -> Terms {
    Terms::new(kind, US(capacity_us), US(period_us)).unwrap()
}

fn of(reserve: usize) -> Setting {
    Setting { reserve, ..prt(5) }
}

#[test]
fn command_of_a_reserve_that_is_gone_is_paid_for_before_the_next_one_begins() {
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 1_000, 10_000)));
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    engine.set_reserve(US(100), 1, None);
    assert!(engine.reserve(1).is_none());
    engine.set_reserve(US(200), 1, Some(terms(Kind::Pe, 2_000, 10_000)));
    // 5 ms are expected of it, and paid for at 50.1 ms; a fifth of the time up to then is had.
    assert_eq!(engine.reserve(1).unwrap().left(US(200)), -7_980_000);
    engine.completed(US(9_000), 0, US(9_000));
    // What it used beyond that is paid for by the reserve that its client has now,
    assert_eq!(engine.reserve(1).unwrap().left(US(9_000)), -11_980_000);
    engine.set_reserve(US(9_000), 2, Some(terms(Kind::Cbs, 2_000, 10_000)));
    let offer = engine.reserve(2).unwrap().offer(US(9_000), US(1));
    assert_eq!(offer.from, US(50_100));
    // and without one by what comes later.
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 1_000, 10_000)));
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    engine.set_reserve(US(100), 1, None);
    engine.completed(US(9_000), 0, US(9_000));
    engine.set_reserve(US(9_000), 2, Some(terms(Kind::Cbs, 2_000, 10_000)));
    let offer = engine.reserve(2).unwrap().offer(US(9_000), US(1));
    assert_eq!(offer.from, US(90_100));
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
        assert!(debt < 0, "{kind:?}");
        assert!(from > US(9_000), "{kind:?}");
        engine.set_reserve(US(9_000), 1, Some(terms(kind, 5_001, 10_000)));
        let reserve = engine.reserve(1).unwrap();
        assert_eq!(reserve.offer(US(9_000), US(1)).from, from, "{kind:?}");
        assert!(kind == Kind::Cbs || reserve.left(US(9_000)) == debt);
        let other = terms(Kind::Pe, 6_000, 10_000);
        if kind != Kind::Pe {
            engine.set_reserve(US(9_000), 1, Some(other));
            // It has used 4.5 ms ahead.
            let left = engine.reserve(1).unwrap().left(US(9_000));
            assert!((500_000..=1_500_000).contains(&left), "{kind:?}: {left}");
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
        assert_eq!(from, US(if clears { 10_010 } else { 10_000 }));
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
    // A period of the first at most.
    let step = engine.timer(US(60_000));
    assert_eq!((granted(step), step.timer), (None, Some(US(1_060_000))));
    assert_eq!(granted(engine.timer(US(1_060_000))), Some(0));
}

/// What a client uses in a second whose commands last so long; `after` each grant, or when it has
/// waited, something happens to it, and the time until its command has ended is returned.
fn used_in_a_second(
    engine: &mut Submissions<Vectors>,
    length_us: u64,
    mut happens: impl FnMut(&mut Submissions<Vectors>, u64),
) -> u64 {
    let (mut now, mut used) = (0, 0);
    while now < 1_000_000 {
        let step = engine.arrive(US(now), 0);
        if granted(step).is_some() {
            happens(engine, now);
            used += length_us;
            now += length_us;
            engine.completed(US(now), 0, US(length_us));
        } else {
            now = step.timer.map_or(1_000_000, |at| at.get().div_ceil(1000));
            engine.withdrawn(US(now), 0);
        }
    }
    used
}

#[test]
fn clients_that_die_in_their_command_use_no_more_than_their_reserve() {
    for kind in [Kind::Pe, Kind::Ae, Kind::Cbs] {
        let mut engine = prio(&[]);
        engine.set_reserve(US(0), 1, Some(terms(kind, 1_000, 20_000)));
        let (mut now, mut used) = (0, 0);
        while now < 1_000_000 {
            engine.join_at(0, of(1), Owed::default());
            let step = engine.arrive(US(now), 0);
            if granted(step).is_some() {
                (now, used) = (now + 5_000, used + 5_000);
            } else {
                now = step.timer.unwrap().get().div_ceil(1000);
            }
            engine.left(US(now), 0);
        }
        // Its part, two capacities and a command.
        assert!(used <= 50_000 + 2_000 + 5_000, "{kind:?}: {used}");
        assert!(used >= 40_000, "{kind:?}: {used}");
    }
}

#[test]
fn client_that_dies_with_a_grant_pays_what_one_costs() {
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(terms(Kind::Pe, 1_000, 20_000)));
    engine.arrive(US(0), 0);
    engine.left(US(1), 0);
    assert_eq!(engine.reserve(1).unwrap().left(US(1)), 980_000);
}

#[test]
fn reserve_that_is_set_anew_waits_until_its_long_command_is_paid_for() {
    let longest = Some(US(40_000));
    let long = Terms {
        longest,
        ..terms(Kind::Cbs, 2_500, 6_250)
    };
    let mut engine = prio(&[of(1)]);
    engine.set_reserve(US(0), 1, Some(long));
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    engine.completed(US(40_000), 0, US(40_000));
    engine.left(US(40_000), 0);
    engine.set_reserve(US(40_010), 1, None);
    engine.set_reserve(US(40_010), 2, Some(terms(Kind::Cbs, 37_000, 95_000)));
    let offer = engine.reserve(2).unwrap().offer(US(40_010), US(1));
    assert_eq!(offer.from, US(100_000));
}

#[test]
fn reserve_that_is_cleared_and_set_anew_in_each_command_is_a_limit() {
    for (kind, modes) in [
        (Kind::Pe, prt(5).mode),
        (Kind::Ae, prt(5).mode),
        (Kind::Cbs, prt(5).mode),
        (Kind::Cbs, ht(5).mode),
    ] {
        let tenth = Terms {
            longest: Some(US(4_000)),
            ..terms(kind, 4_000, 40_000)
        };
        let setting = Setting {
            mode: modes,
            ..of(1)
        };
        let mut engine = prio(&[setting]);
        engine.set_reserve(US(0), 1, Some(tenth));
        let used = used_in_a_second(&mut engine, 4_000, |engine, now| {
            engine.set_reserve(US(now + 1_000), 1, None);
            engine.set_reserve(US(now + 1_000), 1, Some(tenth));
        });
        // Its part, two capacities and two commands: what one uses is paid by the next but one.
        assert!(
            used <= 100_000 + 8_000 + 8_000,
            "{kind:?} {modes:?}: {used}"
        );
    }
}

#[test]
fn reserve_that_is_cleared_and_set_anew_after_each_command_is_a_limit() {
    for kind in [Kind::Pe, Kind::Ae, Kind::Cbs] {
        let tenth = Terms {
            longest: Some(US(10_000)),
            ..terms(kind, 1_000, 10_000)
        };
        let mut engine = prio(&[of(1)]);
        engine.set_reserve(US(0), 1, Some(tenth));
        let used = used_in_a_second(&mut engine, 10_000, |engine, now| {
            // In the moment in which it begins, what was before has been charged.
            engine.set_reserve(US(now), 1, Some(tenth));
        });
        assert!(used <= 100_000 + 2_000 + 10_000, "{kind:?}: {used}");
        let mut engine = prio(&[of(1)]);
        engine.set_reserve(US(0), 1, Some(tenth));
        let (mut now, mut used) = (0, 0);
        while now < 1_000_000 {
            let step = engine.arrive(US(now), 0);
            if granted(step).is_some() {
                (now, used) = (now + 10_000, used + 10_000);
                engine.completed(US(now), 0, US(10_000));
                engine.set_reserve(US(now), 1, None);
                engine.set_reserve(US(now), 1, Some(tenth));
            } else {
                now = step.timer.unwrap().get().div_ceil(1000);
                engine.withdrawn(US(now), 0);
            }
        }
        assert!(used <= 100_000 + 2_000 + 10_000, "{kind:?}: {used}");
    }
}

#[test]
fn client_that_may_not_pass_does_not_keep_its_reserve_busy() {
    let firm = Terms {
        longest: Some(US(1_000)),
        ..terms(Kind::Cbs, 4_000, 10_000)
    };
    let mut engine = engine(DispatcherKind::Edf, &[of(1), of(1)]);
    engine.set_reserve(US(0), 1, Some(firm.declared(4).unwrap()));
    engine.bar(0, US(10_000_000));
    assert_eq!(granted(engine.arrive(US(0), 0)), None);
    // The other one comes to an idle reserve: it is due a period later.
    assert_eq!(granted(engine.arrive(US(500_000), 1)), Some(1));
    let step = engine.completed(US(501_000), 1, US(1_000));
    assert_eq!((granted(step), step.miss), (None, None));
    // It passes when it may, and its deadline begins then.
    assert_eq!(granted(engine.timer(US(10_000_000))), Some(0));
    assert_eq!(engine.completed(US(10_001_000), 0, US(1_000)).miss, None);
    assert_eq!(engine.counters().misses, Misses::default());
}

#[test]
fn nothing_is_promised_at_the_position_of_clients_without_a_reserve() {
    let mut engine = prio(&[prt(0)]);
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
