// SPDX-License-Identifier: GPL-2.0

//! Decisions with many clients.

use super::{at_most, plain};
use crate::table::{Row, Table};

/// What a decision of a policy costs.
fn cost(policy: &str, clients: u32, active: u32, of: &str) -> String {
    let channels = 12 * clients;
    format!(
        "{{,0 {policy}, {active} of {clients} clients active, {channels} channels, by process: {of}}}"
    )
}

/// Decisions with many clients.
pub(super) fn decision() -> Table {
    let row = |(clients, active): (u32, u32)| {
        let mut cells = vec![format!("{clients}, {active}")];
        cells.extend(["maxmin", "event", "event-cl", "none"].map(|policy| {
            let part = |of: &str| cost(policy, clients, active, of);
            format!("{}, {}", part("policy and checks"), part("booking"))
        }));
        plain("decision", cells)
    };
    let sizes = [
        (10, 10),
        (100, 10),
        (1000, 1),
        (1000, 10),
        (1000, 100),
        (1000, 1000),
    ];
    Table {
        name: "decision",
        head: &[
            "clients, active",
            "`maxmin`: policy, booking",
            "`event`",
            "`event-cl`",
            "`none`",
        ],
        rows: sizes.map(row).into(),
    }
}

/// Every policy with a thousand active clients.
pub(super) fn of_all() -> Table {
    const STAGED: [&str; 7] = [
        "sampling",
        "timeslice",
        "timeslice-eng",
        "augc",
        "cosched",
        "credit",
        "credit-slo",
    ];
    let row = |policy: &str| {
        let part = |of: &str| cost(policy, 1000, 1000, of);
        let scan = match STAGED.contains(&policy) {
            true => part("scan"),
            false => String::new(),
        };
        let booking = part("booking");
        Row {
            scenario: "decision",
            cells: vec![
                format!("`{policy}`"),
                part("policy and checks"),
                booking,
                scan,
            ],
            limits: Some(vec![at_most(200_000.0), at_most(600_000.0)]),
        }
    };
    let staged = STAGED.map(row);
    let others = ["maxmin", "event", "event-cl", "las", "las-levels", "none"].map(row);
    Table {
        name: "decision-of-all",
        head: &[
            "1,000 of 1,000 active",
            "policy and checks",
            "booking",
            "a scan",
            "at most 200,000 and 600,000",
        ],
        rows: others.into_iter().chain(staged).collect(),
    }
}

/// Decisions with real processes.
pub(super) fn clients() -> Table {
    let row = |(clients, active): (u32, u32)| {
        let name = format!(
            "{active} of {clients} clients active, {} channels",
            8 * clients
        );
        let part = |of: &str| format!("{{1/1000 {name}: {of}}} us");
        plain(
            "clients",
            vec![
                name.clone(),
                part("decision, median"),
                part("decision, largest"),
                part("begin of a phase, median"),
                part("begin of a phase, largest"),
            ],
        )
    };
    let together = "250 clients of a user with a limit";
    let part = |of: &str| format!("{{1/1000 {together}: decision, {of}}} us");
    let together = plain(
        "clients",
        vec![
            format!("{together}, throttled and released together (of 64)"),
            part("median"),
            part("largest"),
            String::new(),
            String::new(),
        ],
    );
    Table {
        name: "clients",
        head: &[
            "",
            "a decision, median of 16",
            "largest",
            "beginning of a polling phase, median of 16",
            "largest",
        ],
        rows: [(10, 10), (100, 10), (500, 10)]
            .map(row)
            .into_iter()
            .chain([together])
            .collect(),
    }
}
