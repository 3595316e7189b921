// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Whether a host can do it: card, driver, kernel, programs.

use loga::compatibility::{self, branch_number, IdRange, Kernel, Listed};
use loga::regs::Family;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;

/// NVIDIA's PCI vendor id.
const NVIDIA: &str = "0x10de";
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

/// A Kepler by its PCI id: the card of the paper's experiments.
fn is_kepler(ids: &IdRange) -> bool {
    ids.family == Family::Kepler && ids.followed().is_ok()
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
        let number = u16::from_str_radix(id.trim().trim_start_matches("0x"), 16).unwrap_or(0);
        let name = device.file_name();
        let found = format!("{} device {}", name.to_string_lossy(), id.trim());
        let ids = compatibility::card(number);
        if ids.is_some_and(is_kepler) {
            return Finding::fine("card", format!("{found}, a Kepler by its id"));
        }
        other = Some(match ids {
            Some(ids) => format!(
                "{found}, by its id {}, no Kepler that LoGA knows",
                ids.family
            ),
            None => format!("{found}, no known Kepler"),
        });
    }
    match other {
        Some(found) => Finding::doubtful("card", found),
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
    let wanted = compatibility::wanted(&[Family::Kepler]).map(|branch| branch.number);
    let number = branch_number(version);
    if number.is_some_and(|number| wanted.clone().any(|wanted| wanted == number)) {
        return Finding::fine("driver", format!("NVIDIA {version}"));
    }
    let found = format!(
        "NVIDIA {version}; for a Kepler LoGA was tested with the branches {}",
        Listed(wanted)
    );
    let last = compatibility::row_of(Family::Kepler).last;
    match (number, last) {
        (Some(number), Some(last)) if number > last => Finding::missing(
            "driver",
            format!("{found}; {last} is the last that takes one"),
        ),
        _ => Finding::doubtful("driver", found),
    }
}

fn kernel(root: &Path) -> Finding {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease"));
    let release = release.unwrap_or_default().trim().to_owned();
    if Kernel::of_release(&release).is_some_and(|kernel| !kernel.is_new_enough()) {
        let wanted = compatibility::table::MIN_KERNEL;
        return Finding::missing(
            "kernel",
            format!("{release}; LoGA wants Linux {wanted} or later"),
        );
    }
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
