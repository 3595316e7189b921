// SPDX-License-Identifier: GPL-2.0

//! Figures 7a and 7b, reduced: what accounting costs an application beside ten throttles.

use super::add;
use super::beside::apart;
use super::beside::turnaround;
use super::empty;
use super::gauge;
use super::series;
use crate::load::Control;
use crate::stage;
use loga_results::reduced::Throttles;
use loga_results::reduced::APPLICATIONS;
use loga_results::reduced::OVERHEAD_MS;
use loga_results::reduced::TEN_LONG;
use loga_results::reduced::TEN_SHORT;
use loga_results::At;
use loga_results::Axis;
use loga_results::Difference;
use loga_results::Experiment;
use loga_results::GEOMETRIC_MEAN;

/// The control: a thread as busy as the poller, without LoGA.
const BUSY: &str = "busy thread";
/// Policies that account; the paper compares these two.
const POLICIES: [&str; 2] = ["event", "sampling"];

/// Figure 7a.
pub(super) fn short(quick: bool) -> Result<Experiment, String> {
    let one = overhead("7a", TEN_SHORT, quick)?;
    Ok(Experiment {
        paper: "sampling: 11.4 % more on average, 23.4 % at worst (nn); event: less than without \
                accounting, not significantly"
            .to_owned(),
        ..one
    })
}

/// Figure 7b.
pub(super) fn long(quick: bool) -> Result<Experiment, String> {
    let one = overhead("7b", TEN_LONG, quick)?;
    Ok(Experiment {
        paper: "sampling: 7.6 % more on average; event: 0.7 %".to_owned(),
        ..one
    })
}

fn overhead(figure: &str, throttles: Throttles, quick: bool) -> Result<Experiment, String> {
    let axes = [
        Axis::new("application", ""),
        Axis::new("turnaround over that without accounting", ""),
    ];
    let title = format!(
        "Accounting beside ten throttles of {} us",
        throttles.kernel_us
    );
    let mut one = empty(figure, &title, axes);
    one.settings = gauge::throttles()?;
    let applications = &APPLICATIONS[..if quick { 1 } else { APPLICATIONS.len() }];
    let run = |at: usize| turnaround(&applications[at], OVERHEAD_MS, throttles);
    let all = || -> Result<Vec<f64>, String> { (0..applications.len()).map(run).collect() };
    apart()?;
    stage::load_model_only()?;
    let over = |turnarounds: Vec<f64>, without: &[f64]| -> Vec<f64> {
        turnarounds
            .iter()
            .zip(without)
            .map(|(with, without)| with / without)
            .collect()
    };
    let without = all()?;
    let busy = {
        let _busy = Control::start();
        all()?
    };
    let mut ways = vec![(BUSY, over(busy, &without))];
    for policy in POLICIES {
        match stage::load(&format!("policy={policy}")) {
            Ok(()) => ways.push((policy, over(all()?, &without))),
            Err(error) => one.differs.push(Difference {
                what: format!("{policy} was not run"),
                why: format!("the module does not take it ({error})"),
            }),
        }
    }
    let names: Vec<&str> = ways.iter().map(|(name, _)| *name).collect();
    one.series = series(&names);
    for (name, ratios) in &ways {
        for (ratio, application) in ratios.iter().zip(applications) {
            add(&mut one.series, name, application.name, &[*ratio])?;
        }
    }
    one.add_geometric_means();
    one.assumed = vec![
        "three applications, each a throttle with the mean kernel and the mean pause of its profile"
            .to_owned(),
    ];
    one.differs.extend(explained(&one));
    Ok(one)
}

/// Costs of accounting that the virtual machine adds, from the controls.
fn explained(one: &Experiment) -> Vec<Difference> {
    let percent = |name: &str| {
        let point = one.series(name, None)?.point(&At::from(GEOMETRIC_MEAN))?;
        Some(format!("{:+.1} %", 100.0 * (point.mean - 1.0)))
    };
    let mut all = Vec::new();
    if let (Some(event), Some(busy)) = (percent("event"), percent(BUSY)) {
        all.push(Difference {
            what: format!("event costs {event} on average"),
            why: format!(
                "all processors of the virtual machine share one clock, so that whoever is busy \
                 slows the others down; isolated by a control: a thread as busy as the poller, \
                 without LoGA, costs {busy}"
            ),
        });
    }
    all
}
