// SPDX-License-Identifier: GPL-2.0

//! [tool] What a card, its driver and its libraries tell a program without a module of ours.
//!
//! | file | contents |
//! |---|---|
//! | [`refusal`] | who refused a question, and with which answer |
//! | [`window`] | memory that a driver or a device shares, read only |
//! | [`rm`] | a client of the resource manager of branches 515 and later |
//! | [`fecs`] | records of the context switches of the engine |
//! | [`nvml`] | what NVIDIA's management library says |
//! | [`registers`] | the registers LoGA reads: through the driver, and in BAR0 |

pub(crate) mod fecs;
pub(crate) mod nvml;
pub(crate) mod refusal;
pub(crate) mod registers;
pub(crate) mod rm;
pub(crate) mod window;
