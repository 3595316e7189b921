// SPDX-License-Identifier: GPL-2.0

//! [tool] Arguments that are right, and what is said about others.

use super::*;
use clap::CommandFactory;

fn refused(line: &str) -> String {
    let error = Arguments::try_parse_from(line.split(' ')).expect_err(line);
    let text = one_line(&error);
    assert!(!text.contains('\n'), "{text}");
    text
}

#[test]
fn definitions_are_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn seconds_take_fractions_and_refuse_nonsense() {
    assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    for text in ["0", "-1", "NaN", "inf", "1e9", "soon"] {
        assert!(seconds(text).is_err(), "{text}");
    }
}

#[test]
fn times_needs_watch() {
    assert!(refused("loga stat --times 2").contains("--watch"));
    let fine = ["loga", "stat", "--watch", "1", "--times", "2"];
    assert!(Arguments::try_parse_from(fine).is_ok());
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    for weight in ["0", "10001", "-3", "x"] {
        let text = refused(&format!("loga set --pid 1 --weight={weight}"));
        assert!(text.contains("--weight"), "{text}");
    }
    let text = refused("loga set --pid 1 --weight 10001");
    assert!(text.ends_with("10001 is not in 1..=10000"), "{text}");
    let text = refused("loga run --limit 101 -- true");
    assert!(text.ends_with("101 is not in 1..=100"), "{text}");
    let text = refused("loga set --pid 0 --weight 3");
    assert!(text.contains("0 is not in 1..="), "{text}");
    let text = refused("loga policy set --ratio 0");
    assert!(
        text.ends_with("ratio=0 is out of range, want 1 to 1000"),
        "{text}"
    );
}

#[test]
fn unknown_words_are_refused_with_the_known_ones() {
    let text = refused("loga policy switch fifo");
    let all = format!("[possible values: {}]", policies::NAMES.join(", "));
    assert!(text.contains(&all), "{text}");
    let text = refused("loga set --pid 1 --class low");
    assert!(text.contains("[possible values: normal, idle]"), "{text}");
    let text = refused("loga events --kinds throttled,gone");
    assert!(
        text.contains("'gone'") && text.contains("released"),
        "{text}"
    );
}

#[test]
fn word_that_is_nearly_right_gets_a_tip() {
    let text = refused("loga sta");
    let tip = "unrecognized subcommand 'sta'; tip: a similar subcommand exists: 'stat'";
    assert_eq!(text, tip);
}

#[test]
fn set_wants_exactly_one_subject() {
    let text = refused("loga set --weight 3");
    assert!(
        text.contains("--pid <PID>|--user <USER>|--cgroup <CGROUP>|--list"),
        "{text}"
    );
    assert!(refused("loga set --pid 1 --user ann --weight 3").contains("cannot be used with"));
    assert!(refused("loga set --pid 1 --clear --weight 3").contains("cannot be used with"));
    assert!(refused("loga policy set").contains("--poll-ms"));
    assert!(refused("loga run --weight 3").contains("<COMMAND>"));
}
