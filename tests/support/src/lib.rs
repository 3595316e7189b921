// SPDX-License-Identifier: GPL-2.0

//! [tool] Common parts of tests and benches inside the virtual machine.
//!
//! | file | contents |
//! |---|---|
//! | [`modules`] | insmod and rmmod |
//! | [`stage`] | the model and LoGA loaded for one test, and LoGA's figures |
//! | [`truth`] | the model's figures |
//! | [`load`] | throttles in the background |
//! | [`busy`] | threads that keep to a processor or keep it busy |

pub mod busy;
pub mod load;
pub mod modules;
pub mod stage;
pub mod truth;
