// SPDX-License-Identifier: GPL-2.0

//! Runlists: which channels an engine serves, in which order.
//!
//! A runlist is an array in video memory of 8-byte entries. The GPU copies it when it is
//! submitted; here the copy is a ring through the channel table.

/// The GPU's copy of one runlist.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runlist {
    /// Base register at the time of the submit.
    pub(super) base: u32,
    /// Entries submitted.
    pub(super) count: u32,
    /// A channel of the ring, `None` when the ring is empty.
    pub(super) head: Option<u16>,
    /// Channels in the ring.
    pub(super) length: u32,
    /// The channel served last: the walk begins behind it.
    pub(super) cursor: Option<u16>,
    /// First of the channels with a rung doorbell, which may have work.
    pub(super) rung: Option<u16>,
}

impl Runlist {
    /// An empty runlist.
    pub(super) const fn new() -> Self {
        Self {
            base: 0,
            count: 0,
            head: None,
            length: 0,
            cursor: None,
            rung: None,
        }
    }
}
