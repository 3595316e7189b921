// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what a hog of a high priority leaves the others.

use super::submissions::{granted, prio, prt, US};
use super::{Kind, Setting, Terms, BACKGROUND, STARVED};
use crate::units::Ns;
use std::vec;

/// A client of a high priority that always has more, and others of a low one, with commands of
/// `low`; what these used in `seconds`, and their longest wait.
fn beside_a_hog(low: Ns, others: usize, hog: Setting, seconds: u64) -> (Ns, Ns) {
    let mut settings = vec![prt(0); others + 1];
    settings[0] = hog;
    let mut engine = prio(&settings);
    if hog.reserve != BACKGROUND {
        let terms = Terms::new(Kind::Pe, US(10_000), US(10_000)).unwrap();
        assert_eq!(engine.promise(US(0), terms), Some(hog.reserve));
    }
    let mut now = US(0);
    let mut since = vec![US(0); others + 1];
    let (mut used, mut longest) = (Ns::ZERO, Ns::ZERO);
    let mut step = engine.arrive(now, 0);
    for other in 1..=others {
        engine.arrive(now, other);
    }
    while now < Ns::from_ms(1_000 * seconds) {
        let Some(at) = granted(step) else {
            now = step.timer.unwrap();
            step = engine.timer(now);
            continue;
        };
        longest = longest.max(now.saturating_sub(since[at]));
        // It arrives again while its command runs.
        engine.arrive(now, at);
        since[at] = now;
        let length = if at == 0 { US(3_000) } else { low };
        now = now.saturating_add(length);
        used = used.saturating_add(if at == 0 { Ns::ZERO } else { length });
        step = engine.completed(now, at, length);
    }
    (used, longest)
}

#[test]
fn time_from_an_arrival_to_its_grant_is_counted_once() {
    let mut engine = prio(&[prt(1), prt(1)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(10), 1);
    engine.arrive(US(20), 1);
    // Its priority changes while it waits.
    engine.set(US(30), 1, prt(2));
    engine.completed(US(40), 0, US(40));
    engine.completed(US(50), 1, US(10));
    engine.arrive(US(60), 0);
    engine.arrive(US(70), 1);
    engine.withdrawn(US(75), 1);
    engine.arrive(US(80), 1);
    let waited = |at| {
        engine
            .client(at)
            .map(|client| client.waits_until(US(82)).total())
    };
    assert_eq!((waited(0), waited(1)), (Some(US(0)), Some(US(37))));
}

#[test]
fn client_of_the_lowest_priority_passes_once_a_second() {
    let (used, longest) = beside_a_hog(US(5_000), 1, prt(39), 60);
    assert!(longest < STARVED.saturating_add(US(9_000)));
    assert!(used >= US(57 * 5_000));
    assert!(used <= US(60 * 5_000));
}

#[test]
fn clients_that_starved_get_a_twentieth_together() {
    let (used, _) = beside_a_hog(US(100_000), 5, prt(39), 60);
    // 3 s, what the account may have at first, and a command.
    assert!(used >= US(2_800_000));
    assert!(used <= US(3_150_000));
}

#[test]
fn client_with_a_reserve_is_not_passed_over() {
    let promised = Setting {
        reserve: 1,
        ..prt(39)
    };
    // Its promise is the whole engine.
    let (used, _) = beside_a_hog(US(1_000), 1, promised, 20);
    assert_eq!(used, Ns::ZERO);
}

#[test]
fn client_that_waits_for_protected_work_passes_once_a_second() {
    let mut engine = prio(&[prt(39), prt(0)]);
    engine.protected(US(0), true);
    let (mut now, mut overtaken) = (US(0), 0);
    let mut step = engine.arrive(now, 1);
    loop {
        match granted(step) {
            Some(at) => {
                assert_eq!(at, 1);
                overtaken += 1;
                now = now.saturating_add(US(5_000));
                engine.completed(now, at, US(5_000));
                step = engine.arrive(now, at);
            }
            None => {
                let next = step.timer.unwrap();
                assert!(next > now);
                if next > Ns::from_ms(20_000) {
                    break;
                }
                now = next;
                step = engine.timer(now);
            }
        }
    }
    assert_eq!(overtaken, 19);
    // Its end lets it pass at once.
    assert_eq!(granted(engine.protected(now, false)), Some(1));
}

#[test]
fn account_of_the_floor_bounds_what_passes_beside_protected_work() {
    let mut engine = prio(&[prt(39), prt(0)]);
    engine.protected(US(0), true);
    let (mut now, mut used) = (US(0), US(0));
    let mut step = engine.arrive(now, 1);
    while now < Ns::from_ms(60_000) {
        if granted(step).is_some() {
            now = now.saturating_add(US(200_000));
            used = used.saturating_add(US(200_000));
            engine.completed(now, 1, US(200_000));
            step = engine.arrive(now, 1);
        } else {
            now = step.timer.unwrap();
            step = engine.timer(now);
        }
    }
    assert!(used >= US(2_800_000), "{used:?}");
    assert!(used <= US(3_250_000), "{used:?}");
}

#[test]
fn no_client_passes_in_doubt_and_the_linger_counts_from_the_end_of_work() {
    let mut engine = prio(&[prt(39)]);
    engine.set_linger(US(1_000), false);
    engine.protected(US(0), true);
    engine.protected(US(100), false);
    engine.doubt();
    assert_eq!(granted(engine.arrive(US(2_000), 0)), None);
    // It was not there meanwhile.
    assert_eq!(granted(engine.protected(US(2_100), false)), Some(0));
    engine.completed(US(3_000), 0, US(900));
    engine.doubt();
    engine.arrive(US(3_000), 0);
    engine.protected(US(3_100), true);
    let step = engine.protected(US(3_200), false);
    assert_eq!((granted(step), step.timer), (None, Some(US(4_200))));
    engine.doubt();
    assert_eq!(granted(engine.timer(US(4_200))), None);
    assert_eq!(granted(engine.protected(US(4_210), false)), Some(0));
}
