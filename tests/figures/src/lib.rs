// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The tables of figures of the documents, written from measurements that are committed.
//!
//! `make bench` leaves `out/bench.json`. `make figures` copies what the documents cite of it to
//! [`FILE`], with commit, date and seeds, and writes the tables between the markers of the documents.
//! `tests/documents/figures.rs` fails if a document says something else than that file.
//!
//! | file | contents |
//! |---|---|
//! | `measured` | what is kept of measurements, and how it is taken over |
//! | `template` | a cell of a table: text with places for figures |
//! | `table` | rows, verdicts, and where the figures are from |
//! | `tables` | the tables: their rows, and what is wanted |
//! | `page` | the places of the tables in a document |

mod measured;
mod page;
mod table;
mod tables;
mod template;

pub use measured::{Measured, Report, Scenario};
pub use page::{blocks, fill};
pub use table::Table;
pub use tables::all;

/// Where measurements are kept, below the root of the repository.
pub const FILE: &str = "docs/measured/bench.json";
