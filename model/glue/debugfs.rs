// SPDX-License-Identifier: GPL-2.0

//! The ground truth in debugfs: `loga_model/gpuN/{log,summary,reset}`.
//!
//! - `log`: one line per interval, oldest first: `start_ns end_ns engine chid pid kind`, where
//!   engine is the hardware's index (0 GR, 4 CE0) and kind is `run` or `switch`. A switch is two
//!   lines: saving names the channel that leaves, loading the one that comes, as the status word.
//! - `summary`: `window start_ns end_ns kept`; per engine `engine index busy_ns switch_ns idle_ns
//!   commands`; per process and engine that was used or has channels `client pid engine channels
//!   busy_ns switch_ns commands` (pid 0: processes that found no row).
//! - `reset`: writing anything clears both; the window begins again.
//!
//! Times are CLOCK_MONOTONIC; an interval appears when it ends.

use super::machine;
use super::pci::GPUS_MAX;
use crate::gpu::Kind;
use crate::gpu::ENGINES;
use crate::gpu::ENGINE_INDEX;
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
            let interval = &entry.interval;
            let kind = match interval.kind {
                Kind::Run => "run",
                Kind::Switch => "switch",
            };
            writeln!(
                f,
                "{} {} {} {} {} {kind}",
                interval.start,
                interval.end,
                ENGINE_INDEX[interval.engine % ENGINES],
                interval.chid.0,
                entry.pid,
            )?;
        }
        at += CHUNK as u64;
    }
    Ok(())
}

fn print_summary(gpu: &usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(machine) = machine(*gpu) else {
        return Ok(());
    };
    let now = machine::now();
    let (start, kept, totals, rows) = machine.with_truth(|truth| {
        let kept = truth.positions();
        (
            truth.start(),
            kept.end - kept.start,
            truth.totals(),
            truth.rows(),
        )
    });
    writeln!(f, "window {start} {now} {kept}")?;
    for (index, total) in ENGINE_INDEX.iter().zip(&totals) {
        let window = now.saturating_sub(start);
        let idle = window
            .saturating_sub(total.busy_ns)
            .saturating_sub(total.switch_ns);
        writeln!(
            f,
            "engine {index} {} {} {idle} {}",
            total.busy_ns, total.switch_ns, total.commands
        )?;
    }
    for row in 0..rows {
        let Some(account) = machine.with_truth(|truth| truth.account(row)) else {
            continue;
        };
        for (index, usage) in ENGINE_INDEX.iter().zip(&account.usage) {
            let used = usage.commands != 0 || usage.switch_ns != 0;
            if used || (account.channels != 0 && *index == 0) {
                writeln!(
                    f,
                    "client {} {index} {} {} {} {}",
                    account.pid, account.channels, usage.busy_ns, usage.switch_ns, usage.commands
                )?;
            }
        }
    }
    Ok(())
}

fn reset(gpu: &usize, _: &mut UserSliceReader) -> Result {
    if let Some(machine) = machine(*gpu) {
        let now = machine::now();
        machine.with_truth(|truth| truth.reset(now));
    }
    Ok(())
}
