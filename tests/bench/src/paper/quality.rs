// SPDX-License-Identifier: GPL-2.0

//! Figure 11, reduced: an application with four throttles, under each policy.

use super::beside::{turnaround, watch, Seen, Weighing};
use super::{add, empty, gauge, series};
use crate::costs;
use crate::stage::{Stage, FINE};
use crate::threads::apart;
use loga_results::reduced::{optimum, Application, APPLICATIONS, QUALITY_MS};
use loga_results::{Difference, Experiment, Setting, ALONE, FOUR};

/// The policy; `none`: LoGA is not loaded.
const NONE: &str = "none";
const POLICIES: [&str; 3] = ["sampling", "event", "event-cl"];

/// Least part by which an optimum differs from another.
const APART: f64 = 0.1;

/// Figure 11.
pub(super) fn quality(quick: bool) -> Result<Experiment, String> {
    let mut one = Experiment {
        assumed: vec![
            "three applications, each a throttle with the mean kernel and the mean pause of its \
             profile"
                .to_owned(),
        ],
        settings: settings()?,
        ..empty("11")
    };
    apart()?;
    let applications = &APPLICATIONS[..if quick { 1 } else { APPLICATIONS.len() }];
    let ms = if quick { QUALITY_MS / 8 } else { QUALITY_MS };
    let mut all = Vec::new();
    for policy in [NONE].into_iter().chain(POLICIES) {
        let stage = if policy == NONE {
            Stage::without_loga(FINE)
        } else {
            Stage::measured(FINE, &format!("policy={policy} enforce=1"))
        };
        let _stage = match stage {
            Ok(stage) => stage,
            Err(error) => {
                one.differs.push(Difference {
                    what: format!("{policy} was not run"),
                    why: format!("the module does not take it ({error})"),
                });
                continue;
            }
        };
        let mut ratios = Vec::new();
        for application in applications {
            // Alone its speed does not change over the run.
            let alone = turnaround(application, ms / 4, ALONE, Weighing::Alike)?;
            let together = turnaround(application, ms, FOUR, Weighing::Alike)?;
            println!(
                "{policy}, {}: {alone:.1} us, then {together:.1} us",
                application.name
            );
            ratios.push(together / alone);
        }
        if policy == "event" {
            let how = "mean of its debugfs file costs, for a client with 12 channels";
            let revoke = costs::revoke_ns().map(|ns| gauge::cost("costs.revoke_us", ns, how));
            one.settings.extend(revoke);
        }
        all.push((policy, ratios));
    }
    let names = all.iter().map(|(name, _)| *name).chain(["fair"]);
    one.series = series(&names.collect::<Vec<_>>());
    for (policy, ratios) in &all {
        for (ratio, application) in ratios.iter().zip(applications) {
            add(&mut one.series, policy, application.name, &[*ratio])?;
        }
    }
    let _stage = Stage::measured(FINE, "policy=none poll_always=1")?;
    for (application, unscheduled) in applications.iter().zip(&all[0].1) {
        let seen = watch(application, FOUR)?;
        let fair = |(own, throttle)| unscheduled * optimum(own, throttle, FOUR.count.into());
        let ours = fair(seen.measured);
        add(&mut one.series, "fair", application.name, &[ours])?;
        one.differs
            .extend(overlooked(application, &seen, ours, fair(seen.logged)));
    }
    Ok(one)
}

/// Costs on the model with these parameters, and the parameters.
fn settings() -> Result<Vec<Setting>, String> {
    let (name, value) = FINE.split_once('=').unwrap_or((FINE, ""));
    let turns = Setting::text(
        &format!("model.{name}"),
        &format!("{value} us"),
        "parameter of the model: the emulator's processors take turns at least this often, so \
         that a poller that stands still meanwhile sees kernels of 5 us too",
    );
    let mut settings = vec![turns];
    settings.extend(gauge::throttles(FINE)?);
    settings.extend(gauge::polled(FINE)?);
    Ok(settings)
}

/// Why the optimum differs from that by the model's log, if it does.
fn overlooked(application: &Application, seen: &Seen, ours: f64, log: f64) -> Option<Difference> {
    // CAST: some thousand kernels.
    let each = |ns: f64| ns / seen.kernels.max(1) as f64 / 1000.0;
    println!(
        "{}: optimum {ours:.3}, by the model's log {log:.3}; LoGA saw {} of {} kernels, {:.1} us \
         each, {:.1} us in the log",
        application.name,
        seen.runs,
        seen.kernels,
        each(seen.measured.0),
        each(seen.logged.0)
    );
    ((ours / log - 1.0).abs() > APART).then(|| Difference {
        what: format!(
            "the optimum of {} is {ours:.3} as LoGA measures GPU times, and {log:.3} by the \
             model's own log",
            application.name
        ),
        why: format!(
            "the virtual machine executes its processors one after the other: a client that submits \
             a kernel of {} us goes on for longer than that before the next poll. LoGA \
             saw the application {} times on the GPU, which executed {} of its kernels; it \
             measured {:.1} us for each of them, where the log has {:.1} us with its part of the \
             context switches",
            application.kernel_us,
            seen.runs,
            seen.kernels,
            each(seen.measured.0),
            each(seen.logged.0)
        ),
    })
}
