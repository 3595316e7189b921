// SPDX-License-Identifier: GPL-2.0

//! `[tool]` `/dev/loga` itself: the only unsafe code of this program.

mod around;

pub use crate::control::Snapshot;
pub use crate::error::Error;

use self::around::Around;
use crate::control::{Calls, Control, Tables};
use loga::uapi;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use std::fs::File;
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// The open control device.
pub type Device = Control<ControlFile>;

/// An open file of the control device.
#[derive(Debug)]
pub struct ControlFile(File);

impl Device {
    /// Opens the control device.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`] or [`Error::Open`].
    pub fn open() -> Result<Self, Error> {
        let around = Around::inspect;
        let file = File::open(uapi::DEVICE_PATH).map_err(|error| around().explain(error))?;
        if let Ok(data) = file.metadata() {
            around().check(&data)?;
        }
        Ok(Control::over(ControlFile(file)))
    }
}

impl ControlFile {
    /// # Safety
    ///
    /// `T` must be the structure that `number` takes, and any addresses in it those of tables that
    /// may be written, with as many elements as the counts beside them say.
    unsafe fn call<T>(&self, number: u32, argument: &mut T) -> io::Result<()> {
        // SAFETY: the kernel reads and writes the argument, its size is part of the number, and
        // the tables in it, which are as long as the caller promises.
        let rc = unsafe { libc::ioctl(self.0.as_raw_fd(), number.into(), &raw mut *argument) };
        if rc < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Address of a table and how many of its elements the kernel may write.
fn place<T>(table: &mut [T], count: u32) -> (u64, u32) {
    let length = u32::try_from(table.len()).unwrap_or(u32::MAX);
    // CAST: addresses are at most 64 bits wide.
    (table.as_mut_ptr() as u64, count.min(length))
}

impl Calls for ControlFile {
    fn snapshot(&self, argument: &mut uapi::Snapshot, tables: &mut Tables) -> io::Result<()> {
        (argument.clients, argument.client_count) =
            place(&mut tables.clients, argument.client_count);
        (argument.groups, argument.group_count) = place(&mut tables.groups, argument.group_count);
        (argument.channels, argument.channel_count) =
            place(&mut tables.channels, argument.channel_count);
        // SAFETY: the structure of this number; the three tables are borrowed until the call is
        // over, have the elements that `place` counted, and any bit pattern is a valid element.
        unsafe { self.call(uapi::IOC_SNAPSHOT, argument) }
    }

    fn set_share(&self, argument: &mut uapi::SetShare) -> io::Result<()> {
        // SAFETY: the structure of this number; it has no tables.
        unsafe { self.call(uapi::IOC_SET_SHARE, argument) }
    }

    fn list_shares(
        &self,
        argument: &mut uapi::ListShares,
        shares: &mut [uapi::Share],
    ) -> io::Result<()> {
        (argument.shares, argument.count) = place(shares, argument.count);
        // SAFETY: the structure of this number; its table is as in `snapshot`.
        unsafe { self.call(uapi::IOC_LIST_SHARES, argument) }
    }

    fn set_spec(&self, argument: &mut uapi::SetSpec) -> io::Result<()> {
        // SAFETY: the structure of this number; it has no tables.
        unsafe { self.call(uapi::IOC_SET_SPEC, argument) }
    }

    fn list_specs(
        &self,
        argument: &mut uapi::ListSpecs,
        specs: &mut [uapi::ListedSpec],
    ) -> io::Result<()> {
        (argument.specs, argument.count) = place(specs, argument.count);
        // SAFETY: the structure of this number; its table is as in `snapshot`.
        unsafe { self.call(uapi::IOC_LIST_SPECS, argument) }
    }

    fn claim(&self, argument: &mut uapi::Claim) -> io::Result<()> {
        // SAFETY: the structure of this number; it has no tables.
        unsafe { self.call(uapi::IOC_CLAIM, argument) }
    }

    fn read_totals(
        &self,
        argument: &mut uapi::ReadTotals,
        totals: &mut [uapi::Total],
    ) -> io::Result<()> {
        (argument.totals, argument.count) = place(totals, argument.count);
        // SAFETY: the structure of this number; its table is as in `snapshot`.
        unsafe { self.call(uapi::IOC_READ_TOTALS, argument) }
    }

    fn configure(&self, argument: &mut uapi::Configure) -> io::Result<()> {
        // SAFETY: the structure of this number; it has no tables.
        unsafe { self.call(uapi::IOC_CONFIGURE, argument) }
    }

    fn subscribe(&self, argument: &mut uapi::Subscribe) -> io::Result<()> {
        // SAFETY: the structure of this number; it has no tables.
        unsafe { self.call(uapi::IOC_SUBSCRIBE, argument) }
    }

    fn read_events(&self, events: &mut [uapi::Event], timeout: Duration) -> io::Result<usize> {
        let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        let wait = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        if nix::poll::poll(&mut ready, wait)? == 0 {
            return Ok(0);
        }
        // SAFETY: as many bytes as the events have; bytes have no alignment, and any bit pattern
        // is a valid event.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(
                events.as_mut_ptr().cast::<u8>(),
                std::mem::size_of_val(events),
            )
        };
        let read = (&self.0).read(bytes)?;
        if read == 0 {
            // Ready, and nothing to read: the device is gone, and would be ready forever.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read / size_of::<uapi::Event>())
    }
}
