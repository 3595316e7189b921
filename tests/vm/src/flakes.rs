// SPDX-License-Identifier: GPL-2.0

//! How often tests fail over many seeds, and how far from their limits their figures stay.
//!
//! A figure is a line `# figure NAME VALUE LOW HIGH` of the guest, see `limits` in `tests/support`. Its
//! distance is that of its mean from the nearer limit, in standard deviations over the runs.

use std::collections::BTreeMap;

use crate::printed::printed;

/// Values of one figure, with their limits.
#[derive(Debug, Default)]
struct Figure {
    values: Vec<f64>,
    lows: Vec<f64>,
    highs: Vec<f64>,
}

/// What a figure shows over the runs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    mean: f64,
    deviation: f64,
    low: f64,
    high: f64,
    /// From the mean to the nearer limit, in deviations; infinite if nothing varies.
    distance: f64,
}

impl Figure {
    /// None for a single run, which shows no deviation.
    fn spread(&self) -> Option<Spread> {
        if self.values.len() < 2 {
            return None;
        }
        // CAST: few runs.
        let count = self.values.len() as f64;
        let mean_of = |values: &[f64]| values.iter().sum::<f64>() / count;
        let (mean, low, high) = (
            mean_of(&self.values),
            mean_of(&self.lows),
            mean_of(&self.highs),
        );
        let squares: f64 = self.values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0)).sqrt();
        let room = (mean - low).min(high - mean);
        // What does not vary is at no distance that a deviation measures.
        let distance = match deviation > 0.0 {
            true => room / deviation,
            false => f64::INFINITY,
        };
        Some(Spread {
            mean,
            deviation,
            low,
            high,
            distance,
        })
    }
}

/// One test over all runs.
#[derive(Debug, Default)]
struct Row {
    runs: usize,
    failures: usize,
    figures: BTreeMap<String, Figure>,
}

/// Runs of tests with several seeds.
#[derive(Debug, Default)]
pub(crate) struct Flakes(BTreeMap<String, Row>);

impl Flakes {
    /// Adds the console of one run.
    pub(crate) fn add(&mut self, console: &str) {
        for one in printed(console) {
            let row = self.0.entry(one.name.to_owned()).or_default();
            row.runs += 1;
            row.failures += usize::from(!one.passed);
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            for (name, [value, low, high]) in one.lines.iter().filter_map(|line| figure(line)) {
                let again = seen.entry(name).or_default();
                *again += 1;
                let name = match *again {
                    1 => name.to_owned(),
                    number => format!("{name} ({number})"),
                };
                let figure = row.figures.entry(name).or_default();
                figure.values.push(value);
                figure.lows.push(low);
                figure.highs.push(high);
            }
        }
    }

    /// Failures of all tests.
    pub(crate) fn failures(&self) -> usize {
        self.0.values().map(|row| row.failures).sum()
    }

    /// Tests that ran at all.
    pub(crate) fn tests(&self) -> usize {
        self.0.len()
    }

    /// A table in Markdown: tests that failed first, then those with the least distance.
    pub(crate) fn table(&self) -> String {
        let nearest = |row: &Row| {
            let spreads = row.figures.iter();
            let spreads =
                spreads.filter_map(|(name, figure)| Some((name.clone(), figure.spread()?)));
            spreads.min_by(|(_, one), (_, other)| one.distance.total_cmp(&other.distance))
        };
        let mut rows: Vec<_> = self
            .0
            .iter()
            .map(|(name, row)| (name, row, nearest(row)))
            .collect();
        rows.sort_by(|(_, one, near), (_, other, far)| {
            let distance = |spread: &Option<(String, Spread)>| match spread {
                Some((_, spread)) => spread.distance,
                None => f64::INFINITY,
            };
            let failures = other.failures.cmp(&one.failures);
            failures.then(distance(near).total_cmp(&distance(far)))
        });
        let mut text = String::from(
            "| test | runs | failures | figures | nearest to a limit | mean | deviation | limits | distance |\n\
             |---|---|---|---|---|---|---|---|---|\n",
        );
        for (name, row, nearest) in rows {
            let figures = row.figures.len();
            text.push_str(&format!(
                "| `{name}` | {} | {} | {figures} |",
                row.runs, row.failures
            ));
            text.push_str(&match nearest {
                Some((figure, at)) => format!(
                    " {figure} | {:.4} | {:.4} | {} to {} | {:.1} |\n",
                    at.mean,
                    at.deviation,
                    short(at.low),
                    short(at.high),
                    at.distance
                ),
                None => " | | | | |\n".to_owned(),
            });
        }
        text
    }
}

/// A limit in a few digits.
fn short(limit: f64) -> String {
    if limit.is_infinite() {
        return "any".to_owned();
    }
    let text = format!("{limit:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The name, value and limits in a line of a figure.
fn figure(line: &str) -> Option<(&str, [f64; 3])> {
    let mut words = line.strip_prefix("figure ")?.split_whitespace();
    let name = words.next()?;
    let mut number = || words.next()?.parse().ok();
    Some((name, [number()?, number()?, number()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: f64, word: &str) -> String {
        format!(
            "KTAP version 1\n1..2\n# figure share {value} 10 20\n# figure share 5 0 inf\n# other\n\
             {word} 1 one\nok 2 two\n"
        )
    }

    #[test]
    fn distance_is_in_deviations_from_the_nearer_limit() {
        let mut flakes = Flakes::default();
        for value in [17.0, 18.0, 19.0] {
            flakes.add(&run(value, "ok"));
        }
        let figure = &flakes.0["one"].figures["share"];
        let spread = figure.spread().unwrap();
        assert_eq!(
            (spread.mean, spread.deviation, spread.distance),
            (18.0, 1.0, 2.0)
        );
        let second = flakes.0["one"].figures["share (2)"].spread().unwrap();
        assert_eq!((second.deviation, second.distance), (0.0, f64::INFINITY));
        assert_eq!((flakes.tests(), flakes.failures()), (2, 0));
        let table = flakes.table();
        let row = "| `one` | 3 | 0 | 2 | share | 18.0000 | 1.0000 | 10 to 20 | 2.0 |";
        assert_eq!(table.lines().nth(2), Some(row));
        assert_eq!(
            table.lines().nth(3),
            Some("| `two` | 3 | 0 | 0 | | | | | |")
        );
    }

    #[test]
    fn failures_are_counted_and_come_first() {
        let mut flakes = Flakes::default();
        flakes.add(&run(15.0, "ok"));
        flakes.add(&run(9.0, "not ok").replace("ok 2 two", "ok 2 aaa"));
        assert_eq!(flakes.failures(), 1);
        let table = flakes.table();
        assert!(table
            .lines()
            .nth(2)
            .unwrap()
            .starts_with("| `one` | 2 | 1 |"));
        // A single run has no deviation.
        assert!(table.contains("| `aaa` | 1 | 0 | 0 | | | | | |"));
    }
}
