// SPDX-License-Identifier: GPL-2.0

//! What was run in the virtual machine is simulated, and nothing else.

use super::*;
use crate::results::{Origin, Setting, Unit};
use crate::scenario::Profile;
use std::path::Path;

#[test]
fn reduced_applications_have_the_means_of_their_profiles() {
    for one in APPLICATIONS {
        let profile = Profile::find(one.name, Path::new("")).unwrap();
        let (mut kernels, mut busy, mut pause) = (0.0, 0.0, 0.0);
        for phase in &profile.phases {
            // CAST: some thousand.
            let times = phase.repeat as f64;
            kernels += times * f64::from(u8::from(phase.kernel.is_some()));
            busy += times * phase.kernel.map_or(0.0, |span| span.mean());
            pause += times * (phase.cpu.mean() + phase.copy.map_or(0.0, |span| span.mean()));
        }
        let mean = |ns: f64| (ns / kernels / 1e3).round();
        let ours = (one.kernel_us as f64, one.pause_us as f64);
        assert_eq!((mean(busy), mean(pause)), ours, "{}", one.name);
    }
}

/// What the virtual machine gave: one application with these series.
fn real(figure: &str, names: &[&str]) -> Experiment {
    let point = || Point::of("srad_v1", &[1.0]).into_iter().collect();
    let setting = |name: &str, us: f64| Setting::number(name, us, Unit::Micros, "");
    Experiment {
        origin: Origin::VirtualMachine,
        series: names
            .iter()
            .map(|name| Series::new(name, point()))
            .collect(),
        settings: vec![setting(LAUNCH, 20.0), setting(LATE, 60.5)],
        ..Plan::quick().empty(figure)
    }
}

#[test]
fn what_was_run_there_is_run_here_and_nothing_else() {
    let real = real("7b", &["busy thread", "event"]);
    let one = figure(&real, &Plan::quick(), &mut ()).unwrap().unwrap();
    assert_eq!(one.check(), Ok(()));
    let names: Vec<_> = one.series.iter().map(|series| &*series.name).collect();
    assert_eq!(names, ["event"]);
    assert_eq!(one.series[0].points.len(), 2);
}

#[test]
fn scheduling_brings_a_greedy_application_closer_to_the_optimum() {
    let real = real("11", &["none", "event", "fair"]);
    let one = figure(&real, &Plan::quick(), &mut ()).unwrap().unwrap();
    let at = |name: &str| one.series(name, None).unwrap().points[0].mean;
    let (none, event, fair) = (at("none"), at("event"), at("fair"));
    assert!(none < event, "{one:?}");
    assert!((event - fair).abs() < (none - fair).abs(), "{one:?}");
}
