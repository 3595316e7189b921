// SPDX-License-Identifier: GPL-2.0

//! `[pure]` Sums over the programs of a GPU, see `many`.

/// Sums over the programs of a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// What they want of the compute engine, in millionths.
    pub(super) wanted: u64,
    /// The largest of these wants.
    pub(super) largest: u64,
    /// What they want of the copy engine, in millionths.
    pub(super) copied: u64,
    /// What a submission of another program waits for their commands, in nanoseconds.
    pub(super) blocking: u64,
    /// What those that wait for commands more than their share slows them down add to the cost for
    /// each nanosecond that each of their submissions waits: see `sensitivity` in `wait`.
    pub(super) sensitive: u64,
    /// The most that one of them is slowed down by waiting for commands.
    pub(super) slowest: u64,
    /// The largest sensitivity among them, without its weight.
    pub(super) steepest: u64,
    /// By how much less the cost may be than these sums say because it rounds for each program.
    pub(super) rounded: u64,
}
