// SPDX-License-Identifier: GPL-2.0

//! The parts of LoGA that need neither a kernel nor a GPU.
//!
//! The kernel module mounts the same files under the same names (see `loga_main.rs`), so host tests
//! run the code of the module. The way of one observation: [`regs`] reads and decodes a status
//! word, [`account`] turns changes into time on the engine per channel, [`engine`] ends the phase
//! and asks one of [`policies`], which computes with [`fair`]. [`share`] has the weights and limits
//! of processes, users and cgroups, and their accounts. [`track`] has the meaning of an RM call or
//! a mapping; [`rm`] has the numbers and structures of those calls. With a dispatcher, [`engaged`]
//! decides on each submission: the module and the simulator call it. [`placement`] says on which
//! GPU a program should start, for the tools and the simulator. [`compatibility`] has the table of
//! cards, driver branches, kernels and distributions.
//!
//! The words are those of the glossary in `docs/architecture.md`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod account;
pub mod candidate;
pub mod claims;
#[cfg(test)]
mod claims_tests;
pub mod compatibility;
pub mod engaged;
pub mod engine;
pub mod error;
pub mod fair;
pub mod gpu;
pub mod ids;
pub mod knobs;
pub mod names;
#[path = "../policies/placement/mod.rs"]
pub mod placement;
#[path = "../policies/mod.rs"]
pub mod policies;
pub mod quota;
pub mod random;
#[path = "../regs/mod.rs"]
pub mod regs;
pub mod request;
pub mod rm;
pub mod share;
pub mod storage;
pub mod track;
pub mod uapi;
pub mod units;

/// Tables in vectors. The kernel module has its own.
pub struct Vectors;

impl storage::Storage for Vectors {
    type Of<T: 'static> = alloc::vec::Vec<T>;
}
