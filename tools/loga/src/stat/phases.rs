// SPDX-License-Identifier: GPL-2.0

//! `[tool]` The phases that figures stand for.

use loga::uapi;

/// Lengths that shares are fractions of.
pub(super) struct Phases {
    pub(super) span_ns: u64,
    /// Time between two samples, if accounting is sparse; else 0.
    pub(super) sample_interval_ns: u64,
    /// Whether copies are measured.
    pub(super) copies: bool,
}

/// Length of the phases that are in the clients' figures.
///
/// The polling phase under way is not; the non-polling phase before it is in `unpolled_ns` already.
pub(crate) fn booked_ns(gpu: &uapi::Gpu) -> u64 {
    let early_ns = if gpu.flags & uapi::GPU_POLLING != 0 {
        gpu.last_nonpoll_ns
    } else {
        0
    };
    gpu.polled_ns
        .saturating_add(gpu.unpolled_ns)
        .saturating_sub(early_ns)
}
