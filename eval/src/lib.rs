// SPDX-License-Identifier: GPL-2.0

//! [tool] What LoGA's rules give on an ideal GPU.
//!
//! [`sim`] is a discrete-event calculation that drives the accounting, the engine
//! and the policies of the kernel module; [`mixes`] are the loads it is asked about;
//! [`reference`] is the table that a bench on the model is compared with.

pub mod mixes;
pub mod reference;
pub mod sharing;
pub mod sim;
