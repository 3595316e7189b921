// SPDX-License-Identifier: GPL-2.0

//! The table itself: what is known of cards, driver branches, kernels and distributions, each with
//! where it is from. A row that nobody has tried says so.
//!
//! Sources: *pci.ids* is the PCI ID repository of 2026-10-24 (pci-ids.ucw.cz); *README 470* and
//! *README 550* are NVIDIA's README of 470.256.02 and 550.163.01, "Appendix A. Supported NVIDIA GPU
//! Products"; *schedule* is NVIDIA's "Unix graphics feature deprecation schedule".

use super::rows::{
    Branch, Build, Card, Distribution, DriverPackage, FamilyRow, Flavour, Follows, IdRange, Kernel,
    KernelRow, Pair, Tested,
};
use crate::regs::Family::{
    Ada, Ampere, Blackwell, Fermi, Hopper, Kepler, Maxwell, Pascal, Tesla, Turing, Volta,
};

/// The oldest kernel that the module is built for. `packaging/module` has the same number, which
/// `tests/documents/compatibility.rs` checks.
pub const MIN_KERNEL: Kernel = Kernel { major: 7, minor: 0 };

/// GPUs that the module follows at most. `MAX_GPUS` of the module is this one.
pub const MAX_GPUS: usize = 16;

const DOORBELL: &str = "its programs submit through a doorbell, which LoGA does not follow";
const LAYOUT: &str = "LoGA does not decode the layout of its status words";

/// Cards by family, oldest first.
///
/// Sources of `last`: README 550 lists Kepler under 470.xx, README 470 lists Fermi under 390.xx and
/// older cards under 340.xx; schedule: 580 is the last for Maxwell, Pascal and Volta. Sources of the
/// examples: pci.ids.
pub const FAMILIES: &[FamilyRow] = &[
    FamilyRow {
        family: Tesla,
        last: Some(340),
        follows: Follows::No("LoGA knows none of its chips"),
        examples: &[
            Card::new("GeForce 8800 GTX", 0x0191),
            Card::new("GeForce GTX 260", 0x05e2),
        ],
    },
    FamilyRow {
        family: Fermi,
        last: Some(390),
        follows: Follows::No(LAYOUT),
        examples: &[
            Card::new("GeForce GTX 480", 0x06c0),
            Card::new("GeForce GTX 580", 0x1080),
        ],
    },
    FamilyRow {
        family: Kepler,
        last: Some(470),
        follows: Follows::Yes,
        examples: &[
            Card::new("GeForce GTX 680", 0x1180),
            Card::new("GeForce GTX TITAN Black", 0x100c),
            Card::new("Tesla K40m", 0x1023),
        ],
    },
    FamilyRow {
        family: Maxwell,
        last: Some(580),
        follows: Follows::Yes,
        examples: &[
            Card::new("GeForce GTX 750 Ti", 0x1380),
            Card::new("GeForce GTX 970", 0x13c2),
            Card::new("Tesla M40", 0x17fd),
        ],
    },
    FamilyRow {
        family: Pascal,
        last: Some(580),
        follows: Follows::Yes,
        examples: &[
            Card::new("GeForce GTX 1080", 0x1b80),
            Card::new("Tesla P4", 0x1bb3),
            Card::new("Tesla P100 PCIe 16GB", 0x15f8),
        ],
    },
    FamilyRow {
        family: Volta,
        last: Some(580),
        follows: Follows::No(DOORBELL),
        examples: &[
            Card::new("TITAN V", 0x1d81),
            Card::new("Tesla V100 SXM2 16GB", 0x1db1),
        ],
    },
    FamilyRow {
        family: Turing,
        last: None,
        follows: Follows::No(DOORBELL),
        examples: &[
            Card::new("GeForce RTX 2080 Ti", 0x1e04),
            Card::new("GeForce GTX 1660 Ti", 0x2182),
            Card::new("Tesla T4", 0x1eb8),
        ],
    },
    FamilyRow {
        family: Ampere,
        last: None,
        follows: Follows::No(LAYOUT),
        examples: &[
            Card::new("GeForce RTX 3090", 0x2204),
            Card::new("A100 SXM4 40GB", 0x20b0),
        ],
    },
    FamilyRow {
        family: Ada,
        last: None,
        follows: Follows::No(LAYOUT),
        examples: &[
            Card::new("GeForce RTX 4090", 0x2684),
            Card::new("L4", 0x27b8),
        ],
    },
    FamilyRow {
        family: Hopper,
        last: None,
        follows: Follows::No(LAYOUT),
        examples: &[
            Card::new("H100 SXM5 80GB", 0x2330),
            Card::new("H100 PCIe", 0x2331),
        ],
    },
    FamilyRow {
        family: Blackwell,
        last: None,
        follows: Follows::No(LAYOUT),
        examples: &[
            Card::new("GeForce RTX 5090", 0x2b85),
            Card::new("B200", 0x2901),
        ],
    },
];

/// PCI device ids by family, in order. A range goes from the first to the last id that pci.ids gives
/// to GPUs of one family with no GPU of another family between them. An id in a gap is of an unknown
/// family.
pub const IDS: &[IdRange] = &[
    IdRange::new(0x0190, 0x019e, Tesla),
    IdRange::new(0x0400, 0x042f, Tesla),
    IdRange::new(0x05e0, 0x065f, Tesla),
    IdRange::new(0x06c0, 0x06df, Fermi),
    IdRange::new(0x06e0, 0x06ff, Tesla),
    IdRange::new(0x0840, 0x087f, Tesla),
    IdRange::new(0x08a0, 0x08a5, Tesla),
    IdRange::new(0x0a20, 0x0cbc, Tesla),
    IdRange::new(0x0dc0, 0x0f06, Fermi),
    IdRange::new(0x0fc0, 0x102c, Kepler),
    // PMC_BOOT_0 of this chip is not in the module's list (regs/chip.rs).
    IdRange {
        unknown_chip: Some("GK210 (Tesla K80)"),
        ..IdRange::new(0x102d, 0x102d, Kepler)
    },
    IdRange::new(0x102e, 0x103f, Kepler),
    IdRange::new(0x1040, 0x109b, Fermi),
    IdRange::new(0x10c0, 0x10d8, Tesla),
    IdRange::new(0x1140, 0x1140, Fermi),
    IdRange::new(0x1180, 0x11ff, Kepler),
    IdRange::new(0x1200, 0x1251, Fermi),
    IdRange::new(0x1280, 0x130b, Kepler),
    IdRange::new(0x1340, 0x1436, Maxwell),
    IdRange::new(0x15c2, 0x15ff, Pascal),
    IdRange::new(0x1617, 0x1676, Maxwell),
    IdRange::new(0x1725, 0x172f, Pascal),
    IdRange::new(0x174d, 0x17fd, Maxwell),
    IdRange::new(0x1b00, 0x1d56, Pascal),
    IdRange::new(0x1d81, 0x1df6, Volta),
    IdRange::new(0x1e02, 0x1ff9, Turing),
    IdRange::new(0x2080, 0x20ff, Ampere),
    IdRange::new(0x2182, 0x21d1, Turing),
    IdRange::new(0x2200, 0x223f, Ampere),
    IdRange::new(0x2302, 0x23f0, Hopper),
    IdRange::new(0x2414, 0x25fb, Ampere),
    IdRange::new(0x2681, 0x28f8, Ada),
    IdRange::new(0x2900, 0x2f58, Blackwell),
    IdRange::new(0x3180, 0x3400, Blackwell),
];

/// Driver branches, oldest first. One that is not here is unknown to LoGA.
///
/// Sources of `tested`: docs/verified.md. Sources of `takes`: README 470, README 550; of 340, 390, 535
/// and 580 general knowledge, of which no test and no page is at hand.
pub const BRANCHES: &[Branch] = &[
    Branch {
        number: 340,
        version: "340.108",
        tested: Tested::StandIn,
        takes: &[Tesla, Fermi, Kepler],
    },
    Branch {
        number: 390,
        version: "390.157",
        tested: Tested::None,
        takes: &[Fermi, Kepler, Maxwell, Pascal],
    },
    Branch {
        number: 470,
        version: "470.256.02",
        tested: Tested::RealDriver,
        takes: &[Kepler, Maxwell, Pascal, Volta, Turing, Ampere],
    },
    Branch {
        number: 535,
        version: "535.x",
        tested: Tested::None,
        takes: &[Maxwell, Pascal, Volta, Turing, Ampere, Ada, Hopper],
    },
    Branch {
        number: 550,
        version: "550.163.01",
        tested: Tested::RealDriver,
        takes: &[Maxwell, Pascal, Volta, Turing, Ampere, Ada, Hopper],
    },
    Branch {
        number: 580,
        version: "580.x",
        tested: Tested::None,
        takes: &[
            Maxwell, Pascal, Volta, Turing, Ampere, Ada, Hopper, Blackwell,
        ],
    },
];

/// Kernels that LoGA has run on, oldest first. Source: docs/install.md, "The module from a checkout".
pub const KERNELS: &[KernelRow] = &[
    KernelRow {
        kernel: Kernel { major: 7, minor: 0 },
        tried: "7.0.0-44-generic of Ubuntu 26.04, and 7.0.14 with the configuration of the tests",
    },
    KernelRow {
        kernel: Kernel { major: 7, minor: 1 },
        tried: "7.1.13 with the configuration of the tests",
    },
    KernelRow {
        kernel: Kernel { major: 7, minor: 2 },
        tried: "7.2.12+deb13-amd64 of Debian 13's backports",
    },
    KernelRow {
        kernel: Kernel { major: 7, minor: 3 },
        tried: "7.3.4+deb13-amd64 of Debian 13's backports, and the kernel of the tests",
    },
];

/// Which sources of the driver build for which kernel. A pair that is not here was not tried.
///
/// Source: `tests/vm/nvidia`, which builds nvidia and nvidia-uvm of Debian's source packages, with
/// Debian's own patches, for the kernel of the tests (7.3.4). The names are files of
/// `packaging/nvidia/`.
pub const BUILDS: &[Pair] = &[
    Pair {
        branch: 470,
        flavour: Flavour::Proprietary,
        kernel: Kernel { major: 7, minor: 3 },
        build: Build::Patched(&["pat"]),
    },
    Pair {
        branch: 550,
        flavour: Flavour::Proprietary,
        kernel: Kernel { major: 7, minor: 3 },
        build: Build::Patched(&["pat", "strncpy"]),
    },
    Pair {
        branch: 550,
        flavour: Flavour::Open,
        kernel: Kernel { major: 7, minor: 3 },
        build: Build::Patched(&["in-irq", "pat", "strncpy", "resize"]),
    },
];

/// Distributions by `ID` and `VERSION_ID` of os-release.
///
/// Sources: the configurations in Debian's linux-headers packages of 6.1, 6.12, 7.2.12 and 7.3.4;
/// packages.ubuntu.com and packages.debian.org for drivers; Launchpad bug 2015867 for the Rust
/// metadata of Ubuntu; Fedora's kernel.spec (CONFIG_RUST=y since 2025-07-29); RPM Fusion,
/// "Howto/NVIDIA", for its packages.
pub const DISTRIBUTIONS: &[Distribution] = &[
    Distribution {
        id: "debian",
        version: "12",
        name: "Debian 12",
        kernel: Kernel { major: 6, minor: 1 },
        rust: false,
        fitting: None,
        metadata: "",
        drivers: &[],
        tried: false,
    },
    Distribution {
        id: "debian",
        version: "13",
        name: "Debian 13",
        kernel: Kernel {
            major: 6,
            minor: 12,
        },
        rust: false,
        fitting: Some("apt install -t trixie-backports linux-image-amd64 linux-headers-amd64 linux-source-7.3, then reboot"),
        metadata: "apt install rustc rust-src bindgen bc make xz-utils",
        drivers: &[
            DriverPackage {
                branch: 550,
                install: "apt install nvidia-driver (component non-free)",
            },
            DriverPackage {
                branch: 470,
                install: "apt install nvidia-tesla-470-driver (Debian sid, component non-free)",
            },
        ],
        tried: true,
    },
    Distribution {
        id: "ubuntu",
        version: "26.04",
        name: "Ubuntu 26.04",
        kernel: Kernel { major: 7, minor: 0 },
        rust: true,
        fitting: None,
        metadata: "apt install linux-headers-$(uname -r) linux-lib-rust-$(uname -r) rustc-1.93 gcc make",
        // Packages of 535, 550 and 570 lead to 580 there.
        drivers: &[DriverPackage {
            branch: 580,
            install: "apt install nvidia-driver-580",
        }],
        tried: true,
    },
    Distribution {
        id: "fedora",
        version: "44",
        name: "Fedora 44",
        kernel: Kernel { major: 7, minor: 1 },
        rust: true,
        fitting: None,
        metadata: "dnf install kernel-devel-$(uname -r) rust bindgen-cli",
        drivers: &[DriverPackage {
            branch: 470,
            install: "dnf install akmod-nvidia-470xx (RPM Fusion, nonfree)",
        }],
        tried: false,
    },
];
