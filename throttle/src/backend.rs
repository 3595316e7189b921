// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the load loop asks of a GPU.

use crate::error::Error;
use crate::lengths::DeviceReport;
use crate::log::Log;

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

    /// Hands over everything prepared: one store, no system call, however many calls of a library
    /// lead to it.
    ///
    /// This is where a client that is throttled waits.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if a library refuses a kernel.
    fn submit(&mut self) -> Result<(), Error>;

    /// Number of the last kernel completed.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if a library reports that a kernel failed.
    fn completed(&mut self) -> Result<u32, Error>;

    /// Sleeps until a kernel completes that asked for it, at most `limit_ms`.
    ///
    /// # Errors
    ///
    /// [`Error::Call`] if the driver's file cannot be waited on, [`Error::Gpu`] if a library refuses.
    fn wait(&mut self, limit_ms: u16) -> Result<(), Error>;

    /// The log of the kernels so far, if the plan asks for one.
    ///
    /// # Errors
    ///
    /// [`Error::Gpu`] if a library does not say when the last kernels ran.
    fn log(&mut self) -> Result<Option<&Log>, Error> {
        Ok(None)
    }

    /// What the device said about itself and about the kernels so far, if it has a say.
    fn device(&self) -> Option<DeviceReport> {
        None
    }
}
