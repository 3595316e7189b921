// SPDX-License-Identifier: GPL-2.0

//! Figure 6: what clients get by credits, by the credits of their processors, and by targets.

use super::{calls, guests, loga, queued, GUESTS};
use crate::outcome::Error;
use crate::scenario::{Client, Kind, Policy, Wait};
use crate::systems::figure::{Criterion, Length, Line, Lines};
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

/// All of them.
const ALL: [Guest; 4] = [
    guest("Dom1", 1024, 256, 20),
    guest("Dom2", 1024, 1024, 70),
    guest("Dom3", 256, 1024, 70),
    guest("Dom4", 768, 256, 20),
];

/// Sets of four random guests: credits, credits of the processor, and targets.
const RANDOM_SETS: u32 = 10;
const RANDOM_SEED: u64 = 1;

/// A client with this weight and target.
fn with(client: Client, weight: u32, target_pct: Option<u32>) -> Client {
    Client {
        weight: Weight::new(weight).unwrap_or_default(),
        target_pct,
        ..client
    }
}

/// Parts of their GPU that guests get, in percent.
fn parts(policy: Policy, clients: [Client; 4], length: Length) -> Result<[f64; 4], Error> {
    let trial = guests(policy, clients, length)?;
    Ok(GUESTS.map(|name| trial.use_pct(name)))
}

/// All guests, each with its credits of the processor.
fn all(client: fn(&Guest) -> Client) -> [Client; 4] {
    ALL.each_ref().map(|one| Client {
        cpu_weight: Weight::new(one.cpu).unwrap_or_default(),
        ..client(one)
    })
}

/// Figure 6.
pub(super) fn targets(length: Length) -> Lines {
    let slo = || loga(PolicyKind::CreditSlo);
    let by_credits = |one: &Guest| with(queued(one.name), one.credits, None);
    let by_cpu = |one: &Guest| with(queued(one.name), one.cpu, None);
    let by_target = |one: &Guest| with(queued(one.name), one.credits, Some(one.target));
    let waits = |one: &Guest| {
        let calls = calls(one.name, Wait::Block);
        with(calls, one.credits, Some(one.target))
    };
    let none = Policy::paper(Kind::Hardware);
    let none = parts(none, all(|one| queued(one.name)), length)?;
    let credits = parts(loga(PolicyKind::Credit), all(by_credits), length)?;
    let cpu = parts(loga(PolicyKind::Credit), all(by_cpu), length)?;
    let target = parts(slo(), all(by_target), length)?;
    let waiting = parts(slo(), all(waits), length)?;
    let mut lines = Vec::new();
    let mut least_of_none = f64::INFINITY;
    for (at, one) in ALL.iter().enumerate() {
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
        format!(
            "{} random pairs with 90 % together: least part of a target",
            2 * RANDOM_SETS
        ),
        "-",
        100.0 * least_of_random_sets(length)?,
        "%",
        AtLeast(95.0),
    ));
    Ok(lines)
}

/// The least part of its target that a guest of random sets gets. The targets of two that share a GPU
/// are 90 % together.
fn least_of_random_sets(length: Length) -> Result<f64, Error> {
    let mut random = Pcg64::seed_from_u64(RANDOM_SEED);
    let mut least = f64::INFINITY;
    for _ in 0..RANDOM_SETS {
        let [first, second] = [0, 1].map(|_| random.random_range(5..=85));
        let targets = [first, second, 90 - first, 90 - second];
        let mut left = targets.into_iter();
        let clients = GUESTS.map(|name| {
            let [weight, cpu] = [0, 1].map(|_| random.random_range(1..=2048));
            Client {
                cpu_weight: Weight::new(cpu).unwrap_or_default(),
                ..with(queued(name), weight, left.next())
            }
        });
        let parts = parts(loga(PolicyKind::CreditSlo), clients, length)?;
        for (part, target) in parts.iter().zip(targets) {
            least = least.min(part / f64::from(target));
        }
    }
    Ok(least)
}
