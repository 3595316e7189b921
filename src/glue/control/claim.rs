// SPDX-License-Identifier: GPL-2.0

//! `[glue]` The call of `/dev/loga` for claims.

use super::calls::{gpu, tracker};
use super::refused::Refused;
use crate::glue::gpu::claims::Wanted;
use crate::glue::kernel::process::Process;
use crate::request::ClaimRequest;
use crate::uapi;
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;

/// Claims a GPU for the calling process, or takes its claims back. For every user: the claim is
/// that of the user which a client of the process belongs to.
pub(super) fn claim(claim: &mut uapi::Claim) -> Result<(), Refused> {
    let request = claim.check()?;
    let tracker = tracker()?;
    // A process that has begun to exit claims nothing.
    let identity = Process::of_caller()?.identity().ok_or(ESRCH)?;
    claim.seen = match request {
        ClaimRequest::Make {
            gpu: index,
            want,
            lasts,
            seen,
        } => {
            let gpu = gpu(&tracker, index)?;
            let wanted = Wanted {
                gpu: gpu.device.number(),
                want,
                lasts,
                depth: gpu.cgroup_depth.load(Relaxed),
            };
            tracker.claims.make(&identity, &wanted, seen)?
        }
        ClaimRequest::Clear { gpu: index } => {
            index.map(|index| gpu(&tracker, index)).transpose()?;
            tracker.claims.clear(identity.process, index)?
        }
    };
    Ok(())
}
