// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Values with labels.

use super::metrics::{Id, METRICS};
use crate::names::Name;
use std::sync::Arc;

/// Most bytes of a label's value: longer ones are cut in the middle.
const VALUE_MAX: usize = 512;

/// What stands where a value was cut.
const CUT: &str = "...";

/// A label.
pub type Label = (&'static str, String);

/// Labels that rows share.
pub type Labels = Arc<[Label]>;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A time in seconds, or a ratio.
    Real(f64),
}

/// One value of a metric.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub labels: Labels,
    /// The window, for metrics that have one.
    pub window: Option<&'static str>,
    /// The value.
    pub value: Value,
}

/// The rows of each metric.
#[derive(Clone, Debug)]
pub struct Rows(Vec<Vec<Row>>);

impl Default for Rows {
    fn default() -> Self {
        Self(vec![Vec::new(); METRICS.len()])
    }
}

impl Rows {
    /// Those of the metric with this number.
    pub fn of(&self, number: usize) -> &[Row] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }

    /// Adds a count.
    pub fn count(&mut self, id: Id, labels: &Labels, count: u64) {
        self.push(id, labels, None, Value::Count(count));
    }

    /// Adds a time.
    pub fn seconds(&mut self, id: Id, labels: &Labels, ns: u64) {
        // A division is monotonic: a counter that grows goes on growing.
        self.push(id, labels, None, Value::Real(ns as f64 / 1e9));
    }

    /// Adds a ratio.
    pub fn ratio(&mut self, id: Id, labels: &Labels, ratio: f64) {
        self.push(id, labels, None, Value::Real(ratio));
    }

    /// Adds ratios of the last 2 s and the last 30 s, given in parts of a `whole`.
    pub fn windows(&mut self, id: Id, labels: &Labels, parts: [u64; 2], whole: u32) {
        for (window, part) in ["2s", "30s"].into_iter().zip(parts) {
            let ratio = part as f64 / f64::from(whole);
            self.push(id, labels, Some(window), Value::Real(ratio));
        }
    }

    fn push(&mut self, id: Id, labels: &Labels, window: Option<&'static str>, value: Value) {
        self.0[id as usize].push(Row {
            labels: labels.clone(),
            window,
            value,
        });
    }
}

/// A label's value: a name as it is printed, and not longer than others.
pub fn printable(name: &Name) -> String {
    let text = name.to_string();
    if text.len() <= VALUE_MAX {
        return text;
    }
    let half = (VALUE_MAX - CUT.len()) / 2;
    let (mut begin, mut end) = (half, text.len() - half);
    while !text.is_char_boundary(begin) {
        begin -= 1;
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    format!("{}{CUT}{}", &text[..begin], &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_is_cut_between_characters() {
        let hostile = printable(&"/a\nb\x1b[2J".into());
        assert_eq!(hostile, "\"/a\\nb\\x1b[2J\"");
        let long = format!("/begin/{}/end", "\u{e4}".repeat(5000));
        let cut = printable(&long.into());
        assert!(cut.len() <= VALUE_MAX, "{}", cut.len());
        assert!(cut.len() > VALUE_MAX - 8, "{}", cut.len());
        assert!(cut.starts_with("/begin/"));
        assert!(cut.ends_with("/end"));
        assert!(cut.contains(CUT));
        assert_eq!(printable(&"x".repeat(VALUE_MAX).into()).len(), VALUE_MAX);
    }
}
