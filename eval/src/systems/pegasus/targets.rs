// SPDX-License-Identifier: GPL-2.0

//! Figure 6: what clients get by credits, by the credits of their processors, and by targets.

use super::{calls, loga, pair, queued};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Policy, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::trial::Trial;
use loga::policies::PolicyKind;
use loga::units::Weight;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use Criterion::{Any, AtLeast};

/// A guest of the paper: its credits on the accelerator and on its processor, and the part that it
/// expects, in percent. The paper's 20 and 80 % would leave nothing to go by credits.
struct Guest {
    name: &'static str,
    credits: u32,
    cpu: u32,
    target: u32,
}

const fn guest(name: &'static str, credits: u32, cpu: u32, target: u32) -> Guest {
    Guest {
        name,
        credits,
        cpu,
        target,
    }
}

/// Those that share a GPU.
const PAIRS: [[Guest; 2]; 2] = [
    [guest("Dom1", 1024, 256, 20), guest("Dom3", 256, 1024, 70)],
    [guest("Dom2", 1024, 1024, 70), guest("Dom4", 768, 256, 20)],
];

/// Random pairs of credits and targets.
const RANDOM_PAIRS: u32 = 20;
const RANDOM_SEED: u64 = 1;

/// A client with this weight and target.
fn with(client: Client, weight: u32, target_pct: Option<u32>) -> Client {
    Client {
        weight: Weight::new(weight).unwrap_or_default(),
        target_pct,
        ..client
    }
}

/// Parts of the GPU of both, in percent.
fn parts(policy: Policy, clients: [Client; 2], length: Length) -> Result<[f64; 2], Error> {
    let names = [0, 1].map(|at: usize| clients[at].name.clone());
    let trial = Trial::of(pair(policy, clients, false, length), length)?;
    Ok(names.map(|name| trial.use_pct(&name)))
}

/// Figure 6.
pub(super) fn targets(length: Length) -> Lines {
    let slo = || loga(PolicyKind::CreditSlo);
    let mut lines = Vec::new();
    let mut least_of_none = f64::INFINITY;
    for guests in &PAIRS {
        let all = |client: fn(&Guest) -> Client| guests.each_ref().map(client);
        let none = Policy::paper(Kind::Hardware);
        let none = parts(none, all(|one| queued(one.name)), length)?;
        let by_credits = all(|one| with(queued(one.name), one.credits, None));
        let credits = parts(loga(PolicyKind::Credit), by_credits, length)?;
        let by_cpu = all(|one| with(queued(one.name), one.cpu, None));
        let cpu = parts(loga(PolicyKind::Credit), by_cpu, length)?;
        let by_target = all(|one| with(queued(one.name), one.credits, Some(one.target)));
        let target = parts(slo(), by_target, length)?;
        let waits = |one: &Guest| {
            let calls = calls(one.name, Wait::Block);
            with(calls, one.credits, Some(one.target))
        };
        let waiting = parts(slo(), all(waits), length)?;
        for (at, one) in guests.iter().enumerate() {
            let Guest {
                name,
                credits: own,
                cpu: of_cpu,
                target: wanted,
            } = one;
            least_of_none = least_of_none.min(target[at] / none[at]);
            let paper = match (*name, *of_cpu) {
                ("Dom4", _) => ">= +18 %",
                _ => "-",
            };
            lines.extend([
                Line::new(
                    format!("{name}: by {own} credits"),
                    "-",
                    credits[at],
                    "%",
                    Any,
                ),
                Line::new(
                    format!("{name}: by {of_cpu} credits of its processor"),
                    paper,
                    cpu[at],
                    "%",
                    Any,
                ),
                Line::new(
                    format!("{name}: by {own} credits and a target of {wanted} %"),
                    "-",
                    target[at],
                    "%",
                    AtLeast(0.95 * f64::from(*wanted)),
                ),
                Line::new(
                    format!("{name}: the same, with calls that are waited for"),
                    "-",
                    waiting[at],
                    "%",
                    Any,
                ),
            ]);
        }
    }
    lines.push(Line::new(
        "least part of one without a scheduler",
        "-",
        100.0 * least_of_none,
        "%",
        AtLeast(90.0),
    )
    .unless_met(
        "The targets of a pair are 90 % of the GPU together: a client with the small one has half of the \
         GPU without a scheduler, and its target and what is left with one.",
    ));
    lines.push(Line::new(
        format!("{RANDOM_PAIRS} random pairs with 90 % together: least part of a target"),
        "-",
        100.0 * least_of_random_pairs(length)?,
        "%",
        AtLeast(95.0),
    ));
    Ok(lines)
}

/// The least part of its target that a client of random pairs gets.
fn least_of_random_pairs(length: Length) -> Result<f64, Error> {
    let mut random = Pcg64::seed_from_u64(RANDOM_SEED);
    let mut least = f64::INFINITY;
    for _ in 0..RANDOM_PAIRS {
        let first = random.random_range(5..=85);
        let targets = [first, 90 - first];
        let clients = ["first", "second"].map(|name| {
            let weight = random.random_range(1..=2048);
            (name, weight)
        });
        let clients = [0, 1].map(|at: usize| {
            let (name, weight) = clients[at];
            with(queued(name), weight, Some(targets[at]))
        });
        let parts = parts(loga(PolicyKind::CreditSlo), clients, length)?;
        for (part, target) in parts.iter().zip(targets) {
            least = least.min(part / f64::from(target));
        }
    }
    Ok(least)
}
