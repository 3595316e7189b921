// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Claims that a caller makes and takes back.

use super::gpu;
use crate::claims::WHOLE;
use crate::error::in_range;
use crate::uapi::{Claim, Refusal, ACTION_CLEAR, CLAIM_ANYWAY, MAX_CLAIM_SECONDS};
use crate::units::Ns;

/// A [`Claim`] that has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimRequest {
    /// Make a claim.
    Make {
        /// Index of the GPU.
        gpu: u32,
        /// What it counts, in percent.
        want: u32,
        /// For how long.
        lasts: Ns,
        /// The number that it was based on, if that is to be compared.
        seen: Option<u64>,
    },
    /// Take the claims of the caller back.
    Clear {
        /// Index of the GPU; nothing for all.
        gpu: Option<u32>,
    },
}

impl Claim {
    /// Checks everything that can be checked without knowing which GPUs and claims there are.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that names what would be right.
    pub fn check(&self) -> Result<ClaimRequest, Refusal> {
        if self.refusal != Refusal::default() {
            return Err(Refusal::reserved());
        }
        in_range("action", self.action.into(), 0, ACTION_CLEAR.into())?;
        if self.action == ACTION_CLEAR {
            let gpu = gpu(self.gpu);
            return Ok(ClaimRequest::Clear { gpu });
        }
        in_range("want_pct", self.want_pct.into(), 1, WHOLE.into())?;
        in_range("seconds", self.seconds.into(), 1, MAX_CLAIM_SECONDS.into())?;
        Ok(ClaimRequest::Make {
            gpu: self.gpu,
            want: self.want_pct,
            lasts: Ns::from_ms(u64::from(self.seconds).saturating_mul(1_000)),
            seen: (self.seen != CLAIM_ANYWAY).then_some(self.seen),
        })
    }
}
