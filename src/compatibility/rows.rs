// SPDX-License-Identifier: GPL-2.0

//! What the rows of the table are.

use crate::regs::Family;
use core::fmt;

/// A card by its product's name and its PCI device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// As NVIDIA sells it.
    pub name: &'static str,
    /// PCI device id; the vendor is 10de.
    pub device: u16,
}

impl Card {
    pub(super) const fn new(name: &'static str, device: u16) -> Self {
        Self { name, device }
    }
}

/// Whether LoGA follows the cards of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It does.
    Yes,
    /// It does not: why.
    No(&'static str),
}

/// A family of cards.
#[derive(Clone, Copy, Debug)]
pub struct FamilyRow {
    /// Which.
    pub family: Family,
    /// Last driver branch that takes its cards; nothing while the current one does.
    pub last: Option<u16>,
    /// Whether LoGA follows them.
    pub follows: Follows,
    /// Some of its cards.
    pub examples: &'static [Card],
}

/// PCI device ids of one family, both ends included.
#[derive(Clone, Copy, Debug)]
pub struct IdRange {
    /// The first.
    pub from: u16,
    /// The last.
    pub to: u16,
    /// Of which family.
    pub family: Family,
    /// The chip, where LoGA follows the family and does not know this chip.
    pub unknown_chip: Option<&'static str>,
}

impl IdRange {
    pub(super) const fn new(from: u16, to: u16, family: Family) -> Self {
        Self {
            from,
            to,
            family,
            unknown_chip: None,
        }
    }
}

/// What has been tested with a branch of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// The real driver, over the card of the model: no GPU starts behind it.
    RealDriver,
    /// A stand-in that has the branch's conventions.
    StandIn,
    /// Nothing.
    None,
}

impl fmt::Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tested::RealDriver => {
                "the real driver without a GPU, and a stand-in with its conventions"
            }
            Tested::StandIn => "a stand-in with its conventions",
            Tested::None => "not tried",
        })
    }
}

/// A branch of NVIDIA's driver: the number before the first dot of its version.
#[derive(Clone, Copy, Debug)]
pub struct Branch {
    /// Which.
    pub number: u16,
    /// The version that was tested, or the branch's last.
    pub version: &'static str,
    /// What has been tested.
    pub tested: Tested,
    /// Families whose cards it takes.
    pub takes: &'static [Family],
}

impl Branch {
    /// Whether LoGA knows it by a test.
    pub fn is_known(&self) -> bool {
        self.tested != Tested::None
    }
}

/// Which of NVIDIA's kernel modules. The open ones take Turing and later. Source: README of
/// 550.163.01, "Open Linux Kernel Modules".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Proprietary.
    Proprietary,
    /// Open.
    Open,
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flavour::Proprietary => "proprietary",
            Flavour::Open => "open",
        })
    }
}

/// A release of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    /// The number before the first dot.
    pub major: u16,
    /// The number after it.
    pub minor: u16,
}

impl Kernel {
    /// The release in a text like `7.3.4+deb13-amd64`.
    pub fn of_release(release: &str) -> Option<Self> {
        let (major, rest) = release.split_once('.')?;
        let end = rest.find(|c: char| !c.is_ascii_digit());
        let minor = rest.get(..end.unwrap_or(rest.len()))?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A kernel that LoGA has run on.
#[derive(Clone, Copy, Debug)]
pub struct KernelRow {
    /// Which.
    pub kernel: Kernel,
    /// Whose builds of it.
    pub tried: &'static str,
}

/// Whether a source of the driver builds for a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// As the package has it.
    AsItComes,
    /// With these patches of `packaging/nvidia/`, in this order.
    Patched(&'static [&'static str]),
    /// It does not: why.
    No(&'static str),
    /// Nobody has tried.
    NotTried,
}

/// A source of the driver and a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Branch.
    pub branch: u16,
    /// Flavour.
    pub flavour: Flavour,
    /// Kernel.
    pub kernel: Kernel,
    /// Whether it builds.
    pub build: Build,
}

/// How a distribution installs a branch of the driver.
#[derive(Clone, Copy, Debug)]
pub struct DriverPackage {
    /// Branch.
    pub branch: u16,
    /// What to type.
    pub install: &'static str,
}

/// A release of a distribution.
#[derive(Clone, Copy, Debug)]
pub struct Distribution {
    /// `ID` of os-release.
    pub id: &'static str,
    /// `VERSION_ID` of os-release.
    pub version: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The kernel that it was released with.
    pub kernel: Kernel,
    /// Whether that kernel was built with `CONFIG_RUST`.
    pub rust: bool,
    /// What installs a kernel that is new enough, if the one above is not.
    pub fitting: Option<&'static str>,
    /// What installs what a module in Rust is built with; empty where no kernel fits.
    pub metadata: &'static str,
    /// Packages of the driver that are known.
    pub drivers: &'static [DriverPackage],
    /// Whether LoGA was tried there.
    pub tried: bool,
}

impl Distribution {
    /// What installs this branch of the driver.
    pub fn driver(&self, branch: u16) -> Option<&'static str> {
        let package = self.drivers.iter().find(|one| one.branch == branch)?;
        Some(package.install)
    }
}
