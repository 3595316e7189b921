// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Who waits, for what, and who is next.
//!
//! | file | contents |
//! |---|---|
//! | `clients` | the clients of an engine: who waits, who is next |
//! | `client` | one client, and what is set for it |
//! | `causes` | for what it waits |
//! | `history` | how long its next command will take |
//! | `assigned` | which clients have which wait queue, when there are many |

mod assigned;
mod causes;
mod client;
mod clients;
mod history;

pub use assigned::WaitQueues;
pub use causes::{Cause, Waits};
pub(crate) use client::Surprise;
pub use client::{Client, Mode, Owed, Setting};
pub(crate) use clients::{Clients, Table};
pub use history::{Forecast, Predictor, Record, RECORDS, UNKNOWN_COST};
