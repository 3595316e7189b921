// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `loga_decision.ko`: the cost of a decision, without processes and without a GPU.
//!
//! The pure parts of LoGA are compiled here unchanged, and run on synthetic clients. Reading
//! `/sys/kernel/debug/loga_decision` measures, and returns lines
//!
//! `POLICY GROUP_BY CLIENTS ACTIVE CHANNELS policy_ns NS around_ns NS scan_ns NS`
//!
//! with the medians of the time that the engine took, policy and checks, of the booking around it,
//! and of the booking around a scan of the channels, 0 for a policy that does not scan. In instruction-count mode a nanosecond is an instruction.

// Half of the mounted files serve other parts of the module.
#![allow(dead_code)]

#[path = "../../src/account/mod.rs"]
pub mod account;
#[path = "../../src/candidate.rs"]
pub mod candidate;
#[path = "../../src/engaged/mod.rs"]
pub mod engaged;
#[path = "../../src/engine/mod.rs"]
pub mod engine;
#[path = "../../src/error.rs"]
pub mod error;
#[path = "../../src/fair/mod.rs"]
pub mod fair;
#[path = "../../src/gpu/mod.rs"]
pub mod gpu;
#[path = "../../src/ids.rs"]
pub mod ids;
#[path = "../../src/knobs.rs"]
pub mod knobs;
#[path = "../../src/names.rs"]
pub mod names;
#[path = "../../policies/mod.rs"]
pub mod policies;
#[path = "../../src/quota.rs"]
pub mod quota;
#[path = "../../src/random.rs"]
pub mod random;
#[path = "../../regs/mod.rs"]
pub mod regs;
#[path = "../../src/rm/mod.rs"]
pub mod rm;
#[path = "../../src/share/mod.rs"]
pub mod share;
#[path = "../../src/storage.rs"]
pub mod storage;
#[path = "../../src/units.rs"]
pub mod units;

mod round;

use kernel::c_str;
use kernel::debugfs::{Dir, File};
use kernel::fmt;
use kernel::prelude::*;
use policies::PolicyKind;
use round::{Crowd, Round};
use share::GroupBy;

module! {
    type: Measurement,
    name: "loga_decision",
    authors: ["The LoGA developers"],
    description: "Measures what a decision of LoGA costs",
    license: "GPL v2",
}

/// Numbers of clients, and of active ones among them.
const CROWDS: [(u32, u32); 7] = [
    (1000, 1000),
    (1000, 100),
    (1000, 10),
    (1000, 1),
    (100, 10),
    (32, 32),
    (10, 10),
];
/// Channels of a client, of which it uses the first. For a thousand clients there are more than
/// the 4096 that a GPU has: the table of them is as long nevertheless.
const CHANNELS: u32 = 12;

/// The file, while this lives.
#[pin_data]
struct Measurement {
    #[pin]
    file: File<()>,
    dir: Dir,
}

impl kernel::InPlaceModule for Measurement {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = Dir::new(c_str!("loga_decision"));
        try_pin_init!(Self {
            file <- dir.read_callback_file(c_str!("cost"), (), &measure_all),
            dir,
        })
    }
}

fn measure_all(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for policy in PolicyKind::ALL.iter().copied() {
        for (clients, active) in CROWDS {
            measure(f, policy, GroupBy::Process, (clients, active))?;
        }
        measure(f, policy, GroupBy::User, (1000, 10))?;
    }
    Ok(())
}

fn measure(
    f: &mut fmt::Formatter<'_>,
    policy: PolicyKind,
    group_by: GroupBy,
    (clients, active): (u32, u32),
) -> fmt::Result {
    let crowd = Crowd {
        policy,
        group_by,
        clients,
        active,
        channels: CHANNELS,
    };
    let round = Round::new(&crowd);
    let Ok(mut round) = round else {
        pr_err!("{} clients: {:?}\n", clients, round.err());
        return Err(fmt::Error);
    };
    let cost = round.median();
    writeln!(
        f,
        "{} {} {clients} {active} {} policy_ns {} around_ns {} scan_ns {}",
        policy.name(),
        group_by.name(),
        clients.saturating_mul(CHANNELS),
        cost.policy.get(),
        cost.around.get(),
        cost.scan.get(),
    )
}
