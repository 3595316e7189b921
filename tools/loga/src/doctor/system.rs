// SPDX-License-Identifier: GPL-2.0

//! `[tool]` Kernel, module, driver and GPUs.

use super::machine::Machine;
use super::{Answer, Finding};
use crate::names;
use loga::uapi;

/// Major number of the driver's devices.
const MAJOR: &str = "195 ";
/// Branches of NVIDIA's driver that `make test-nvidia` has run.
const TRIED: [&str; 2] = ["470", "550"];
/// Vendor of the GPUs, and the base class of display controllers, as sysfs writes them.
const NVIDIA: &str = "0x10de";
const DISPLAY: &str = "0x03";
/// Whether Secure Boot is on: a variable of the firmware.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
/// What the kernel forbids even to root.
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

pub(super) fn kernel(machine: &Machine) -> Vec<Finding> {
    let release = machine.text("/proc/sys/kernel/osrelease");
    vec![match release {
        Some(release) => Finding::fine("kernel", format!("{release}, {}", std::env::consts::ARCH)),
        None => Finding::note(
            "kernel",
            "/proc cannot be read: less can be told",
            "mount -t proc proc /proc",
        ),
    }]
}

/// The version of NVIDIA's driver, if it is one.
fn version(machine: &Machine) -> Option<String> {
    machine.text("/sys/module/nvidia/version")
}

pub(super) fn driver(machine: &Machine) -> Vec<Finding> {
    let devices = machine.text("/proc/devices").unwrap_or_default();
    let is_there = devices
        .lines()
        .any(|line| line.trim_start().starts_with(MAJOR));
    let Some(version) = version(machine) else {
        return vec![if machine.has("/sys/module/loga_model") {
            Finding::fine("driver", "the model of a GPU and its driver")
        } else if is_there {
            Finding::fine("driver", "a module has the driver's devices (major 195)")
        } else {
            Finding::wrong(
                "driver",
                "NVIDIA's driver is not loaded",
                "load it (modprobe nvidia); LoGA attaches by itself then",
            )
        }];
    };
    let branch = version.split('.').next().unwrap_or_default();
    vec![if TRIED.contains(&branch) {
        Finding::fine("driver", format!("NVIDIA {version}"))
    } else {
        Finding::note(
            "driver",
            format!("NVIDIA {version}: LoGA was tried with the branches 470 and 550"),
            "loga stat shows whether programs become clients; tell us either way",
        )
    }]
}

pub(super) fn module(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    let secure = machine.last_byte(SECURE_BOOT) == Some(1);
    let locked = machine
        .text(LOCKDOWN)
        .is_some_and(|text| !text.contains("[none]"));
    if machine.has("/sys/module/loga") {
        found.push(Finding::fine("module", "loga is loaded"));
    } else if !machine.has("/sys/module") {
        found.push(Finding::note(
            "module",
            "/sys cannot be read: it is not known whether loga is loaded",
            "mount -t sysfs sysfs /sys",
        ));
    } else {
        let release = machine
            .text("/proc/sys/kernel/osrelease")
            .unwrap_or_default();
        let list = machine
            .text(&format!("/lib/modules/{release}/modules.dep"))
            .unwrap_or_default();
        let is_installed = list.contains("/loga.ko");
        found.push(Finding::wrong(
            "module",
            "loga is not loaded",
            if is_installed {
                "sudo modprobe loga (in a container: on the host)"
            } else {
                "build and install it for this kernel (make module, make install-module), then sudo modprobe loga"
            },
        ));
        if secure || locked {
            found.push(Finding::note(
                "secure boot",
                "it is on: the kernel takes signed modules only",
                "sign loga.ko with a key that mokutil has enrolled, as DKMS does",
            ));
        }
    }
    found
}

/// What the module says of itself.
pub(super) fn answer(answer: &Answer) -> Vec<Finding> {
    match answer {
        Err(error) => vec![Finding::wrong("/dev/loga", error.to_string(), help(error))],
        Ok(snapshots) => {
            let count = snapshots.len();
            let clients: usize = snapshots.iter().map(|one| one.clients.len()).sum();
            let gpus = if count == 1 { "GPU" } else { "GPUs" };
            let says = format!("answers: {count} {gpus}, {clients} clients that you may see");
            let mut found = vec![Finding::fine("/dev/loga", says)];
            for snapshot in snapshots {
                let config = snapshot.info.config();
                let name = format!("GPU {}: policy {}", snapshot.gpu, config.policy.name());
                found.push(if config.enforce {
                    Finding::fine("policy", format!("{name}, enforced"))
                } else {
                    Finding::note(
                        "policy",
                        format!("{name}, accounting only: shares and limits hold nobody back"),
                        "sudo loga policy set --enforce on",
                    )
                });
                if let Some(caution) = config.caution() {
                    found.push(Finding::note(
                        "knobs",
                        format!("GPU {}: {caution}", snapshot.gpu),
                        "sudo loga policy set --accounting sparse, and no policy that counts runs",
                    ));
                }
            }
            found
        }
    }
}

/// The errors say what helps; the report has a column for it.
fn help(error: &crate::error::Error) -> String {
    use crate::error::Error;
    match error {
        Error::NotLoaded => "sudo modprobe loga",
        Error::Detached => {
            "load NVIDIA's driver, then sudo sh -c 'echo 1 > /sys/module/loga/parameters/attach'"
        }
        Error::Version { .. } => "install the programs and the module of one version",
        _ => "see the line itself, and docs/troubleshooting.md",
    }
    .to_string()
}

pub(super) fn gpus(machine: &Machine, answer: &Answer) -> Vec<Finding> {
    const DEVICES: &str = "/sys/bus/pci/devices";
    let snapshots = answer.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for address in machine.names(DEVICES) {
        let of = |file: &str| machine.text(&format!("{DEVICES}/{address}/{file}"));
        let is_gpu = of("vendor").as_deref() == Some(NVIDIA)
            && of("class").is_some_and(|class| class.starts_with(DISPLAY));
        if !is_gpu {
            continue;
        }
        let device = of("device").unwrap_or_default();
        let name = format!("{address}, device {device}");
        let driver = machine.link(&format!("{DEVICES}/{address}/driver"));
        let followed = snapshots
            .iter()
            .find(|one| names::pci(one.info.pci_domain, one.info.pci_bdf) == address);
        found.push(match (followed, driver.as_deref()) {
            (Some(one), _) if one.info.flags & uapi::GPU_LOST != 0 => Finding::wrong(
                "GPU",
                format!("{name}: GPU {} does not answer", one.gpu),
                "dmesg; a reset or a restart",
            ),
            (Some(one), _) if one.info.flags & uapi::GPU_AWAY != 0 => Finding::note(
                "GPU",
                format!("{name}: GPU {} is not bound to its driver", one.gpu),
                format!("echo {address} > /sys/bus/pci/drivers/nvidia/bind"),
            ),
            (Some(one), _) => {
                let chip = one.info.chipset;
                Finding::fine("GPU", format!("{name}: GPU {}, chip {chip:#x}", one.gpu))
            }
            (None, None) => Finding::note(
                "GPU",
                format!("{name}: no driver is bound to it"),
                "modprobe nvidia",
            ),
            (None, Some("nvidia" | "loga_model")) if snapshots.is_empty() => {
                Finding::fine("GPU", format!("{name}: bound to the driver"))
            }
            (None, Some("nvidia" | "loga_model")) => Finding::note(
                "GPU",
                format!("{name}: bound to the driver, but LoGA does not follow it"),
                "dmesg | grep loga says why: a chip that LoGA does not know yet",
            ),
            (None, Some(other)) => Finding::note(
                "GPU",
                format!("{name}: belongs to {other}, not to NVIDIA's driver"),
                "LoGA follows only GPUs that NVIDIA's driver has",
            ),
        });
    }
    if found.is_empty() && machine.has(DEVICES) {
        found.push(Finding::wrong(
            "GPU",
            "there is no GPU of NVIDIA on the bus",
            "make demo shows LoGA on a model of one",
        ));
    }
    found
}
