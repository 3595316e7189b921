// SPDX-License-Identifier: GPL-2.0

//! `[tool]` What a machine has of what LoGA depends on, read once: kernel, distribution, driver, GPUs.

use super::machine::Machine;
use super::Answer;
use loga::compatibility::{self, branch_number, Build, Distribution, Flavour, Kernel};
use loga::regs::Family;
use std::collections::BTreeMap;

/// Vendor of the GPUs, and the base class of display controllers, as sysfs writes them.
const NVIDIA: &str = "0x10de";
const DISPLAY: &str = "0x03";
/// Devices of the bus.
pub(super) const DEVICES: &str = "/sys/bus/pci/devices";
/// Major number of the driver's devices.
const MAJOR: &str = "195 ";

/// NVIDIA's driver.
pub(super) struct Driver {
    pub(super) version: String,
    pub(super) branch: Option<u16>,
    pub(super) flavour: Option<Flavour>,
}

/// A GPU of NVIDIA on the bus.
pub(super) struct Gpu {
    pub(super) address: String,
    pub(super) device: u16,
    /// The driver that is bound to it.
    pub(super) driver: Option<String>,
}

impl Gpu {
    /// The family that its PCI device id tells.
    pub(super) fn family(&self) -> Option<Family> {
        compatibility::card(self.device).map(|ids| ids.family)
    }

    /// Whether LoGA would follow it.
    ///
    /// # Errors
    ///
    /// Why it would not.
    pub(super) fn followed(&self) -> Result<(), &'static str> {
        match compatibility::card(self.device) {
            Some(ids) => ids.followed(),
            None => Err("LoGA knows no family with this PCI id"),
        }
    }

    /// `0000:01:00.0, GeForce GTX 1080 (Pascal)`.
    pub(super) fn name(&self) -> String {
        let (address, device) = (&self.address, self.device);
        let mut examples = compatibility::table::FAMILIES
            .iter()
            .flat_map(|row| row.examples);
        let known = examples.find(|card| card.device == device);
        let product = match known {
            Some(card) => card.name.to_string(),
            None => format!("device {device:#06x}"),
        };
        let chip = compatibility::card(device).and_then(|ids| ids.unknown_chip);
        match (self.family(), chip) {
            (Some(family), Some(chip)) => format!("{address}, {product} ({family}, {chip})"),
            (Some(family), None) => format!("{address}, {product} ({family})"),
            (None, _) => format!("{address}, {product}"),
        }
    }

    /// Whether NVIDIA's driver, or the model of it, has it.
    pub(super) fn is_driven(&self) -> bool {
        matches!(self.driver.as_deref(), Some("nvidia" | "loga_model"))
    }
}

/// What is here.
pub(super) struct Here<'a> {
    pub(super) machine: &'a Machine,
    pub(super) answer: &'a Answer,
    /// As `uname -r`.
    pub(super) release: Option<String>,
    pub(super) kernel: Option<Kernel>,
    /// Whether it was built with `CONFIG_RUST`, if its configuration is here.
    pub(super) rust: Option<bool>,
    pub(super) distribution: Option<&'static Distribution>,
    pub(super) driver: Option<Driver>,
    pub(super) gpus: Vec<Gpu>,
    /// Whether the module is loaded.
    pub(super) is_loaded: bool,
}

impl<'a> Here<'a> {
    pub(super) fn of(machine: &'a Machine, answer: &'a Answer) -> Self {
        let release = machine.text("/proc/sys/kernel/osrelease");
        Self {
            machine,
            answer,
            kernel: release.as_deref().and_then(Kernel::of_release),
            rust: release.as_deref().and_then(|name| rust(machine, name)),
            release,
            distribution: distribution(machine),
            driver: driver(machine),
            gpus: gpus(machine),
            is_loaded: machine.has("/sys/module/loga"),
        }
    }

    /// Whether a module of this name is loaded.
    pub(super) fn has_module(&self, name: &str) -> bool {
        self.machine.has(&format!("/sys/module/{name}"))
    }

    /// Whether a module's file is installed for this kernel.
    pub(super) fn is_installed(&self, name: &str) -> bool {
        let release = self.release.as_deref().unwrap_or_default();
        let list = self
            .machine
            .text(&format!("/lib/modules/{release}/modules.dep"));
        list.is_some_and(|list| list.contains(&format!("/{name}.ko")))
    }

    /// Whether some module has the driver's devices.
    pub(super) fn has_major(&self) -> bool {
        let devices = self.machine.text("/proc/devices").unwrap_or_default();
        devices
            .lines()
            .any(|line| line.trim_start().starts_with(MAJOR))
    }

    /// Whether the Rust metadata of the kernel is installed. Source: packaging/module, which reads
    /// the same files.
    pub(super) fn has_metadata(&self) -> bool {
        let release = self.release.as_deref().unwrap_or_default();
        let places = [
            format!("/lib/modules/{release}/build/rust"),
            format!("/usr/src/linux-lib-rust-{release}/rust"),
        ];
        places
            .iter()
            .any(|place| self.machine.has(&format!("{place}/libkernel.rmeta")))
    }

    /// Whether there are GPUs, and LoGA would follow none of them by its id.
    pub(super) fn follows_nothing(&self) -> bool {
        !self.gpus.is_empty() && self.gpus.iter().all(|gpu| gpu.followed().is_err())
    }

    /// Families of the GPUs that LoGA would follow, each once.
    pub(super) fn families(&self) -> Vec<Family> {
        let mut families = Vec::new();
        let followed = self.gpus.iter().filter(|gpu| gpu.followed().is_ok());
        for family in followed.filter_map(Gpu::family) {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        families
    }

    /// What to do for a driver that LoGA knows and that takes the GPUs here.
    pub(super) fn driver_advice(&self) -> String {
        if self.follows_nothing() {
            return NO_USE.to_string();
        }
        let families = self.families();
        let wanted: Vec<_> = compatibility::wanted(&families).collect();
        let Some(first) = wanted.first() else {
            return "no branch that LoGA knows takes all GPUs here: unbind those of one family"
                .to_string();
        };
        let package = self.distribution.and_then(|distribution| {
            let mut wanted = wanted.iter();
            wanted.find_map(|branch| Some((*branch, distribution.driver(branch.number)?)))
        });
        let (branch, install) = match package {
            Some((branch, install)) => (branch, install.to_string()),
            None => (
                *first,
                format!(
                    "install NVIDIA's {} (proprietary modules) from its Unix driver archive",
                    first.version
                ),
            ),
        };
        let patches = self
            .kernel
            .map(|kernel| patches(branch.number, Flavour::Proprietary, kernel));
        format!("{install}{}", patches.unwrap_or_default())
    }

    /// The reasons that the module gives for what it did not attach to or follow, one a line.
    pub(super) fn refusals(&self) -> Vec<String> {
        let text = self.machine.text("/sys/module/loga/parameters/refusals");
        let text = text.unwrap_or_default();
        let lines = text.lines().map(str::trim);
        lines
            .filter(|line| !line.is_empty())
            .map(str::to_string)
            .collect()
    }
}

/// Said instead of what to install, where nothing that is installed helps.
pub(super) const NO_USE: &str =
    "nothing to install: LoGA follows no GPU of this machine, with no kernel and no driver";

/// What has to be done to a source of the driver before it builds for a kernel.
pub(super) fn patches(branch: u16, flavour: Flavour, kernel: Kernel) -> String {
    match compatibility::build(branch, flavour, kernel) {
        Build::AsItComes => String::new(),
        Build::Patched(names) => {
            let files: Vec<_> = names.iter().map(|name| format!("{name}.patch")).collect();
            format!(
                "; Debian's source of it builds for Linux {kernel} with {} of packaging/nvidia",
                files.join(", ")
            )
        }
        Build::No(why) => format!("; it does not build for Linux {kernel}: {why}"),
        Build::NotTried => format!("; whether it builds for Linux {kernel} was not tried"),
    }
}

/// `CONFIG_RUST` of the kernel with this release. The compressed /proc/config.gz is not read.
fn rust(machine: &Machine, release: &str) -> Option<bool> {
    let places = [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
        format!("/lib/modules/{release}/build/include/config/auto.conf"),
        format!("/lib/modules/{release}/build/.config"),
    ];
    let config = places.iter().find_map(|place| machine.text(place))?;
    Some(config.lines().any(|line| line.trim() == "CONFIG_RUST=y"))
}

/// The release of the distribution, if the table has it.
fn distribution(machine: &Machine) -> Option<&'static Distribution> {
    let text = machine.text("/etc/os-release")?;
    let values: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name, value.trim_matches(['"', '\''])))
        .collect();
    compatibility::distribution(values.get("ID")?, values.get("VERSION_ID")?)
}

fn driver(machine: &Machine) -> Option<Driver> {
    let version = machine.text("/sys/module/nvidia/version")?;
    let banner = machine.text("/proc/driver/nvidia/version");
    let taint = machine.text("/sys/module/nvidia/taint");
    // Source: the line NVRM of `nv_proc_read_version`, and `P` of a module without a free licence.
    let flavour = match (banner.as_deref(), taint.as_deref()) {
        (Some(text), _) if text.contains("Open Kernel Module") => Some(Flavour::Open),
        (Some(text), _) if text.contains("Kernel Module") => Some(Flavour::Proprietary),
        (_, Some(taint)) if taint.contains('P') => Some(Flavour::Proprietary),
        (_, Some(_)) => Some(Flavour::Open),
        _ => None,
    };
    Some(Driver {
        branch: branch_number(&version),
        flavour,
        version,
    })
}

fn gpus(machine: &Machine) -> Vec<Gpu> {
    let mut gpus = Vec::new();
    for address in machine.names(DEVICES) {
        let of = |file: &str| machine.text(&format!("{DEVICES}/{address}/{file}"));
        let is_gpu = of("vendor").as_deref() == Some(NVIDIA)
            && of("class").is_some_and(|class| class.starts_with(DISPLAY));
        if !is_gpu {
            continue;
        }
        let id = of("device").unwrap_or_default();
        let device = u16::from_str_radix(id.trim_start_matches("0x"), 16).unwrap_or_default();
        let driver = machine.link(&format!("{DEVICES}/{address}/driver"));
        gpus.push(Gpu {
            address,
            device,
            driver,
        });
    }
    gpus
}
