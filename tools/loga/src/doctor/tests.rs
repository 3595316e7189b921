// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Machines with and without what LoGA needs.

use super::*;
use crate::control::Control;
use crate::fake::FakeKernel;
use loga::compatibility::table::MIN_KERNEL;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

/// A machine with NVIDIA's driver, the module, a GPU and everything else.
struct Files(RefCell<BTreeMap<String, Vec<u8>>>);

/// A kernel by its release, `CONFIG_RUST`, and whether its metadata is installed.
#[derive(Clone, Copy)]
struct Kernel {
    release: &'static str,
    rust: bool,
    metadata: bool,
}

/// A driver by its version and the first line of /proc/driver/nvidia/version.
#[derive(Clone, Copy)]
enum Driver {
    None,
    Of(&'static str, &'static str),
}

const PROPRIETARY: &str = "NVRM version: NVIDIA UNIX x86_64 Kernel Module";
const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64";

const KERNELS: [Kernel; 5] = [
    Kernel {
        release: "6.1.0-28-amd64",
        rust: false,
        metadata: false,
    },
    Kernel {
        release: "6.12.107+deb13-amd64",
        rust: false,
        metadata: false,
    },
    Kernel {
        release: "6.18.1-amd64",
        rust: true,
        metadata: false,
    },
    Kernel {
        release: "7.0.0-30-generic",
        rust: true,
        metadata: true,
    },
    Kernel {
        release: "7.3.4+deb13-amd64",
        rust: true,
        metadata: false,
    },
];

const DRIVERS: [Driver; 9] = [
    Driver::None,
    Driver::Of("340.108", PROPRIETARY),
    Driver::Of("390.157", PROPRIETARY),
    Driver::Of("470.256.02", PROPRIETARY),
    Driver::Of("535.274.02", PROPRIETARY),
    Driver::Of("550.163.01", PROPRIETARY),
    Driver::Of("550.163.01", OPEN),
    Driver::Of("580.95.05", OPEN),
    Driver::Of("999.1", PROPRIETARY),
];

const SYSTEMS: [&str; 5] = [
    "debian 12",
    "debian 13",
    "ubuntu 26.04",
    "fedora 44",
    "other 1",
];

/// A card of each family, oldest first, a K80, and one that no family has.
const CARDS: [(u16, &str, bool); 13] = [
    (0x0191, "Tesla", false),
    (0x06c0, "Fermi", false),
    (0x1180, "Kepler", true),
    (0x102d, "Kepler", false),
    (0x13c2, "Maxwell", true),
    (0x1b80, "Pascal", true),
    (0x1db1, "Volta", false),
    (0x1eb8, "Turing", false),
    (0x20b0, "Ampere", false),
    (0x2684, "Ada", false),
    (0x2331, "Hopper", false),
    (0x2b85, "Blackwell", false),
    (0x3fff, "no family", false),
];

const GPU: &str = "sys/bus/pci/devices/0000:01:00.0";

impl Files {
    fn good() -> Self {
        let files = Files(RefCell::default());
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "7.3.4+deb13-amd64\n"),
            ("proc/devices", "Character devices:\n195 nvidia\n"),
            (
                "proc/self/status",
                "Name:\tloga\nCapEff:\t000001ffffffffff\n",
            ),
            ("proc/self/uid_map", "         0          0 4294967295\n"),
            (
                "proc/self/mounts",
                "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
            ),
            ("sys/module/ext4/initstate", "live\n"),
            ("sys/module/loga/initstate", "live\n"),
            ("sys/module/loga/parameters/attach", "1\n"),
            ("sys/module/nvidia/version", "550.163.01\n"),
            ("dev/nvidia0", ""),
            ("dev/nvidiactl", ""),
        ] {
            files.write(path, text);
        }
        files.gpu("0x10de", "0x030000", Some("nvidia"));
        files
    }

    fn write(&self, path: &str, text: &str) {
        let bytes = text.as_bytes().to_vec();
        self.0.borrow_mut().insert(path.to_string(), bytes);
    }

    /// Removes a file or a folder, which is there.
    fn remove(&self, path: &str) {
        let mut files = self.0.borrow_mut();
        let before = files.len();
        let below = format!("{path}/");
        files.retain(|file, _| file != path && !file.starts_with(&below));
        assert!(files.len() < before, "no {path}");
    }

    fn machine(&self, environment: &[(&str, &str)]) -> Machine {
        Machine::made(self.0.borrow().clone(), environment)
    }

    fn gpu(&self, vendor: &str, class: &str, driver: Option<&str>) {
        self.device(GPU, vendor, class, 0x1b06, driver);
    }

    fn device(&self, at: &str, vendor: &str, class: &str, device: u16, driver: Option<&str>) {
        let below = format!("{at}/");
        self.0
            .borrow_mut()
            .retain(|file, _| !file.starts_with(&below));
        self.write(&format!("{at}/vendor"), vendor);
        self.write(&format!("{at}/class"), class);
        self.write(&format!("{at}/device"), &format!("{device:#06x}"));
        if let Some(driver) = driver {
            let target = format!("../../../bus/pci/drivers/{driver}");
            self.write(&format!("{at}/driver"), &target);
        }
    }

    /// A machine of an owner who has not loaded the module: distribution, kernel, driver, cards.
    fn owned(os: &str, kernel: Kernel, driver: Driver, cards: &[u16]) -> Self {
        let files = Files::good();
        files.remove("sys/module/loga");
        let (id, version) = os.split_once(' ').expect("a version");
        let text = format!("NAME=\"x\"\nID={id}\nVERSION_ID=\"{version}\"\n");
        files.write("etc/os-release", &text);
        files.write("proc/sys/kernel/osrelease", kernel.release);
        let rust = if kernel.rust {
            "CONFIG_RUST=y\n"
        } else {
            "# CONFIG_RUST is not set\n"
        };
        files.write(&format!("boot/config-{}", kernel.release), rust);
        if kernel.metadata {
            let at = format!(
                "usr/src/linux-lib-rust-{}/rust/libkernel.rmeta",
                kernel.release
            );
            files.write(&at, "rustc");
        }
        let bound = match driver {
            Driver::None => {
                files.remove("sys/module/nvidia");
                files.write("proc/devices", "Character devices:\n  1 mem\n");
                None
            }
            Driver::Of(version, banner) => {
                files.write("sys/module/nvidia/version", version);
                files.write("proc/driver/nvidia/version", banner);
                Some("nvidia")
            }
        };
        files.remove("sys/bus/pci/devices");
        // A bridge, so that there is a bus.
        files.write("sys/bus/pci/devices/0000:ff:00.0/vendor", "0x8086");
        for (at, card) in cards.iter().enumerate() {
            let at = format!("sys/bus/pci/devices/0000:{at:02x}:00.0");
            files.device(&at, "0x10de", "0x030000", *card, bound);
        }
        files
    }

    fn examine(&self, answer: &Answer) -> Vec<Finding> {
        let environment = [("TERM", "xterm"), ("LANG", "de_DE.UTF-8")];
        examine(&self.machine(&environment), answer)
    }

    /// What is not fine.
    fn trouble(&self, answer: &Answer) -> Vec<String> {
        let not_fine = self.examine(answer).into_iter();
        not_fine
            .filter(|one| one.state != State::Fine)
            .map(|one| {
                let help = one.help.expect("what helps");
                format!("{:?} {}: {} -> {help}", one.state, one.about, one.says)
            })
            .collect()
    }
}

/// A module that enforces, on the GPU of [`Files`].
fn enforcing() -> Answer {
    let fake = FakeKernel::new(1);
    {
        let mut gpus = fake.gpus.borrow_mut();
        let info = &mut gpus[0].info;
        info.pci_domain = 0;
        info.pci_bdf = 1 << 8;
        let mut config = info.config();
        config.enforce = true;
        info.note(&config);
    }
    Control::over(&fake).chosen(None)
}

#[test]
fn machine_with_everything_has_no_trouble() {
    let files = Files::good();
    assert_eq!(files.trouble(&enforcing()), Vec::<String>::new());
}

#[test]
fn bursts_with_a_dispatcher_are_named_with_what_helps() {
    let mut answer = enforcing();
    let info = &mut answer.as_mut().expect("an answer")[0].info;
    let mut config = info.config();
    config.dispatch = Some(loga::policies::dispatch::DispatcherKind::Prio);
    config.accounting = Some(loga::account::Accounting::Burst);
    info.note(&config);
    let trouble = Files::good().trouble(&answer);
    assert_eq!(trouble.len(), 1, "{trouble:?}");
    assert!(
        trouble[0].starts_with("Note knobs: GPU 0: with dispatch, accounting in bursts may"),
        "{trouble:?}"
    );
    assert!(trouble[0].contains("--accounting sparse"), "{trouble:?}");
}

#[test]
fn each_thing_that_is_missing_is_named_with_what_helps() {
    type Change = fn(&Files);
    let cases: &[(Change, &str)] = &[
        (
            |files| files.remove("sys/module/loga"),
            "Wrong module: loga is not loaded -> build",
        ),
        (
            |files| {
                files.remove("sys/module/loga");
                files.write(
                    "lib/modules/7.3.4+deb13-amd64/modules.dep",
                    "updates/loga.ko.xz:\n",
                );
            },
            "Wrong module: loga is not loaded -> sudo modprobe loga",
        ),
        (
            |files| {
                files.remove("sys/module/loga");
                files.write(
                    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
                    "\x06\0\0\0\x01",
                );
            },
            "Note secure boot: it is on",
        ),
        (
            |files| {
                files.remove("sys/module/nvidia");
                files.write("proc/devices", "Character devices:\n  1 mem\n");
            },
            "Wrong driver: NVIDIA's driver is not loaded",
        ),
        (
            |files| files.write("sys/module/nvidia/version", "580.1"),
            "Note driver: NVIDIA 580.1: LoGA was not tested with this branch, only with 340, 470 and 550",
        ),
        (
            |files| files.remove("dev/nvidia0"),
            "Note devices: there is no /dev/nvidia0",
        ),
        (
            |files| files.remove("dev/nvidiactl"),
            "Wrong devices: /dev/nvidiactl cannot be opened",
        ),
        (
            |files| files.write("proc/self/mounts", "none /proc proc rw 0 0\n"),
            "Note cgroups: no cgroup v2",
        ),
        (
            |files| files.write("proc/self/uid_map", "0 100000 65536\n"),
            "Note rights: in a user namespace",
        ),
        (
            |files| files.write("proc/self/status", "CapEff:\t0000000000000000\n"),
            "Note rights: sees its own processes only",
        ),
        (
            |files| files.remove("proc"),
            "Note kernel: /proc cannot be read",
        ),
        (
            |files| files.remove("sys"),
            "Note module: /sys cannot be read",
        ),
    ];
    for (change, says) in cases {
        let files = Files::good();
        change(&files);
        let trouble = files.trouble(&enforcing());
        let is_said = trouble.iter().any(|line| line.starts_with(says));
        assert!(is_said, "{says}: {trouble:?}");
    }
}

#[test]
fn gpus_that_loga_does_not_follow_are_told_from_each_other() {
    let other = || {
        let fake = FakeKernel::new(1);
        fake.gpus.borrow_mut()[0].info.pci_bdf = 9 << 8;
        Control::over(&fake).chosen(None)
    };
    for (driver, says) in [
        (None, "no driver is bound to it"),
        (Some("vfio-pci"), "belongs to vfio-pci"),
        (Some("nvidia"), "but LoGA does not follow it"),
    ] {
        let files = Files::good();
        files.gpu("0x10de", "0x030200", driver);
        let trouble = files.trouble(&other());
        assert!(
            trouble.iter().any(|line| line.contains(says)),
            "{trouble:?}"
        );
    }
    let files = Files::good();
    files.gpu("0x8086", "0x030000", Some("i915"));
    let trouble = files.trouble(&other());
    let says = "there is no GPU of NVIDIA on the bus";
    assert!(
        trouble.iter().any(|line| line.contains(says)),
        "{trouble:?}"
    );
}

#[test]
fn terminals_are_told_apart() {
    let files = Files::good();
    let said = |environment: &[(&str, &str)]| {
        let machine = files.machine(environment);
        caller::terminal(&machine).remove(0).says
    };
    assert!(said(&[("TERM", "dumb")]).contains("cannot move the cursor"));
    assert!(said(&[]).contains("cannot move the cursor"));
    assert!(said(&[("TERM", "vt100"), ("LANG", "C")]).contains("without UTF-8"));
    // The first that is set counts.
    let both = [("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "C.UTF-8")];
    assert!(said(&both).contains("without UTF-8"));
    assert_eq!(
        said(&[("TERM", "xterm"), ("LC_ALL", ""), ("LANG", "C.utf8")]),
        "xterm, UTF-8"
    );
}

/// The findings of an owner's machine without the module.
fn owned(os: &str, kernel: Kernel, driver: Driver, cards: &[u16]) -> Vec<Finding> {
    Files::owned(os, kernel, driver, cards).examine(&Err(Error::NotLoaded))
}

fn about<'a>(found: &'a [Finding], about: &str) -> Vec<&'a Finding> {
    found.iter().filter(|one| one.about == about).collect()
}

/// All of it as one text, as an owner reads it.
fn text(found: &[Finding]) -> String {
    let line = |one: &Finding| {
        let help = one.help.as_deref().unwrap_or_default();
        format!("{:?} {}: {} -> {help}\n", one.state, one.about, one.says)
    };
    found.iter().map(line).collect()
}

#[test]
fn every_combination_says_what_is_and_what_to_do() {
    for os in SYSTEMS {
        for kernel in KERNELS {
            for driver in DRIVERS {
                for (card, family, follows) in CARDS {
                    let found = owned(os, kernel, driver, &[card]);
                    let said = text(&found);
                    for one in &found {
                        let has_help = one.help.as_ref().is_some_and(|help| !help.is_empty());
                        assert_eq!(has_help, one.state != State::Fine, "{one:?}");
                        assert!(!one.says.contains('\n'), "{one:?}");
                    }
                    let gpu = about(&found, "GPU");
                    assert_eq!(gpu.len(), 1, "{said}");
                    assert!(gpu[0].says.contains(family), "{said}");
                    let verdict = about(&found, "LoGA");
                    assert_eq!(verdict.len(), 1, "{said}");
                    assert!(verdict[0].state != State::Fine, "{said}");
                    if follows {
                        assert!(!said.contains("does not follow this card"), "{said}");
                    } else {
                        assert_eq!(gpu[0].state, State::Wrong, "{said}");
                        assert_eq!(verdict[0].state, State::Wrong, "{said}");
                        for useless in ["modprobe", "install ", "insmod", "nvidia-modprobe"] {
                            let helps = found.iter().filter_map(|one| one.help.as_deref());
                            let to_load = helps.filter(|help| help.contains(useless)).count();
                            assert_eq!(to_load, 0, "{useless}: {said}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn kernel_is_fine_only_if_the_module_can_be_built_for_it() {
    for os in SYSTEMS {
        for kernel in KERNELS {
            let found = owned(os, kernel, DRIVERS[5], &[0x1b80]);
            let said = text(&found);
            let number =
                loga::compatibility::Kernel::of_release(kernel.release).expect("a release");
            let fits = kernel.rust && number >= MIN_KERNEL;
            let state = about(&found, "kernel")[0].state;
            assert_eq!(state == State::Wrong, !fits, "{said}");
            assert_eq!(about(&found, "rust").len(), usize::from(fits), "{said}");
            let module = about(&found, "module")[0].help.clone().expect("help");
            assert_eq!(module.starts_with("first the kernel"), !fits, "{said}");
        }
    }
}

#[test]
fn kernel_without_rust_is_wrong_however_new() {
    let kernel = Kernel {
        rust: false,
        ..KERNELS[4]
    };
    let found = owned("debian 13", kernel, DRIVERS[5], &[0x1b80]);
    let line = about(&found, "kernel")[0];
    assert_eq!(line.state, State::Wrong, "{line:?}");
    assert!(line.says.contains("built without CONFIG_RUST"), "{line:?}");
}

#[test]
fn newer_kernel_that_nobody_tried_is_a_note() {
    let kernel = Kernel {
        release: "8.1.0",
        rust: true,
        metadata: true,
    };
    let found = owned("fedora 44", kernel, DRIVERS[5], &[0x1b80]);
    let line = about(&found, "kernel")[0];
    assert_eq!(line.state, State::Note, "{line:?}");
    assert!(
        line.says.contains("LoGA was not tried with Linux 8.1"),
        "{line:?}"
    );
}

#[test]
fn kernel_whose_configuration_is_not_there_is_a_note() {
    let files = Files::owned("debian 13", KERNELS[4], DRIVERS[5], &[0x1b80]);
    files.remove("boot");
    let found = files.examine(&Err(Error::NotLoaded));
    let line = about(&found, "kernel")[0];
    assert_eq!(line.state, State::Note, "{line:?}");
    assert!(line.says.contains("is not known here"), "{line:?}");
}

#[test]
fn ampere_on_an_old_kernel_with_a_late_driver_is_told_that_nothing_helps() {
    let found = owned("debian 12", KERNELS[0], DRIVERS[7], &[0x20b0]);
    let said = text(&found);
    for name in ["kernel", "driver", "GPU", "module", "/dev/loga", "LoGA"] {
        for one in about(&found, name) {
            assert!(one.state != State::Fine, "{said}");
        }
    }
    assert!(
        said.contains("A100 SXM4 40GB (Ampere): LoGA does not follow this card"),
        "{said}"
    );
    assert!(said.contains("LoGA wants Linux"), "{said}");
    assert!(!said.contains("load NVIDIA's driver"), "{said}");
}

#[test]
fn branch_is_told_by_what_was_tested_with_it() {
    for (driver, state, says) in [
        (
            DRIVERS[1],
            State::Note,
            "tested with a stand-in for this branch only",
        ),
        (DRIVERS[2], State::Note, "was not tested with this branch"),
        (DRIVERS[3], State::Fine, "proprietary modules: tested"),
        (DRIVERS[4], State::Note, "was not tested with this branch"),
        (DRIVERS[5], State::Fine, "proprietary modules: tested"),
        (
            DRIVERS[7],
            State::Note,
            "open modules: LoGA was not tested with this branch",
        ),
        (DRIVERS[8], State::Note, "was not tested with this branch"),
    ] {
        let found = owned("debian 13", KERNELS[4], driver, &[0x13c2]);
        let line = about(&found, "driver")[0];
        assert_eq!(line.state, state, "{line:?}");
        assert!(line.says.contains(says), "{line:?}");
    }
}

#[test]
fn driver_that_takes_no_card_of_the_family_is_wrong() {
    for (driver, card, says) in [
        (
            DRIVERS[5],
            0x1180,
            "branch 550 takes no Kepler: the last that does is 470",
        ),
        (
            DRIVERS[8],
            0x1b80,
            "branch 999 takes no Pascal: the last that does is 580",
        ),
        (
            DRIVERS[1],
            0x1b80,
            "branch 340 takes no Pascal: it is older",
        ),
        (
            DRIVERS[6],
            0x1b80,
            "its open modules take no Pascal: they begin with Turing",
        ),
    ] {
        let found = owned("debian 13", KERNELS[4], driver, &[card]);
        let said = text(&found);
        let lines = about(&found, "driver");
        let wrong = lines.iter().find(|one| one.says.contains(says));
        assert_eq!(wrong.map(|one| one.state), Some(State::Wrong), "{said}");
    }
    let found = owned("debian 13", KERNELS[4], DRIVERS[3], &[0x1180]);
    assert_eq!(about(&found, "driver").len(), 1, "{}", text(&found));
}

#[test]
fn owners_learn_which_driver_and_kernel_to_install() {
    for (os, kernel, card, says) in [
        (
            "debian 13",
            KERNELS[1],
            0x1b80,
            "apt install -t trixie-backports linux-image-amd64",
        ),
        (
            "debian 13",
            KERNELS[1],
            0x1b80,
            "apt install nvidia-driver (component non-free)",
        ),
        (
            "debian 13",
            KERNELS[4],
            0x1b80,
            "builds for Linux 7.3 with pat.patch, strncpy.patch of packaging/nvidia",
        ),
        (
            "debian 13",
            KERNELS[4],
            0x1180,
            "apt install nvidia-tesla-470-driver",
        ),
        (
            "debian 13",
            KERNELS[4],
            0x1180,
            "apt install rustc rust-src bindgen",
        ),
        (
            "ubuntu 26.04",
            KERNELS[3],
            0x1b80,
            "install NVIDIA's 550.163.01",
        ),
        (
            "ubuntu 26.04",
            KERNELS[3],
            0x1b80,
            "7.0.0-44-generic of Ubuntu 26.04",
        ),
        ("fedora 44", KERNELS[2], 0x1b80, "Fedora 44: not tried"),
        (
            "fedora 44",
            KERNELS[2],
            0x1b80,
            "dnf install akmod-nvidia-470xx",
        ),
        (
            "fedora 44",
            KERNELS[2],
            0x1b80,
            "no real card of Pascal, a model of one",
        ),
        (
            "debian 12",
            KERNELS[0],
            0x1b80,
            "Debian 13 has, in trixie-backports",
        ),
        ("other 1", KERNELS[0], 0x13c2, "boot Linux"),
        ("debian 13", KERNELS[4], 0x102d, "Tesla K80"),
        (
            "debian 13",
            KERNELS[4],
            0x2684,
            "GeForce RTX 4090 (Ada): LoGA does not follow this card",
        ),
    ] {
        let found = owned(os, kernel, Driver::None, &[card]);
        let said = text(&found);
        assert!(said.contains(says), "{says}: {said}");
    }
}

#[test]
fn installed_driver_has_only_to_be_loaded() {
    let files = Files::owned("debian 13", KERNELS[4], Driver::None, &[0x1b80]);
    let list = "lib/modules/7.3.4+deb13-amd64/modules.dep";
    files.write(list, "updates/dkms/nvidia.ko.xz:\nupdates/loga.ko:\n");
    let found = files.examine(&Err(Error::NotLoaded));
    let help = |name| about(&found, name)[0].help.clone().expect("help");
    assert!(help("driver").contains("sudo modprobe nvidia"), "{found:?}");
    assert!(
        help("module").starts_with("sudo modprobe loga"),
        "{found:?}"
    );
}

#[test]
fn two_drivers_at_a_time_are_named() {
    for other in ["nouveau", "nova_core"] {
        let files = Files::good();
        files.write(&format!("sys/module/{other}/initstate"), "live\n");
        let trouble = files.trouble(&enforcing());
        assert_eq!(trouble.len(), 1, "{trouble:?}");
        let says = format!("Note driver: {other} is loaded");
        assert!(trouble[0].starts_with(&says), "{trouble:?}");
    }
    let files = Files::good();
    files.write("sys/module/loga_model/initstate", "live\n");
    let trouble = files.trouble(&enforcing());
    assert!(
        trouble[0].starts_with("Wrong driver: the model of a driver"),
        "{trouble:?}"
    );
}

#[test]
fn machine_without_a_card_has_no_verdict_on_cards() {
    let found = owned("debian 13", KERNELS[4], Driver::None, &[]);
    let line = about(&found, "GPU")[0];
    assert_eq!(line.state, State::Wrong, "{line:?}");
    assert!(line.says.contains("no GPU of NVIDIA"), "{line:?}");
    assert!(about(&found, "LoGA").is_empty(), "{found:?}");
}

#[test]
fn sixteen_cards_are_followed_and_not_seventeen() {
    let found = owned("debian 13", KERNELS[4], DRIVERS[5], &[0x1b80; 16]);
    assert_eq!(about(&found, "GPU").len(), 16);
    let found = owned("debian 13", KERNELS[4], DRIVERS[5], &[0x1b80; 17]);
    let lines = about(&found, "GPU");
    assert_eq!(lines.len(), 18);
    assert_eq!(lines[17].state, State::Wrong);
    assert!(
        lines[17].says.contains("17 GPUs: LoGA follows 16 at most"),
        "{lines:?}"
    );
}

#[test]
fn card_that_is_not_followed_is_no_fault_beside_one_that_is() {
    let found = owned("debian 13", KERNELS[4], DRIVERS[3], &[0x1180, 0x2684]);
    let lines = about(&found, "GPU");
    assert_eq!(lines[0].state, State::Fine, "{lines:?}");
    assert_eq!(lines[1].state, State::Note, "{lines:?}");
    assert_eq!(about(&found, "LoGA")[0].state, State::Note);
}

#[test]
fn reason_for_not_attaching_is_the_modules_own() {
    let files = Files::good();
    files.write("sys/module/loga/parameters/attach", "0\n");
    let reason = "the driver's file operations are hooked already (open), by another copy of LoGA";
    files.write(
        "sys/module/loga/parameters/refusals",
        &format!("{reason}\n"),
    );
    let trouble = files.trouble(&Err(Error::Detached));
    let says = format!("Wrong module: loga is attached to no driver; it says: {reason}");
    assert!(trouble[0].starts_with(&says), "{trouble:?}");
    assert!(
        trouble[0].contains("echo 1 > /sys/module/loga/parameters/attach"),
        "{trouble:?}"
    );
    // Without a reason there is none to make up.
    files.write("sys/module/loga/parameters/refusals", "");
    let trouble = files.trouble(&Err(Error::Detached));
    assert!(trouble[0].contains("has refused none"), "{trouble:?}");
}

#[test]
fn detached_module_beside_an_ampere_does_not_ask_for_a_driver() {
    let files = Files::owned("debian 13", KERNELS[4], DRIVERS[7], &[0x20b0]);
    files.write("sys/module/loga/parameters/attach", "0\n");
    let reason =
        "0000:00:00.0: not followed: chip 0x170 (Ampere) is not supported, want Kepler to Pascal";
    files.write(
        "sys/module/loga/parameters/refusals",
        &format!("{reason}\n"),
    );
    let said = text(&files.examine(&Err(Error::Detached)));
    assert!(said.contains(&format!("it says: {reason}")), "{said}");
    assert!(!said.contains("echo 1"), "{said}");
    assert!(!said.contains("driver first"), "{said}");
}

#[test]
fn card_that_the_module_refused_has_its_reason() {
    let files = Files::good();
    files.device(
        "sys/bus/pci/devices/0000:02:00.0",
        "0x10de",
        "0x030000",
        0x1b80,
        Some("nvidia"),
    );
    let reason = "0000:02:00.0: not followed: Error(6)";
    files.write(
        "sys/module/loga/parameters/refusals",
        &format!("{reason}\n"),
    );
    let trouble = files.trouble(&enforcing()).join("\n");
    assert!(
        trouble.contains(&format!("not followed; loga says: {reason}")),
        "{trouble}"
    );
}

#[test]
fn what_shares_a_gpu_already_is_named() {
    type Change = fn(&Files);
    let cases: [(Change, &str); 8] = [
        (
            |files| files.write("proc/77/comm", "nvidia-cuda-mps\n"),
            "Note MPS: a server of MPS runs",
        ),
        (
            |files| files.write("proc/driver/nvidia/capabilities/gpu0/mig/gi1/access", ""),
            "Note MIG: a GPU is divided",
        ),
        (
            |files| files.write("sys/module/nvidia_vgpu_vfio/initstate", ""),
            "Note vGPU: this host",
        ),
        (
            |files| files.write(&format!("{GPU}/mdev_supported_types/x"), ""),
            "Note vGPU: this host",
        ),
        (
            |files| files.write(&format!("{GPU}/physfn/x"), ""),
            "Note vGPU: a GPU here is a virtual",
        ),
        (
            |files| {
                let at = "sys/bus/pci/devices/0000:02:00.0";
                files.device(at, "0x10de", "0x030000", 0x1b80, Some("nvidia"));
            },
            "Note devices: the driver has 2 GPUs, and there is only /dev/nvidia0 here",
        ),
        (
            |files| files.write("proc/driver/nvidia/version", OPEN),
            "Wrong driver: its open modules take no Pascal",
        ),
        (
            |files| files.write("sys/module/nvidia/taint", "OE\n"),
            "Wrong driver: its open modules take no Pascal",
        ),
    ];
    for (change, says) in cases {
        let files = Files::good();
        change(&files);
        let trouble = files.trouble(&enforcing());
        let is_said = trouble.iter().any(|line| line.starts_with(says));
        assert!(is_said, "{says}: {trouble:?}");
    }
}

#[test]
fn hidden_devices_are_named_without_what_hides_them() {
    let files = Files::good();
    let environment = [("TERM", "xterm"), ("CUDA_VISIBLE_DEVICES", "GPU-1234")];
    let machine = files.machine(&environment);
    let said = text(&examine(&machine, &enforcing()));
    assert!(said.contains("CUDA_VISIBLE_DEVICES is set"), "{said}");
    assert!(!said.contains("GPU-1234"), "{said}");
}

#[test]
fn machine_of_files_says_the_same_as_one_that_is_made_up() {
    let files = Files::good();
    let folder = tempfile::tempdir().expect("a folder");
    for (path, bytes) in files.0.borrow().iter() {
        let to = folder.path().join(path);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        match path.ends_with("/driver") {
            true => symlink(&*String::from_utf8_lossy(bytes), to).expect("linked"),
            false => fs::write(to, bytes).expect("written"),
        }
    }
    let environment = [("TERM", "xterm"), ("LANG", "de_DE.UTF-8")];
    let machine = Machine::below(folder.path(), &environment);
    let found = examine(&machine, &enforcing());
    assert_eq!(found, files.examine(&enforcing()));
    assert!(machine.has("/sys/module/nvidia"));
    assert!(!machine.has("/sys/module/nouveau"));
    assert_eq!(machine.last_byte("/proc/devices"), Some(b'\n'));
}
