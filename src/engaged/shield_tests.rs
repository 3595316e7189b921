// SPDX-License-Identifier: GPL-2.0

//! [double] Tests of what others wait for beside protected work.

use super::turns_tests::{granted, ht, prio, prt, US};
use super::STARVED;
use crate::units::Ns;

#[test]
fn others_wait_while_protected_work_is_there_and_linger_after_it() {
    let mut turns = prio(&[prt(1)]);
    turns.set_linger(US(300), false);
    turns.protected(US(0), true);
    let step = turns.arrive(US(10), 0);
    // Only the floor lets it pass before that work has ended.
    let starves = STARVED.saturating_add(US(10));
    assert_eq!((step.grant, step.timer), (None, Some(starves)));
    let step = turns.protected(US(1000), false);
    assert_eq!((step.grant, step.timer), (None, Some(US(1300))));
    // More comes in time.
    turns.protected(US(1200), true);
    assert_eq!(granted(turns.timer(US(1300))), None);
    turns.protected(US(2000), false);
    assert_eq!(granted(turns.timer(US(2300))), Some(0));
}

/// Commands of 500 us of a protected client with pauses of 300 us, 40 times; `other` waits with
/// commands of `length`. Returns how many of its commands passed.
fn beside_protected_pauses(length: Ns) -> u32 {
    let mut turns = prio(&[prt(1)]);
    turns.set_linger(US(5_000), true);
    let (mut now, mut passed) = (US(0), 0);
    // Its length gets known.
    for _ in 0..4 {
        let step = turns.arrive(now, 0);
        assert_eq!(granted(step), Some(0));
        now = now.saturating_add(length);
        turns.completed(now, 0, length);
    }
    for _ in 0..40 {
        turns.protected(now, true);
        turns.arrive(now, 0);
        now = now.saturating_add(US(500));
        let back = now.saturating_add(US(300));
        let mut step = turns.protected(now, false);
        while now < back {
            if granted(step) == Some(0) {
                passed += 1;
                now = now.saturating_add(length);
                turns.completed(now, 0, length);
                step = turns.arrive(now, 0);
            } else {
                now = step.timer.map_or(back, |at| at.min(back));
                step = turns.timer(now);
            }
        }
        if granted(step) == Some(0) {
            now = now.saturating_add(length);
            turns.completed(now, 0, length);
        }
    }
    passed
}

#[test]
fn linger_that_adapts_lets_only_short_commands_into_the_pauses() {
    assert_eq!(beside_protected_pauses(US(600)), 0);
    // A tenth of the pauses, 33 us.
    assert!(beside_protected_pauses(US(20)) > 100);
}

#[test]
fn linger_has_a_bound() {
    let mut turns = prio(&[prt(1)]);
    turns.set_linger(US(1_000_000), false);
    turns.protected(US(0), true);
    turns.protected(US(1), false);
    let step = turns.arrive(US(2), 0);
    assert_eq!(step.timer, Some(US(5001)));
}

#[test]
fn ht_adds_nothing_while_protected_work_is_there() {
    let mut turns = prio(&[ht(1)]);
    turns.arrive(US(0), 0);
    turns.protected(US(1), true);
    assert_eq!(granted(turns.arrive(US(2), 0)), None);
    assert_eq!(granted(turns.completed(US(3), 0, US(3))), None);
    assert_eq!(granted(turns.protected(US(4), false)), Some(0));
}
