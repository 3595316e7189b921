// SPDX-License-Identifier: GPL-2.0

//! What turns by credits cost: a client that is alone (figures 3a and 3b of Pegasus), and the
//! processor (its table 2).

use crate::costs;
use crate::figure::Findings;
use crate::load::Pattern;
use crate::scenarios::{slow_down, HOG};
use crate::stage::{Stage, LAZY};
use crate::window::Window;
use std::ops::RangeInclusive;

/// The module's own settings, with this policy.
const LOGA: &str = "policy=credit enforce=1 accounting=sparse randomize=1";
/// Calls of the stand-in for BlackScholes: 600 us on the GPU, and 400 us without it.
const CALLS: Pattern = Pattern::new(600, 400);
/// Most that a client loses that is alone, in percent.
const ALONE: RangeInclusive<f64> = f64::MIN..=1.0;
/// Clients, each a process with 12 channels.
const CLIENTS: usize = 32;
/// Most of a processor, in percent, and most of a decision, in ns.
const PROCESSOR: RangeInclusive<f64> = 0.0..=1.0;
const DECISION: RangeInclusive<f64> = 0.0..=20_000.0;
/// Measured decisions.
const LAST: usize = 16;

/// What a client loses that is alone.
pub(crate) fn alone(findings: &mut Findings) -> Result<(), String> {
    for load in [CALLS, HOG] {
        slow_down(findings, load, LOGA, Some(ALONE))?;
    }
    Ok(())
}

/// What many clients cost.
pub(crate) fn crowd(findings: &mut Findings) -> Result<(), String> {
    for clients in [2, CLIENTS] {
        let _stage = Stage::measured(LAZY, LOGA)?;
        let window = Window::of(&vec![CALLS; clients], 5.0)?;
        let name = format!("{clients} clients");
        let of_one = 100.0 * window.threads_ms / window.length_ms();
        let processor = format!("{name}: CPU time");
        findings.check(&processor, of_one, "%", PROCESSOR);
        let [median, most] = costs::recent("decide_ns", LAST)?;
        findings.check(&format!("{name}: decision, median"), median, "ns", DECISION);
        findings.record(&format!("{name}: decision, largest"), most, "ns");
        findings.observations.push(window.observation(&name));
    }
    Ok(())
}
