// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The figures and settings of the kernel module, for people and for programs.
//!
//! | file | contents |
//! |---|---|
//! | [`cli`] | the arguments |
//! | [`commands`] | what the commands do |
//! | [`control`] | the calls of `/dev/loga`, over the device or a double |
//! | [`device`] | the device: the only `unsafe` code |
//! | [`doctor`] | what LoGA needs of a machine, and what of it is there |
//! | [`error`] | what failures mean |
//! | [`export`] | figures for monitoring systems |
//! | [`cluster`] | the exporters of a cluster's nodes, read from one place |
//! | [`history`] | what programs did in earlier runs |
//! | [`http`] | an HTTP server |
//! | [`mps`] | clients that are servers of NVIDIA's MPS |
//! | [`placing`] | the GPU of a program that starts |
//! | [`processes`] | names and executables of processes |
//! | [`recording`] | files of what everybody got, written over time and read again |
//! | [`replace`](mod@replace) | files that are replaced as a whole |
//! | [`stat`] | one GPU's figures, over all time or between two snapshots; the JSON layout |
//! | [`table`] | the same as a table |
//! | [`terminal`] | what the terminal can show, and taking it over |
//! | [`top`] | the terminal user interface, without the terminal |
//! | [`names`], [`directory`] | names from outside, numbers in words; users and cgroups |
//! | `fake` | a kernel module for tests |

pub mod cli;
pub mod cluster;
pub mod commands;
pub mod control;
pub mod device;
pub mod directory;
pub mod doctor;
pub mod error;
pub mod export;
#[cfg(test)]
mod fake;
pub mod history;
pub mod http;
pub mod mps;
pub mod names;
pub mod placing;
pub mod processes;
pub mod recording;
pub mod replace;
pub mod stat;
pub mod table;
pub mod terminal;
pub mod top;
