// SPDX-License-Identifier: GPL-2.0

//! The page shows every experiment, and verdicts follow the numbers.

use super::*;
use crate::paper::{figure, Plan};

/// Few repetitions of every experiment of the simulator.
fn results() -> Vec<Experiment> {
    let run = |number: &&str| figure(number, &Plan::quick(), &mut ()).unwrap().unwrap();
    FIGURES.iter().map(run).collect()
}

#[test]
fn page_has_a_picture_and_the_numbers_of_each_experiment_and_needs_nothing_else() {
    let results = results();
    let page = page(&results).unwrap();
    assert_eq!(page.matches("<svg").count(), results.len());
    for one in &results {
        assert!(page.contains(&one.title), "{}", one.figure);
        assert!(page.contains(&one.file()), "{}", one.figure);
        assert!(page.contains(&format!("id=\"{}\"", figure::anchor(&one.figure))));
    }
    for bad in ["http://", "https://", "src=", "<link", "url(", "<script"] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(bad), "{bad}");
    }
}

#[test]
fn verdict_flips_when_a_number_is_broken() {
    let mut results = results();
    let load = |results: &[Experiment]| {
        let places = places(results);
        let mut judged = places[0].judged.iter();
        judged
            .find(|one| one.finding.figure == "10")
            .unwrap()
            .verdict
    };
    assert_eq!(load(&results), Verdict::Holds);
    let before = page(&results).unwrap();
    let ten = results.iter_mut().find(|one| one.figure == "10").unwrap();
    let event = ten
        .series
        .iter_mut()
        .find(|one| one.name == "event")
        .unwrap();
    event.points[0].mean *= 1.1;
    assert_eq!(load(&results), Verdict::Differs);
    assert_ne!(page(&results).unwrap(), before);
}

#[test]
fn module_beside_the_simulator_with_its_costs_is_compared() {
    let mut results = results();
    let ten = results.iter().position(|one| one.figure == "10").unwrap();
    let mut real = results[ten].clone();
    real.origin = Origin::VirtualMachine;
    real.setting = MACHINE.to_owned();
    results.push(real);
    let agrees = page(&results).unwrap();
    assert!(agrees.contains(">agree<"));
    assert!(!agrees.contains(">differ<"));
    results[ten].series[2].points[0].mean *= 1.2;
    let differs = page(&results).unwrap();
    assert!(differs.contains(">differ<"));
    assert!(!differs.contains(">agree<"));
}
