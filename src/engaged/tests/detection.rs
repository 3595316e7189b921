// SPDX-License-Identifier: GPL-2.0

//! `[double]` Tests of when commands of a turn are read, and of what they used.

use super::{Detection, Due, Ended, Grant, Left};
use crate::units::Ns;

const CLIENT: usize = 3;

fn us(us: u64) -> Ns {
    Ns::from_us(us)
}

fn grant(expected: Ns) -> Grant {
    Grant {
        client: CLIENT,
        expected,
        margin: Ns::ZERO,
    }
}

/// A client that was granted, opened its window and stored at 100 us.
fn running(expected: Ns) -> Detection {
    let mut one = Detection::default();
    one.grant(us(90), grant(expected));
    assert!(one.open(us(100), CLIENT));
    one.begin_close();
    assert_eq!(one.close(us(125), true), Some(CLIENT));
    one
}

#[test]
fn reads_of_a_late_command_grow_apart_up_to_a_bound() {
    let mut one = running(us(500));
    assert_eq!(one.read(us(580 + 1600), Left::Work), None);
    assert_eq!(one.next(), Some(us(580 + 1700)));
    assert_eq!(one.read(us(1_000_000), Left::Work), None);
    assert_eq!(one.next(), Some(us(1_000_200)));
}

#[test]
fn submission_beside_one_that_runs_ends_with_it() {
    let mut one = running(us(500));
    one.grant(us(200), grant(us(500)));
    assert!(one.open(us(210), CLIENT));
    one.checked(us(230), true);
    assert_eq!(one.due(us(230)), Some(Due::Close));
    one.begin_close();
    assert_eq!(one.close(us(232), true), Some(CLIENT));
    assert_eq!(one.next(), Some(us(242)));
    assert_eq!(one.read(us(1080), Left::Work), None);
    assert_eq!(one.next(), Some(us(1082)));
    let ended = Ended {
        count: 2,
        each: us(501),
        beside: false,
    };
    assert_eq!(one.read(us(1102), Left::Nothing), Some(ended));
}

#[test]
fn turn_of_a_channel_that_rests_ends_a_little_later() {
    let mut one = running(us(500));
    assert_eq!(one.read(us(200), Left::Rest), None);
    assert_eq!(one.next(), Some(us(210)));
    assert_eq!(one.read(us(230), Left::Rest), None);
    assert_eq!(one.next(), Some(us(260)));
    assert_eq!(one.read(us(260), Left::Rest), None);
    assert_eq!(one.next(), Some(us(300)));
    assert_eq!(one.read(us(290), Left::Work), None);
    assert_eq!(one.read(us(400), Left::Rest), None);
    let ended = one.read(us(500), Left::Rest).unwrap();
    assert_eq!((ended.each, ended.beside), (us(400), false));
}

#[test]
fn turn_of_a_channel_that_only_its_indices_tell_of_lasts_until_the_engine_has_seen_it() {
    let mut one = running(us(500));
    assert_eq!(one.read(us(200), Left::Unseen), None);
    assert_eq!(one.read(us(1199), Left::Unseen), None);
    assert_eq!(one.next(), Some(us(1200)));
    assert_eq!(one.read(us(1200), Left::Unseen).unwrap().each, us(1100));
    let mut one = running(us(500));
    assert_eq!(one.read(us(200), Left::Unseen), None);
    assert_eq!(one.read(us(250), Left::Work), None);
    assert_eq!(one.read(us(1250), Left::Unseen), None);
    assert!(one.read(us(1350), Left::Rest).is_some());
}

#[test]
fn time_of_others_on_the_engine_is_not_that_of_the_turn() {
    let mut one = running(us(500));
    one.beside(us(110), us(50));
    one.beside(us(300), us(90));
    let ended = one.read(us(700), Left::Nothing).unwrap();
    assert_eq!((ended.each, ended.beside), (us(500), true));
}

#[test]
fn command_is_read_rarely_until_shortly_before_its_expected_end() {
    let mut one = running(us(500));
    let mut reads = 0;
    while let Some(at) = one.next().filter(|at| *at < us(580)) {
        assert_eq!(one.due(at), Some(Due::Read));
        assert_eq!(one.read(at, Left::Work), None);
        reads += 1;
    }
    // 135, 152, 178, 217, 275, 362 and 493 us.
    assert_eq!(reads, 7);
    assert_eq!(one.next(), Some(us(580)));
    assert_eq!(one.read(us(580), Left::Work), None);
    assert_eq!(one.next(), Some(us(582)));
    let ended = Ended {
        count: 1,
        each: us(503),
        beside: false,
    };
    assert_eq!(one.read(us(603), Left::Nothing), Some(ended));
    assert_eq!(one.next(), None);
}

#[test]
fn margins_of_submissions_that_end_together_add_up_as_errors_do() {
    let mut one = Detection::default();
    for number in 0..4 {
        one.grant(
            us(100),
            Grant {
                margin: us(300),
                ..grant(us(1000))
            },
        );
        assert!(one.open(us(100), CLIENT), "{number}");
        one.begin_close();
        one.close(us(110), true);
    }
    // They are expected to end at 4100 us, 600 us more or less, rounded down to 599.
    assert_eq!(one.read(us(3499), Left::Work), None);
    assert_eq!(one.next(), Some(us(3501)));
    assert_eq!(one.read(us(3501), Left::Work), None);
    assert_eq!(one.next(), Some(us(3503)));
}

#[test]
fn window_of_a_later_turn_is_not_closed_for_one_that_was_forgotten() {
    let mut one = Detection::default();
    one.grant(us(90), grant(us(500)));
    assert!(one.open(us(100), CLIENT));
    one.begin_close();
    assert!(one.is_closing());
    one = Detection::default();
    one.grant(us(110), grant(us(500)));
    assert!(one.open(us(115), CLIENT));
    assert_eq!(one.close(us(120), true), None);
    assert_eq!(one.open_for(), Some(CLIENT));
}

#[test]
fn grant_waits_for_the_window_before_it() {
    let mut one = Detection::default();
    one.grant(us(1), grant(us(500)));
    assert!(one.open(us(2), CLIENT));
    one.grant(us(3), grant(us(500)));
    assert!(!one.open(us(4), CLIENT));
    one.begin_close();
    assert_eq!(one.due(us(400)), None);
    one.close(us(400), false);
    assert!(one.open(us(401), CLIENT));
}
