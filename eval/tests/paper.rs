// SPDX-License-Identifier: GPL-2.0

//! Directions of the paper's experiments, on few applications and short runs.

use loga_eval::paper::{figure, Plan};
use loga_eval::results::{At, Experiment, GEOMETRIC_MEAN};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

fn run(number: &str) -> Experiment {
    let done = figure(number, &Plan::quick(), &mut ()).unwrap();
    let done = done.unwrap_or_else(|error| panic!("{number}: {error}"));
    assert_eq!(done.check(), Ok(()), "{number}");
    done
}

/// The same, run once for all tests.
fn quick(number: &'static str) -> Experiment {
    static DONE: Mutex<BTreeMap<&str, Experiment>> = Mutex::new(BTreeMap::new());
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    done.entry(number).or_insert_with(|| run(number)).clone()
}

/// The mean of a point.
fn mean(experiment: &Experiment, name: &str, panel: Option<&str>, at: impl Into<At>) -> f64 {
    let (series, at) = (experiment.series(name, panel).unwrap(), at.into());
    series
        .point(&at)
        .unwrap_or_else(|| panic!("{name} {at}"))
        .mean
}

#[test]
fn accounting_by_event_costs_nothing_and_by_sampling_a_tenth() {
    for number in ["7a", "7b"] {
        let done = quick(number);
        for at in ["heartwall", "nn", GEOMETRIC_MEAN] {
            let (event, sampling) = (
                mean(&done, "event", None, at),
                mean(&done, "sampling", None, at),
            );
            assert!((event - 1.0).abs() <= 0.01, "{number} {at}: {event}");
            assert!(sampling > 1.05, "{number} {at}: {sampling}");
        }
    }
}

#[test]
fn accounting_by_sampling_grows_with_the_throttles() {
    let done = quick("8");
    let at = |name, count: f64| mean(&done, name, Some("heartwall"), count);
    assert!((at("event", 10.0) - 1.0).abs() <= 0.01);
    assert!(
        at("sampling", 1.0) < at("sampling", 10.0) - 0.03,
        "{:?}",
        done.series
    );
}

#[test]
fn scheduling_by_event_is_closer_to_what_is_fair_than_by_sampling() {
    let done = quick("11");
    let off = |name, at: &str| (mean(&done, name, None, at) - mean(&done, "fair", None, at)).abs();
    let all = ["heartwall", "lud", "nn"];
    for at in all {
        assert!(
            off("event", at) <= off("none", at),
            "{at}: {:?}",
            done.series
        );
    }
    let closer = all
        .iter()
        .filter(|at| off("event", at) < off("sampling", at));
    assert!(closer.count() >= 2, "{:?}", done.series);
    // It has most of the GPU without scheduling, so that fair is slower, and it is slowed down.
    assert!(mean(&done, "fair", None, "heartwall") > 2.0);
    assert!(mean(&done, "event", None, "heartwall") > 1.5);
}

#[test]
fn experiment_with_the_same_seeds_gives_the_same_bytes() {
    let bytes = |one: &Experiment| serde_json::to_string(one).unwrap();
    assert_eq!(bytes(&quick("8")), bytes(&run("8")));
}

#[test]
fn every_parameter_says_where_it_comes_from() {
    for number in ["7a", "8", "11"] {
        let done = quick(number);
        assert!(
            done.settings
                .iter()
                .any(|one| one.name == "client.heartwall"),
            "{number}"
        );
        assert!(
            done.settings.iter().all(|one| !one.origin.is_empty()),
            "{number}"
        );
    }
}
