// SPDX-License-Identifier: GPL-2.0

//! What turns cost: Pegasus' figures 3a and 3b, and its table 2.

use super::{at_most, checked, CHECKED};
use crate::table::Table;

/// Most of a processor, in percent, and of a decision, in instructions.
const PROCESSOR: (f64, f64) = at_most(1.0);
const DECISION: (f64, f64) = at_most(20_000.0);

/// What turns cost.
pub(super) fn turns() -> Table {
    let mut rows = Vec::new();
    for (kernels, about) in [
        (600, "calls of 600 us, 400 us between them"),
        (1000, "kernels of 1000 us back to back"),
    ] {
        rows.push(checked(
            "credit-alone",
            &format!("{about}, alone under `credit`: time of one against without LoGA"),
            &format!("{{+2 kernels of {kernels} us: slow-down}} %"),
            "at most +1 %",
            &[PROCESSOR],
        ));
    }
    for clients in [2, 32] {
        rows.push(checked(
            "credit-crowd",
            &format!("{clients} clients with such calls: time of LoGA's threads on a processor"),
            &format!("{{1 {clients} clients: CPU time}} %"),
            "at most 1 %",
            &[PROCESSOR],
        ));
        rows.push(checked(
            "credit-crowd",
            "the main thread's decision at the end of a period: median, largest",
            &format!(
                "{{1/1000 {clients} clients: decision, median}}, \
                 {{1/1000 {clients} clients: decision, largest}} us"
            ),
            "20 us in the median",
            &[DECISION],
        ));
    }
    for policy in ["credit", "credit-slo", "augc", "cosched"] {
        let part = |of: &str| {
            format!("{{,0 {policy}, 32 of 32 clients active, 384 channels, by process: {of}}}")
        };
        rows.push(checked(
            "decision",
            &format!("`{policy}`, 32 clients: policy and checks; booking; a scan"),
            &format!(
                "{}; {}; {} instructions",
                part("policy and checks"),
                part("booking"),
                part("scan")
            ),
            "20,000 each",
            &[DECISION; 3],
        ));
    }
    Table {
        name: "turns",
        head: CHECKED,
        rows,
    }
}
