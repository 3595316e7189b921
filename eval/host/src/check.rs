// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Whether a host can do it: card, driver, kernel, programs.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

/// NVIDIA's PCI vendor id.
const NVIDIA: &str = "0x10de";
/// PCI device ids that NVIDIA gave to Kepler cards: GK107, GK110, GK104, GK106, GK208. From general
/// knowledge, no official list; what the module reads from the card itself is decisive.
const KEPLER: [(u32, u32); 5] = [
    (0x0fc0, 0x0fff),
    (0x1000, 0x103f),
    (0x1180, 0x11bf),
    (0x11c0, 0x11ff),
    (0x1280, 0x12bf),
];
/// Driver branches that know Kepler and that the module knows.
const BRANCHES: [u32; 3] = [340, 390, 470];

/// How serious a finding is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// As it should be.
    Fine,
    /// May work, or not.
    Doubtful,
    /// Cannot work.
    Missing,
}

/// The result of one check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Finding {
    /// How serious.
    pub(crate) verdict: Verdict,
    /// What was checked.
    pub(crate) what: &'static str,
    /// What was found.
    pub(crate) found: String,
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Fine => "ok      ",
            Verdict::Doubtful => "DOUBTFUL",
            Verdict::Missing => "MISSING ",
        };
        write!(f, "{verdict} {:<8} {}", self.what, self.found)
    }
}

/// Checks the host with its file system at `root`.
pub(crate) fn host(root: &Path, module: &Path, programs: &[&str]) -> Vec<Finding> {
    let mut findings = vec![card(root), driver(root), kernel(root), file(module)];
    findings.extend(programs.iter().map(|name| program(name)));
    findings
}

impl Finding {
    fn new(verdict: Verdict, what: &'static str, found: impl Into<String>) -> Self {
        let found = found.into();
        Self {
            verdict,
            what,
            found,
        }
    }

    fn fine(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(Verdict::Fine, what, found)
    }

    fn doubtful(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(Verdict::Doubtful, what, found)
    }

    pub(crate) fn missing(what: &'static str, found: impl Into<String>) -> Self {
        Self::new(Verdict::Missing, what, found)
    }
}

fn card(root: &Path) -> Finding {
    let mut other = None;
    let devices = fs::read_dir(root.join("sys/bus/pci/devices"));
    for device in devices.into_iter().flatten().flatten() {
        let text = |name| fs::read_to_string(device.path().join(name)).unwrap_or_default();
        if text("vendor").trim() != NVIDIA || !text("class").starts_with("0x03") {
            continue;
        }
        let id = text("device");
        let number = u32::from_str_radix(id.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        let name = device.file_name();
        let found = format!("{} device {}", name.to_string_lossy(), id.trim());
        let is_kepler = |(from, to): &(u32, u32)| (*from..=*to).contains(&number);
        if KEPLER.iter().any(is_kepler) {
            return Finding::fine("card", format!("{found}, a Kepler by its id"));
        }
        other = Some(found);
    }
    match other {
        Some(found) => Finding::doubtful("card", format!("{found}, no known Kepler")),
        None => Finding::missing("card", "no NVIDIA card"),
    }
}

fn driver(root: &Path) -> Finding {
    let Ok(text) = fs::read_to_string(root.join("proc/driver/nvidia/version")) else {
        return Finding::missing("driver", "NVIDIA's driver is not loaded");
    };
    // The first word that begins like 470.256.02.
    let version = text.split_whitespace().find(|word| {
        word.split('.').count() >= 2 && word.starts_with(|c: char| c.is_ascii_digit())
    });
    let version = version.unwrap_or("of unknown version");
    let branch = version
        .split('.')
        .next()
        .and_then(|branch| branch.parse().ok());
    match branch {
        Some(branch) if BRANCHES.contains(&branch) => {
            Finding::fine("driver", format!("NVIDIA {version}"))
        }
        _ => {
            let tried = format!("tried with the conventions of {BRANCHES:?} only");
            Finding::doubtful("driver", format!("NVIDIA {version}; {tried}"))
        }
    }
}

fn kernel(root: &Path) -> Finding {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    let release = release.unwrap_or_default().trim().to_owned();
    let config = root.join("boot").join(format!("config-{release}"));
    match fs::read_to_string(config) {
        Ok(config) if config.contains("CONFIG_RUST=y") => {
            Finding::fine("kernel", format!("{release}, with Rust"))
        }
        Ok(_) => Finding::missing("kernel", format!("{release}, built without Rust")),
        Err(_) => {
            let found = format!("{release}; its configuration is not in /boot");
            Finding::doubtful("kernel", found)
        }
    }
}

fn file(path: &Path) -> Finding {
    let found = path.display().to_string();
    match path.is_file() {
        true => Finding::fine("module", found),
        false => Finding::missing("module", format!("{found}: make module KDIR=..")),
    }
}

/// Searches a program on the PATH, or at its own path.
fn program(name: &str) -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    match places.find(|place| place.is_file()) {
        Some(place) => Finding::fine("program", place.display().to_string()),
        None => Finding::missing("program", name),
    }
}
