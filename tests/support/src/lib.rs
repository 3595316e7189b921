// SPDX-License-Identifier: GPL-2.0

//! [tool] What tests and benches have in common inside the virtual machine.
//!
//! | file | contents |
//! |---|---|
//! | [`modules`] | insmod and rmmod |
//! | [`stage`] | the model and LoGA loaded for a while, and what LoGA says |
//! | [`truth`] | what the model says |
//! | [`load`] | throttles in the background |

pub mod load;
pub mod modules;
pub mod stage;
pub mod truth;
