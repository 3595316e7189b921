// SPDX-License-Identifier: GPL-2.0

//! [pure] What RM calls and mappings mean: objects, channels, submission slots.
//!
//! Nothing here decides or remembers. A call that is not understood is nobody's
//! business: it reaches the driver unchanged.

pub mod rm;
pub mod submission;
