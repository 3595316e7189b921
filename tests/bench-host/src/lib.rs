// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the benchmarks on the host are made of.
//!
//! | file | contents |
//! |---|---|
//! | [`registers`] | `[double]` a GPU's registers as a table; a read costs a modelled time |
//! | [`prototype`] | `[double]` the poll of the paper's prototype |
//! | [`changes`] | many clients of which some come, go, move or are lowered |
//! | [`clients`] | clients at a decision |
//! | [`figures`] | measured figures, as a table and as JSON |

pub mod changes;
pub mod clients;
pub mod figures;
pub mod prototype;
pub mod registers;
