// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Engaged scheduling: every submission of a client is decided on before it reaches the GPU.
//!
//! A client that is engaged stops at each submission (an *arrival*), is let pass by a *grant*, and
//! the end of what it submitted (a *completion*) leads to the next grant. The [`Decider`] of a GPU
//! is told of each store and of what is read of the GPU, and says what has to be done: the module
//! has threads, pages and registers for that, and decides nothing itself. The caller owns the clock and
//! the lock. No call allocates, sleeps or takes longer than its number of clients, so that the fault
//! path of the module can make it under a spinlock.
//!
//! | room | contents |
//! |---|---|
//! | `decider` | what is decided on stores, on clients that come, change and go, and on what the completion thread reads |
//! | `queue` | who waits, for what, and who is next |
//! | `reserve` | what is promised: the reserves, their terms, admission and its proof |
//! | `turn` | from a grant to its end: what is in flight, and what goes on after it |
//! | `protected` | protected clients, which are not stopped |
//! | `parameters` | what is set for processes, cgroups and users |
//! | `allowance` | what may pass against the order |
//! | `outcome` | what follows from an event for the caller |
//! | `limits` | limits that several rooms keep to |
//!
//! Source: Kato and others, TimeGraph, USENIX ATC 2011, for PRT, HT, PE, AE and prediction;
//! `docs/engaged-design.md` names what differs and why.

mod allowance;
mod decider;
mod limits;
mod outcome;
mod parameters;
mod protected;
mod queue;
mod reserve;
#[cfg(test)]
mod tests;
mod turn;

pub use crate::candidate::{Offer, Prio, Rank};
pub use decider::{
    Action, Completion, Counters, Decider, Reading, Step, Store, Submissions, Work, HEARTBEAT,
};
pub use limits::{
    BACKGROUND, HT_DEPTH, HT_SLICE, MAX_DEBT, MAX_GRANT, MOST_UNUSED, RETURN, SHARED_QUEUE,
    STARVED, SUBMISSION, UNUSED, WAIT_QUEUES, WINDOW,
};
pub use outcome::{Outcome, QueueSet, Report, Reports, Wakes};
pub use parameters::{reserve_of, Row, SchedulingParameters, Specs, PROMISED_PCT, SPECS};
pub use protected::{Protected, MAX_LINGER};
pub use queue::{
    Cause, Client, Forecast, Mode, Owed, Predictor, Record, Setting, WaitQueues, Waits, RECORDS,
    UNKNOWN_COST,
};
pub use reserve::{
    bears, by_sum, deadlines, Fit, Kind, Miss, Misses, Promise, Refusal, Reserve, Served, Task,
    Terms, Void, Why,
};
pub use turn::{Detection, Doing, Due, Ended, Grant, Left, Leftovers, Running, LEFTOVERS};
