// SPDX-License-Identifier: GPL-2.0

//! Figures 8 and 9: short calls beside long ones, and jobs of very different lengths.

use super::{calls, loga, pair};
use crate::outcome::Error;
use crate::scenario::{Client, Engagement, Kind, Micros, Phase, Policy, Span, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::{hardware, Trial};
use loga::engaged::{Mode, Prio};
use loga::policies::dispatch::DispatcherKind;
use loga::policies::PolicyKind;
use loga::units::Ns;
use Criterion::{Any, AtMost};

/// The client of short calls (FastWalshTransform): 60 us on a processor, 40 us on the GPU.
fn short() -> Client {
    Client::new("short", vec![Phase::new(Span::us(60), Span::us(40))])
}

/// The other one: it waits for each of its calls, as all guests of the paper do.
fn long() -> Client {
    Client::new("long", vec![Phase::new(Span::us(0), Span::us(1000))])
}

/// Figure 8.
pub(super) fn short_calls(length: Length) -> Lines {
    let alone = hardware(vec![short()], length)?.percentile_ms("short", 95);
    let within = |policy, mode| {
        let engaged = |mode| Engagement {
            mode,
            prio: Prio::HIGHEST,
            ..Engagement::default()
        };
        let first = Client {
            engaged: engaged(mode),
            ..short()
        };
        let trial = Trial::of(pair(policy, [first, long()], false, length), length)?;
        Ok::<_, Error>([
            trial.percentile_ms("short", 95),
            trial.use_pct("long"),
            trial.longest_ms("short"),
        ])
    };
    let lingers = |linger| Policy {
        linger: Micros(linger),
        ..Policy::paper(Kind::Engaged(DispatcherKind::Prio))
    };
    let [none, ..] = within(Policy::paper(Kind::Hardware), Mode::Prt)?;
    let [turns, _, longest] = within(loga(PolicyKind::Credit), Mode::Prt)?;
    let [prio, of_long, _] = within(lingers(Ns::ZERO), Mode::Prt)?;
    let [shield, left, _] = within(lingers(Ns::from_us(200)), Mode::Protected)?;
    Ok(vec![
        Line::new("alone", "-", alone, "ms", Any),
        Line::new("no scheduler", "most", none, "ms", Any),
        Line::new("credit", "less", turns, "ms", Any),
        Line::new("the longest then: a turn", "-", longest, "ms", Any),
        Line::new(
            "priority: one kernel may be in the way",
            "less",
            prio,
            "ms",
            AtMost(1.3 * alone + 1.0),
        )
        .unless_met(
            "A call waits for one kernel, and for what a submission costs: its fault, the read that \
             shows the kernel's end, and the waking of its thread.",
        ),
        Line::new("the long one's part then", "-", of_long, "%", Any),
        Line::new(
            "protected, linger 0.2 ms",
            "-",
            shield,
            "ms",
            AtMost(1.3 * alone),
        )
        .unless_met(
            "Calls of 100 us are shorter than the time for which it is known whether protected work \
             is there: their ends, from which the linger counts, are not seen.",
        ),
        Line::new("the long one's part then", "-", left, "%", Any),
    ])
}

/// Figure 9.
pub(super) fn variable(length: Length) -> Lines {
    let job = |name: &str| {
        let mut job = calls(name, Wait::Block);
        job.phases = vec![Phase::new(
            Span::Lognormal(20e6, 20e6),
            Span::Lognormal(10e6, 10e6),
        )];
        job
    };
    let mean = |policy| {
        let clients = [job("first"), job("second")];
        let trial = Trial::of(pair(policy, clients, true, length), length)?;
        Ok::<_, Error>(1000.0 * 2.0 / (trial.fps("first") + trial.fps("second")))
    };
    let none = mean(Policy::paper(Kind::Hardware))?;
    let mut lines = vec![Line::new(
        "mean time of a job, no scheduler",
        "-",
        none,
        "ms",
        Any,
    )];
    for (what, kind) in [
        ("credit, of that", PolicyKind::Credit),
        ("augc, of that", PolicyKind::AugC),
        ("cosched, of that", PolicyKind::CoSched),
        ("maxmin, of that", PolicyKind::MaxMin),
    ] {
        let ours = 100.0 * mean(loga(kind))? / none;
        lines.push(Line::new(what, "no effect", ours, "%", Any));
    }
    Ok(lines)
}
