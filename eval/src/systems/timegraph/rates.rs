// SPDX-License-Identifier: GPL-2.0

//! Figures 11 to 13: programs that shall keep their rate.

use super::standins::{
    self, at_once, bombs, engine, of, own, pct, terms, with, with_rest, CHARGED,
};
use crate::scenario::{Client, Promise};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, prio, sharing, Trial};
use loga::engaged::{Kind, Mode, Prio};
use Criterion::{Any, AtLeast, AtMost, Within};
use Mode::Prt;

/// Figure 11.
pub(super) fn steady(length: Length) -> Lines {
    let clients = |promise: Option<Promise>| {
        let others = bombs().into_iter().map(|one| match promise {
            Some(promise) => with(promise, one),
            None => one,
        });
        let others = others.map(|one| of(Prio::NORMAL, Prt, one));
        let engine = of(Prio::HIGHEST, Prt, engine("engine", 6000));
        let engine = match promise {
            Some(_) => with_rest(engine),
            None => engine,
        };
        [engine].into_iter().chain(others).collect::<Vec<_>>()
    };
    let alone = hardware(vec![engine("engine", 6000)], length)?.fps("engine");
    let none = hardware(clients(None), length)?;
    let ranked = prio(clients(None), length)?;
    let all = terms(Kind::Pe, 2500, 25_000);
    let capped = sharing(clients(Some(Promise::Shared(0))), vec![all], length)?;
    Ok(vec![
        Line::new("no scheduler", "-", none.fps("engine"), "fps", Any),
        Line::new("priority", "varies", ranked.fps("engine"), "fps", Any),
        Line::new(
            "reserve, of alone",
            "stable",
            pct(capped.fps("engine"), alone),
            "%",
            AtLeast(95.0),
        ),
        Line::new(
            "deviation of the frame time, no scheduler",
            "-",
            none.deviation_ms("engine"),
            "ms",
            Any,
        ),
        Line::new(
            "deviation, priority",
            "-",
            ranked.deviation_ms("engine"),
            "ms",
            Any,
        ),
        Line::new(
            "deviation, reserve",
            "least",
            capped.deviation_ms("engine"),
            "ms",
            AtMost(none.deviation_ms("engine") / 3.0),
        )
        .unless_met(
            "All times of a submission do it together: with none of them it is 0.40 ms. One alone makes it \
             0.63 ms at most (from a grant to the thread), and without one it is 0.79 ms at least (a pass \
             of the watcher).",
        ),
        Line::new(
            "the same over the mean frame time, no scheduler",
            "-",
            none.variation_pct("engine"),
            "%",
            Any,
        ),
        Line::new(
            "the same over the mean, reserve",
            "least",
            capped.variation_pct("engine"),
            "%",
            AtMost(none.variation_pct("engine") / 3.0),
        )
        .unless_met(
            "The deviation itself falls, see above; but frames last a fifth as long with the reserve, \
             so that it is the same part of them. The GPU of the model serves clients in turn, which is \
             slow and regular, where the paper's driver was neither fair nor regular. What is left is \
             one command of 5 ms that may be in the way when the engine comes back.",
        ),
    ])
}

/// The engines of figure 12.
const NAMES: [&str; 3] = ["high", "medium", "low"];
/// What they are promised: so many microseconds in so many.
const PROMISED: [(u64, u64); 3] = [(15_000, 25_000), (5_000, 50_000), (5_000, 100_000)];
/// Why it is not served first where its kernels are stored at once.
const ONE_WINDOW: &str =
    "All kernels that are there when the first one is submitted pass through one window, as one \
     submission: the first engine waits for a frame of 4 ms of another, not for a kernel, while it \
     computes for 1 ms only, so that the two take turns. That is what real processes get.";

/// Figure 12.
pub(super) fn three_engines(length: Length) -> Lines {
    let prios = [Prio::HIGHEST, Prio::NORMAL, Prio::LOWEST];
    let clients = |engine: fn(&str, u64) -> Client, each: &dyn Fn(usize, Client) -> Client| {
        let one = |at: usize| of(prios[at], Prt, each(at, engine(NAMES[at], 1000)));
        (0..NAMES.len()).map(one).collect::<Vec<_>>()
    };
    let alone = hardware(vec![engine(NAMES[0], 1000)], length)?.fps(NAMES[0]);
    let none = hardware(clients(engine, &|_, one| one), length)?;
    let ranked = prio(clients(engine, &|_, one| one), length)?;
    let reserve = |at: usize, one| with(own(Kind::Pe, PROMISED[at].0, PROMISED[at].1), one);
    let reserved = prio(clients(engine, &reserve), length)?;
    let bunched = prio(clients(at_once, &|_, one| one), length)?;
    let both = prio(clients(at_once, &reserve), length)?;
    let fps = NAMES.map(|name| ranked.fps(name));
    let mut lines: Vec<_> = NAMES
        .iter()
        .map(|name| {
            let what = format!("no scheduler, {name}");
            Line::new(what, "chaotic", none.fps(name), "fps", Any)
        })
        .collect();
    lines.push(Line::new(
        "priority, high of alone",
        "ordered",
        pct(fps[0], alone),
        "%",
        AtLeast(90.0),
    ));
    lines.push(Line::new(
        "priority, medium of high",
        "less",
        pct(fps[1], fps[0]),
        "%",
        AtMost(99.0),
    ));
    lines.push(Line::new(
        "priority, low of medium",
        "less",
        pct(fps[2], fps[1]),
        "%",
        AtMost(99.0),
    ));
    lines.extend(parts(&reserved, "", Within));
    lines.push(
        Line::new(
            "kernels of a frame stored at once: high of alone",
            "-",
            pct(bunched.fps(NAMES[0]), alone),
            "%",
            AtLeast(90.0),
        )
        .unless_met(ONE_WINDOW),
    );
    for name in NAMES {
        let what = format!("the same: {name}'s part by priority");
        lines.push(Line::new(what, "-", bunched.use_pct(name), "%", Any));
    }
    lines.extend(parts(&both, "the same: ", |_, _| Any));
    Ok(lines)
}

/// The parts that engines with reserves use.
fn parts<'a>(
    trial: &'a Trial,
    begin: &'a str,
    criterion: fn(f64, f64) -> Criterion,
) -> impl Iterator<Item = Line> + 'a {
    let engines = NAMES.iter().zip(PROMISED);
    engines.map(move |(name, (capacity, period))| {
        // CAST: a few thousand.
        let part = pct(capacity as f64, period as f64);
        Line::new(
            format!("{begin}{name}'s part of {part:.0} %"),
            "below it",
            trial.use_pct(name),
            "%",
            criterion(part - 1.0, part + 1.0),
        )
        .unless_met(CHARGED)
    })
}

/// Figure 13.
pub(super) fn player(length: Length) -> Lines {
    const FPS: f64 = 1e6 / 41_667.0;
    let clients = |reserved: bool| {
        let (mut first, mut others) = (standins::player(), bombs());
        if reserved {
            first = with(own(Kind::Pe, 10_000, 40_000), first);
            let share = |one| with(Promise::Shared(0), one);
            others = others.into_iter().map(share).collect();
        }
        let others = others.into_iter().map(|one| of(Prio::NORMAL, Prt, one));
        let first = of(Prio::HIGHEST, Prt, first);
        [first].into_iter().chain(others).collect::<Vec<_>>()
    };
    let none = hardware(clients(false), length)?;
    let ranked = prio(clients(false), length)?;
    let all = terms(Kind::Pe, 5000, 40_000);
    let reserved = sharing(clients(true), vec![all], length)?;
    Ok(vec![
        Line::new("no scheduler", "-", none.fps("player"), "fps", Any),
        Line::new(
            "frames in time, no scheduler",
            "-",
            none.in_time_pct("player", FPS),
            "%",
            AtMost(80.0),
        ),
        Line::new(
            "frames in time, priority",
            "-",
            ranked.in_time_pct("player", FPS),
            "%",
            Any,
        ),
        Line::new(
            "reserves",
            "close to 24",
            reserved.fps("player"),
            "fps",
            AtLeast(0.99 * FPS),
        ),
        Line::new(
            "frames in time, reserves",
            "-",
            reserved.in_time_pct("player", FPS),
            "%",
            AtLeast(99.0),
        ),
        Line::new(
            "99 % of frames within, reserves",
            "-",
            reserved.percentile_ms("player", 99),
            "ms",
            Any,
        ),
    ])
}
