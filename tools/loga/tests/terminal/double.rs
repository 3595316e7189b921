// SPDX-License-Identifier: GPL-2.0

//! `[double]` A kernel module with one GPU and one client, which can panic on purpose.

use loga::uapi;
use loga_cli::control::{Calls, Tables};
use std::cell::Cell;
use std::io;
use std::time::Duration;

/// How many snapshots there are until a panic.
pub(crate) const PANIC: &str = "LOGA_TEST_PANIC";

/// The double.
#[derive(Default)]
pub(crate) struct OneGpu {
    snapshots: Cell<u64>,
}

fn none() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

impl Calls for OneGpu {
    fn snapshot(&self, argument: &mut uapi::Snapshot, tables: &mut Tables) -> io::Result<()> {
        let count = self.snapshots.get();
        self.snapshots.set(count + 1);
        let most = std::env::var(PANIC).ok().and_then(|most| most.parse().ok());
        assert!(
            most.is_none_or(|most: u64| count < most),
            "snapshot too many"
        );
        if argument.gpu > 0 {
            return Err(nix::errno::Errno::ENXIO.into());
        }
        argument.info.polled_ns = count * 100_000_000;
        argument.info.unpolled_ns = count * 100_000_000;
        (
            argument.client_count,
            argument.group_count,
            argument.channel_count,
        ) = (1, 0, 0);
        let client = uapi::Client {
            id: 1,
            pid: 4711,
            weight: 100,
            measured_ns: count * 60_000_000,
            gpu_time_ns: count * 120_000_000,
            entitled_ns: count * 10_000_000,
            ..Default::default()
        };
        tables.clients[0] = client;
        tables.clients[0].comm[..8].copy_from_slice(b"throttle");
        Ok(())
    }

    fn set_share(&self, _: &mut uapi::SetShare) -> io::Result<()> {
        Err(none())
    }

    fn list_shares(&self, _: &mut uapi::ListShares, _: &mut [uapi::Share]) -> io::Result<()> {
        Err(none())
    }

    fn set_spec(&self, _: &mut uapi::SetSpec) -> io::Result<()> {
        Err(none())
    }

    fn list_specs(&self, _: &mut uapi::ListSpecs, _: &mut [uapi::ListedSpec]) -> io::Result<()> {
        Err(none())
    }

    fn claim(&self, _: &mut uapi::Claim) -> io::Result<()> {
        Err(none())
    }

    fn read_totals(&self, _: &mut uapi::ReadTotals, _: &mut [uapi::Total]) -> io::Result<()> {
        Err(none())
    }

    fn configure(&self, _: &mut uapi::Configure) -> io::Result<()> {
        Err(none())
    }

    fn subscribe(&self, _: &mut uapi::Subscribe) -> io::Result<()> {
        Err(none())
    }

    fn read_events(&self, _: &mut [uapi::Event], _: Duration) -> io::Result<usize> {
        Err(none())
    }
}
