// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of what clients owe that ran beside the turns of others.

use super::submissions::{granted, prio, prt, US};
use super::{Client, Owed, Record, Submissions, RECORDS, SHARED_QUEUE, STARVED, WAIT_QUEUES};
use crate::policies::dispatch::DispatcherKind;
use crate::units::Ns;
use crate::Vectors;
use std::vec;
use std::vec::Vec;

/// Whether a client that comes with what these wait queues owe passes at once.
fn passes(wait_queues: &[usize]) -> bool {
    let mut engine = prio(&[prt(5), prt(1), prt(1)]);
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    assert!(engine.ran_beside(US(50_000), 1, US(50_000)));
    engine.left(US(50_001), 1);
    engine.completed(US(50_002), 0, US(2));
    let now = US(60_000);
    let owed = engine.owed(now, wait_queues.iter().copied());
    engine.join_at(3, prt(1), owed);
    granted(engine.arrive(now, 3)) == Some(3)
}

#[test]
fn client_that_comes_anew_owes_what_its_user_owes() {
    assert!(passes(&[]));
    assert!(passes(&[0, 2]));
    assert!(!passes(&[1]));
    assert!(!passes(&[2, 1, 0]));
}

#[test]
fn what_is_owed_ends() {
    let mut engine = prio(&[prt(5), prt(1)]);
    let mut owed = Owed::default();
    owed.bar(STARVED);
    assert_eq!(owed.until(US(1)), STARVED);
    engine.left(US(2), 1);
    engine.join_at(1, prt(1), owed);
    let step = engine.arrive(US(3), 1);
    assert_eq!((granted(step), step.timer), (None, Some(STARVED)));
    assert_eq!(granted(engine.timer(STARVED)), Some(1));
}

/// How long the client at a wait queue gets no grant after it ran for ten seconds beside one that
/// comes before it.
fn waits_after_ten_seconds(at: usize) -> Ns {
    let vacant = || Client::vacant(vec![Record::default(); RECORDS]);
    let clients: Vec<_> = (0..WAIT_QUEUES).map(|_| vacant()).collect();
    let mut engine = Submissions::<Vectors>::new(DispatcherKind::Prio, clients, vec![None; 8]);
    engine.join_at(0, prt(5), Owed::default());
    engine.join_at(at, prt(1), Owed::default());
    assert_eq!(granted(engine.arrive(US(0), 0)), Some(0));
    let now = US(10_000_000);
    assert!(engine.ran_beside(now, at, now));
    let owed = engine.owed(now, [at].into_iter());
    owed.until(now).saturating_sub(now)
}

#[test]
fn what_ran_for_seconds_is_paid_for_in_minutes() {
    let waits = waits_after_ten_seconds(1);
    assert!(waits > US(150_000_000));
    assert!(waits < US(160_000_000));
    // Not by users that share the wait queue of all.
    let waits = waits_after_ten_seconds(SHARED_QUEUE);
    assert!(waits > US(59_000_000));
    assert!(waits < US(61_000_000));
}
