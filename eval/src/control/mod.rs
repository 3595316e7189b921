// SPDX-License-Identifier: GPL-2.0

//! [tool] Who schedules: LoGA with each of its policies, and what users would pick instead.
//!
//! [`loga`] is the only file that drives the code of the kernel module. The others are
//! *baselines*: policies of the simulator only, each a short model of one way to share a GPU.

mod bound;
mod entities;
pub mod exclusive;
pub mod hardware;
pub mod loga;
pub mod per_command;
pub mod token_bucket;

pub use self::loga::{MAX_POLL_MS, MAX_RATIO};

use crate::world::Machine;
use ::loga::policies::{self, PolicyKind};

/// Who schedules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// LoGA with this policy.
    Loga(PolicyKind),
    /// Nobody: the GPU takes the channels in turn.
    Hardware,
    /// The host, command by command.
    PerCommand,
    /// One client at a time has the GPU, for seconds.
    Exclusive,
    /// Each client is limited by tokens, which follow a sampled utilisation.
    TokenBucket,
}

/// The baselines by name.
const BASELINES: &[(&str, Kind)] = &[
    ("hardware", Kind::Hardware),
    ("per-command", Kind::PerCommand),
    ("exclusive", Kind::Exclusive),
    ("token-bucket", Kind::TokenBucket),
];

impl Kind {
    /// All of them: the policies of LoGA, then the baselines.
    pub fn all() -> impl Iterator<Item = Self> {
        let loga = PolicyKind::ALL.iter().map(|kind| Self::Loga(*kind));
        loga.chain(BASELINES.iter().map(|(_, kind)| *kind))
    }

    /// The one with this name.
    ///
    /// # Errors
    ///
    /// What is wrong, with all names.
    pub fn by_name(name: &str) -> Result<Self, String> {
        Self::all().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            format!("unknown policy {name:?}, want one of {}", names.join(", "))
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loga(policy) => policy.name(),
            _ => BASELINES
                .iter()
                .find(|(_, kind)| *kind == self)
                .map_or("", |(name, _)| name),
        }
    }
}

/// The policy of LoGA with this name.
///
/// # Errors
///
/// What is wrong, with all names.
pub fn policy_by_name(name: &str) -> Result<PolicyKind, String> {
    policies::by_name(name).map_err(|_| {
        let names = policies::NAMES.join(", ");
        format!("unknown policy {name:?}, want one of {names}")
    })
}

/// What becomes of a command that a client wants to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It reaches the GPU at once.
    Now,
    /// It reaches the GPU after this time in ns.
    After(u64),
    /// The client tries again after this time in ns.
    Again(u64),
    /// The client sleeps until it is woken, and tries again then.
    Blocked,
    /// The scheduler has it; the client goes on as if it was submitted.
    Taken,
}

/// What a scheduler has found out about a client, and done to it. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Booked {
    /// GPU time as it believes.
    pub measured: Option<u64>,
    /// GPU time to which the client was entitled.
    pub entitled: Option<u64>,
    /// Time for which it was held back.
    pub held: u64,
}

/// What a scheduler did on one GPU. Times in ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    /// Time it spent on a CPU, outside the threads of clients.
    pub cpu: u64,
    /// Time it spent in the threads of clients: faults, traps.
    pub in_clients: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Looks at the channels, of policies that work in stages.
    pub looks: u64,
    /// Times that a client was held back.
    pub holds: u64,
    /// Faults or traps taken by clients.
    pub faults: u64,
    /// Up to when GPU time is measured: the last decision. Zero if nothing is.
    pub booked: u64,
    /// Sum of the differences between true and measured GPU time, over all GPU time, at the last
    /// decision.
    pub error: Option<f64>,
    /// What should not be: see [`crate::oracle`].
    pub violations: Vec<String>,
}

/// A scheduler. It is asked and told; what it wants done, it orders from the machine.
pub trait Control {
    /// A client has come, and has its channels.
    fn come(&mut self, machine: &mut Machine, client: usize);
    /// A client has gone; its commands have ended.
    fn gone(&mut self, machine: &mut Machine, client: usize);
    /// A client wants to submit a command.
    fn submit(
        &mut self,
        machine: &mut Machine,
        client: usize,
        engine: usize,
        length: u64,
    ) -> Verdict;
    /// A command of a client has ended.
    fn ended(&mut self, machine: &mut Machine, client: usize, engine: usize);
    /// Everything that is due now has happened on the GPU.
    fn look(&mut self, machine: &mut Machine);
    /// When it wants to act next.
    fn next(&self) -> Option<u64>;
    /// It is time to act.
    fn act(&mut self, machine: &mut Machine);
    /// What it knows of a client.
    fn booked(&self, machine: &Machine, client: usize) -> Booked;
    /// What it did.
    fn ledger(&self, machine: &Machine) -> Ledger;
}
