// SPDX-License-Identifier: GPL-2.0

//! [tool] Figure 11: how close scheduling comes to what would be fair.
//!
//! An application beside four throttles of 200 us kernels and 800 us pauses. Turnaround of an
//! iteration, over that of the application alone under the same accounting.
//!
//! *Fair* is calculated as in the paper: polling all the time and holding nobody back, LoGA measures
//! the GPU time `own` of the application and that of each of the `n` throttles, `throttle`, in the
//! application's lifetime. For each throttle to have as much as the application, `own * (1 + n)`
//! has to fit where `own + n * throttle` was. If everybody could always use the whole GPU, the time
//! would change in that ratio: `fair = (1 + n) * own / (own + n * throttle)` of the turnaround
//! without scheduling. Source: LoGA paper, section 5.5.

use super::beside::{settings, App, Got, Throttles, Way};
use super::overhead::mean;
use super::{empty, quick_names, Plan, Progress};
use crate::results::{Axis, Difference, Experiment, Point, Series};
use crate::run::Error;
use crate::scenario::Profile;

/// What runs beside an application.
const FOUR: Throttles = Throttles {
    count: 4,
    kernel_us: 200,
    sleep_us: 800,
};
/// Nothing does.
const ALONE: Throttles = Throttles { count: 0, ..FOUR };
/// Who schedules.
const WAYS: [Way; 5] = [
    Way::SAMPLING,
    Way::EVENT,
    Way::EVENT_CL,
    Way::NONE,
    Way::MAXMIN,
];

/// Figure 11.
pub(super) fn quality(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let names: Vec<_> = quick_names(Profile::names(), plan).collect();
    let runs = names.len() * (2 * WAYS.len() + 1);
    progress.expect(runs as u64 * plan.repetitions);
    let mut series: Vec<_> = WAYS
        .iter()
        .map(|way| Series::new(way.name, Vec::new()))
        .chain([Series::new("fair", Vec::new())])
        .collect();
    let mut settings = settings("four of 200 us, then 800 us asleep");
    for name in names {
        let app = App::find(name, plan);
        settings.push(app.setting());
        let mut unscheduled = (0.0, 0.0);
        for (series, way) in series.iter_mut().zip(WAYS) {
            let alone = mean(&app.runs(ALONE, way, plan, progress)?);
            let got = app.runs(FOUR, way, plan, progress)?;
            if way.name == Way::NONE.name {
                unscheduled = (mean(&got), alone);
            }
            let values: Vec<_> = got.iter().map(|got| got.turnaround / alone).collect();
            series.points.extend(Point::of(name, &values));
        }
        let watched = app.runs(FOUR, Way::EVENT_WATCHES, plan, progress)?;
        let (together, alone) = unscheduled;
        let values: Vec<_> = watched
            .iter()
            .map(|got| slow_down(got, FOUR.count.into()) * together / alone)
            .collect();
        let fair = series.last_mut().map(|series| &mut series.points);
        fair.into_iter()
            .for_each(|points| points.extend(Point::of(name, &values)));
    }
    let mut experiment = Experiment {
        title: "Scheduling beside four throttles".to_owned(),
        x: Axis::new("application", ""),
        y: Axis::new("turnaround over that alone", ""),
        series,
        paper: "LoGA brings all applications closer to the optimum, mostly from below; NEON is \
                similar in most cases, sees less imbalance in bfs, cfd, hotspot, hotspot3D, \
                hybridsort and particlefilter, and slows down the wrong application in dwt2d, \
                gaussian, lavaMD, lud and srad_v1; LoGA-CL is like NEON in many cases, and less \
                prone to the latter"
            .to_owned(),
        assumed: vec![
            "lengths in the profiles, as far as they are not from the source of Rodinia".to_owned(),
            "fair: the words of the paper, put into the formula (1 + n) own / (own + n throttle)"
                .to_owned(),
            "a kernel runs as fast beside others as alone, so that what NEON does not see of it \
             is not there to be seen"
                .to_owned(),
        ],
        differs: differs(),
        ..empty("11", plan)
    };
    experiment.settings.extend(settings);
    Ok(experiment)
}

/// By how much the turnaround has to change for throttles to have as much as the application.
fn slow_down(got: &Got, throttles: f64) -> f64 {
    let used = got.own + throttles * got.throttle;
    (1.0 + throttles) * got.own / used.max(f64::MIN_POSITIVE)
}

fn differs() -> Vec<Difference> {
    let difference = |what: &str, why: &str| Difference {
        what: what.to_owned(),
        why: why.to_owned(),
    };
    vec![
        difference(
            "no policy comes near the optimum where it is below one",
            "such an application uses the GPU less than a throttle. The optimum lets it make up \
             for that, as if it could always use the whole GPU; in fact it cannot be faster than \
             alone, which is one",
        ),
        difference(
            "sampling slows down heartwall, leukocyte and lavaMD by far more than is fair",
            "it charges by the average length of a command: theirs last 10, 20 and 127 ms, those \
             of a throttle 0.2 ms, so that they pay for nearly all of each free run",
        ),
        difference(
            "sampling slows down the wrong application less often than in the paper",
            "it looks at compute channels only, as in the module. Counting copies as commands, as \
             the prototype may have done, makes b+tree take 2.9 times as long instead of 1.15, and \
             mummergpu 3.0 instead of 1.02; with CPU time in the place of their copies it was 1.14 \
             and 1.01",
        ),
        difference(
            "maxmin holds back less than the optimum asks for",
            "it lets at most a tenth of the GPU time be lost to holding back; the optimum does not \
             count what is lost (beside heartwall, the GPU is used for 89 % of the time under \
             maxmin, and for 83 % under event)",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fair_is_slower_for_who_has_more_and_faster_for_who_has_less() {
        let got = |own, throttle| Got {
            turnaround: 1.0,
            own,
            throttle,
        };
        // 60 and four times 10 of 100: each is to have 20, so that 60 take three times as long.
        assert!((slow_down(&got(60.0, 10.0), 4.0) - 3.0).abs() < 1e-12);
        assert!((slow_down(&got(20.0, 20.0), 4.0) - 1.0).abs() < 1e-12);
        assert!(slow_down(&got(10.0, 22.5), 4.0) < 0.51);
    }
}
