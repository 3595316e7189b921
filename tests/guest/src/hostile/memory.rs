// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What the kernel has given out: memory, and references on the modules.

use crate::modules::{LOGA, MODEL};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Slab that may come and go with the kernel's own work, in KiB.
pub(super) const SLAB_NOISE_KIB: u64 = 256;

/// Memory and references that the kernel has given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocated {
    /// Slab that cannot be reclaimed, without that of [`CHECKERS`], in KiB.
    pub(super) slab_kib: u64,
    /// Areas of virtual memory of the modules, and their bytes.
    pub(super) areas: u64,
    pub(super) area_bytes: u64,
    /// References on LoGA and on the model.
    pub(super) references: (u64, u64),
}

impl Allocated {
    /// Now, with no client running.
    pub(super) fn now() -> Result<Self, String> {
        // Memory that waits for a grace period, or is reclaimable, is no leak.
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        std::thread::sleep(Duration::from_millis(300));
        let read =
            |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        let memory = read("/proc/meminfo")?;
        let line = memory.lines().find(|line| line.starts_with("SUnreclaim:"));
        let slab_kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        let (mut areas, mut area_bytes) = (0, 0);
        for line in read("/proc/vmallocinfo")?
            .lines()
            .filter(|line| line.contains("[loga"))
        {
            let bytes = line
                .split_whitespace()
                .nth(1)
                .and_then(|bytes| bytes.parse::<u64>().ok());
            areas += 1;
            area_bytes += bytes.unwrap_or(0);
        }
        let references = |name: &str| -> Result<u64, String> {
            let path = format!("/sys/module/{name}/refcnt");
            read(&path)?
                .trim()
                .parse()
                .map_err(|_| format!("{path}: not a number"))
        };
        let caches = caches();
        let checkers = CHECKERS.iter().filter_map(|name| caches.get(*name));
        let slab_kib: u64 = slab_kib.ok_or("/proc/meminfo: no SUnreclaim")?;
        Ok(Allocated {
            slab_kib: slab_kib.saturating_sub(checkers.sum()),
            areas,
            area_bytes,
            references: (references(LOGA)?, references(MODEL)?),
        })
    }
}

/// Caches in which the checks of a debug kernel keep records of their own. They grow by some hundred
/// KiB whether the load lasts for 8 s or for 25.
const CHECKERS: [&str; 3] = [
    "kmemleak_object",
    "kmemleak_scan_area",
    "debug_objects_cache",
];

/// KiB of each slab cache, where the kernel tells.
pub(super) fn caches() -> BTreeMap<String, u64> {
    let text = fs::read_to_string("/proc/slabinfo").unwrap_or_default();
    let cache = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse::<u64>().ok();
        // Pages of a slab, and slabs.
        Some((words.first()?.to_string(), number(5)? * number(14)? * 4))
    };
    text.lines().filter_map(cache).collect()
}

/// The caches that have grown, in KiB, the one that grew most first.
pub(super) fn grown(before: &BTreeMap<String, u64>) -> String {
    if before.is_empty() {
        return "caches unknown, no /proc/slabinfo".to_owned();
    }
    let mut grown: Vec<_> = caches()
        .into_iter()
        .map(|(name, after)| {
            let more = after.saturating_sub(before.get(&name).copied().unwrap_or(0));
            (more, name)
        })
        .collect();
    grown.sort_unstable_by(|one, other| other.cmp(one));
    let most = grown.iter().take(6).filter(|(more, _)| *more > 0);
    let most: Vec<_> = most.map(|(more, name)| format!("{name} +{more}")).collect();
    most.join(", ")
}
