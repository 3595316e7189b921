// SPDX-License-Identifier: GPL-2.0

//! [double] Tests of what clients owe that ran beside the turns of others.

use super::turns_tests::{granted, prio, prt, US};
use super::{Owed, STARVED};

/// Whether a client that comes with what these places owe passes at once.
fn passes(places: &[usize]) -> bool {
    let mut turns = prio(&[prt(5), prt(1), prt(1)]);
    assert_eq!(granted(turns.arrive(US(0), 0)), Some(0));
    assert!(turns.ran_beside(US(50_000), 1, US(50_000)));
    turns.left(US(50_001), 1);
    turns.completed(US(50_002), 0, US(2));
    let now = US(60_000);
    let owed = turns.owed(now, places.iter().copied());
    turns.join_at(3, prt(1), owed);
    granted(turns.arrive(now, 3)) == Some(3)
}

#[test]
fn client_that_comes_anew_owes_what_its_user_owes() {
    assert!(passes(&[]) && passes(&[0, 2]));
    assert!(!passes(&[1]) && !passes(&[2, 1, 0]));
}

#[test]
fn what_is_owed_ends() {
    let mut turns = prio(&[prt(5), prt(1)]);
    turns.bar(US(0), 1);
    let owed: Owed = turns.owed(US(1), [1].into_iter());
    assert_eq!(owed.until(US(1)), STARVED);
    turns.left(US(2), 1);
    turns.join_at(1, prt(1), owed);
    let step = turns.arrive(US(3), 1);
    assert_eq!((granted(step), step.timer), (None, Some(STARVED)));
    assert_eq!(granted(turns.timer(STARVED)), Some(1));
}
