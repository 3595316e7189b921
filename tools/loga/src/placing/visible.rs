// SPDX-License-Identifier: GPL-2.0

//! `[tool]` GPUs as CUDA names them: which of them the environment of the caller allows, and the
//! environment that makes a program see those that were chosen.
//!
//! `CUDA_VISIBLE_DEVICES` is a list of indices, in the order that `CUDA_DEVICE_ORDER` says, or of
//! UUIDs that may be cut short as long as they name one GPU. The first entry says which. The first
//! that names no GPU ends the list; a list that names a GPU twice allows none.
//! Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; for a GPU named twice, that
//! PyTorch reads the list so.

use crate::cli;
use crate::cli::GpuName;
use crate::control::Snapshot;
use crate::history::SOCKET;
use crate::names;
use crate::names::{Name, UUID};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The list of GPUs that a program may see.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// The order of indices.
const ORDER: &str = "CUDA_DEVICE_ORDER";
/// The order of indices that can be known: by domain, bus, device.
const BY_BUS: &str = "PCI_BUS_ID";
/// The socket of the agent that keeps the history, if it is not the usual one.
const HISTORY: &str = "LOGA_HISTORY";
/// The first GPU, as LoGA numbers it: for `throttle`.
const LOGA_GPU: &str = "LOGA_GPU";

/// Where the driver describes its GPUs, below the root of `proc`.
pub(crate) const DRIVER: &str = "driver/nvidia/gpus";
/// How long a UUID is.
const UUID_LENGTH: usize = 40;
/// How a part of a divided GPU begins.
const MIG: &str = "MIG-";

/// What decides which GPUs a program sees, of the caller.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Where `proc` is mounted.
    pub proc: PathBuf,
    /// `CUDA_VISIBLE_DEVICES`, if it is set.
    pub visible: Option<OsString>,
    /// `CUDA_DEVICE_ORDER`, if it is set.
    pub order: Option<OsString>,
    /// Where cgroup v2 is mounted.
    pub cgroups: PathBuf,
    /// Where the agent answers about earlier runs.
    pub history: PathBuf,
    /// `PATH`, if it is set.
    pub path: Option<OsString>,
}

impl Environment {
    /// Of this process.
    pub fn of_process() -> Self {
        Self {
            proc: "/proc".into(),
            visible: std::env::var_os(VISIBLE),
            order: std::env::var_os(ORDER),
            cgroups: "/sys/fs/cgroup".into(),
            history: std::env::var_os(HISTORY).map_or(SOCKET.into(), PathBuf::from),
            path: std::env::var_os("PATH"),
        }
    }
}

/// A GPU that the driver has.
#[derive(Clone, Debug, Default)]
struct Device {
    /// Its index, if LoGA manages it.
    gpu: Option<u32>,
    /// Its UUID, if the driver knows it: it does once the GPU has been opened.
    uuid: Option<String>,
}

/// The GPUs that the driver has, in the order of their addresses.
#[derive(Clone, Debug)]
pub struct Devices(Vec<Device>);

impl Devices {
    /// Those that LoGA manages, and others that the driver describes.
    pub fn new(snapshots: &[Snapshot], proc: &Path) -> Self {
        let folder = proc.join(DRIVER);
        // Domain, bus, device and function are written with leading zeros: their order is that of
        // the text.
        let mut devices: BTreeMap<String, Device> = BTreeMap::new();
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let address = entry.file_name().to_string_lossy().to_lowercase();
            let uuid = uuid(&entry.path());
            devices.insert(address, Device { gpu: None, uuid });
        }
        for snapshot in snapshots {
            let info = &snapshot.info;
            let address = names::pci(info.pci_domain, info.pci_bdf);
            devices.entry(address).or_default().gpu = Some(snapshot.gpu);
        }
        Self(devices.into_values().collect())
    }

    /// The arguments with the GPUs that they name by their indices.
    ///
    /// # Errors
    ///
    /// One line that says which GPUs there are.
    pub fn resolved(&self, asked: &cli::Asked) -> Result<cli::Asked, String> {
        let named = asked.named.iter().map(|name| self.index(name));
        let named: Result<Vec<u32>, String> = named.collect();
        let named = named.map_err(|line| format!("--among: {line}"))?;
        Ok(cli::Asked {
            among: [asked.among.as_slice(), &named].concat(),
            ..asked.clone()
        })
    }

    /// The index of a GPU that a user names. Whether there is one of that index is not asked.
    ///
    /// # Errors
    ///
    /// One line that says which GPUs there are.
    pub fn index(&self, name: &GpuName) -> Result<u32, String> {
        let wanted = match name {
            GpuName::Index(gpu) => return Ok(*gpu),
            GpuName::Uuid(uuid) => uuid,
        };
        let begins = |one: &&Device| {
            let uuid = one.uuid.as_ref();
            uuid.is_some_and(|uuid| uuid.starts_with(wanted.as_str()))
        };
        let found: Vec<u32> = self
            .0
            .iter()
            .filter(begins)
            .filter_map(|one| one.gpu)
            .collect();
        let problem = match found.as_slice() {
            [gpu] => return Ok(*gpu),
            [] => "there is no GPU with this UUID",
            _ => "several UUIDs begin so",
        };
        let known = |one: &Device| {
            let uuid = one
                .uuid
                .as_deref()
                .unwrap_or("UUID unknown until it was opened");
            Some(format!("{} ({uuid})", one.gpu?))
        };
        let all: Vec<String> = self.0.iter().filter_map(known).collect();
        Err(format!(
            "{}: {problem}: want one of {}",
            Name::from(wanted.as_str()),
            all.join(", ")
        ))
    }

    /// Without these GPUs, which the program cannot open: CUDA does not count them.
    #[must_use]
    pub fn without(mut self, denied: &[u32]) -> Self {
        let is_denied = |gpu: u32| denied.contains(&gpu);
        self.0.retain(|one| !one.gpu.is_some_and(is_denied));
        self
    }

    /// Without other GPUs than these, as far as LoGA manages them.
    #[must_use]
    pub fn only(mut self, open: &[u32]) -> Self {
        self.0
            .retain(|one| one.gpu.is_none_or(|gpu| open.contains(&gpu)));
        self
    }

    /// Indices of the GPUs that the environment allows; nothing if it allows all.
    ///
    /// # Errors
    ///
    /// One line that says what would be right, if that cannot be known.
    pub fn allowed(&self, environment: &Environment) -> Result<Option<Vec<u32>>, String> {
        let Some(visible) = &environment.visible else {
            return Ok(None);
        };
        let list = visible.to_string_lossy();
        let entries: Vec<&str> = list.split(',').map(str::trim).collect();
        if entries.iter().any(|entry| entry.starts_with(MIG)) {
            return Err(format!(
                "{VISIBLE}={} names a part of a GPU ({MIG}): LoGA places whole GPUs, name them by {UUID}",
                Name::from(visible.as_os_str())
            ));
        }
        let by_uuid = entries.first().is_some_and(|first| first.starts_with(UUID));
        let mut named = Vec::new();
        for entry in entries {
            let at = if by_uuid {
                self.by_uuid(entry)?
            } else {
                self.by_number(entry, environment)?
            };
            let Some(at) = at else {
                break;
            };
            if named.contains(&at) {
                return Ok(Some(Vec::new()));
            }
            named.push(at);
        }
        let gpu = |at: usize| self.0.get(at)?.gpu;
        Ok(Some(named.into_iter().filter_map(gpu).collect()))
    }

    /// The position that an index means; nothing if there is no such GPU.
    fn by_number(&self, entry: &str, environment: &Environment) -> Result<Option<usize>, String> {
        // What follows the digits does not count.
        let end = entry.find(|c: char| !c.is_ascii_digit());
        let digits = entry.get(..end.unwrap_or(entry.len()));
        let at = digits.and_then(|digits| digits.parse::<usize>().ok());
        let Some(at) = at.filter(|at| *at < self.0.len()) else {
            return Ok(None);
        };
        let by_bus = environment
            .order
            .as_ref()
            .is_some_and(|order| order == BY_BUS);
        if !by_bus && self.0.len() > 1 {
            return Err(format!(
                "{VISIBLE} has indices, and which GPUs they mean cannot be known: set {ORDER}={BY_BUS}, or name GPUs by UUID"
            ));
        }
        Ok(Some(at))
    }

    /// The position of the GPU whose UUID begins so; nothing if there is none, or more than one.
    fn by_uuid(&self, entry: &str) -> Result<Option<usize>, String> {
        if !entry.starts_with(UUID) {
            return Ok(None);
        }
        let begins = |device: &Device| {
            let uuid = device.uuid.as_ref();
            uuid.is_some_and(|uuid| uuid.starts_with(entry))
        };
        let mut found = (0..).zip(&self.0).filter(|(_, device)| begins(device));
        let first = found.next().map(|(at, _)| at);
        if found.next().is_some() {
            return Ok(None);
        }
        let is_sure = first.is_some() && entry.len() == UUID_LENGTH;
        let all_known = self.0.iter().all(|device| device.uuid.is_some());
        if is_sure || all_known {
            return Ok(first);
        }
        Err(format!(
            "{VISIBLE} has {}, and the driver does not know the UUID of each GPU yet: set {ORDER}={BY_BUS} and name GPUs by index",
            Name::from(entry)
        ))
    }

    /// The variables that make a program see these GPUs only, in this order: by UUID if all are
    /// known, else by position.
    pub fn variables(&self, chosen: &[u32]) -> Vec<(&'static str, String)> {
        let find = |gpu: &u32| {
            (0usize..)
                .zip(&self.0)
                .find(|(_, one)| one.gpu == Some(*gpu))
        };
        let found: Vec<(usize, &Device)> = chosen.iter().filter_map(find).collect();
        let uuids: Option<Vec<String>> = found.iter().map(|(_, one)| one.uuid.clone()).collect();
        let mut told = Vec::new();
        match uuids {
            Some(uuids) => told.push((VISIBLE, uuids.join(","))),
            None => {
                let positions: Vec<String> = found.iter().map(|(at, _)| at.to_string()).collect();
                told.push((ORDER, BY_BUS.to_string()));
                told.push((VISIBLE, positions.join(",")));
            }
        }
        told.extend(chosen.first().map(|gpu| (LOGA_GPU, gpu.to_string())));
        told
    }
}

/// The UUID in the driver's description of a GPU, if it is known.
fn uuid(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("information")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("GPU UUID:"))?;
    let uuid = line.trim();
    (uuid.starts_with(UUID) && !uuid.contains('?')).then(|| uuid.to_string())
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
