// SPDX-License-Identifier: GPL-2.0

//! [tool] What the kernel module measured, for people and for programs.
//!
//! | file | contents |
//! |---|---|
//! | [`device`] | `/dev/loga`: the only `unsafe` code, and what its errors mean |
//! | [`stat`] | one GPU's figures, over all time or between two snapshots; the JSON layout |
//! | [`table`] | the same as a table |

pub mod device;
pub mod stat;
pub mod table;
