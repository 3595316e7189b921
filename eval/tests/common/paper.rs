// SPDX-License-Identifier: GPL-2.0

//! Scenarios with the rule and the phases of the paper.

use loga_eval::scenario::{parse, Scenario};

/// The scenario of a text, where what the text does not say is as in the paper, and not as in the
/// module.
pub(crate) fn scenario(text: &str) -> Scenario {
    let keys = [
        ("name = ", "policy.name=\"event\""),
        ("randomize = ", "policy.randomize=false"),
        ("scale = ", "policy.scale=\"channels\""),
        ("accounting = ", "policy.accounting=\"burst\""),
    ];
    let policy = text.split("[policy]").nth(1).unwrap_or_default();
    let policy = policy.split("\n[").next().unwrap_or_default();
    let missing = keys.iter().filter(|(key, _)| !policy.contains(key));
    let changes: Vec<String> = missing.map(|(_, change)| (*change).to_string()).collect();
    parse("x.toml", text, &changes).unwrap_or_else(|error| panic!("{error}\n{text}"))
}
