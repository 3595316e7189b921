// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Engaged scheduling: every submission of a client is decided on before it reaches the GPU.
//!
//! A client that is engaged stops at each submission (an *arrival*), is let pass by a *grant*, and
//! the end of what it submitted (a *completion*) leads to the next grant. The [`Decider`] of a GPU
//! is told of each store and of what is read of the GPU, and says what has to be done: the module
//! has threads, pages and registers for that, and decides nothing itself. Within it,
//! [`Submissions`] keeps which clients wait and which one is on the engine; it is told what
//! happened, and gives back at most one grant and the time at which it wants to be called again.
//! The caller owns the clock and the lock. No call allocates, sleeps or takes longer than its
//! number of clients, so that the fault path of the module can make it under a spinlock.
//!
//! # The contract of [`Submissions`]
//!
//! - A client without a pending arrival gets no grant, and one arrival gets one grant.
//! - Submissions of one client at a time are in flight: one, or up to [`HT_DEPTH`] of a client under
//!   [`Mode::Ht`].
//! - The engine is not idle while a waiting client is *ready*: its reserve lets it start now, and no
//!   protected client uses the engine or did so less than `linger` ago. A client without budget is
//!   not chosen, so no turn is lost to one.
//! - Of several ready clients, the [dispatcher](crate::policies::dispatch) says which is first;
//!   among equals, the one that has waited longest. One that has waited for [`STARVED`] comes
//!   before it, if neither has a reserve: see `floor`.
//! - Without a completion for [`MAX_GRANT`] while others wait, all other clients pass (*fail open*)
//!   until what is in flight has completed or its owner has left.
//!
//! | file | contents |
//! |---|---|
//! | `decider` | what is decided on stores, and on clients that come, change and go |
//! | `actions` | what the completion thread has to do next, and what follows from what it reads |
//! | `outcome` | what follows from an event for the caller, and what is told of that |
//! | `wakes`, `running` | whose threads have to be woken; whose end is waited for |
//! | `submissions` | what happens: which clients wait, which one is on the engine |
//! | `select` | which client is next |
//! | `floor` | what no priority takes from the others |
//! | `account` | time that is earned and paid, for `floor` and `leftovers` |
//! | `beside` | what they use beside the turns of others |
//! | `leftovers` | channels with work that goes on after its turn has ended |
//! | `shield`, `protected` | protected clients, which are not stopped, and when they are looked at |
//! | `protecting` | what the submissions are told of them |
//! | `linger` | for how long the engine is kept free after their work |
//! | `client` | one client, and what is set for it |
//! | `wait_queues` | which clients have which position, when there are many |
//! | `terms` | what a reserve promises, and what its three kinds have in common |
//! | `reserve` | GPU time that is promised to a client or several |
//! | `specs` | what is set for processes, cgroups and users |
//! | `promises` | reserves that come, change and go |
//! | `posterior` | PE: pays afterwards |
//! | `apriori` | AE: starts only what fits, as in the paper |
//! | `bandwidth` | CBS: postpones its deadline before a long command |
//! | `history` | how long the next command of a client will take |
//! | `detection` | when the entries of a page go, and when commands have ended |
//! | `admission`, `demand` | which reserves can be kept together; what they ask for up to each deadline |
//! | `waits`, `waiting` | for what clients wait; its books |
//! | `settling` | what a submission that has ended costs its client |
//! | `missed`, `misses` | deadlines that were missed; when one is, and why |
//!
//! Source: Kato and others, TimeGraph, USENIX ATC 2011, for PRT, HT, PE, AE and prediction;
//! `docs/engaged-design.md` names what differs and why.

mod account;
mod actions;
mod admission;
mod apriori;
mod bandwidth;
mod beside;
#[cfg(test)]
mod beside_tests;
mod client;
mod decider;
#[cfg(test)]
mod decider_random_tests;
#[cfg(test)]
mod decider_tests;
mod demand;
mod detection;
#[cfg(test)]
mod detection_tests;
#[cfg(test)]
mod flights_tests;
mod floor;
#[cfg(test)]
mod floor_tests;
mod history;
mod leftovers;
mod linger;
mod missed;
mod misses;
#[cfg(test)]
mod misses_tests;
mod outcome;
mod posterior;
mod promises;
#[cfg(test)]
mod promises_tests;
mod protected;
mod protecting;
mod reserve;
mod running;
mod select;
mod settling;
mod shield;
#[cfg(test)]
mod shield_tests;
mod specs;
mod submissions;
#[cfg(test)]
mod submissions_tests;
mod terms;
mod wait_queues;
mod waiting;
mod waits;
#[cfg(test)]
mod waits_tests;
mod wakes;

pub use crate::candidate::{Offer, Prio, Rank};
pub use actions::{Action, Completion, Reading, Work, HEARTBEAT};
pub use admission::{bears, by_sum, deadlines, Refusal};
pub use client::{Client, Mode, Owed, Setting, BACKGROUND};
pub use decider::{Decider, Store};
pub use demand::{Fit, Promise, Task, Why};
pub use detection::{Detection, Due, Ended, Left, RETURN, WINDOW};
pub use floor::STARVED;
pub use history::{Forecast, Predictor, Record, RECORDS, UNKNOWN_COST};
pub use leftovers::{Doing, Leftovers, LEFTOVERS};
pub use missed::{Miss, Misses, Void};
pub use outcome::{Outcome, Report, Reports};
pub use protected::Protected;
pub use reserve::{Reserve, Served};
pub use running::Running;
pub use shield::MAX_LINGER;
pub use specs::{reserve_of, Row, SchedulingParameters, Specs, PROMISED_PCT, SPECS, SUBMISSION};
pub use submissions::{Counters, Grant, Step, Submissions};
pub use terms::{Kind, Terms};
pub use wait_queues::{WaitQueues, SHARED_QUEUE, WAIT_QUEUES};
pub use waits::{Cause, Waits};
pub use wakes::{QueueSet, Wakes};

use crate::units::{signed, Ns};

/// Most submissions in flight of a client under [`Mode::Ht`].
pub const HT_DEPTH: usize = 4;
/// How long a client under [`Mode::Ht`] goes on while an equal one is ready.
pub const HT_SLICE: Ns = Ns::from_us(2_000);
/// Longest time without a completion while others wait.
pub const MAX_GRANT: Ns = Ns::from_ms(2_000);
/// What a grant costs at least that its client does not use.
pub const UNUSED: Ns = Ns::from_us(20);
/// For how long a client has the engine at most that does not use its grant.
const UNUSED_MOST: Ns = RETURN.saturating_add(WINDOW);
/// Grants in a row that a client does not use until it is no longer taken for one that wants its turn.
/// Its thread may not have come back in time once or twice.
pub const MOST_UNUSED: u32 = 4;
/// What a reserve without promised deadlines may be late with beyond its period, and catch up.
const LATE: Ns = Ns::from_ms(100);
/// A debt that takes longer to pay is forgiven beyond this.
pub const MAX_DEBT: Ns = Ns::from_ms(60_000);

/// A signed number as a time; nothing below zero.
fn unsigned(ns: i64) -> Ns {
    Ns::new(u64::try_from(ns).unwrap_or(0))
}
