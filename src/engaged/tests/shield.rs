// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what others wait for beside protected work.

use super::submissions::{granted, ht, prio, prt, US};
use super::STARVED;
use crate::units::Ns;

#[test]
fn others_wait_while_protected_work_is_there_and_linger_after_it() {
    let mut engine = prio(&[prt(1)]);
    engine.set_linger(US(300), false);
    engine.protected(US(0), true);
    let step = engine.arrive(US(10), 0);
    // Only the floor lets it pass before that work has ended.
    let starves = STARVED.saturating_add(US(10));
    assert_eq!((step.grant, step.timer), (None, Some(starves)));
    let step = engine.protected(US(1000), false);
    assert_eq!((step.grant, step.timer), (None, Some(US(1300))));
    // More comes in time.
    engine.protected(US(1200), true);
    assert_eq!(granted(engine.timer(US(1300))), None);
    engine.protected(US(2000), false);
    assert_eq!(granted(engine.timer(US(2300))), Some(0));
}

/// Commands of 500 us of a protected client with pauses of 300 us, 40 times; `other` waits with
/// commands of `length`. Returns how many of its commands passed.
fn beside_protected_pauses(length: Ns) -> u32 {
    let mut engine = prio(&[prt(1)]);
    engine.set_linger(US(5_000), true);
    let (mut now, mut overtaken) = (US(0), 0);
    // Its length gets known.
    for _ in 0..4 {
        let step = engine.arrive(now, 0);
        assert_eq!(granted(step), Some(0));
        now = now.saturating_add(length);
        engine.completed(now, 0, length);
    }
    for _ in 0..40 {
        engine.protected(now, true);
        engine.arrive(now, 0);
        now = now.saturating_add(US(500));
        let back = now.saturating_add(US(300));
        let mut step = engine.protected(now, false);
        while now < back {
            if granted(step) == Some(0) {
                overtaken += 1;
                now = now.saturating_add(length);
                engine.completed(now, 0, length);
                step = engine.arrive(now, 0);
            } else {
                now = step.timer.map_or(back, |at| at.min(back));
                step = engine.timer(now);
            }
        }
        if granted(step) == Some(0) {
            now = now.saturating_add(length);
            engine.completed(now, 0, length);
        }
    }
    overtaken
}

#[test]
fn linger_that_adapts_lets_only_short_commands_into_the_pauses() {
    assert_eq!(beside_protected_pauses(US(600)), 0);
    // A tenth of the pauses, 33 us.
    assert!(beside_protected_pauses(US(20)) > 100);
}

#[test]
fn end_of_a_pause_is_looked_for_while_the_command_of_another_runs() {
    let mut engine = prio(&[prt(1)]);
    engine.set_linger(US(5_000), true);
    let mut now = US(0);
    engine.protected(now, true);
    engine.arrive(now, 0);
    // The client waits, and pauses of 100 us get known.
    for _ in 0..8 {
        now = now.saturating_add(US(900));
        assert_eq!(granted(engine.protected(now, false)), None);
        assert!(engine.watches_protected(now, false));
        now = now.saturating_add(US(100));
        engine.protected(now, true);
    }
    now = now.saturating_add(US(900));
    let step = engine.protected(now, false);
    let from = step.timer.unwrap_or_default();
    assert!(from < now.saturating_add(US(150)));
    assert_eq!(granted(engine.timer(from)), Some(0));
    assert!(!engine.waits());
    let within = |us| now.saturating_add(US(us));
    assert!(engine.watches_protected(within(4_999), false));
    assert!(!engine.watches_protected(within(5_000), false));
    // Its end is all that is looked for.
    engine.protected(within(2_000), true);
    assert!(!engine.watches_protected(within(2_000), true));
    // No client waits when the next one begins.
    engine.protected(within(3_000), false);
    assert!(!engine.watches_protected(within(3_000), false));
}

#[test]
fn linger_has_a_bound() {
    let mut engine = prio(&[prt(1)]);
    engine.set_linger(US(1_000_000), false);
    engine.protected(US(0), true);
    engine.protected(US(1), false);
    let step = engine.arrive(US(2), 0);
    assert_eq!(step.timer, Some(US(5001)));
}

#[test]
fn ht_adds_nothing_while_protected_work_is_there() {
    let mut engine = prio(&[ht(1)]);
    engine.arrive(US(0), 0);
    engine.protected(US(1), true);
    assert_eq!(granted(engine.arrive(US(2), 0)), None);
    assert_eq!(granted(engine.completed(US(3), 0, US(3))), None);
    assert_eq!(granted(engine.protected(US(4), false)), Some(0));
}
