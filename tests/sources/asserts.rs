// SPDX-License-Identifier: GPL-2.0

//! Rule for assertions: one condition each. `assert!(a && b)` does not say which half failed.

use super::sources;
use proc_macro2::{Spacing, TokenStream, TokenTree};
use std::fs;
use std::path::Path;

/// Lines of assertions of two conditions.
fn doubled(stream: TokenStream, lines: &mut Vec<usize>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else {
            continue;
        };
        let macro_of = at.checked_sub(2).and_then(|begin| tokens.get(begin..at));
        let is_assert =
            |pair: &[TokenTree]| pair.iter().map(ToString::to_string).eq(["assert", "!"]);
        if macro_of.is_some_and(is_assert) && has_two(group.stream()) {
            lines.push(group.span_open().start().line);
        }
        doubled(group.stream(), lines);
    }
}

/// Whether what is asserted is `a && b`, and not `a || b && c`.
fn has_two(arguments: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = arguments.into_iter().collect();
    let is = |token: &TokenTree, wanted: char| matches!(token, TokenTree::Punct(mark) if mark.as_char() == wanted);
    let condition = tokens.split(|token| is(token, ',')).next().unwrap_or(&[]);
    let joins = |wanted: char| {
        // Not a reference to a reference, which follows another sign.
        condition.windows(3).any(|three| match three {
            [before, TokenTree::Punct(first), second] => {
                (is(before, '?') || !matches!(before, TokenTree::Punct(_)))
                    && first.as_char() == wanted
                    && first.spacing() == Spacing::Joint
                    && is(second, wanted)
            }
            _ => false,
        })
    };
    joins('&') && !joins('|')
}

fn doubled_in(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    doubled(text.parse().expect("a file of Rust"), &mut lines);
    lines
}

#[test]
fn assertion_has_one_condition() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "src", "regs", "policies", "model", "tools", "throttle", "tests", "eval",
    ];
    let files = folders
        .iter()
        .flat_map(|folder| sources(&root.join(folder)));
    let mut found = Vec::new();
    for file in files {
        let lines = doubled_in(&fs::read_to_string(&file).unwrap());
        let name = file.strip_prefix(root).unwrap().display().to_string();
        found.extend(lines.iter().map(|line| format!("{name}:{line}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn assertion_of_two_conditions_is_found() {
    assert_eq!(doubled_in("fn f() {\n assert!(a && b, \"x\"); }"), [2]);
    for text in [
        "assert!(a, \"{}\", b && c);",
        "assert!(a || b && c);",
        "assert!(a.iter().all(|a| a.b && a.c));",
        "assert!(a == &&b);",
        "ensure!(a && b);",
    ] {
        assert_eq!(doubled_in(text), []);
    }
}
