// SPDX-License-Identifier: GPL-2.0

//! `[pure]` What RM calls and mappings mean: objects, channels, submission slots.
//!
//! Unknown calls reach the driver unchanged. `pages` remembers which client
//! owns which page of submission slots.

pub mod call;
pub mod pages;
#[cfg(any(test, loga_kunit))]
mod pages_tests;
pub mod submission;
