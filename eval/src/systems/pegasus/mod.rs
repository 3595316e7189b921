// SPDX-License-Identifier: GPL-2.0

//! [tool] Experiments of the Pegasus paper with its policies: turns on the GPU, and processors that
//! clients share.
//!
//! The paper's programs are stand-ins, and its virtual machines are processes here. Two guests of
//! the paper share a processor and a GPU, two others the same elsewhere, so that one such pair is
//! simulated, but for Figure 7, whose guests share processors across two GPUs. Source: Gupta and
//! others, Pegasus, USENIX ATC 2011, section 6; its bars are plotted only, so numbers are those of
//! its text.

mod pictures;
mod response;
mod targets;
mod turns;

use super::figure::Experiment;
use crate::scenario::{Client, Costs, Kind, Phase, Policy, Scenario, Span, Wait};
use crate::systems::figure::Length;
use loga::policies::PolicyKind;
use loga::units::Ns;

/// How long a thread keeps its processor while others wait, as Linux has it on four of them.
const SLICE: Ns = Ns::from_us(3_000);
/// How many times the weight of the holder of a turn counts on its processor, where the processor
/// follows the GPU.
const BOOST: u32 = 100;

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[
    (
        "pegasus-3",
        "two clients with a processor each: what turns cost",
        turns::cost,
    ),
    (
        "pegasus-4",
        "two clients share a processor and a GPU: turns, and the processor with them",
        turns::together,
    ),
    (
        "pegasus-5",
        "credits 256 and 1024, 512 and 256: two clients that always want the GPU",
        turns::credits,
    ),
    (
        "pegasus-6",
        "credits, credits of the processor, and targets: clients that always want the GPU",
        targets::targets,
    ),
    (
        "pegasus-7",
        "three guests process pictures: one has a GPU for itself, two share one, all share processors",
        pictures::pictures,
    ),
    (
        "pegasus-8",
        "a client of short calls beside one of kernels of 1 ms: 95 % of its calls end within",
        response::short_calls,
    ),
    (
        "pegasus-9",
        "two clients with jobs of some 50 ms, of very different lengths",
        response::variable,
    ),
];

/// Calls that are waited for (BlackScholes): 400 us on a processor, 600 us on the GPU.
fn calls(name: &str, wait: Wait) -> Client {
    let (cpu, kernel) = (
        Span::uniform_us(380.0, 420.0),
        Span::uniform_us(570.0, 630.0),
    );
    Client {
        wait,
        ..Client::new(name, vec![Phase::new(cpu, kernel)])
    }
}

/// The same calls, sixteen of them on the way at a time.
fn queued(name: &str) -> Client {
    let phase = Phase {
        depth: 16,
        repeat: 1000,
        ..Phase::new(Span::us(0), Span::uniform_us(570.0, 630.0))
    };
    Client::new(name, vec![phase])
}

/// Two clients of one kind on one GPU, each with a processor of its own or both on one.
fn pair(policy: Policy, clients: [Client; 2], one_cpu: bool, length: Length) -> Scenario {
    let cpus = if one_cpu { vec![SLICE] } else { Vec::new() };
    let place = |client: Client| Client {
        cpu: one_cpu.then_some(0),
        ..client
    };
    Scenario {
        policy,
        cpus,
        clients: clients.map(place).into(),
        ..Scenario::new(Ns::from_ms(length.seconds * 1000), Costs::default())
    }
}

/// A policy of LoGA.
const fn loga(kind: PolicyKind) -> Policy {
    Policy::paper(Kind::Loga(kind))
}
