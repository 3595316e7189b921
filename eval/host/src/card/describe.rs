// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Kernel, driver and card, as the kernel's files tell, and what the driver and its management
//! library say of the card. Names of the host, its users and its
//! programs are not read; of what NVIDIA's driver says of a card, neither UUID nor serial number.

use super::nvml::library::Library;
use super::nvml::{About, LIBRARY};
use super::refusal::Refusal;
use super::registers::controls::{chip, ChipId};
use super::rm::Client;
use super::site::Site;
use loga_card::Outcome;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

const NVIDIA: &str = "0x10de";
/// Most cards that are described.
const CARDS_MAX: usize = 32;
/// Most regions of a card that are described: six BARs and the ROM.
const REGIONS_MAX: usize = 7;
/// Bits of a region's flags: it is memory, and 64 bits wide.
const FLAG_MEMORY: u64 = 0x200;

/// The whole description.
#[derive(Debug, Serialize)]
struct Description {
    kernel: Kernel,
    driver: Option<Driver>,
    cards: Vec<Card>,
    /// Whether a server of MPS runs.
    mps: bool,
    /// Whether the steps run as root.
    root: bool,
    /// Which chip it is, by the driver.
    chip: Result<ChipId, Refusal>,
    /// Persistence, MIG, confidential computing, by the management library.
    management: Result<About, Refusal>,
}

#[derive(Debug, Serialize)]
struct Kernel {
    release: Option<String>,
    /// `none`, `integrity` or `confidentiality`; nothing where the kernel has no lockdown.
    lockdown: Option<String>,
    /// Whether it runs in a virtual machine, as the processor says.
    virtual_machine: bool,
    processors: usize,
}

#[derive(Debug, Serialize)]
struct Driver {
    version: String,
    /// `open` or `closed` kernel modules.
    flavour: &'static str,
    /// Which of its modules are loaded.
    modules: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Card {
    /// N of its node, if the driver has it.
    node: Option<u32>,
    device: Option<String>,
    revision: Option<String>,
    class: Option<String>,
    /// The driver's name for the model.
    model: Option<String>,
    /// Version of the firmware for GSP, `N/A` where the driver's kernel module does all itself.
    gsp_firmware: Option<String>,
    /// Whether it is a virtual function that the host's own kernel made.
    virtual_function: bool,
    /// Whether the kernel shows the file through which root maps its registers.
    resource0: bool,
    bars: Vec<Bar>,
    /// As the kernel manages its power.
    power: Option<String>,
}

#[derive(Debug, Eq, PartialEq, Serialize)]
struct Bar {
    number: usize,
    bytes: u64,
}

/// The step.
pub(super) fn describe(site: &Site) -> Outcome {
    all(site).unwrap_or_else(|outcome| outcome)
}

fn all(site: &Site) -> Result<Outcome, Outcome> {
    let unasked = || Refusal::new("this program", "not asked");
    let mut description = Description {
        kernel: kernel(site),
        driver: driver(site),
        cards: cards(site),
        mps: has_mps(site),
        root: nix::unistd::geteuid().is_root(),
        chip: Err(unasked()),
        management: Err(unasked()),
    };
    // What files tell is kept before the driver is asked, which may hang.
    site.keep("describe.json", &description)?;
    if description.cards.is_empty() {
        return Err(Outcome::refused("this host", "has no NVIDIA card"));
    }
    let client = Client::open(&site.dev(), site.gpu);
    description.chip = client.and_then(|client| chip(&client));
    description.management = management(site);
    site.keep("describe.json", &description)?;
    Ok(Outcome::Done {
        found: found(&description),
    })
}

fn management(site: &Site) -> Result<About, Refusal> {
    let library = Library::load(Path::new(LIBRARY))?;
    Ok(library.device(&site.address()?)?.about())
}

fn found(description: &Description) -> String {
    // PANIC: the caller saw that there is one.
    let card = &description.cards[0];
    let name = card.model.as_ref().or(card.device.as_ref());
    let name = name.map_or("a card without a name", |name| name);
    let driver = match &description.driver {
        Some(driver) => format!("driver {} ({})", driver.version, driver.flavour),
        None => "no driver".to_owned(),
    };
    let count = description.cards.len();
    let release = description.kernel.release.as_deref().unwrap_or_default();
    format!("{name} ({count} in all), {driver}, Linux {release}")
}

fn kernel(site: &Site) -> Kernel {
    let lockdown = site.text("sys/kernel/security/lockdown");
    let chosen = |text: String| {
        let (_, rest) = text.split_once('[')?;
        rest.split_once(']').map(|(word, _)| word.to_owned())
    };
    let processors = site.text("proc/cpuinfo").unwrap_or_default();
    let flags = processors.lines().find(|line| line.starts_with("flags"));
    Kernel {
        release: site.text("proc/sys/kernel/osrelease"),
        lockdown: lockdown.and_then(chosen),
        virtual_machine: flags.is_some_and(|line| line.split(' ').any(|flag| flag == "hypervisor")),
        processors: processors
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
    }
}

fn driver(site: &Site) -> Option<Driver> {
    let text = site.text("proc/driver/nvidia/version")?;
    let first = text.lines().next().unwrap_or_default();
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let loaded = ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"];
    let is_loaded = |name: &&str| site.root.join("sys/module").join(name).is_dir();
    Some(Driver {
        version: first.split_whitespace().find(is_version)?.to_owned(),
        flavour: match first.contains("Open Kernel Module") {
            true => "open",
            false => "closed",
        },
        modules: loaded.into_iter().filter(is_loaded).collect(),
    })
}

fn cards(site: &Site) -> Vec<Card> {
    let entries = fs::read_dir(site.root.join("sys/bus/pci/devices"));
    let entries = entries.into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    let found = folders.iter().filter_map(|folder| card(site, folder));
    found.take(CARDS_MAX).collect()
}

/// The card with this folder of the PCI bus, if it is one of NVIDIA's.
fn card(site: &Site, folder: &Path) -> Option<Card> {
    let text = |name: &str| {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        Some(text.trim().to_owned())
    };
    let class = text("class");
    let is_display = class
        .as_ref()
        .is_some_and(|class| class.starts_with("0x03"));
    if text("vendor").as_deref() != Some(NVIDIA) || !is_display {
        return None;
    }
    let address = folder.file_name()?.to_string_lossy().into_owned();
    let said = site.text(&format!("proc/driver/nvidia/gpus/{address}/information"));
    let said = said.unwrap_or_default();
    let value = |name: &str| {
        let mut lines = said.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(found, _)| found.trim() == name)?;
        Some(value.trim().to_owned())
    };
    Some(Card {
        node: value("Device Minor").and_then(|text| text.parse().ok()),
        device: text("device"),
        revision: text("revision"),
        class,
        model: value("Model"),
        gsp_firmware: value("GPU Firmware"),
        virtual_function: folder.join("physfn").exists(),
        resource0: folder.join("resource0").exists(),
        bars: bars(&text("resource").unwrap_or_default()),
        power: text("power/runtime_status"),
    })
}

/// The memory regions of a card: first and last address and flags, a line each.
fn bars(text: &str) -> Vec<Bar> {
    let word = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let bar = |(number, line): (usize, &str)| {
        let words: Vec<u64> = line.split(' ').filter_map(word).collect();
        let [first, last, flags] = words[..] else {
            return None;
        };
        let bytes = last.checked_sub(first)?.checked_add(1)?;
        (flags & FLAG_MEMORY != 0).then_some(Bar { number, bytes })
    };
    let lines = text.lines().take(REGIONS_MAX).enumerate();
    lines.filter_map(bar).collect()
}

/// Whether the server or the control daemon of MPS is among the processes.
fn has_mps(site: &Site) -> bool {
    let entries = fs::read_dir(site.root.join("proc"));
    let mut entries = entries.into_iter().flatten().flatten();
    entries.any(|entry| {
        let name = fs::read_to_string(entry.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("nvidia-cuda-mps"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_regions_of_memory_with_their_number() {
        let text = "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n\
                    0x00000000e0000000 0x00000000efffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                    0x00000000f0000000 0x00000000f1ffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                    0x000000000000e000 0x000000000000e07f 0x0000000000040101\n\
                    0x00000000f7000000 0x00000000f707ffff 0x0000000000046200\n";
        let bar = |number, bytes| Bar { number, bytes };
        let wanted = [
            bar(0, 16 << 20),
            bar(1, 256 << 20),
            bar(3, 32 << 20),
            bar(6, 512 << 10),
        ];
        assert_eq!(bars(text), wanted);
        assert_eq!(
            bars("0x5 0x4 0x200\nno numbers\n0x0 0xffffffffffffffff 0x200"),
            []
        );
    }
}
