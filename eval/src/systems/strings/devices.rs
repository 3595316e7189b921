// SPDX-License-Identifier: GPL-2.0

//! Figures 12 and 13: a policy of the kernel on each GPU, under `gwtmin`.

use super::nodes::{pairs, LOAD};
use super::streams::{ended, mean, packed_lines, speedup, Ended, Stream, Way};
use super::{App, GPUS};
use crate::arrivals::Rule;
use crate::outcome::Error;
use crate::scenario::{Kind, Policy};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::as_loaded;
use loga::placement::Placement;
use loga::policies::PolicyKind;
use Criterion::{Any, AtLeast, AtMost};

/// How many times shorter than the assumed ones times are: those of the policies are not.
pub(super) const SHORTENED: u64 = 10;
/// Load of the one GPU on which programs compete.
const CROWDED: f64 = 0.9;

/// Why the least served first gains nothing.
const NO_GAIN: &str =
    "A policy on a GPU can give a program back the time for which it waits for others, and no more: \
     without a scheduler, programs take little longer than alone on their GPU (strings-12 has how \
     much). Where they compete for one GPU, at a load of 0.9, neither las nor las-levels shortens \
     programs by more than the seeds differ: the last lines of strings-12.";

/// All pairs under one policy.
#[derive(Default)]
struct Under {
    /// Speedup of each pair.
    speedups: Vec<f64>,
    /// Mean completion of the long and of the short stream of each pair and seed, in ns.
    means: [Vec<f64>; 2],
    /// The same over that of a program alone on its GPU.
    slowdowns: Vec<f64>,
    /// The longest time for which a command was held back, in ns.
    held: u64,
}

/// Runs all pairs in each way.
fn run(baseline: Rule, ways: &[Way], length: Length) -> Result<Vec<Under>, Error> {
    let mut all: Vec<Under> = ways.iter().map(|_| Under::default()).collect();
    for (long, short) in pairs() {
        let stream = |app: App, node: usize| {
            Stream::loading(app.shorter(SHORTENED), GPUS[2 * node], LOAD, 0.5, node)
        };
        let streams = [stream(long, 0), stream(short, 1)];
        let under = |way: &Way| ended(&GPUS, &streams, way, length);
        let means = |all: &[Ended]| all.iter().map(|one| one.means.clone()).collect::<Vec<_>>();
        let baseline = means(&under(&baseline.into())?);
        for (way, all) in ways.iter().zip(&mut all) {
            let one = under(way)?;
            all.speedups.push(speedup(&baseline, &means(&one)));
            for ended in &one {
                for (stream, mean) in all.means.iter_mut().zip(&ended.means) {
                    stream.push(*mean);
                }
                all.slowdowns.extend(ended.slowdowns());
                all.held = all.held.max(ended.held);
            }
        }
    }
    Ok(all)
}

/// The mean of the ratios of the first to the second.
fn over(one: &[f64], other: &[f64]) -> f64 {
    mean(
        &one.iter()
            .zip(other)
            .map(|(one, other)| one / other)
            .collect::<Vec<_>>(),
    )
}

/// Mean completion of the long and of the short programs under `policy` over that under `maxmin`
/// where they compete for one GPU: those that compute for most of their time, with BS.
fn on_one_gpu(policy: PolicyKind, length: Length) -> Result<[f64; 2], Error> {
    let mut ratios = [Vec::new(), Vec::new()];
    for (long, short) in pairs().filter(|(long, short)| long.gpu_pct > 50.0 && short.name == "BS") {
        let half =
            |app: App| Stream::loading(app.shorter(SHORTENED), GPUS[1], CROWDED / 2.0, 1.0, 0);
        let streams = [half(long), half(short)];
        let under = |kind| {
            let way = Way {
                policy: as_loaded(kind),
                ..Rule::of(Placement::Gmin).into()
            };
            ended(&GPUS[1..2], &streams, &way, length)
        };
        for (one, maxmin) in under(policy)?.iter().zip(&under(PolicyKind::MaxMin)?) {
            for (stream, ratios) in ratios.iter_mut().enumerate() {
                ratios.push(one.means[stream] / maxmin.means[stream]);
            }
        }
    }
    Ok(ratios.map(|all| mean(&all)))
}

/// The paper's names of device policies on packed GPUs.
const PACKED: [(&str, Kind); 2] = [
    ("gwtmin and las-epoch", Kind::LasEpoch),
    ("gwtmin and ps", Kind::Ps),
];

/// The paper's `gwtmin`, and with a policy of the kernel; then those on packed GPUs.
fn ways() -> Vec<Way> {
    let under = |policy| Way {
        policy,
        ..Rule::of(Placement::Gwtmin).into()
    };
    let [maxmin, las] = [PolicyKind::MaxMin, PolicyKind::Las].map(as_loaded);
    let in_turn = [Policy::paper(Kind::Hardware), maxmin, las].map(under);
    let packed = PACKED.map(|(_, kind)| under(Policy::paper(kind)));
    in_turn.into_iter().chain(Way::packed(&packed)).collect()
}

/// The lines of packed GPUs, with the paper's numbers.
fn on_packed(all: &[Under], papers: [&'static str; 2]) -> Vec<Line> {
    let values: Vec<_> = all.iter().map(|under| mean(&under.speedups)).collect();
    let names = [0, 1].map(|at: usize| (PACKED[at].0, papers[at]));
    packed_lines(&names, &values)
}

/// Figure 12.
pub(super) fn over_own(length: Length) -> Lines {
    let own = Rule {
        within: true,
        ..Rule::of(Placement::Grr)
    };
    let all = run(own, &ways(), length)?;
    let [none, maxmin, las] = [0, 1, 2].map(|at: usize| mean(&all[at].speedups));
    let [long, short] = [0, 1].map(|at: usize| over(&all[2].means[at], &all[1].means[at]));
    // CAST: a time of seconds.
    let held = |at: usize| all[at].held as f64 / 1e9;
    let mut lines = vec![
        Line::new("gwtmin, no scheduler", "1.82", none, "times", Any),
        Line::new("gwtmin and maxmin", "-", maxmin, "times", Any),
        Line::new("gwtmin and las", "2.18", las, "times", Any),
        Line::new(
            "las over maxmin",
            "1.20",
            las / maxmin,
            "times",
            AtLeast(1.1),
        )
        .unless_met(NO_GAIN),
        Line::new(
            "time of a program over that alone on its GPU, no scheduler",
            "-",
            mean(&all[0].slowdowns),
            "times",
            Any,
        ),
        Line::new(
            "time of long programs under las over that under maxmin",
            "-",
            long,
            "times",
            AtMost(1.5),
        ),
        Line::new("the same of short programs", "-", short, "times", Any),
        Line::new(
            "longest time held back: las",
            "-",
            held(2),
            "s",
            AtMost(2.0),
        ),
        Line::new("longest time held back: maxmin", "-", held(1), "s", Any),
    ];
    for policy in [PolicyKind::Las, PolicyKind::LasLevels] {
        let [long, short] = on_one_gpu(policy, length)?;
        let name = policy.name();
        lines.extend([
            Line::new(
                format!("one GPU at a load of 0.9, DC, MM or HI with BS: long programs, {name} over maxmin"),
                "-",
                long,
                "times",
                Any,
            ),
            Line::new(format!("the same: short programs, {name} over maxmin"), "-", short, "times", Any),
        ]);
    }
    lines.extend(on_packed(&all[3..], ["3.10", "2.97"]));
    Ok(lines)
}

/// Figure 13.
pub(super) fn over_all(length: Length) -> Lines {
    let all = run(Rule::of(Placement::Grr), &ways(), length)?;
    let [none, maxmin, las] = [0, 1, 2].map(|at: usize| mean(&all[at].speedups));
    let mut lines = vec![
        Line::new("gwtmin, no scheduler", "about 1.14", none, "times", Any),
        Line::new("gwtmin and maxmin", "-", maxmin, "times", Any),
        Line::new("gwtmin and las", "1.40", las, "times", Any),
        Line::new(
            "las over maxmin",
            "about 1.23",
            las / maxmin,
            "times",
            AtLeast(1.1),
        )
        .unless_met(NO_GAIN),
    ];
    lines.extend(on_packed(&all[3..], ["1.95", "1.90"]));
    Ok(lines)
}
