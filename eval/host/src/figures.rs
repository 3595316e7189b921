// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The runs as the figures of the paper, in the layout that the simulator and the virtual
//! machine use too, so that `loga-eval report` draws them.

use crate::experiments::OFF;
use crate::results::RunResult;
use loga_results::stats::mean;
use loga_results::{Difference, Experiment, Origin, Point, Series, Setting};

/// What is divided by what.
struct Figure {
    number: &'static str,
    /// The experiment, and the one that it is normalised to: the same without the module, or
    /// another with the same policy.
    experiment: &'static str,
    over: Option<&'static str>,
}

/// The figures that the runs give.
const ALL: [Figure; 3] = [
    Figure {
        number: "7a",
        experiment: "overhead-10",
        over: None,
    },
    Figure {
        number: "7b",
        experiment: "overhead-100",
        over: None,
    },
    Figure {
        number: "11",
        experiment: "quality",
        over: Some("alone"),
    },
];

/// The figures for which there are runs; `host`: the lines of its check.
pub(crate) fn figures(runs: &[RunResult], host: &[String]) -> Vec<Experiment> {
    let figure = |figure: &Figure| {
        let series = series(figure, runs);
        (!series.is_empty()).then(|| experiment(figure, series, host))
    };
    ALL.iter().filter_map(figure).collect()
}

fn experiment(figure: &Figure, series: Vec<Series>, host: &[String]) -> Experiment {
    let setting = |line: &String| Setting::text("host", line, "loga-host check");
    let mut one = Experiment {
        series,
        settings: host.iter().map(setting).collect(),
        ..Experiment::new(figure.number, Origin::Host, "paper")
    };
    if figure.over.is_none() {
        one.add_geometric_means();
    } else {
        one.differs.push(Difference {
            what: "there is no fair optimum".to_owned(),
            why: "it takes runs that poll all the time, which are not made".to_owned(),
        });
    }
    one
}

/// A series for each policy, of the applications that were run with it and with what they are
/// normalised to.
fn series(figure: &Figure, runs: &[RunResult]) -> Vec<Series> {
    let mut policies: Vec<&str> = runs.iter().map(|run| &*run.cell.policy).collect();
    policies.sort_unstable();
    policies.dedup();
    // Without the module is what others are compared with in Figure 7.
    policies.retain(|policy| figure.over.is_some() || *policy != OFF);
    let mut all = Vec::new();
    for policy in policies {
        let mut applications: Vec<&str> = runs.iter().map(|run| &*run.cell.application).collect();
        applications.sort_unstable();
        applications.dedup();
        let point = |application: &&str| {
            let base = match figure.over {
                Some(over) => times(runs, over, policy, application),
                None => times(runs, figure.experiment, OFF, application),
            };
            let base = mean(base);
            let times = times(runs, figure.experiment, policy, application);
            let ratios: Vec<f64> = times.iter().map(|time| time / base).collect();
            Point::of(*application, &ratios).filter(|point| point.mean.is_finite())
        };
        let points: Vec<Point> = applications.iter().filter_map(point).collect();
        if !points.is_empty() {
            let name = if policy == OFF { "none" } else { policy };
            all.push(Series::new(name, points));
        }
    }
    all
}

/// Turnaround times of all repetitions, in ms.
fn times(runs: &[RunResult], experiment: &str, policy: &str, application: &str) -> Vec<f64> {
    let same = |run: &&RunResult| {
        let cell = &run.cell;
        let names = (&*cell.experiment, &*cell.policy, &*cell.application);
        names == (experiment, policy, application)
    };
    runs.iter()
        .filter(same)
        .map(|run| run.turnaround_ms)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run;
    use loga_results::At;

    #[test]
    fn overhead_is_over_no_module_and_quality_over_alone() {
        let runs = [
            run("overhead-10", "off", 0, 9.0),
            run("overhead-10", "off", 1, 11.0),
            run("overhead-10", "event", 0, 10.0),
            run("overhead-10", "event", 1, 12.0),
            run("alone", "event", 0, 10.0),
            run("quality", "event", 0, 25.0),
        ];
        let figures = figures(&runs, &["kernel ok".to_owned()]);
        let numbers: Vec<_> = figures.iter().map(|one| &*one.figure).collect();
        assert_eq!(numbers, ["7a", "11"]);
        assert!(figures.iter().all(|one| one.check() == Ok(())));
        let overhead = &figures[0].series[0].points;
        assert_eq!((overhead[0].mean, overhead[0].repetitions), (1.1, 2));
        assert_eq!(overhead[1].at, At::from(loga_results::GEOMETRIC_MEAN));
        assert_eq!(figures[1].series[0].points[0].mean, 2.5);
    }

    #[test]
    fn policy_without_what_it_is_normalised_to_gives_no_figure() {
        assert!(figures(&[run("quality", "event", 0, 25.0)], &[]).is_empty());
    }
}
