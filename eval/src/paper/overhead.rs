// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Figures 7a, 7b and 8: what accounting costs an application beside throttles.
//!
//! No client is throttled by decision. Turnaround of an iteration, over that without accounting.
//! Source: LoGA paper, section 5.3.

use super::beside::{ratios, settings, App};
use super::isolated::{self, Isolated};
use super::plan::{Plan, Progress};
use super::way::Way;
use crate::outcome::Error;
use crate::results::{
    At, Difference, Experiment, Point, Series, Throttles, GEOMETRIC_MEAN, TEN_SHORT,
};
use crate::scenario::Profile;

/// The applications of Figure 8.
const PANELS: [&str; 4] = ["heartwall", "lavaMD", "dwt2d", "mummergpu"];

/// Figures 7a and 7b: beside these ten throttles.
pub(super) fn overhead(
    throttles: Throttles,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Experiment, Error> {
    let names = plan.names(Profile::names());
    progress.expect(names.len() as u64 * 3 * plan.repetitions);
    let kernel_us = throttles.kernel_us;
    let is_a = throttles == TEN_SHORT;
    let mut series = accounting(None);
    let mut settings = settings(&format!("ten of {kernel_us} us, then 1000 us asleep"));
    for name in names {
        let app = App::find(name, plan)?;
        settings.push(app.setting());
        for point in add(&mut series, &app, name.into(), throttles, plan, progress)? {
            // The worst case is all that the paper gives for one application.
            if is_a && name == "nn" && point.0 == "sampling" {
                point.1.paper = Some(1.234);
            }
        }
    }
    let mut experiment = Experiment {
        series,
        assumed: assumed(),
        ..plan.empty(if is_a { "7a" } else { "7b" })
    };
    experiment.settings.extend(settings);
    experiment.add_geometric_means();
    let means = if is_a {
        [None, Some(1.114)]
    } else {
        [Some(1.007), Some(1.076)]
    };
    for (series, paper) in experiment.series.iter_mut().zip(means) {
        if let Some(mean) = series.points.last_mut() {
            mean.paper = paper;
        }
    }
    let isolated = (is_a && !plan.quick).then(|| Isolated::run(throttles, plan, progress));
    experiment.differs = differs(&experiment, isolated.transpose()?.as_ref());
    Ok(experiment)
}

/// Figure 8: one to twenty throttles.
pub(super) fn throttles(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let counts: &[u32] = if plan.quick {
        &[1, 10]
    } else {
        &[1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    };
    let panels = plan.names(PANELS.into_iter());
    let runs = panels.len() * counts.len() * 3;
    progress.expect(runs as u64 * plan.repetitions);
    let mut all = Vec::new();
    let mut settings = settings("one to twenty of 10 us, then 1000 us asleep");
    for name in panels {
        let app = App::find(name, plan)?;
        settings.push(app.setting());
        let mut series = accounting(Some(name));
        for count in counts {
            let throttles = Throttles {
                count: *count,
                ..TEN_SHORT
            };
            let at = f64::from(*count).into();
            let _ = add(&mut series, &app, at, throttles, plan, progress)?;
        }
        all.extend(series);
    }
    let mut experiment = Experiment {
        series: all,
        assumed: assumed(),
        ..plan.empty("8")
    };
    experiment.settings.extend(settings);
    experiment.differs = differs(&experiment, None);
    experiment.differs.push(panels_differ(&experiment));
    Ok(experiment)
}

/// The series of these figures, in the order of [`add`].
fn accounting(panel: Option<&str>) -> Vec<Series> {
    let series = |name: &str| Series {
        panel: panel.map(str::to_owned),
        ..Series::new(name, Vec::new())
    };
    ["event", "sampling"].map(series).into()
}

/// Runs an application under each way of accounting and adds its points.
fn add<'a>(
    series: &'a mut [Series],
    app: &App,
    at: At,
    throttles: Throttles,
    plan: &Plan,
    progress: &mut dyn Progress,
) -> Result<Vec<(&'static str, &'a mut Point)>, Error> {
    let none = app.runs(throttles, Way::NONE, plan, progress)?;
    let mut points = Vec::new();
    for (series, way) in series
        .iter_mut()
        .zip([Way::EVENT_ACCOUNTS, Way::SAMPLING_ACCOUNTS])
    {
        let values = ratios(app, &none, throttles, way, plan, progress)?;
        series.points.extend(Point::of(at.clone(), &values));
        points.extend(series.points.last_mut().map(|point| (way.name, point)));
    }
    Ok(points)
}

fn assumed() -> Vec<String> {
    [
        "lengths in the profiles, as far as they are not from the source of Rodinia",
        "every thread has a processor: a poller takes none from an application",
        "a kernel runs as fast beside others as alone",
    ]
    .map(str::to_owned)
    .into()
}

fn differs(one: &Experiment, isolated: Option<&Isolated>) -> Vec<Difference> {
    let event = one.series.iter().filter(|series| series.name == "event");
    let costs = event.flat_map(|series| &series.points).map(percent);
    let free = Difference {
        what: format!("event costs {:.2} % at most", costs.fold(0.0, f64::max)),
        why: "by construction: reading a register takes no time of the GPU here, and the poller \
              has a processor of its own"
            .to_owned(),
    };
    [free].into_iter().chain(alike(one, isolated)).collect()
}

/// What accounting costs at a point, in percent.
fn percent(at: &Point) -> f64 {
    100.0 * (at.mean - 1.0)
}

/// That sampling costs most applications the same, and why.
fn alike(one: &Experiment, isolated: Option<&Isolated>) -> Option<Difference> {
    let sampling = one.series("sampling", None)?;
    let mean = sampling.point(&At::from(GEOMETRIC_MEAN))?;
    let as_it_is = sampling.point(&At::from(isolated::APP)).map(percent);
    let mut all: Vec<_> = sampling.points.iter().map(percent).collect();
    all.sort_by(f64::total_cmp);
    // Half of the applications; the mean of them is among the points and changes nothing.
    let [least, most] = [all.len() / 4, all.len() - 1 - all.len() / 4].map(|at| all[at]);
    let shown = isolated.zip(as_it_is).map_or(
        "Figure 7a says how it was isolated".to_owned(),
        |(isolated, as_it_is)| isolated.explain(as_it_is),
    );
    Some(Difference {
        what: format!(
            "sampling costs half of the applications {least:.1} to {most:.1} %, and {:.1} % on \
             average, in the paper {:.1} %",
            percent(mean),
            100.0 * (mean.paper? - 1.0)
        ),
        why: format!(
            "a client that needs the GPU all the time is stopped during the turns of the others: \
             with ten others for 10/11 of a sixth of the time, which is {:.1} % more. {shown}. The \
             profiles leave out the reading of files; how much of that the paper's applications do \
             is not known",
            100.0 * (1.0 / (1.0 - 10.0 / 11.0 / 6.0) - 1.0)
        ),
    })
}

/// What differs in Figure 8 alone.
fn panels_differ(one: &Experiment) -> Difference {
    let line = |panel: &str| {
        let series = one.series("sampling", Some(panel));
        let points = series.map(|series| &series.points[..]).unwrap_or_default();
        points
            .iter()
            .map(|point| format!("{:+.1}", percent(point)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    Difference {
        what: format!(
            "from the fewest to the most throttles, sampling costs lavaMD {} %, dwt2d {} % and \
             mummergpu {} %; in the paper the first is faster than without accounting beside few, \
             the second falls first, the third falls",
            line("lavaMD"),
            line("dwt2d"),
            line("mummergpu")
        ),
        why: "not isolated in this run: here, a kernel runs as fast beside others as alone, and a \
              switch of contexts costs nothing. The paper supposes for the first that running \
              alone for a while has an advantage of its own; for the others it names no cause"
            .to_owned(),
    }
}
