// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Figure 11: how close scheduling comes to what would be fair.
//!
//! An application beside four throttles of 200 us kernels and 800 us pauses. Turnaround of an
//! iteration, over that of the application alone under the same accounting.
//!
//! *Fair* is calculated as in the paper: polling all the time and throttling no client, LoGA
//! measures the GPU time `own` of the application and that of each of the `n` throttles,
//! `throttle`, in the application's lifetime. For each throttle to have as much as the
//! application, `own * (1 + n)` has to fit where `own + n * throttle` was. If every client could
//! always use the whole GPU, the time would change in that ratio:
//! `fair = (1 + n) * own / (own + n * throttle)` of the turnaround without scheduling. Source:
//! LoGA paper, section 5.5.

use super::beside::{settings, turnaround, App, Got};
use super::plan::{Plan, Progress};
use super::way::Way;
use crate::findings::moves_away;
use crate::outcome::Error;
use crate::results::reduced::optimum;
use crate::results::stats::mean;
use crate::results::{At, Difference, Experiment, Point, Series, ALONE, FOUR};
use crate::scenario::Profile;

/// From which part of the fair turnaround on sampling slows down too much.
const BEYOND: f64 = 1.1;
/// The schedulers.
const WAYS: [Way; 5] = [
    Way::SAMPLING,
    Way::EVENT,
    Way::EVENT_CL,
    Way::NONE,
    Way::MAXMIN,
];

/// Figure 11.
pub(super) fn quality(plan: &Plan, progress: &mut dyn Progress) -> Result<Experiment, Error> {
    let names = plan.names(Profile::names());
    let runs = names.len() * (2 * WAYS.len() + 1);
    progress.expect(runs as u64 * plan.repetitions);
    let mut series: Vec<_> = WAYS
        .iter()
        .map(|way| Series::new(way.name, Vec::new()))
        .chain([Series::new("fair", Vec::new())])
        .collect();
    let mut settings = settings("four of 200 us, then 800 us asleep");
    let mut used = Used::default();
    for name in names {
        let app = App::find(name, plan)?;
        settings.push(app.setting());
        let mut unscheduled = (0.0, 0.0);
        for (series, way) in series.iter_mut().zip(WAYS) {
            let alone = turnaround(&app.runs(ALONE, way, plan, progress)?);
            let got = app.runs(FOUR, way, plan, progress)?;
            used.note(way, &got);
            if way.name == Way::NONE.name {
                unscheduled = (turnaround(&got), alone);
            }
            let values: Vec<_> = got.iter().map(|got| got.turnaround / alone).collect();
            series.points.extend(Point::of(name, &values));
        }
        let watched = app.runs(FOUR, Way::EVENT_WATCHES, plan, progress)?;
        let (together, alone) = unscheduled;
        let values: Vec<_> = watched
            .iter()
            .map(|got| optimum(got.own, got.throttle, FOUR.count.into()) * together / alone)
            .collect();
        let fair = series.last_mut().map(|series| &mut series.points);
        fair.into_iter()
            .for_each(|points| points.extend(Point::of(name, &values)));
    }
    let mut experiment = Experiment {
        series,
        assumed: vec![
            "lengths in the profiles, as far as they are not from the source of Rodinia".to_owned(),
            "fair: the words of the paper, put into the formula (1 + n) own / (own + n throttle)"
                .to_owned(),
            "a kernel runs as fast beside others as alone, so that what NEON does not see of it \
             is not there to be seen"
                .to_owned(),
        ],
        ..plan.empty("11")
    };
    experiment.settings.extend(settings);
    experiment.differs = differs(&experiment, &used);
    Ok(experiment)
}

/// Which applications are not as in the paper, and why.
fn differs(one: &Experiment, used: &Used) -> Vec<Difference> {
    let all = Judged::all(one);
    let list = |wanted: &dyn Fn(&Judged) -> bool| {
        let names = all.iter().filter(|one| wanted(one));
        let names: Vec<_> = names.map(|one| one.name.clone()).collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let sampled = |one: &Judged| {
        format!(
            "{} takes {:.2} times as long, {:.2} would be fair",
            one.name, one.sampling, one.fair
        )
    };
    let far = all.iter().filter(|one| one.beyond());
    let far: Vec<_> = far.map(sampled).collect();
    let below = all.iter().filter(|one| one.fair < 1.0).count();
    let difference = |what: String, why: &str| Difference {
        what,
        why: why.to_owned(),
    };
    let mut differs = vec![
        difference(
            format!("{below} applications have an optimum below one, which no policy comes near"),
            "such an application uses the GPU less than a throttle. The optimum lets it make up \
             for that, as if it could always use the whole GPU; in fact it cannot be faster than \
             alone, which is one",
        ),
        difference(
            format!(
                "sampling slows down the wrong side for: {}; in the paper for dwt2d, gaussian, \
                 lavaMD, lud and srad_v1",
                list(&Judged::wrong)
            ),
            "an application with an optimum below one can only be slowed down, and is by the turns \
             of the others, as in Figure 7. Sampling scans compute channels only here, as in the \
             module; if the prototype counted copies as commands, an application that copies much \
             paid for that too",
        ),
        difference(
            "maxmin throttles less than the optimum asks for".to_owned(),
            &format!(
                "it lets at most a tenth of the GPU time be lost to throttling; the optimum does \
                 not count what is lost (the GPU is used for {:.0} % of the time under maxmin, on \
                 average over the applications, and for {:.0} % under event)",
                mean(used.maxmin.iter().copied()),
                mean(used.event.iter().copied())
            ),
        ),
    ];
    if !far.is_empty() {
        differs.push(difference(
            format!(
                "sampling slows down by more than is fair: {}",
                far.join("; ")
            ),
            "it charges by the average length of a command: where that of an application is far \
             longer than the 0.2 ms of a throttle, the application pays for nearly all of each \
             free run",
        ));
    }
    differs
}

/// Share of the time in which the GPU was used, by application, in percent.
#[derive(Default)]
struct Used {
    event: Vec<f64>,
    maxmin: Vec<f64>,
}

impl Used {
    /// Takes over what runs of an application under a policy gave.
    fn note(&mut self, way: Way, got: &[Got]) {
        let used = mean(got.iter().map(|got| got.used));
        match way.name {
            "event" => self.event.push(used),
            "maxmin" => self.maxmin.push(used),
            _ => {}
        }
    }
}

/// An application: its turnaround under sampling, without scheduling, and the optimum.
struct Judged {
    name: String,
    sampling: f64,
    none: f64,
    fair: f64,
}

impl Judged {
    fn all(one: &Experiment) -> Vec<Self> {
        let mean = |series: &str, at: &At| Some(one.series(series, None)?.point(at)?.mean);
        let points = one.series("fair", None).map(|series| &series.points[..]);
        let points = points.unwrap_or_default().iter();
        let judged = points.filter_map(|point| {
            Some(Self {
                name: point.at.to_string(),
                sampling: mean("sampling", &point.at)?,
                none: mean("none", &point.at)?,
                fair: point.mean,
            })
        });
        judged.collect()
    }

    /// Whether sampling slows it down by more than is fair, by more than a tenth; turns alone slow
    /// down an application with an optimum below one.
    fn beyond(&self) -> bool {
        self.fair >= 1.0 && self.sampling > BEYOND * self.fair.max(self.none)
    }

    /// Whether sampling moves it away from the optimum, as the finding has it.
    fn wrong(&self) -> bool {
        moves_away(self.sampling, self.none, self.fair)
    }
}
