// SPDX-License-Identifier: GPL-2.0

//! Figures 11 to 13: programs that shall keep their rate.

use super::standins::{self, bombs, engine, of, own, pct, terms, with};
use crate::scenario::{Client, Promise};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, prio, sharing};
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

/// Figure 12.
pub(super) fn three_engines(length: Length) -> Lines {
    const NAMES: [&str; 3] = ["high", "medium", "low"];
    let prios = [Prio::HIGHEST, Prio::NORMAL, Prio::LOWEST];
    let clients = |each: &dyn Fn(usize, Client) -> Client| {
        let one = |at: usize| of(prios[at], Prt, each(at, engine(NAMES[at], 1000)));
        (0..NAMES.len()).map(one).collect::<Vec<_>>()
    };
    let alone = hardware(vec![engine(NAMES[0], 1000)], length)?.fps(NAMES[0]);
    let none = hardware(clients(&|_, one| one), length)?;
    let ranked = prio(clients(&|_, one| one), length)?;
    let promised = [(15_000, 25_000), (5000, 50_000), (5000, 100_000)];
    let reserve = |at: usize, one| with(own(Kind::Pe, promised[at].0, promised[at].1), one);
    let reserved = prio(clients(&reserve), length)?;
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
    for (name, (capacity, period)) in NAMES.iter().zip(promised) {
        // CAST: a few thousand.
        let part = pct(capacity as f64, period as f64);
        lines.push(Line::new(
            format!("{name}'s part of {part:.0} %"),
            "below it",
            reserved.use_pct(name),
            "%",
            Within(part - 1.0, part + 1.0),
        ));
    }
    Ok(lines)
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
