// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Common parts of tests and benches inside the virtual machine.
//!
//! | file | contents |
//! |---|---|
//! | [`modules`] | insmod and rmmod |
//! | [`stage`] | the model and LoGA loaded for one test, and LoGA's figures |
//! | [`truth`] | the model's figures |
//! | [`tracefs`] | the kernel's trace of events |
//! | [`limits`] | between which values a figure has to be |
//! | [`load`] | throttles in the background |
//! | [`busy`] | threads that keep to a processor or keep it busy |

pub mod busy;
pub mod limits;
pub mod load;
pub mod modules;
pub mod stage;
pub mod tracefs;
pub mod truth;
