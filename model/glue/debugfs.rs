// SPDX-License-Identifier: GPL-2.0

//! The ground truth in debugfs: `loga_model/gpuN/{log,summary,reset}`.
//!
//! - `log`, `summary`: see [`text`](crate::truth::text);
//! - `reset`: writing anything clears both; the window begins again.
//!
//! Times are CLOCK_MONOTONIC; an interval appears when it ends.

use super::clock;
use super::pci::GPUS_MAX;
use super::stand::machine;
use crate::gpu::GR;
use crate::truth::text::Line;
use crate::truth::Entry;
use kernel::debugfs::Scope;
use kernel::fmt;
use kernel::prelude::*;
use kernel::str::CStr;
use kernel::uaccess::UserSliceReader;

/// Intervals copied while the lock is held.
const CHUNK: usize = 64;
/// Folders of the cards.
const NAMES: [&CStr; GPUS_MAX] = [c"gpu0", c"gpu1", c"gpu2", c"gpu3", c"gpu4", c"gpu5"];

/// The cards that files may be about; the data itself lives behind [`super::machine`].
pub struct Numbers([usize; GPUS_MAX]);

/// The files; dropping it removes them.
pub type Files = Scope<Numbers>;

/// Creates the files of this many cards.
pub fn files(gpus: usize) -> impl PinInit<Files> {
    let numbers = Numbers(core::array::from_fn(|gpu| gpu));
    Scope::dir(numbers, c"loga_model", move |numbers, root| {
        for (gpu, name) in numbers.0.iter().zip(NAMES).take(gpus) {
            let folder = root.dir(name);
            folder.read_callback_file(c"log", gpu, &print_log);
            folder.read_callback_file(c"summary", gpu, &print_summary);
            folder.write_only_callback_file(c"reset", gpu, &reset);
        }
    })
}

fn print_log(gpu: &usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(machine) = machine(*gpu) else {
        return Ok(());
    };
    let positions = machine.with_truth(|truth| truth.positions());
    let mut at = positions.start;
    while at < positions.end {
        let mut chunk: [Option<Entry>; CHUNK] = [None; CHUNK];
        machine.with_truth(|truth| {
            for (slot, position) in chunk.iter_mut().zip(at..positions.end) {
                *slot = truth.entry(position);
            }
        });
        for entry in chunk.iter().flatten() {
            writeln!(f, "{entry}")?;
        }
        at += CHUNK as u64;
    }
    Ok(())
}

fn print_summary(gpu: &usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(machine) = machine(*gpu) else {
        return Ok(());
    };
    let now = clock::now();
    let (start, kept, totals, rows) = machine.with_truth(|truth| {
        let kept = truth.positions();
        (
            truth.start(),
            kept.end - kept.start,
            truth.totals(),
            truth.rows(),
        )
    });
    writeln!(f, "{}", Line::Window { start, now, kept })?;
    for (engine, usage) in totals.into_iter().enumerate() {
        let window = now.saturating_sub(start);
        let idle_ns = window.saturating_sub(usage.ran_ns());
        let line = Line::Engine {
            engine,
            usage,
            idle_ns,
        };
        writeln!(f, "{line}")?;
    }
    for row in 0..rows {
        let Some(account) = machine.with_truth(|truth| truth.account(row)) else {
            continue;
        };
        for (engine, usage) in account.usage.into_iter().enumerate() {
            let used = usage.commands != 0 || usage.switch_ns != 0;
            if used || (account.channels != 0 && engine == GR) {
                let line = Line::Client {
                    pid: account.pid,
                    engine,
                    channels: account.channels,
                    usage,
                };
                writeln!(f, "{line}")?;
            }
        }
    }
    Ok(())
}

fn reset(gpu: &usize, _: &mut UserSliceReader) -> Result {
    if let Some(machine) = machine(*gpu) {
        let now = clock::now();
        machine.with_truth(|truth| truth.reset(now));
    }
    Ok(())
}
