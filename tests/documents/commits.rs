// SPDX-License-Identifier: GPL-2.0

//! Commits that the documents cite are in the history of the repository.

use super::pages::{pages, root};
use std::collections::BTreeSet;
use std::process::Command;

/// Words of a text that are short names of commits: 7 to 12 hexadecimal digits, of which some are
/// letters and some are not.
fn cited(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    words
        .map(|word| word.trim_matches('.'))
        .filter(|word| (7..=12).contains(&word.len()))
        .filter(|word| word.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')))
        .filter(|word| word.bytes().any(|c| c.is_ascii_digit()))
        .filter(|word| word.bytes().any(|c| c.is_ascii_lowercase()))
        .collect()
}

/// Runs git in the repository: whether it succeeded, and what it printed. Nothing is run from the
/// checkout, so it does not matter whose it is.
fn git(arguments: &[&str]) -> Option<(bool, String)> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root())
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some((output.status.success(), text))
}

/// Why the history cannot be looked at, if it cannot.
pub(crate) fn unknown_history() -> Option<&'static str> {
    if !root().join(".git").exists() {
        return Some("there is no .git");
    }
    match git(&["rev-parse", "--is-shallow-repository"]) {
        Some((true, answer)) if answer == "true" => Some("the clone is shallow"),
        _ => None,
    }
}

/// Whether a commit is there, and before the one that is checked out.
pub(crate) fn is_in_history(commit: &str) -> bool {
    let there = git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    let before = git(&["merge-base", "--is-ancestor", commit, "HEAD"]);
    matches!((there, before), (Some((true, _)), Some((true, _))))
}

#[test]
fn cited_commits_are_in_the_history() {
    if let Some(reason) = unknown_history() {
        println!("skipped: {reason}");
        return;
    }
    let mut wrong = Vec::new();
    let mut known = 0;
    for page in pages() {
        for commit in cited(&page.text) {
            match is_in_history(commit) {
                true => known += 1,
                false => wrong.push(format!("{}: {commit}", page.path)),
            }
        }
    }
    assert!(known > 20, "{known} commits");
    assert!(
        wrong.is_empty(),
        "not in the history:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn words_that_are_no_commits_are_not_taken_for_some() {
    let text = "at 6ab21e5, `d4e4f25` (0a80417): 1006919.0556 0xdeadbee7 defaced GPU-6a1b 12000000";
    let found: Vec<&str> = cited(text).into_iter().collect();
    assert_eq!(found, ["0a80417", "6ab21e5", "d4e4f25"]);
}
