// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Memory that nothing points at any more, as kmemleak finds it: the last test of a run on a
//! kernel that has it.

use crate::ktap::{ensure, Verdict};
use crate::modules;
use crate::modules::{LOGA, MODEL};
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

crate::ktap::tests![nothing_is_left_in_memory];

/// Where kmemleak is asked.
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";
/// Younger objects are not reported. Source: `mm/kmemleak.c`, `MSECS_MIN_AGE`.
const MIN_AGE: Duration = Duration::from_secs(6);
/// Lines of the report that a failure shows.
const SHOWN: usize = 60;

/// Whether the kernel has kmemleak.
pub(crate) fn can_tell() -> bool {
    Path::new(KMEMLEAK).exists()
}

/// Objects that are lost already are not the tests' doing.
pub(crate) fn begin() -> io::Result<()> {
    fs::write(KMEMLEAK, "scan")?;
    fs::write(KMEMLEAK, "clear")
}

/// Scans for objects lost since [`begin`], with both modules unloaded.
pub(crate) fn lost() -> Result<String, String> {
    modules::remove_patiently(LOGA)?;
    modules::remove_patiently(MODEL)?;
    std::thread::sleep(MIN_AGE);
    // An object counts from the second scan on that finds it unchanged.
    for _ in 0..2 {
        fs::write(KMEMLEAK, "scan").map_err(|error| format!("{KMEMLEAK}: {error}"))?;
    }
    fs::read_to_string(KMEMLEAK).map_err(|error| format!("{KMEMLEAK}: {error}"))
}

fn nothing_is_left_in_memory() -> Verdict {
    let report = lost()?;
    let objects = report
        .lines()
        .filter(|line| line.starts_with("unreferenced object"))
        .count();
    let lines: Vec<&str> = report.lines().take(SHOWN).collect();
    ensure!(
        objects == 0,
        "{objects} objects lost:\n{}",
        lines.join("\n")
    );
    Ok(())
}
