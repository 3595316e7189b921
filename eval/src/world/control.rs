// SPDX-License-Identifier: GPL-2.0

//! What a GPU and its clients ask of a scheduler.

use super::machine::Machine;
use loga::engaged::Misses;

/// What becomes of a command that a client wants to submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It reaches the GPU at once.
    Now,
    /// It reaches the GPU after this time in ns.
    After(u64),
    /// The client tries again after this time in ns.
    Again(u64),
    /// The client tries again after this time in ns, which it spends on its processor.
    Computes(u64),
    /// The client sleeps until it is woken, and tries again then.
    Blocked,
    /// The scheduler has it; the client goes on as if it was submitted.
    Accepted,
}

/// What a scheduler has found out about a client, and done to it. Times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Booked {
    /// GPU time as it believes.
    pub measured: Option<u64>,
    /// GPU time to which the client was entitled.
    pub entitled: Option<u64>,
    /// Time for which it was throttled.
    pub throttled: u64,
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
    /// Scans of the channels, of policies that work in stages.
    pub scans: u64,
    /// Times that a client was throttled.
    pub throttles: u64,
    /// Faults or traps taken by clients.
    pub faults: u64,
    /// Up to when GPU time is measured: the last decision. Zero if nothing is.
    pub booked: u64,
    /// Sum of the differences between true and measured GPU time, over all GPU time, at the last
    /// decision.
    pub error: Option<f64>,
    /// Deadlines of reserves that were missed, as the module counts them.
    pub misses: Misses,
    /// What should not be: see `oracle`.
    pub violations: Vec<String>,
}

/// A scheduler. The world calls it; it gives orders to the machine.
pub trait Control {
    /// A client has come, and has its channels.
    fn come(&mut self, _: &mut Machine, _client: usize) {}

    /// A client has gone; its commands have ended.
    fn gone(&mut self, _: &mut Machine, _client: usize) {}

    /// A client wants to submit a command of this length.
    fn submit(&mut self, _: &mut Machine, client: usize, engine: usize, length: u64) -> Verdict;

    /// A command of a client has ended.
    fn ended(&mut self, _: &mut Machine, _client: usize, _engine: usize) {}

    /// Everything that is due now has happened on the GPU.
    fn observe(&mut self, _: &mut Machine) {}

    /// When it wants to act next.
    fn next(&self) -> Option<u64> {
        None
    }

    /// It is time to act.
    fn act(&mut self, _: &mut Machine) {}

    /// What it knows of a client.
    fn booked(&self, _: &Machine, _client: usize) -> Booked {
        Booked::default()
    }

    /// What it did.
    fn ledger(&self, _: &Machine) -> Ledger {
        Ledger::default()
    }
}
