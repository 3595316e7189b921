// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of several submissions in flight.

use super::submissions::{granted, ht, prio, prt, US};
use super::{Kind, Setting, Submissions, Terms};
use crate::Vectors;

#[test]
fn submission_that_was_not_used_is_the_newest_and_is_not_charged_as_the_one_before() {
    let mut engine = prio(&[]);
    let terms = Terms::new(Kind::Cbs, US(10_000), US(100_000)).unwrap();
    let terms = Terms {
        hard: false,
        ..terms
    };
    let longest = Some(US(3_000));
    let reserve = engine.promise(US(0), Terms { longest, ..terms }).unwrap();
    engine.join(Setting { reserve, ..ht(9) }).unwrap();
    engine.join(prt(1)).unwrap();
    // Each costs the longest that is declared until its length is known.
    engine.arrive(US(0), 0);
    // The reserve expects less of the second.
    let less = Terms {
        longest: Some(US(1_000)),
        ..terms
    };
    engine.set_reserve(US(0), reserve, Some(less));
    assert_eq!(granted(engine.arrive(US(10), 0)), Some(0));
    engine.arrive(US(20), 1);
    let left = |engine: &Submissions<Vectors>, now| engine.reserve(reserve).unwrap().left(now);
    let before = left(&engine, US(230));
    // The first is under way, so that the second kept nobody from the engine.
    assert_eq!(granted(engine.returned(US(230), 0)), None);
    assert_eq!(left(&engine, US(230)) - before, 1_000_000 - 20_000);
    // The first used its 3 ms, as was expected of it: it is charged no more.
    let before = left(&engine, US(3_000));
    assert_eq!(granted(engine.completed(US(3_000), 0, US(3_000))), Some(1));
    assert_eq!(left(&engine, US(3_000)), before);
}
