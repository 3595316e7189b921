// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What answers calls: the device itself, or a double in tests.

use loga::uapi;
use std::io;
use std::time::Duration;

/// The kernel's side. Arguments are as `loga::uapi` has them, except that the addresses of tables
/// are those of the slices; the counts in an argument are the lengths of its slices.
pub trait Calls {
    /// [`uapi::IOC_SNAPSHOT`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn snapshot(&self, argument: &mut uapi::Snapshot, tables: &mut Tables) -> io::Result<()>;
    /// [`uapi::IOC_SET_SHARE`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn set_share(&self, argument: &mut uapi::SetShare) -> io::Result<()>;
    /// [`uapi::IOC_LIST_SHARES`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn list_shares(
        &self,
        argument: &mut uapi::ListShares,
        shares: &mut [uapi::Share],
    ) -> io::Result<()>;
    /// [`uapi::IOC_SET_SPEC`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn set_spec(&self, argument: &mut uapi::SetSpec) -> io::Result<()>;
    /// [`uapi::IOC_LIST_SPECS`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn list_specs(
        &self,
        argument: &mut uapi::ListSpecs,
        specs: &mut [uapi::ListedSpec],
    ) -> io::Result<()>;
    /// [`uapi::IOC_CLAIM`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn claim(&self, argument: &mut uapi::Claim) -> io::Result<()>;
    /// [`uapi::IOC_READ_TOTALS`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn read_totals(
        &self,
        argument: &mut uapi::ReadTotals,
        totals: &mut [uapi::Total],
    ) -> io::Result<()>;
    /// [`uapi::IOC_CONFIGURE`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn configure(&self, argument: &mut uapi::Configure) -> io::Result<()>;
    /// [`uapi::IOC_SUBSCRIBE`].
    ///
    /// # Errors
    ///
    /// The errno.
    fn subscribe(&self, argument: &mut uapi::Subscribe) -> io::Result<()>;
    /// Waits for events, at most for `timeout`, and reads those there are; returns how many.
    ///
    /// # Errors
    ///
    /// The errno.
    fn read_events(&self, events: &mut [uapi::Event], timeout: Duration) -> io::Result<usize>;
}

/// Where a snapshot's tables go.
#[derive(Clone, Debug)]
pub struct Tables {
    /// Clients.
    pub clients: Vec<uapi::Client>,
    /// Groups.
    pub groups: Vec<uapi::Group>,
    /// Channels.
    pub channels: Vec<uapi::Channel>,
}
