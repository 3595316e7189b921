// SPDX-License-Identifier: GPL-2.0

//! `[tool]` How much memory of each GPU is free, as far as the kernel says.
//!
//! `dmem.capacity` and `dmem.current` of the root cgroup have a line for each region of memory that a
//! driver registered: its name and a number of bytes. Drivers name regions by the address of the
//! GPU: `nvidia/0000:01:00.0/vidmem` (NVIDIA's from 615 on), `drm/0000:03:00.0/vram0`. Other drivers
//! of NVIDIA register none, and their files below `/proc/driver/nvidia` have no such figure.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Longest file that is read.
const LENGTH_MAX: usize = 1 << 20;
/// How the last part of the name of a GPU's own memory begins.
const OWN: [&str; 2] = ["vidmem", "vram"];

/// Free memory in bytes, by the address of the GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(BTreeMap<(u32, String), u64>);

impl Memory {
    /// What the root of the cgroup hierarchy says; nothing if it has no such files.
    pub fn of(cgroups: &Path) -> Self {
        let read = |name: &str| {
            let text = fs::read_to_string(cgroups.join(name)).unwrap_or_default();
            let text = text.get(..text.len().min(LENGTH_MAX)).unwrap_or_default();
            regions(text)
        };
        let (capacity, current) = (read("dmem.capacity"), read("dmem.current"));
        let mut free = BTreeMap::new();
        for (name, bytes) in capacity {
            // Of a region that has no use nothing is known.
            let (Some(address), Some(used)) = (address(&name), current.get(&name)) else {
                continue;
            };
            let sum: &mut u64 = free.entry(address).or_default();
            *sum = sum.saturating_add(bytes.saturating_sub(*used));
        }
        Self(free)
    }

    /// Free memory of the GPU at this address, in MiB.
    pub fn free_mib(&self, pci: &str) -> Option<u64> {
        self.0.get(&normal(pci)?).map(|bytes| bytes >> 20)
    }
}

/// Names and numbers; lines that are none are skipped.
fn regions(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, bytes) = line.trim().rsplit_once(' ')?;
        Some((name.trim().to_string(), bytes.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The GPU whose own memory a region is.
fn address(region: &str) -> Option<(u32, String)> {
    let (before, last) = region.rsplit_once('/')?;
    let own = OWN.iter().any(|own| last.starts_with(own));
    own.then(|| before.rsplit('/').find_map(normal)).flatten()
}

/// An address with its domain as a number: names write it with four digits or eight.
fn normal(pci: &str) -> Option<(u32, String)> {
    let (domain, rest) = pci.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some((domain, rest.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(capacity: &str, current: Option<&str>) -> Memory {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("dmem.capacity"), capacity).expect("a file");
        if let Some(current) = current {
            fs::write(path("dmem.current"), current).expect("a file");
        }
        Memory::of(folder.path())
    }

    #[test]
    fn free_memory_is_what_is_not_in_use_of_the_gpus_own() {
        let memory = of(
            "nvidia/00000000:0A:00.0/vidmem 8589934592\ndrm/0000:03:00.0/vram0 4294967296\ndrm/0000:03:00.0/gtt 99999999999\n",
            Some("nvidia/00000000:0A:00.0/vidmem 1073741824\ndrm/0000:03:00.0/vram0 4294967297\ndrm/0000:03:00.0/gtt 0\n"),
        );
        assert_eq!(memory.free_mib("0000:0a:00.0"), Some(7168));
        assert_eq!(memory.free_mib("0000:03:00.0"), Some(0));
        assert_eq!(memory.free_mib("0001:0a:00.0"), None);
    }

    #[test]
    fn memory_is_unknown_without_files_or_figures() {
        let line = "nvidia/0000:01:00.0/vidmem";
        let none = Memory::default();
        assert_eq!(Memory::of(Path::new("/nonexistent")), none);
        assert_eq!(of(&format!("{line} 100\n"), None), none);
        assert_eq!(
            of(&format!("{line} many\nx\n\n"), Some(&format!("{line} 0\n"))),
            none
        );
        assert_eq!(of("vidmem 100\n", Some("vidmem 0\n")), none);
    }
}
