// SPDX-License-Identifier: GPL-2.0

//! [tool] The figures and settings of the kernel module, for people and for programs.
//!
//! | file | contents |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`commands`] | what the commands do |
//! | [`control`] | the calls of `/dev/loga`, over the device or a double |
//! | [`device`] | the device: the only `unsafe` code |
//! | [`error`] | what failures mean |
//! | [`stat`] | one GPU's figures, over all time or between two snapshots; the JSON layout |
//! | [`table`] | the same as a table |
//! | [`top`] | the terminal user interface, without the terminal |
//! | [`names`], [`directory`] | numbers in words; users and cgroups |
//! | `fake` | a kernel module for tests |

pub mod cli;
pub mod commands;
pub mod control;
pub mod device;
pub mod directory;
pub mod error;
#[cfg(test)]
mod fake;
pub mod names;
pub mod stat;
pub mod table;
pub mod top;
