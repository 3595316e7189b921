// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of for what clients wait.

use super::submissions::{granted, prio, prt, US};
use super::{Cause, Kind, Record, Setting, Submissions, Terms};
use crate::storage::Storage;
use crate::units::Ns;

/// What a client has waited in microseconds: for a running command, its budget, the order, linger.
fn waited<S: Storage<Of<Record>: 'static>>(
    engine: &Submissions<S>,
    at: usize,
    now: Ns,
) -> [u64; 4] {
    let waits = engine.client(at).unwrap().waits_until(now);
    Cause::ALL.map(|cause| waits.of(cause).get() / 1_000)
}

#[test]
fn wait_for_a_command_on_the_engine_is_for_it_and_later_ones_for_the_order() {
    let mut engine = prio(&[prt(1), prt(2), prt(9)]);
    engine.arrive(US(0), 2);
    engine.arrive(US(100), 0);
    engine.arrive(US(300), 1);
    // What runs was there before both. Then the one of higher priority is first.
    assert_eq!(granted(engine.completed(US(1_000), 2, US(1_000))), Some(1));
    assert_eq!(waited(&engine, 1, US(1_000)), [700, 0, 0, 0]);
    assert_eq!(waited(&engine, 0, US(1_500)), [900, 0, 500, 0]);
    assert_eq!(granted(engine.completed(US(2_000), 1, US(1_000))), Some(0));
    assert_eq!(waited(&engine, 0, US(5_000)), [900, 0, 1_000, 0]);
}

#[test]
fn wait_for_its_own_submission_is_for_a_running_command() {
    let mut engine = prio(&[prt(1)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(10), 0);
    assert_eq!(granted(engine.completed(US(500), 0, US(500))), Some(0));
    assert_eq!(waited(&engine, 0, US(900)), [490, 0, 0, 0]);
}

#[test]
fn wait_for_budget_ends_when_its_reserve_lets_it_start_also_beside_a_command() {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Pe, US(1_000), US(10_000)).unwrap();
    let reserve = engine.promise(US(0), terms).unwrap();
    engine.join(Setting { reserve, ..prt(9) }).unwrap();
    engine.join(prt(1)).unwrap();
    engine.arrive(US(0), 0);
    engine.completed(US(1_500), 0, US(1_500));
    engine.arrive(US(2_000), 0);
    // It may start at 10 ms; another is on the engine then.
    assert_eq!(granted(engine.arrive(US(9_000), 1)), Some(1));
    assert_eq!(waited(&engine, 0, US(11_000)), [1_000, 8_000, 0, 0]);
    // That the other came first is no matter of the order: it was not ready.
    assert_eq!(granted(engine.completed(US(12_000), 1, US(3_000))), Some(0));
    assert_eq!(waited(&engine, 0, US(20_000)), [2_000, 8_000, 0, 0]);
}

#[test]
fn wait_beside_protected_clients_is_for_their_work_and_then_for_linger() {
    let mut engine = prio(&[prt(1)]);
    engine.set_linger(US(300), false);
    engine.protected(US(0), true);
    engine.arrive(US(100), 0);
    engine.protected(US(1_000), false);
    assert_eq!(waited(&engine, 0, US(1_100)), [900, 0, 0, 100]);
    assert_eq!(granted(engine.timer(US(1_300))), Some(0));
    assert_eq!(waited(&engine, 0, US(9_000)), [900, 0, 0, 300]);
    assert_eq!(engine.counters().waited.total(), US(1_200));
}

#[test]
fn waits_of_all_clients_are_summed_up_also_those_that_gave_up() {
    let mut engine = prio(&[prt(1), prt(2), prt(3)]);
    engine.arrive(US(0), 0);
    engine.arrive(US(100), 1);
    engine.arrive(US(100), 2);
    engine.withdrawn(US(300), 1);
    engine.left(US(400), 2);
    assert_eq!(waited(&engine, 1, US(1_000)), [200, 0, 0, 0]);
    assert_eq!(engine.counters().waited.total(), US(500));
}
