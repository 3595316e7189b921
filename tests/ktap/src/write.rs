// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Writing KTAP, as [`parse`](mod@crate::parse) reads it.

use crate::{Outcome, Test};

/// The lines that begin a document with `tests` tests.
pub fn begin(tests: usize) -> String {
    format!("KTAP version 1\n1..{tests}\n")
}

/// Lines that a reader of KTAP skips.
pub fn diagnostics(text: &str) -> String {
    text.lines().map(|line| format!("# {line}\n")).collect()
}

/// The line of a result; numbers begin at 1.
pub fn result(number: usize, test: &Test) -> String {
    let Test {
        name,
        outcome,
        note,
    } = test;
    match outcome {
        Outcome::Pass => format!("ok {number} {name}\n"),
        Outcome::Fail => format!("not ok {number} {name} # {note}\n"),
        Outcome::Skip => format!("ok {number} {name} # SKIP {note}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn test(name: &str, outcome: Outcome, note: &str) -> Test {
        Test {
            name: name.to_owned(),
            outcome,
            note: note.to_owned(),
        }
    }

    #[test]
    fn document_is_read_as_it_was_written() {
        let tests = [
            test("first", Outcome::Pass, ""),
            test("second", Outcome::Fail, "3 is not 4"),
            test("third", Outcome::Skip, "not here"),
        ];
        let mut text = begin(tests.len());
        for (number, test) in (1..).zip(&tests) {
            text += &diagnostics("ok 1 of many\n1..7");
            text += &result(number, test);
        }
        let mut read = parse("guest", &text).tests;
        assert_eq!(read[2].note, "SKIP not here");
        read[2].note = "not here".to_owned();
        assert_eq!(read, tests);
    }

    #[test]
    fn document_that_ends_early_is_a_failure() {
        let text = begin(2) + &result(1, &test("first", Outcome::Pass, ""));
        assert_eq!(parse("guest", &text).count(&Outcome::Fail), 1);
    }
}
