// SPDX-License-Identifier: GPL-2.0

//! Figures 3 to 5: what turns cost, with and without the processor, and what they give.

use super::{calls, loga, pair, queued, BOOST};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Millis, Policy, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::Trial;
use loga::policies::PolicyKind;
use loga::units::{Ns, Weight};
use Criterion::{Any, AtLeast, AtMost, Within};

/// A tick of the hypervisor's timer.
const TICK: Ns = Ns::from_ms(30);
/// Names of the two clients.
const NAMES: [&str; 2] = ["first", "second"];

/// Calls per second of both together.
fn rate(policy: Policy, clients: [Client; 2], one_cpu: bool, length: Length) -> Result<f64, Error> {
    let trial = Trial::of(pair(policy, clients, one_cpu, length), length)?;
    Ok(NAMES.map(|name| trial.kernels(name)).iter().sum())
}

/// What is lost of `whole`, in percent.
fn lost_pct(part: f64, whole: f64) -> f64 {
    100.0 * (1.0 - part / whole)
}

/// Figure 3c.
pub(super) fn cost(length: Length) -> Lines {
    let hardware = Policy::paper(Kind::Hardware);
    let blocking = || NAMES.map(|name| calls(name, Wait::Block));
    let deep = || NAMES.map(queued);
    let none = rate(hardware, blocking(), false, length)?;
    let lost = |kind| rate(loga(kind), blocking(), false, length).map(|rate| lost_pct(rate, none));
    let of_queued = rate(loga(PolicyKind::Credit), deep(), false, length)?;
    let all_queued = rate(hardware, deep(), false, length)?;
    Ok(vec![
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
    ])
}

/// Figure 4.
pub(super) fn together(length: Length) -> Lines {
    let with = |policy, wait| rate(policy, NAMES.map(|name| calls(name, wait)), true, length);
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
    let none = with(hardware, Wait::Spin)?;
    let turns = with(as_guest(kept), Wait::Spin)?;
    let both = with(followed(as_guest(kept)), Wait::Spin)?;
    let mut lines = vec![
        Line::new("clients spin: no scheduler", "least", none, "1/s", Any),
        Line::new(
            "they spin for their turn too, which an idle holder keeps",
            "+33 %",
            turns,
            "1/s",
            Any,
        ),
        Line::new("the processor follows the turn", "-", both, "1/s", Any),
        Line::new(
            "the same, over turns alone",
            "-",
            both / turns,
            "times",
            AtLeast(1.4),
        ),
    ];
    for (what, kind) in [
        ("an idle holder loses its turn: credit", PolicyKind::Credit),
        ("augc", PolicyKind::AugC),
        ("cosched", PolicyKind::CoSched),
    ] {
        let rate = with(as_guest(loga(kind)), Wait::Spin)?;
        lines.push(Line::new(what, "+4 to 20 %", rate, "1/s", Any));
    }
    lines.push(Line::new(
        "they sleep for their turn, as under LoGA: of no scheduler",
        "-",
        100.0 * with(kept, Wait::Spin)? / none,
        "%",
        AtLeast(95.0),
    ));
    let none = with(hardware, Wait::Block)?;
    let turns = with(kept, Wait::Block)?;
    let both = with(followed(kept), Wait::Block)?;
    lines.extend([
        Line::new("clients block: no scheduler", "-", none, "1/s", Any),
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
    let ratio = |credits: [u32; 2]| {
        let one = |at: usize| Client {
            weight: Weight::new(credits[at]).unwrap_or_default(),
            ..queued(NAMES[at])
        };
        let scenario = pair(loga(PolicyKind::Credit), [one(0), one(1)], false, length);
        let trial = Trial::of(scenario, length)?;
        Ok::<_, Error>(trial.use_pct(NAMES[0]) / trial.use_pct(NAMES[1]))
    };
    Ok(vec![
        Line::new(
            "1024 to 256",
            "Dom3 2.4 x of None",
            ratio([1024, 256])?,
            "times",
            Within(3.8, 4.2),
        ),
        Line::new(
            "512 to 256",
            "-",
            ratio([512, 256])?,
            "times",
            Within(1.9, 2.1),
        ),
    ])
}
