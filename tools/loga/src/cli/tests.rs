// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Arguments that are right, and what is said about others.

use super::*;
use clap::CommandFactory;
use std::ffi::OsString;

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
fn intervals_and_spans_are_refused_with_their_range_also_below_zero() {
    let interval = "want seconds from 0.05 to 3600";
    for text in ["1e-9", "-1", "-1e-9", "-inf", "nan", "0", "1e9", "soon"] {
        assert_eq!(
            refused(&format!("loga top --interval {text}")),
            format!("--interval {text}: {interval}")
        );
        assert_eq!(
            refused(&format!("loga stat --watch {text}")),
            format!("--watch {text}: {interval}")
        );
        for line in ["loga events --for", "loga reserve --pid 1 --prio 3 --for"] {
            let said = refused(&format!("{line} {text}"));
            assert_eq!(
                said,
                format!("--for {text}: want seconds from 0.001 to 86400")
            );
        }
    }
}

#[test]
fn numbers_below_zero_are_no_unknown_options_anywhere() {
    let whole = "want a whole number from 0 to 4294967295";
    assert_eq!(refused("loga stat --gpu -1"), format!("--gpu -1: {whole}"));
    assert_eq!(
        refused("loga stat --gpu one"),
        "--gpu one: want a whole number"
    );
    let said = refused("loga agent focus --prio -5");
    assert_eq!(said, "--prio -5: want a whole number from 0 to 39");
    let said = refused("loga policy set --poll-ms -5");
    assert!(said.starts_with("--poll-ms -5: "), "{said}");
    let said = refused("loga slurm table --nodes a --every -5");
    assert_eq!(said, "--every -5: want whole seconds from 1 to 20");
}

#[test]
fn percent_with_a_sign_is_refused_with_how_to_write_it() {
    for line in ["loga set --pid 1 --limit", "loga run --limit"] {
        assert_eq!(
            refused(&format!("{line} 20%")),
            "--limit 20%: want a number of percent from 1 to 100, without the sign"
        );
    }
    let said = refused("loga place --want 20%");
    assert!(said.ends_with("without the sign"), "{said}");
}

#[test]
fn refusals_name_the_help_of_their_command() {
    let said = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = Arguments::try_parse_from(&words).expect_err(line);
        refusal(&error, &words)
    };
    for (line, help) in [
        ("loga sta", "loga"),
        ("loga set --weight 3", "loga set"),
        ("loga set --pid 1 --limit 20%", "loga set"),
        ("loga policy --gpu 1 set --ratio 0", "loga policy set"),
        ("loga agent serve --wrong", "loga agent serve"),
        ("loga run --weight x -- loga stat", "loga run"),
    ] {
        let said = said(line);
        assert!(said.ends_with(&format!("; see `{help} --help`")), "{said}");
    }
}

#[test]
fn set_of_the_policy_without_a_knob_says_briefly_what_is_missing() {
    let said = refused("loga policy set");
    assert!(said.starts_with("nothing to set: want a knob"), "{said}");
    assert!(said.len() < 100, "{said}");
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
    assert!(
        text.ends_with("--weight 10001: want a whole number from 1 to 10000"),
        "{text}"
    );
    let text = refused("loga run --limit 101 -- true");
    assert!(
        text.ends_with("want a number of percent from 1 to 100"),
        "{text}"
    );
    let text = refused("loga set --pid 0 --weight 3");
    assert!(
        text.contains("--pid 0: want a whole number from 1 to"),
        "{text}"
    );
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
    assert!(text.contains("'gone'"), "{text}");
    assert!(text.contains("released"), "{text}");
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

#[test]
fn recordings_are_refused_with_the_range_and_the_formats() {
    for text in ["99", "-1", "1.5", "soon", "3600001"] {
        let said = refused(&format!("loga record --interval {text} file"));
        let range = "want whole milliseconds from 100 to 3600000";
        assert_eq!(said, format!("--interval {text}: {range}"));
    }
    let said = refused("loga record --duration -1 file");
    assert_eq!(said, "--duration -1: want seconds from 0.1 to 31536000");
    assert!(refused("loga record").contains("<FILE>"));
    let said = refused("loga export file --format xml");
    assert!(
        said.contains("[possible values: csv, json, perfetto]"),
        "{said}"
    );
    assert!(refused("loga export file").contains("--format <FORMAT>"));
    assert!(refused("loga report file").contains("--out <OUT>"));
}
