// SPDX-License-Identifier: GPL-2.0

//! `[glue]` Cost of decisions, gates and samples, and memory per client and channel:
//! `/sys/kernel/debug/loga/costs`, for benchmarks. Not a stable interface.

use crate::engine::ClientState;
use crate::glue::driver::hook;
use crate::glue::driver::mapping;
use crate::glue::gpu::client::ClientKernel;
use crate::glue::gpu::gates::gate::{Gate, Page};
use crate::share::{Group, Member};
use crate::track::pages::SLOTS;
use kernel::c_str;
use kernel::debugfs::{Dir, File};
use kernel::fmt;
use kernel::prelude::*;

/// The file, while this lives.
#[pin_data]
pub(crate) struct Costs {
    _dir: Dir,
    #[pin]
    _costs: File<()>,
}

impl Costs {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let dir = Dir::new(c_str!("loga"));
        try_pin_init!(Self {
            _costs <- dir.read_callback_file(c_str!("costs"), (), &write_costs),
            _dir: dir,
        })
    }
}

fn write_costs(_: &(), f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // Each client has room for two groups: its own and one without members.
    let group = size_of::<Group>() + size_of::<ClientState>();
    let client = size_of::<Member>() + 2 * group + size_of::<ClientKernel>();
    let channel = (size_of::<Page>() + size_of::<Gate>()) / SLOTS + mapping::MAPPING_BYTES;
    writeln!(f, "client_bytes {client}")?;
    writeln!(f, "channel_bytes {channel}")?;
    let Some(tracker) = hook::tracker() else {
        return Ok(());
    };
    for gpu in tracker.gpus() {
        let samples = gpu.phase.lock().sample_costs;
        let costs = gpu.took.lock();
        for (what, took) in [
            ("revoke_ns", &costs.revoke),
            ("restore_ns", &costs.restore),
            ("decide_ns", &costs.decide),
            ("start_ns", &costs.start),
            ("enter_ns", &costs.enter),
            ("close_ns", &costs.close),
        ] {
            write!(f, "gpu{} {what}", gpu.device.index)?;
            took.write(f)?;
        }
        if let Some(submissions) = gpu.engaged.counters() {
            writeln!(
                f,
                "gpu{} grants {} waits {} unused {} opens {} starved {}",
                gpu.device.index,
                submissions.grants,
                submissions.waits,
                submissions.unused,
                submissions.opens,
                submissions.starved
            )?;
            let taken = gpu.engaged.taken_by_stores();
            writeln!(f, "gpu{} store_locks {taken}", gpu.device.index)?;
        }
        let (spent, late) = (samples.spent.get(), samples.late.get());
        writeln!(
            f,
            "gpu{} samples {} spent_ns {spent} late_ns {late}",
            gpu.device.index, samples.samples
        )?;
    }
    Ok(())
}
