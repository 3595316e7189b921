// SPDX-License-Identifier: GPL-2.0

//! Texts that the parser must accept, and texts that it must refuse.

use super::*;

fn outcomes(text: &str) -> Vec<(String, Outcome)> {
    parse("guest", text)
        .tests
        .into_iter()
        .map(|t| (t.name, t.outcome))
        .collect()
}

fn failures(text: &str) -> usize {
    parse("guest", text).count(&Outcome::Fail)
}

const NESTED: &str = "\
KTAP version 1
1..2
    KTAP version 1
    # Subtest: loga_units
    # module: loga
    1..2
    ok 1 add_saturates
    ok 2 sub_saturates # SKIP not here
# loga_units: pass:1 fail:0 skip:1 total:2
ok 1 loga_units
    KTAP version 1
    # Subtest: loga_ids
    1..1
    ok 1 chid_is_checked
ok 2 loga_ids
";

#[test]
fn flat_document_counts_each_test() {
    let got =
        outcomes("noise\nKTAP version 1\n1..2\n# diagnostic\nok 1 - first\nnot ok 2 second\n");
    assert_eq!(
        got,
        [
            ("first".into(), Outcome::Pass),
            ("second".into(), Outcome::Fail)
        ]
    );
}

#[test]
fn nested_document_counts_leaves_once() {
    let got = outcomes(NESTED);
    assert_eq!(
        got,
        [
            ("loga_units/add_saturates".into(), Outcome::Pass),
            ("loga_units/sub_saturates".into(), Outcome::Skip),
            ("loga_ids/chid_is_checked".into(), Outcome::Pass),
        ]
    );
}

#[test]
fn failing_leaf_and_its_suite_count_once() {
    let text = NESTED
        .replace("    ok 1 chid", "    not ok 1 chid")
        .replace("ok 2 loga_ids", "not ok 2 loga_ids");
    assert_eq!(failures(&text), 1);
}

#[test]
fn suite_failing_without_a_failing_leaf_counts() {
    let text = NESTED.replace("ok 2 loga_ids", "not ok 2 loga_ids");
    assert_eq!(failures(&text), 1);
}

#[test]
fn output_cut_after_any_line_is_a_failure() {
    let lines: Vec<_> = NESTED.lines().collect();
    for end in 0..lines.len() {
        assert!(
            failures(&lines[..end].join("\n")) > 0,
            "cut after {end} lines"
        );
    }
    assert_eq!(failures(NESTED), 0);
}

#[test]
fn fewer_or_more_tests_than_planned_is_a_failure() {
    assert_eq!(failures("KTAP version 1\n1..2\nok 1 a\n"), 1);
    assert_eq!(failures("KTAP version 1\n1..1\nok 1 a\nok 2 b\n"), 1);
}

#[test]
fn missing_plan_is_a_failure() {
    assert_eq!(failures("KTAP version 1\nok 1 a\n"), 1);
}

#[test]
fn number_out_of_order_is_a_failure() {
    assert_eq!(failures("KTAP version 1\n1..2\nok 2 b\nok 2 b\n"), 1);
}

#[test]
fn bail_out_is_a_failure() {
    assert_eq!(
        failures("KTAP version 1\n1..1\nok 1 a\nBail out! no device\n"),
        1
    );
}

#[test]
fn second_document_ends_the_first() {
    assert_eq!(
        failures("KTAP version 1\n1..2\nok 1 a\nKTAP version 1\n1..1\nok 1 b\n"),
        1
    );
    assert_eq!(
        failures("KTAP version 1\n1..1\nok 1 a\nKTAP version 1\n1..1\nok 1 b\n"),
        0
    );
}

#[test]
fn empty_output_is_a_failure() {
    assert_eq!(failures(""), 1);
    assert_eq!(failures("ok 1 without a header\n"), 1);
}

#[test]
fn stamp_is_recognised_only_as_a_number() {
    assert_eq!(strip_stamp("[    1.234567] ok 1 a"), (true, "ok 1 a"));
    assert_eq!(
        strip_stamp("[    1.234567]     ok 1 a"),
        (true, "    ok 1 a")
    );
    assert_eq!(strip_stamp("[loga] hello"), (false, "[loga] hello"));
    assert_eq!(strip_stamp("plain"), (false, "plain"));
}
