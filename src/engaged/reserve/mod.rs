// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What is promised: GPU time in every period, and deadlines.
//!
//! | file | contents |
//! |---|---|
//! | `table` | the reserves of an engine: what follows from a submission for them |
//! | `flight` | a submission in flight, as its reserve knows it |
//! | `server` | one reserve |
//! | `terms` | what it promises, and what its three kinds have in common |
//! | `posterior` | PE: pays afterwards |
//! | `apriori` | AE: starts only what fits, as in the paper |
//! | `bandwidth` | CBS: postpones its deadline before a long command |
//! | `admission`, `demand` | which reserves can be kept together, with the proof; what they ask for up to each deadline |
//! | `missed` | what is counted of deadlines that were missed |

mod admission;
mod apriori;
mod bandwidth;
mod demand;
mod flight;
mod missed;
mod posterior;
mod server;
mod table;
mod terms;

pub use admission::{bears, by_sum, deadlines, Refusal};
pub use demand::{Fit, Promise, Task, Why};
pub(crate) use flight::Flight;
pub use missed::{Miss, Misses, Void};
pub use server::{Reserve, Served};
pub(crate) use table::Reserves;
pub use terms::{Kind, Terms};
