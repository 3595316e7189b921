// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Single steps, and properties under any signal.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

const S: fn(u64) -> Duration = Duration::from_secs;
/// Time between two steps.
const STEP: u64 = 5;

fn key(node: &str, gpu: u32) -> Key {
    (node.to_string(), gpu)
}

/// One node of two GPUs, of which the second does nothing.
fn pair(waited: u64) -> BTreeMap<Key, u64> {
    BTreeMap::from([(key("n", 0), waited), (key("n", 1), 0)])
}

#[test]
fn gpu_closes_above_the_upper_bound_and_opens_after_a_calm_minute() {
    let mut gates = Gates::default();
    let closed = |gates: &mut Gates, waited, at| !gates.step(&pair(waited), S(at)).is_empty();
    assert!(!closed(&mut gates, CLOSE, 0));
    assert!(closed(&mut gates, CLOSE + 1, 5));
    // Between the bounds nothing changes, however long.
    assert!(closed(&mut gates, OPEN, 1_000));
    assert!(closed(&mut gates, OPEN - 1, 1_005));
    assert!(closed(&mut gates, OPEN - 1, 1_064));
    // One reading above the bound begins the minute anew.
    assert!(closed(&mut gates, OPEN, 1_064));
    assert!(closed(&mut gates, 0, 1_070));
    assert!(closed(&mut gates, 0, 1_129));
    assert!(!closed(&mut gates, 0, 1_130));
    assert!(!closed(&mut gates, CLOSE, 1_135));
}

#[test]
fn at_most_half_of_a_node_is_closed_and_the_worst_first() {
    let mut gates = Gates::default();
    let all = |waited: [u64; 5]| {
        (0..)
            .zip(waited)
            .map(|(gpu, one)| (key("n", gpu), one))
            .collect()
    };
    let names = |closed: BTreeSet<Key>| closed.iter().map(|key| key.1).collect::<Vec<u32>>();
    let full = all([400_000, 900_000, 500_000, 700_000, 600_000]);
    assert_eq!(names(gates.step(&full, S(0))), [1, 3]);
    // Those that are closed stay so, whatever the others do.
    let other = all([900_000, 200_000, 900_000, 200_000, 900_000]);
    assert_eq!(names(gates.step(&other, S(5))), [1, 3]);
    // A single GPU is never closed.
    let single = BTreeMap::from([(key("m", 0), 9_000_000)]);
    assert!(gates.step(&single, S(10)).iter().all(|key| key.0 == "n"));
}

#[test]
fn node_that_falls_silent_has_no_closed_gpu_after_a_minute() {
    let mut gates = Gates::default();
    // Held for longer than a minute by now.
    for at in 0..60 {
        let waited = if at % 30 < 15 { 900_000 } else { 0 };
        gates.step(&pair(waited), S(at * STEP));
    }
    let closed = gates.step(&pair(900_000), S(300));
    assert_eq!(closed, BTreeSet::from([key("n", 0)]));
    assert_eq!(gates.step(&BTreeMap::new(), S(359)), closed);
    assert!(gates.step(&BTreeMap::new(), S(360)).is_empty());
}

#[test]
fn gpus_that_are_gone_are_forgotten() {
    let mut gates = Gates::default();
    gates.step(&pair(900_000), S(0));
    gates.step(&BTreeMap::new(), FORGET);
    assert!(gates.gpus.is_empty());
}

/// Load of a GPU that follows the signal: it approaches `busy` while the GPU is open and `rest`
/// while it is closed, by a `lag`th of the way in each step. Returns when the signal changed.
fn following(steps: u64, busy: u64, rest: u64, lag: u64) -> Vec<u64> {
    let mut gates = Gates::default();
    let (mut load, mut closed, mut changes) = (0, false, Vec::new());
    for at in 0..steps {
        let target = if closed { rest } else { busy };
        load = (load * (lag - 1) + target) / lag;
        let now = !gates.step(&pair(load), S(at * STEP)).is_empty();
        if now != closed {
            changes.push(at * STEP);
        }
        closed = now;
    }
    changes
}

#[test]
fn load_that_follows_the_signal_does_not_make_it_oscillate() {
    let hour = 3_600 / STEP;
    for lag in [1, 2, 6, 20] {
        // New pods stay away, those that run go on: the GPU stays closed.
        assert_eq!(following(hour, 800_000, 200_000, lag).len(), 1, "lag {lag}");
        // All load goes: without a longer hold each time, an hour would have some fifty changes.
        let changes = following(4 * hour, 800_000, 0, lag);
        let first = changes.iter().filter(|at| **at < 3_600).count();
        assert!(first <= 14, "lag {lag}: {changes:?}");
        // The longest hold is 16 minutes: at most four times two changes in an hour.
        for from in [3_600, 7_200, 10_800] {
            let within = changes
                .iter()
                .filter(|at| (from..from + 3_600).contains(*at));
            assert!(within.count() <= 8, "lag {lag}: {changes:?}");
        }
    }
}

#[test]
fn hold_is_a_minute_again_after_a_long_peace() {
    let mut gates = Gates::default();
    let mut wave = |from: u64| {
        gates.step(&pair(900_000), S(from));
        (1..)
            .find(|at| gates.step(&pair(0), S(from + at)).is_empty())
            .expect("opens")
    };
    assert_eq!([wave(0), wave(100), wave(250)], [61, 121, 241]);
    assert_eq!(wave(2_000), 61);
}

/// Nodes, their GPUs, and how many of those may be closed.
const NODES: [(&str, u32, usize); 3] = [("a", 1, 0), ("b", 3, 1), ("c", 8, 4)];
/// Steps of a signal: 40 minutes.
const STEPS: usize = 480;
/// GPUs in all.
const GPUS: usize = 12;

/// A signal of one kind, from numbers up to 1.2 million.
fn next(kind: u8, step: usize, gpu: usize, load: u64, number: u64) -> u64 {
    match kind {
        0 => number,
        // A square wave of another length for each GPU.
        1 if (step / (1 + 7 * gpu)) % 2 == 0 => 1_000_000,
        1 => 0,
        // The mean that an exporter gives.
        _ => (load * 5 + number) / 6,
    }
}

/// What the programs of each GPU that is heard of waited in each step.
fn signal(kind: u8, numbers: &[u64], silent: &[u8]) -> Vec<BTreeMap<Key, u64>> {
    let mut load = [0; GPUS];
    let steps = numbers
        .chunks_exact(GPUS)
        .zip(silent.chunks_exact(NODES.len()))
        .enumerate();
    let one = |(step, (numbers, silent)): (usize, (&[u64], &[u8]))| {
        let mut waited = BTreeMap::new();
        let mut at = 0;
        for ((node, gpus, _), silent) in NODES.into_iter().zip(silent) {
            for gpu in 0..gpus {
                load[at] = next(kind, step, at, load[at], numbers[at]);
                if *silent > 0 {
                    waited.insert(key(node, gpu), load[at]);
                }
                at += 1;
            }
        }
        waited
    };
    steps.map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// A twentieth of the readings of a node are missing.
    #[test]
    fn any_signal_keeps_a_gpu_closed_for_a_minute_and_half_of_a_node_open(
        kind in 0u8..3,
        numbers in vec(0u64..1_200_000, STEPS * GPUS),
        silent in vec(0u8..20, STEPS * NODES.len()),
    ) {
        let mut gates = Gates::default();
        let mut before = BTreeSet::new();
        let mut since: HashMap<Key, u64> = HashMap::new();
        for (step, waited) in (0..).zip(signal(kind, &numbers, &silent)) {
            let at = step * STEP;
            let closed = gates.step(&waited, S(at));
            for (node, _, most) in NODES {
                let count = closed.iter().filter(|key| key.0 == node).count();
                prop_assert!(count <= most, "{} s: {:?}", at, closed);
            }
            let of = |key: &Key| waited.get(key).copied().unwrap_or(0);
            for key in closed.difference(&before) {
                prop_assert!(of(key) > CLOSE, "{} s: {:?} closed at {}", at, key, of(key));
                since.insert(key.clone(), at);
            }
            for key in before.difference(&closed) {
                prop_assert!(of(key) < OPEN, "{} s: {:?} opened at {}", at, key, of(key));
                prop_assert!(at - since[key] >= 60, "{} s: {:?} closed since {}", at, key, since[key]);
            }
            before = closed;
        }
        prop_assert!(!since.is_empty(), "no GPU was ever closed");
    }
}
