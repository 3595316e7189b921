// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Kernel threads.

use procfs::process::{all_processes, Stat, StatFlags};

/// The kernel threads with names that begin with `name`.
pub(crate) fn named(name: &str) -> Result<Vec<Stat>, String> {
    let all = all_processes().map_err(|error| error.to_string())?;
    // Processes come and go.
    let stats = all.flatten().filter_map(|process| process.stat().ok());
    let is_wanted = |stat: &Stat| {
        let flags = stat.flags().unwrap_or(StatFlags::empty());
        flags.contains(StatFlags::PF_KTHREAD) && stat.comm.starts_with(name)
    };
    Ok(stats.filter(is_wanted).collect())
}
