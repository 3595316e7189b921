// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The page that describes the metrics.

use crate::export::metrics::{Metric, METRICS};
use std::fs;
use std::path::Path;

#[test]
fn documentation_has_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring.md");
    let text = fs::read_to_string(path).expect("the page");
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `loga_"))
        .collect();
    let row = |metric: &Metric| {
        let (name, kind, scope) = (metric.name, metric.kind.name(), metric.scope.name());
        format!(
            "| `{name}` | {kind} | {scope} | {} | {} |",
            metric.labels, metric.help
        )
    };
    let wanted: Vec<String> = METRICS.iter().map(row).collect();
    assert_eq!(
        rows,
        wanted,
        "docs/monitoring.md should have:\n{}",
        wanted.join("\n")
    );
}
