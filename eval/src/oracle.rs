// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What has to be so after every run.
//!
//! Conservation of time, of the ground truth here and of each polling phase in
//! [`crate::control::loga`]; virtual time that never falls and the policy's contract (there too);
//! the bound that a policy states (`control/bound.rs`); clients used no more than there was.

use crate::outcome::GpuOutcome;

/// What is not as it has to be on one GPU.
pub fn check(outcome: &GpuOutcome) -> Vec<String> {
    let mut violations = outcome.ledger.violations.clone();
    let used: u64 = outcome
        .clients
        .iter()
        .map(|client| client.compute.run + client.compute.switch)
        .sum();
    if !outcome.packed && used + outcome.idle != outcome.length {
        violations.push(format!(
            "conservation: {used} ns used and {} ns idle are not the {} ns that passed",
            outcome.idle, outcome.length
        ));
    }
    for client in &outcome.clients {
        let there = client.got.to.saturating_sub(client.got.from);
        for (engine, usage) in [("compute", client.compute), ("copy", client.copy)] {
            if usage.run + usage.switch > there {
                violations.push(format!(
                    "conservation: client {} ran {} ns on the {engine} engine in the {there} ns \
                     that it was there",
                    client.number, usage.run
                ));
            }
        }
        if client.booked.throttled > outcome.length || client.got.blocked > there {
            violations.push(format!(
                "conservation: client {} was throttled for {} ns and slept for {} ns in {there} ns",
                client.number, client.booked.throttled, client.got.blocked
            ));
        }
    }
    violations
}
