// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Experiments of the Pegasus paper with its policies: turns on the GPU, and processors that
//! clients share.
//!
//! The paper's programs are stand-ins, and its virtual machines are processes here. Of its four
//! guests two share a processor and a GPU, and two the others ([`guests`]); those of Figure 7 share
//! processors across two GPUs. Source: Gupta and others, Pegasus, USENIX ATC 2011, section 6; its
//! bars are plotted only, so numbers are those of its text.

mod cost;
mod pictures;
mod response;
mod targets;
mod turns;

use super::figure::Experiment;
use crate::outcome::Error;
use crate::scenario::{Client, Costs, Kind, Phase, Policy, Scenario, Span, Wait};
use crate::systems::figure::Length;
use crate::systems::trial::Trial;
use loga::policies::PolicyKind;
use loga::units::Ns;

/// How long a thread keeps its processor while others wait, as Linux has it on four of them.
const SLICE: Ns = Ns::from_us(3_000);
/// How many times the weight of the holder of a turn counts on its processor, where the processor
/// follows the GPU.
const BOOST: u32 = 100;
/// The guests; the first and the third share a processor and a GPU, the others the other ones.
const GUESTS: [&str; 4] = ["Dom1", "Dom2", "Dom3", "Dom4"];
/// Processors, and GPUs.
const PAIRS: usize = 2;
/// Calls of a run of the stand-in for BlackScholes.
const RUN: u64 = 512;

/// The figures, with what is done in them.
pub(super) const FIGURES: &[Experiment] = &[
    (
        "pegasus-3",
        "a client alone, and two with a processor each: what turns cost",
        turns::cost,
    ),
    (
        "pegasus-4",
        "four guests, of which two share a processor and a GPU: turns, and the processor with them",
        turns::together,
    ),
    (
        "pegasus-5",
        "four guests that always want the GPU: credits 256 and 1024, 512 and 256",
        turns::credits,
    ),
    (
        "pegasus-6",
        "four guests that always want the GPU: credits, credits of the processor, and targets",
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
    (
        "pegasus-table-2",
        "32 clients: what turns cost the processor",
        cost::of_the_processor,
    ),
];

/// Calls that are waited for (BlackScholes): 400 us on a processor, 600 us on the GPU.
fn calls(name: &str, wait: Wait) -> Client {
    let (cpu, kernel) = (
        Span::uniform_us(380.0, 420.0),
        Span::uniform_us(570.0, 630.0),
    );
    let run = Phase {
        repeat: RUN,
        ..Phase::new(cpu, kernel)
    };
    Client {
        wait,
        ..Client::new(name, vec![run])
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

/// The four guests.
fn guests(policy: Policy, clients: [Client; 4], length: Length) -> Result<Trial, Error> {
    let mut scenario = Scenario::new(Ns::from_ms(length.seconds * 1000), Costs::default());
    scenario.gpus = vec![scenario.gpus[0]; PAIRS];
    scenario.cpus = vec![SLICE; PAIRS];
    scenario.policy = policy;
    let place = |(at, client): (usize, Client)| Client {
        gpu: at % PAIRS,
        cpu: Some(at % PAIRS),
        ..client
    };
    scenario.clients = clients.into_iter().enumerate().map(place).collect();
    Trial::together(scenario, length)
}

/// A policy of LoGA.
const fn loga(kind: PolicyKind) -> Policy {
    Policy::paper(Kind::Loga(kind))
}
