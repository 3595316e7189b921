// SPDX-License-Identifier: GPL-2.0

//! Figures 7a and 7b, reduced: the cost of accounting for an application with throttles.

use super::beside::{turnaround, Weighing};
use super::{add, empty, gauge, series};
use crate::stage::Stage;
use crate::threads::{apart, control};
use loga_results::reduced::{
    APPLICATIONS, FIVE_LONG, FIVE_SHORT, OVERHEAD_MS, REDUCED, VARIED, WEIGHED,
};
use loga_results::{At, Difference, Experiment, Throttles, GEOMETRIC_MEAN};

/// The control: a thread as busy as the poller, without LoGA.
const BUSY: &str = "busy thread";
/// Policies that account, each set so that no client is throttled; the paper compares these two.
const POLICIES: [(&str, &str, Weighing); 2] = [
    ("event", "", Weighing::Alike),
    ("sampling", "enforce=1", Weighing::OutOfReach),
];

/// Figure 7a.
pub(super) fn short(quick: bool) -> Result<Experiment, String> {
    overhead("7a", FIVE_SHORT, quick)
}

/// Figure 7b.
pub(super) fn long(quick: bool) -> Result<Experiment, String> {
    overhead("7b", FIVE_LONG, quick)
}

fn overhead(figure: &str, throttles: Throttles, quick: bool) -> Result<Experiment, String> {
    let mut one = empty(figure);
    one.title = format!(
        "Accounting beside five throttles of {} us",
        throttles.kernel_us
    );
    one.settings = gauge::throttles("")?;
    let applications = &APPLICATIONS[..if quick { 1 } else { APPLICATIONS.len() }];
    let all = |weighing: Weighing| -> Result<Vec<f64>, String> {
        let each = applications.iter();
        each.map(|one| turnaround(one, OVERHEAD_MS, throttles, weighing))
            .collect()
    };
    apart()?;
    let _stage = Stage::without_loga("")?;
    let over = |turnarounds: Vec<f64>, without: &[f64]| -> Vec<f64> {
        turnarounds
            .iter()
            .zip(without)
            .map(|(with, without)| with / without)
            .collect()
    };
    let processor = gauge::Processor::now()?;
    let without = all(Weighing::Alike)?;
    one.settings.push(processor.idle()?);
    let busy = {
        let _busy = control();
        all(Weighing::Alike)?
    };
    let mut ways = vec![(BUSY, over(busy, &without))];
    for (policy, parameters, weighing) in POLICIES {
        match Stage::measured("", &format!("policy={policy} {parameters}")) {
            Ok(_stage) => ways.push((policy, over(all(weighing)?, &without))),
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
        REDUCED.to_owned(),
        VARIED.to_owned(),
        WEIGHED.to_owned(),
    ];
    one.differs.extend(explained(&one));
    Ok(one)
}

/// Cost of event accounting here, and the cause by the control. The processor that clients share
/// stands still while the poller executes: a client that computes for a part of each iteration
/// takes twice as long for that part during the sixth of the time that is polled.
fn explained(one: &Experiment) -> Option<Difference> {
    let cost = |name: &str| {
        let point = one.series(name, None)?.point(&At::from(GEOMETRIC_MEAN))?;
        Some(100.0 * (point.mean - 1.0))
    };
    let (event, busy) = (cost("event")?, cost(BUSY)?);
    let why = if busy >= event / 2.0 {
        "the virtual machine executes its processors one after the other on one clock: while the \
         poller executes, an application that computes takes twice as long; isolated by a control"
    } else {
        "not isolated: that the virtual machine executes its processors one after the other is \
         not enough, as a control shows"
    };
    Some(Difference {
        what: format!("event costs {event:+.1} % on average"),
        why: format!("{why}: a thread as busy as the poller, without LoGA, costs {busy:+.1} %"),
    })
}
