// SPDX-License-Identifier: GPL-2.0

//! A timed test that failed, run again with other seeds: is it the module, or the seed?
//!
//! The guest says of a failed test that it is timed, see [`loga_ktap::timed`]. Such a test runs
//! again in a machine of its own with each of [`AGAIN`] other seeds. It counts as failed if one of
//! these fails too, else as passed and *unsteady*. A test that is not timed is never repeated, and
//! a complaint of the kernel is never forgiven.

use loga_ktap::{Outcome, Report};

use crate::printed::printed;

/// Other seeds with which a timed test that failed has to pass.
pub(crate) const AGAIN: u32 = 2;

/// Lines of figures that are shown of one run.
const MOST_FIGURES: usize = 3;

/// One run of one test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) seed: u32,
    pub(crate) passed: bool,
    /// What it measured, or why it failed.
    pub(crate) figures: String,
}

/// The timed tests among those that failed, in their order.
pub(crate) fn timed_failures(report: &Report, console: &str) -> Vec<String> {
    let timed = |name: &str| {
        let line = loga_ktap::timed(name);
        console.lines().any(|other| other == line.trim_end())
    };
    let failed = report.tests.iter();
    let failed = failed.filter(|test| test.outcome == Outcome::Fail && timed(&test.name));
    failed.map(|test| test.name.clone()).collect()
}

/// How a test went in the run with this report and console.
pub(crate) fn attempt(name: &str, seed: u32, report: &Report, console: &str) -> Attempt {
    let test = report.tests.iter().find(|test| test.name == name);
    let complaints = report.tests.iter().filter(|test| test.name != name);
    let complaint = complaints
        .filter(|test| test.outcome == Outcome::Fail)
        .map(|test| format!("{}: {}", test.name, test.note))
        .next();
    let failure = match test {
        None => Some("did not run".to_owned()),
        Some(test) if test.outcome == Outcome::Pass => None,
        Some(test) => Some(test.note.clone()),
    };
    match failure.or(complaint) {
        Some(figures) => Attempt {
            seed,
            passed: false,
            figures,
        },
        None => Attempt {
            seed,
            passed: true,
            figures: figures(name, console),
        },
    }
}

/// The last lines that a test printed before its result.
fn figures(name: &str, console: &str) -> String {
    let results = printed(console);
    let Some(one) = results.iter().find(|one| one.name == name) else {
        return String::new();
    };
    let from = one.lines.len().saturating_sub(MOST_FIGURES);
    one.lines.get(from..).unwrap_or(&[]).join("; ")
}

/// Counts a test that failed with the first seed as passed if it passed with all others.
///
/// Returns the lines that say so of an unsteady test.
pub(crate) fn settle(report: &mut Report, name: &str, attempts: &[Attempt]) -> Option<Vec<String>> {
    let (_, others) = attempts.split_first()?;
    let steady = others.iter().any(|attempt| !attempt.passed);
    if steady || others.is_empty() {
        return None;
    }
    let test = report.tests.iter_mut().find(|test| test.name == name)?;
    test.outcome = Outcome::Pass;
    let mut lines = vec![format!("unsteady {name}")];
    lines.extend(attempts.iter().map(describe));
    Some(lines)
}

/// One line about one run.
pub(crate) fn describe(attempt: &Attempt) -> String {
    let word = if attempt.passed { "passed" } else { "failed" };
    format!("         seed {} {word}: {}", attempt.seed, attempt.figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONSOLE: &str = "KTAP version 1\n1..3\n# 1 us\nok 1 first\n# first took 7 ms\n# 10.6 %\n\
        # 8.3 %\n# second is timed\n# a: wrong\nnot ok 2 second\n# second took 9 ms\n# third: x\n\
        not ok 3 third\n";

    fn report() -> Report {
        loga_ktap::parse("guest", CONSOLE)
    }

    fn one(seed: u32, passed: bool) -> Attempt {
        Attempt {
            seed,
            passed,
            figures: format!("{seed}"),
        }
    }

    #[test]
    fn only_failures_that_the_guest_calls_timed_are_repeated() {
        assert_eq!(timed_failures(&report(), CONSOLE), ["second"]);
        let text = CONSOLE.replace("# second is timed\n", "");
        assert!(timed_failures(&report(), &text).is_empty());
        let text = CONSOLE.replace("not ok 2", "ok 2");
        let report = loga_ktap::parse("guest", &text);
        assert!(timed_failures(&report, &text).is_empty());
    }

    #[test]
    fn attempt_has_what_the_test_printed_or_why_it_failed() {
        let first = attempt(
            "first",
            1,
            &loga_ktap::parse(
                "guest",
                "KTAP version 1\n1..1\n# a\n# b\n# c\n# d\nok 1 first\n",
            ),
            "# a\n# b\n# c\n# d\nok 1 first\n",
        );
        assert!(first.passed);
        assert_eq!(first.figures, "b; c; d");
        let second = attempt("second", 4, &report(), CONSOLE);
        assert!(!second.passed && second.seed == 4);
        assert!(!attempt("fourth", 1, &report(), CONSOLE).passed);
        // A complaint beside the test, such as one of the kernel.
        assert!(!attempt("first", 1, &report(), CONSOLE).passed);
    }

    #[test]
    fn figures_are_those_of_the_test_alone() {
        assert_eq!(figures("first", CONSOLE), "1 us");
        assert_eq!(figures("third", CONSOLE), "third: x");
    }

    #[test]
    fn test_is_unsteady_only_if_all_other_seeds_pass() {
        let mut passed = report();
        let attempts = [one(1, false), one(2, true), one(3, true)];
        let lines = settle(&mut passed, "second", &attempts).expect("unsteady");
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0], "unsteady second");
        assert_eq!(passed.count(&Outcome::Fail), 1);
        for attempts in [
            &[one(1, false), one(2, true), one(3, false)][..],
            &[one(1, false), one(2, false), one(3, true)][..],
            &[one(1, false)][..],
        ] {
            let mut failed = report();
            assert_eq!(settle(&mut failed, "second", attempts), None);
            assert_eq!(failed.count(&Outcome::Fail), 2);
        }
    }
}
