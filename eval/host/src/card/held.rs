// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a held process shows: the report of `tests/card/hold.c` beside the kernels' own times.
//!
//! All times are CLOCK_MONOTONIC in ns; those of kernels are the device's, converted by the load
//! generator.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kernel as the load generator logs it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(super) struct Kernel {
    submitted_ns: u64,
    returned_ns: u64,
    started_ns: u64,
    ended_ns: u64,
}

/// Reads a log of kernels; lines that are no kernel are passed over.
pub(super) fn kernels(text: &str) -> Vec<Kernel> {
    let lines = text.lines();
    let mut kernels: Vec<Kernel> = lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    kernels.sort_by_key(|kernel| kernel.submitted_ns);
    kernels
}

/// A line of the report: its kind and values.
struct Line<'a> {
    kind: &'a str,
    values: BTreeMap<&'a str, &'a str>,
}

impl Line<'_> {
    fn number(&self, name: &str) -> Option<u64> {
        self.values.get(name)?.parse().ok()
    }
}

fn lines<'a>(report: &'a str, kind: &'a str) -> impl Iterator<Item = Line<'a>> {
    let lines = report.lines().map(|line| {
        let mut words = line.split(' ');
        Line {
            kind: words.next().unwrap_or_default(),
            values: words.filter_map(|word| word.split_once('=')).collect(),
        }
    });
    lines.filter(move |line| line.kind == kind)
}

/// Stores to one doorbell mapping.
#[derive(Debug, Eq, PartialEq, Serialize)]
pub(super) struct Rung {
    mapping: u64,
    /// `0` or `1`, or `unknown` where no call told.
    bar: String,
    bytes: u64,
    /// Stores to it.
    pub(super) stores: u64,
    tokens: Vec<Token>,
}

/// Stores of one value at one offset of a mapping.
#[derive(Debug, Eq, PartialEq, Serialize)]
struct Token {
    offset: u64,
    /// As the report has it: hexadecimal, or `unknown`.
    value: String,
    stores: u64,
}

impl Rung {
    /// It in a few words.
    pub(super) fn line(&self) -> String {
        let (bar, stores, tokens) = (&self.bar, self.stores, self.tokens.len());
        format!("the doorbell in BAR {bar} {stores} times with {tokens} tokens")
    }
}

/// Which mappings were rung, and with what.
pub(super) fn rung(report: &str) -> Vec<Rung> {
    let text =
        |line: &Line<'_>, name: &str| line.values.get(name).map_or("", |text| text).to_owned();
    let tokens = |mapping: u64| {
        let of = lines(report, "token").filter(move |line| line.number("mapping") == Some(mapping));
        let token = |line: Line<'_>| {
            Some(Token {
                offset: line.number("offset")?,
                value: text(&line, "value"),
                stores: line.number("stores")?,
            })
        };
        of.filter_map(token).collect()
    };
    let mapping = |line: Line<'_>| {
        let mapping = line.number("number")?;
        Some(Rung {
            mapping,
            bar: text(&line, "bar"),
            bytes: line.number("length")?,
            stores: line.number("stores")?,
            tokens: tokens(mapping),
        })
    };
    lines(report, "mapping").filter_map(mapping).collect()
}

/// What went on during one hold.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Held {
    /// From the closing of the mappings to their opening.
    held_ms: f64,
    /// Stores that waited.
    waited: u64,
    /// Kernels that had been submitted when the mappings were closed, and had not ended.
    backlog: usize,
    /// Kernels that started during the hold.
    started: usize,
    /// Kernels that ended during the hold.
    ended: usize,
    /// From the closing to the end of the last one that ended during the hold.
    went_on_us: f64,
}

impl Held {
    /// It in a few words.
    pub(super) fn line(&self) -> String {
        let (ended, backlog) = (self.ended, self.backlog);
        let went_on_ms = self.went_on_us / 1000.0;
        format!("{ended} kernels ended, {backlog} were queued, the last after {went_on_ms:.1} ms")
    }
}

/// The holds of a report.
pub(super) fn held(report: &str, kernels: &[Kernel]) -> Vec<Held> {
    let one = |line: Line<'_>| {
        let (closed, opened) = (line.number("closed")?, line.number("opened")?);
        let during = |at: u64| (closed..opened).contains(&at);
        let count = |which: &dyn Fn(&&Kernel) -> bool| kernels.iter().filter(which).count();
        let ends = kernels.iter().map(|kernel| kernel.ended_ns);
        let last = ends.filter(|ended| during(*ended)).max();
        Some(Held {
            held_ms: opened.saturating_sub(closed) as f64 / 1e6,
            waited: line.number("waited")?,
            backlog: count(&|kernel| kernel.returned_ns < closed && kernel.ended_ns >= closed),
            started: count(&|kernel| during(kernel.started_ns)),
            ended: count(&|kernel| during(kernel.ended_ns)),
            went_on_us: last.map_or(0.0, |last| (last - closed) as f64 / 1e3),
        })
    };
    lines(report, "hold").filter_map(one).collect()
}

/// What the channel of a swallowed ring was doing, as its kernels' times tell.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// All kernels before had ended.
    Idle,
    /// A kernel before had been submitted and had not started.
    Pending,
    /// A kernel before was on the device.
    Running,
}

/// Kernels of which the ring was swallowed while their channel was in one state.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(super) struct Swallowed {
    /// They ended before the ring was made up for: the entry was taken along without it.
    ended_without: u64,
    /// They ended after it only.
    ended_after: u64,
}

/// By state, what became of the kernels whose rings were swallowed.
pub(super) fn swallowed(report: &str, kernels: &[Kernel]) -> BTreeMap<State, Swallowed> {
    let mut found: BTreeMap<State, Swallowed> = BTreeMap::new();
    for line in lines(report, "swallowed") {
        let (Some(at), Some(rung)) = (line.number("at"), line.number("rung")) else {
            continue;
        };
        let is_of = |kernel: &Kernel| (kernel.submitted_ns..=kernel.returned_ns).contains(&at);
        let Some(number) = kernels.iter().position(is_of) else {
            continue;
        };
        let (before, kernel) = (&kernels[..number], &kernels[number]);
        let state = if before
            .iter()
            .any(|one| (one.started_ns..one.ended_ns).contains(&at))
        {
            State::Running
        } else if before.iter().any(|one| one.started_ns > at) {
            State::Pending
        } else {
            State::Idle
        };
        let one = found.entry(state).or_default();
        match kernel.ended_ns < rung {
            true => one.ended_without += 1,
            false => one.ended_after += 1,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNELS: &str = "\
{\"kernel\":1,\"submitted_ns\":100,\"returned_ns\":110,\"started_ns\":120,\"ended_ns\":220}
{\"kernel\":2,\"submitted_ns\":130,\"returned_ns\":140,\"started_ns\":220,\"ended_ns\":320}
{\"kernel\":3,\"submitted_ns\":150,\"returned_ns\":160,\"started_ns\":320,\"ended_ns\":420}
{\"kernel\":4,\"submitted_ns\":200,\"returned_ns\":900,\"started_ns\":910,\"ended_ns\":950}
{\"dropped\":2}
";

    #[test]
    fn device_goes_on_with_what_was_submitted_before_the_hold() {
        let report = "hold number=1 closed=190 opened=890 waited=1 first_wait=205 released=891\n";
        let held = held(report, &kernels(KERNELS));
        let wanted = Held {
            held_ms: 700e-6,
            waited: 1,
            backlog: 3,
            started: 2,
            ended: 3,
            went_on_us: 0.23,
        };
        assert_eq!(held, [wanted]);
        // A hold that was not ended has no line to judge.
        assert_eq!(
            super::held("hold number=1 closed=190\n", &kernels(KERNELS)),
            []
        );
    }

    #[test]
    fn device_that_stops_at_once_goes_on_for_nothing() {
        let report = "hold number=1 closed=500 opened=890 waited=0\n";
        let held = &held(report, &kernels(KERNELS))[0];
        assert_eq!((held.backlog, held.started, held.ended), (0, 0, 0));
        assert_eq!(held.went_on_us, 0.0);
    }

    #[test]
    fn swallowed_ring_is_judged_by_what_its_channel_did() {
        let kernels = kernels(KERNELS);
        let of = |line: &str| swallowed(line, &kernels);
        let without = |ended_without, ended_after| Swallowed {
            ended_without,
            ended_after,
        };
        // The first finds nothing before it, the second finds the first running.
        let idle = of("swallowed number=1 at=105 mapping=0 token=0x5 rung=150\n");
        assert_eq!(idle, BTreeMap::from([(State::Idle, without(0, 1))]));
        let running = of("swallowed number=2 at=135 mapping=0 token=0x5 rung=400\n");
        assert_eq!(running, BTreeMap::from([(State::Running, without(1, 0))]));
        // Before the first one has started, the second finds it waiting.
        let pending = self::kernels(&KERNELS.replace("\"started_ns\":120", "\"started_ns\":145"));
        let found = swallowed("swallowed at=135 rung=320\n", &pending);
        assert_eq!(found, BTreeMap::from([(State::Pending, without(0, 1))]));
        // A ring outside every submission, or one that was never made up for, tells nothing.
        assert!(of("swallowed at=125 rung=320\nswallowed at=135\n").is_empty());
    }

    #[test]
    fn mappings_have_their_tokens() {
        let report = "mapping number=0 bar=0 length=65536 stores=0\n\
                      mapping number=1 bar=1 length=65536 stores=7\n\
                      token mapping=1 offset=144 value=0x1a stores=5\n\
                      token mapping=1 offset=144 value=unknown stores=2\n\
                      mapping number=x\n";
        let rung = rung(report);
        assert_eq!(rung.len(), 2);
        assert_eq!((rung[0].stores, rung[0].tokens.len()), (0, 0));
        assert_eq!((&*rung[1].bar, rung[1].stores), ("1", 7));
        let tokens = rung[1].tokens.iter();
        let tokens: Vec<_> = tokens.map(|one| (&*one.value, one.stores)).collect();
        assert_eq!(tokens, [("0x1a", 5), ("unknown", 2)]);
    }
}
