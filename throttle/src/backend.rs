// SPDX-License-Identifier: GPL-2.0

//! [tool] What the load loop asks of a GPU.

use crate::error::Error;

/// One way to run kernels.
///
/// Kernels are numbered from 1 in the order of [`prepare`](Backend::prepare), modulo 2^32, and
/// complete in that order.
pub trait Backend {
    /// Most kernels that may be under way at a time.
    fn depth_max(&self) -> u32;

    /// Writes the commands of a kernel of `length_ns`, without handing them over; returns its number.
    ///
    /// With `notify`, its completion ends [`wait`](Backend::wait).
    fn prepare(&mut self, length_ns: u64, notify: bool) -> u32;

    /// Hands over everything prepared: one store, no system call.
    ///
    /// This is where a client that is held back waits.
    fn submit(&mut self);

    /// Number of the last kernel completed.
    fn completed(&mut self) -> u32;

    /// Sleeps until a kernel completes that asked for it, at most `limit_ms`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the driver's file cannot be waited on.
    fn wait(&mut self, limit_ms: u16) -> Result<(), Error>;
}
