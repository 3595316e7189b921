// SPDX-License-Identifier: GPL-2.0

//! Figures 3 to 5: what turns cost, with and without the processor, and what they give.

use super::{calls, guests, loga, pair, queued, BOOST, GUESTS};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Millis, Policy, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::Trial;
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};
use Criterion::{Any, AtLeast, AtMost, Within};

/// A tick of the hypervisor's timer.
const TICK: Ns = Ns::from_ms(30);
/// Why runs do not vary less where the processor follows.
const TURNS: &str =
    "It is about a turn of 30 ms, of 1.1 s; without the processor that of two thirds of a turn, of 2 s.";
/// Names of the two clients of figure 3.
const NAMES: [&str; 2] = ["first", "second"];

/// Calls per second of all of these together.
fn rate(trial: &Trial, names: &[&str]) -> f64 {
    names.iter().map(|name| trial.kernels(name)).sum()
}

/// The deviation of the time of a run over its mean, in percent: the mean of all guests.
fn spread_pct(trial: &Trial) -> f64 {
    let all = GUESTS.map(|name| trial.variation_pct(name));
    // CAST: four.
    all.iter().sum::<f64>() / all.len() as f64
}

/// What is lost of `whole`, in percent.
fn lost_pct(part: f64, whole: f64) -> f64 {
    100.0 * (1.0 - part / whole)
}

/// Figure 3.
pub(super) fn cost(length: Length) -> Lines {
    let hardware = Policy::paper(Kind::Hardware);
    let blocking = || NAMES.map(|name| calls(name, Wait::Block));
    let deep = || NAMES.map(queued);
    let both = |policy, clients| {
        let trial = Trial::of(pair(policy, clients, false, length), length)?;
        Ok::<_, Error>(rate(&trial, &NAMES))
    };
    let none = both(hardware, blocking())?;
    let lost = |kind| both(loga(kind), blocking()).map(|rate| lost_pct(rate, none));
    let of_queued = both(loga(PolicyKind::Credit), deep())?;
    let all_queued = both(hardware, deep())?;
    let mut lines = super::cost::alone(length)?;
    lines.extend([
        Line::new(
            "calls that are waited for, no scheduler",
            "-",
            none,
            "1/s",
            Any,
        ),
        Line::new(
            "lost under credit",
            "gains",
            lost(PolicyKind::Credit)?,
            "%",
            AtMost(45.0),
        ),
        Line::new(
            "lost under maxmin",
            "-",
            lost(PolicyKind::MaxMin)?,
            "%",
            AtMost(3.0),
        ),
        Line::new(
            "queued calls: lost under credit",
            "-",
            lost_pct(of_queued, all_queued),
            "%",
            AtMost(5.0),
        ),
    ]);
    Ok(lines)
}

/// Figure 4.
pub(super) fn together(length: Length) -> Lines {
    let with = |policy, wait| guests(policy, GUESTS.map(|name| calls(name, wait)), length);
    let rate = |policy, wait| with(policy, wait).map(|trial| rate(&trial, &GUESTS));
    let as_guest = |policy| Policy {
        throttled_spins: true,
        ..policy
    };
    let followed = |policy| Policy {
        cpu_boost: BOOST,
        ..policy
    };
    let hardware = Policy::paper(Kind::Hardware);
    // Turns of a tick, which an idle holder keeps.
    let kept = Policy {
        quantum: Millis(TICK),
        idle_release: Millis(TICK),
        ..Policy::paper(Kind::Exclusive)
    };
    let none = rate(hardware, Wait::Spin)?;
    let turns = with(as_guest(kept), Wait::Spin)?;
    let both = with(followed(as_guest(kept)), Wait::Spin)?;
    let [of_turns, of_both] = [&turns, &both].map(|trial| self::rate(trial, &GUESTS));
    let mut lines = vec![
        Line::new("guests spin: no scheduler", "least", none, "1/s", Any),
        Line::new(
            "they spin for their turn too, which an idle holder keeps",
            "+33 %",
            of_turns,
            "1/s",
            Any,
        ),
        Line::new("the processor follows the turn", "-", of_both, "1/s", Any),
        Line::new(
            "the same, over turns alone",
            "-",
            of_both / of_turns,
            "times",
            AtLeast(1.4),
        ),
        Line::new(
            "deviation of the time of a run of 512 calls, turns alone",
            "-",
            spread_pct(&turns),
            "%",
            Any,
        ),
        Line::new(
            "the same, the processor follows",
            "less",
            spread_pct(&both),
            "%",
            AtMost(spread_pct(&turns)),
        )
        .unless_met(TURNS),
    ];
    for (what, kind) in [
        ("an idle holder loses its turn: credit", PolicyKind::Credit),
        ("augc", PolicyKind::AugC),
        ("cosched", PolicyKind::CoSched),
    ] {
        let rate = rate(as_guest(loga(kind)), Wait::Spin)?;
        lines.push(Line::new(what, "+4 to 20 %", rate, "1/s", Any));
    }
    lines.push(Line::new(
        "they sleep for their turn, as under LoGA: of no scheduler",
        "-",
        100.0 * rate(kept, Wait::Spin)? / none,
        "%",
        AtLeast(95.0),
    ));
    let none = rate(hardware, Wait::Block)?;
    let turns = rate(kept, Wait::Block)?;
    let both = rate(followed(kept), Wait::Block)?;
    lines.extend([
        Line::new("guests block: no scheduler", "-", none, "1/s", Any),
        Line::new("turns", "-", turns, "1/s", Any),
        Line::new(
            "the processor follows, over turns alone",
            "-",
            both / turns,
            "times",
            Within(0.97, 1.03),
        ),
    ]);
    Ok(lines)
}

/// Figure 5.
pub(super) fn credits(length: Length) -> Lines {
    let all = |weights: [u32; 4]| {
        let mut weights = weights.into_iter();
        GUESTS.map(|name| Client {
            weight: Weight::new(weights.next().unwrap_or_default()).unwrap_or_default(),
            ..queued(name)
        })
    };
    let credits = all([256, 512, 1024, 256]);
    let none = guests(Policy::paper(Kind::Hardware), credits.clone(), length)?;
    let trial = guests(loga(PolicyKind::Credit), credits, length)?;
    let ratio = |one, other| trial.use_pct(one) / trial.use_pct(other);
    Ok(vec![
        Line::new(
            "Dom3 to Dom1, by 1024 to 256",
            "-",
            ratio("Dom3", "Dom1"),
            "times",
            Within(3.8, 4.2),
        ),
        Line::new(
            "Dom2 to Dom4, by 512 to 256",
            "-",
            ratio("Dom2", "Dom4"),
            "times",
            Within(1.9, 2.1),
        ),
        Line::new(
            "work of Dom3, over no scheduler",
            "2.4",
            trial.use_pct("Dom3") / none.use_pct("Dom3"),
            "times",
            Any,
        ),
    ])
}
