// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Claims: the load that a program which is about to start will bring to a GPU.

use super::refusal::Refusal;
use core::mem::size_of;

/// Argument of [`super::IOC_CLAIM`]. A claim is of the calling process. It ends with the process,
/// after `seconds`, or when it is cleared.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// In: [`super::VERSION`].
    pub version: u32,
    /// In: `size_of::<Claim>()`.
    pub size: u32,
    /// In: index of the GPU; with [`ACTION_CLEAR`](super::ACTION_CLEAR) also [`super::ALL_GPUS`].
    pub gpu: u32,
    /// In: [`ACTION_SET`](super::ACTION_SET), in place of the claim that the process has on this
    /// GPU, or [`ACTION_CLEAR`](super::ACTION_CLEAR).
    pub action: u32,
    /// In: for `ACTION_SET`, as the two below: what the program is expected to want of the GPU, in
    /// percent, 1 to 100.
    pub want_pct: u32,
    /// In: for how long it counts, 1 to [`MAX_CLAIM_SECONDS`].
    pub seconds: u32,
    /// In: the number in the snapshots that the choice of the GPU is based on, or
    /// [`CLAIM_ANYWAY`]. If claims were made since, on any GPU, the call is refused with
    /// [`REFUSED_CHANGED`](super::REFUSED_CHANGED). Out, unless the call is refused: the number
    /// after this call. Each claim that is made changes it.
    pub seen: u64,
    /// Out: why it was refused.
    pub refusal: Refusal,
}

/// As [`Claim::seen`]: whatever was claimed since.
pub const CLAIM_ANYWAY: u64 = u64::MAX;

/// Longest [`Claim::seconds`].
pub const MAX_CLAIM_SECONDS: u32 = 30;

const _: () = assert!(size_of::<Claim>() == 32 + 32);
