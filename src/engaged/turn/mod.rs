// SPDX-License-Identifier: GPL-2.0

//! `[pure]` From a grant to its end: what is in flight, and what goes on after it.
//!
//! | file | contents |
//! |---|---|
//! | `book` | whose submissions are in flight, and which |
//! | `detection` | when the entries of a page go, and when commands have ended |
//! | `running` | channels whose commands are waited for |
//! | `leftovers` | channels with work that goes on after its turn has ended |

mod book;
mod detection;
mod leftovers;
mod running;

pub use book::Grant;
pub(crate) use book::Turn;
pub use detection::{Detection, Due, Ended, Left};
pub use leftovers::{Doing, Leftovers, LEFTOVERS};
pub use running::Running;
