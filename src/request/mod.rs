// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Checks of what callers of `/dev/loga` ask: one floor above the structures of
//! [`uapi`](crate::uapi), which are layouts only.
//!
//! | file | contents |
//! |---|---|
//! | `share` | a `SetShare` becomes a [`ShareRequest`] |
//! | `spec` | a `SetSpec` becomes a [`SpecRequest`] |
//! | `claim` | a `Claim` becomes a [`ClaimRequest`] |
//! | `knobs` | a `Configure` becomes [`KnobChange`] |
//! | `means` | fading means in a `Snapshot` |
//! | `refusal` | why a call is refused, from a cause and in words |

mod claim;
mod knobs;
mod means;
mod refusal;
mod share;
mod spec;

pub use claim::ClaimRequest;
pub use knobs::KnobChange;
pub use share::{Named, ShareRequest};
pub use spec::SpecRequest;

use crate::uapi::{Refusal, Snapshot, Subscribe, ALL_GPUS, EVENT_KINDS};

impl Snapshot {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// [`Refusal::reserved`] for flags or padding that is not zero.
    pub fn check(&self) -> Result<(), Refusal> {
        if self.flags != 0 || self.reserved != 0 {
            return Err(Refusal::reserved());
        }
        Ok(())
    }
}

impl Subscribe {
    /// Checks the fields.
    ///
    /// # Errors
    ///
    /// [`Refusal::reserved`] for flags, or events that do not exist.
    pub fn check(&self) -> Result<(), Refusal> {
        let known = (1u64 << EVENT_KINDS).wrapping_sub(1);
        let refused = self.refusal != Refusal::default();
        if self.flags != 0 || self.mask & !known != 0 || refused {
            return Err(Refusal::reserved());
        }
        Ok(())
    }
}

/// Nothing for all GPUs.
const fn gpu(index: u32) -> Option<u32> {
    if index == ALL_GPUS {
        None
    } else {
        Some(index)
    }
}
