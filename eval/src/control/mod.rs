// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Schedulers: LoGA with each of its policies, and alternatives that users have.
//!
//! [`loga`] drives the code of the kernel module that divides GPU time, [`engaged`] the code with
//! which it decides on submissions, [`both`] the two at once. The others are *baselines*: policies of the
//! simulator only, each a short model of one way to share a GPU.

pub mod awake;
pub mod both;
mod bound;
pub mod engaged;
mod entities;
pub mod exclusive;
pub mod gvim;
pub mod hardware;
pub mod loga;
pub mod per_command;
pub mod token_bucket;

/// Shortest quantum and shortest time between two samples, in ns.
const SHORTEST: u64 = 1_000;
