// SPDX-License-Identifier: GPL-2.0

//! What each test of the guest printed before its result.

/// One result on the console, and the lines before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Printed<'a> {
    pub(crate) name: &'a str,
    pub(crate) passed: bool,
    /// Without the `# ` of a diagnostic.
    pub(crate) lines: Vec<&'a str>,
}

/// The results on a console, in their order. A test that was skipped passed.
pub(crate) fn printed(console: &str) -> Vec<Printed<'_>> {
    let mut results = Vec::new();
    let mut lines = Vec::new();
    for line in console.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            lines.push(text);
        } else if let Some((name, passed)) = result(line) {
            let lines = std::mem::take(&mut lines);
            // How long the test before this one took comes after its result.
            let own = lines.into_iter().filter(|line| !is_length(line));
            results.push(Printed {
                name,
                passed,
                lines: own.collect(),
            });
        }
    }
    results
}

/// The name in `ok 3 NAME ..` or `not ok 3 NAME ..`.
fn result(line: &str) -> Option<(&str, bool)> {
    let (rest, passed) = match line.strip_prefix("not ok ") {
        Some(rest) => (rest, false),
        None => (line.strip_prefix("ok ")?, true),
    };
    let mut words = rest.split_whitespace();
    words.next()?.parse::<u32>().ok()?;
    Some((words.next()?, passed))
}

/// Whether the line is `NAME took N ms`.
fn is_length(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    words.next() == Some("took") && words.nth(1) == Some("ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_the_result_after_them() {
        let console =
            "KTAP version 1\n1..3\n# 1 us\n# it took 3 ms\nok 1 first\n# first took 7 ms\n\
            noise\n# a\nnot ok 2 second # why\nok 3 third # SKIP times\nok then\n";
        let results = printed(console);
        let names: Vec<_> = results.iter().map(|one| (one.name, one.passed)).collect();
        assert_eq!(names, [("first", true), ("second", false), ("third", true)]);
        let lines: Vec<_> = results.iter().map(|one| one.lines.clone()).collect();
        assert_eq!(lines, [vec!["1 us"], vec!["a"], vec![]]);
    }
}
