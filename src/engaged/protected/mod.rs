// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Protected clients, which nothing stops.
//!
//! | file | contents |
//! |---|---|
//! | `shield` | what keeps the others from the engine while one uses it |
//! | `linger` | for how long the engine is kept free after its work |
//! | `reading` | when the channels of protected clients are read |

mod linger;
mod reading;
mod shield;

pub use reading::Protected;
pub(crate) use shield::Shield;
pub use shield::MAX_LINGER;
