// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Tables and lines as wide as a terminal: columns that do not fit are left out and named, lines
//! are broken between words. What is no terminal gets everything.

use super::grid::grid;
use ratatui::text::Span;

/// What lines after the first one of a broken line begin with.
const INDENT: &str = "  ";

/// Rows below titles, as [`grid`]. If that is wider than `width`, columns are left out in the order of
/// `dispensable`, and a line below names them.
pub(crate) fn grid_within(
    titles: &[&str],
    left: &[&str],
    dispensable: &[&str],
    rows: Vec<Vec<String>>,
    width: Option<usize>,
) -> Option<String> {
    let mut shown: Vec<usize> = (0..titles.len()).collect();
    let mut candidates = dispensable.iter();
    loop {
        let titles_of = |shown: &[usize]| shown.iter().map(|at| titles[*at]).collect::<Vec<_>>();
        let cells = |row: &Vec<String>| {
            shown
                .iter()
                .filter_map(|at| row.get(*at).cloned())
                .collect()
        };
        let drawn = grid(&titles_of(&shown), left, rows.iter().map(cells).collect())?;
        let fits = width.is_none_or(|width| drawn.lines().all(|line| columns(line) <= width));
        let next = if fits { None } else { candidates.next() };
        let Some(next) = next else {
            let is_left_out = |at: &usize| !shown.contains(at);
            let missing: Vec<usize> = (0..titles.len()).filter(is_left_out).collect();
            return Some(with_missing(drawn, &titles_of(&missing), width));
        };
        shown.retain(|at| titles[*at] != *next);
    }
}

/// Rows below titles, as [`grid`]. If that is wider than `width`, each row becomes a column.
pub(crate) fn grid_or_turned(
    titles: &[&str],
    left: &[&str],
    rows: Vec<Vec<String>>,
    width: Option<usize>,
) -> Option<String> {
    let drawn = grid(titles, left, rows.clone())?;
    if width.is_none_or(|width| drawn.lines().all(|line| columns(line) <= width)) {
        return Some(drawn);
    }
    let turned = titles.iter().enumerate().map(|(at, title)| {
        let cells = rows.iter().filter_map(|row| row.get(at).cloned());
        std::iter::once((*title).to_string()).chain(cells).collect()
    });
    let mut turned: Vec<Vec<String>> = turned.collect();
    let titles = turned.remove(0);
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    grid(&titles, &titles, turned)
}

fn with_missing(drawn: String, missing: &[&str], width: Option<usize>) -> String {
    if missing.is_empty() {
        return drawn;
    }
    let line = format!(
        "not shown: {} (wider terminal, or --json)",
        missing.join(", ")
    );
    format!("{drawn}\n{}", broken(&line, width))
}

/// A line on several ones of at most this width, broken between words.
pub(crate) fn broken(line: &str, width: Option<usize>) -> String {
    let Some(width) = width else {
        return line.to_string();
    };
    let mut text = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let wide = columns(word);
        if used > 0 && used + 1 + wide > width {
            text.push('\n');
            text.push_str(INDENT);
            used = INDENT.len();
        } else if used > 0 {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += wide;
    }
    text
}

/// Columns of a text on a terminal.
fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_string).to_vec();
        vec![
            row(["one", "12.5", "a long state"]),
            row(["日本語", "1", "-"]),
        ]
    }

    fn drawn(width: Option<usize>) -> String {
        let titles = ["NAME", "SHARE", "STATE"];
        grid_within(
            &titles,
            &["NAME", "STATE"],
            &["STATE", "SHARE"],
            rows(),
            width,
        )
        .expect("rows")
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_and_named() {
        assert!(!drawn(None).contains("not shown"));
        let whole = drawn(None).lines().map(columns).max().expect("lines");
        assert_eq!(drawn(Some(whole)), drawn(None));
        let narrow = drawn(Some(whole - 1));
        assert!(narrow.contains("12.5"), "{narrow}");
        assert!(!narrow.contains("a long state"), "{narrow}");
        let said = "not shown: STATE (wider terminal, or --json)";
        assert_eq!(
            narrow.lines().last(),
            Some(
                broken(said, Some(whole - 1))
                    .lines()
                    .last()
                    .expect("a line")
            )
        );
        for width in 0..40 {
            let text = drawn(Some(width));
            for title in ["NAME", "SHARE", "STATE"] {
                assert!(text.contains(title), "{text}");
            }
        }
    }

    #[test]
    fn rows_become_columns_where_they_do_not_fit() {
        let titles = ["GPU", "POLICY", "MODE"];
        let row = |cells: [&str; 3]| cells.map(str::to_string).to_vec();
        let rows = vec![row(["0", "event", "a long word"]), row(["1", "las", "b"])];
        let whole = grid(&titles, &titles, rows.clone());
        assert_eq!(grid_or_turned(&titles, &titles, rows.clone(), None), whole);
        assert_eq!(
            grid_or_turned(&titles, &titles, rows.clone(), Some(80)),
            whole
        );
        let turned = grid_or_turned(&titles, &titles, rows, Some(20)).expect("rows");
        let words = turned.lines().map(|line| line.split_whitespace().collect());
        let words: Vec<Vec<&str>> = words.collect();
        assert_eq!(words[0], ["GPU", "0", "1"]);
        assert_eq!(words[1], ["POLICY", "event", "las"]);
        assert_eq!(words[2], ["MODE", "a", "long", "word", "b"]);
    }

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(broken("one two three", Some(8)), "one two\n  three");
        assert_eq!(broken("one two three", None), "one two three");
        assert_eq!(broken("unbreakable", Some(3)), "unbreakable");
    }
}
