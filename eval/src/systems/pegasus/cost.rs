// SPDX-License-Identifier: GPL-2.0

//! Figures 3a and 3b: what turns cost a client that is alone; and table 2: what they cost the
//! processor. The simulator reads registers without a cost for its GPU, and takes no time for
//! decisions, so that those of the module are here too: see [`measured`].

use super::{calls, queued};
use crate::scenario::Wait;
use crate::systems::figure::{Criterion, Length, Line, Lines};
use crate::systems::measured;
use crate::systems::trial::{as_loaded, hardware, Trial};
use loga::policies::PolicyKind;
use Criterion::{Any, AtMost};

/// Clients of table 2.
const CLIENTS: usize = 32;
/// What a decision may take, in us, and the scheduler of a processor, in percent.
const DECISION: Criterion = AtMost(20.0);
const PROCESSOR: Criterion = AtMost(1.0);
/// Policies with turns by credits.
const CREDITS: [PolicyKind; 4] = [
    PolicyKind::Credit,
    PolicyKind::CreditSlo,
    PolicyKind::AugC,
    PolicyKind::CoSched,
];
/// Why the processor is not met.
const SCANS: &str =
    "The policy sees what clients do by scans of all allocated channels, a millisecond apart, also \
     within a turn of 30 ms, so that a holder without work loses it. The simulator takes 3 us for a \
     channel, which is three reads of registers across a bus; on the model they are reads of memory.";
/// Why a scan and its decision are not met.
const CHANNELS: &str =
    "Three quarters of it add up what 384 channels show, 12 of each client, of which each uses one.";

/// Figures 3a and 3b: the lines on a client that is alone.
pub(super) fn alone(length: Length) -> Lines {
    let mut lines = Vec::new();
    for (what, client) in [
        ("calls that are waited for", calls("one", Wait::Block)),
        ("queued calls", queued("one")),
    ] {
        let none = hardware(vec![client.clone()], length)?.kernels("one");
        let policy = as_loaded(PolicyKind::Credit);
        let turns = Trial::new(policy, vec![client], Vec::new(), length)?.kernels("one");
        lines.push(lost(
            format!("a client alone, {what}: lost under credit"),
            100.0 * (1.0 - turns / none),
        ));
    }
    let bench = measured::scenario("credit-alone");
    for us in [600, 1000] {
        let what = format!(
            "the module on the model of a GPU at {}, kernels of {us} us: longer by",
            bench.commit()
        );
        let ours = bench.mean(&format!("kernels of {us} us: slow-down"));
        lines.push(lost(what, ours));
    }
    Ok(lines)
}

/// What a client loses that is alone.
fn lost(what: String, ours: f64) -> Line {
    Line::new(what, "plotted", ours, "%", AtMost(1.0))
}

/// Table 2.
pub(super) fn of_the_processor(length: Length) -> Lines {
    let mut lines = Vec::new();
    let bench = measured::scenario("decision");
    for policy in CREDITS {
        let name = policy.name();
        let part = |of: &str| {
            let name = format!(
                "{name}, {CLIENTS} of {CLIENTS} clients active, 384 channels, by process: {of}"
            );
            bench.mean(&name) / 1000.0
        };
        let (decision, scan) = (part("policy and checks"), part("scan"));
        let line = |what, paper, ours| Line::new(what, paper, ours, "us", DECISION);
        let what = format!("{name} at {}: policy and checks", bench.commit());
        lines.extend([
            line(what, paper(policy), decision),
            line(
                "the same, with the books of a scan".into(),
                "-",
                decision + scan,
            )
            .unless_met(CHANNELS),
            line("the books of a period".into(), "-", part("booking")),
        ]);
    }
    let bench = measured::scenario("credit-crowd");
    for clients in [2, CLIENTS] {
        let one = |at: usize| calls(&at.to_string(), Wait::Block);
        let policy = as_loaded(PolicyKind::Credit);
        let trial = Trial::new(policy, (0..clients).map(one).collect(), Vec::new(), length)?;
        let of_one = |what, ours| {
            Line::new(what, "-", ours, "% of a processor", PROCESSOR).unless_met(SCANS)
        };
        let what = format!("credit, {clients} clients of 12 channels, simulated");
        let in_module = format!("the same, the module at {}", bench.commit());
        let cpu = bench.mean(&format!("{clients} clients: CPU time"));
        lines.extend([
            of_one(what, trial.scheduler_pct()),
            Line::new("scans", "-", trial.scans(), "1/s", Any),
            of_one(in_module, cpu),
        ]);
    }
    Ok(lines)
}

/// The paper's longest call of its scheduler for an accelerator.
const fn paper(policy: PolicyKind) -> &'static str {
    match policy {
        PolicyKind::Credit => "507 us (XC)",
        PolicyKind::CreditSlo => "440 us (SLAF)",
        PolicyKind::AugC => "3.36 us",
        PolicyKind::CoSched => "2.71 us",
        _ => "-",
    }
}
